//! Services from a YAML file, which is watched for changes.
//!
//! Notifications of the file system make a change quick, but are not relied upon: every [`POLL`]
//! the file is read and its bytes are compared. Renames, swapped symlinks (as Kubernetes mounts a
//! ConfigMap), network file systems and editors each notify in their own way, and an edit may keep
//! time stamp and size. A reading counts when two in a row, [`SETTLE`] apart, are equal. Otherwise
//! a file that an editor truncates and then writes would be read halfway, and half a file may well
//! be valid. A writer that is slower than that should write another file and rename it.
//!
//! From edit to publication: at most `POLL + 2 * SETTLE` plus parsing.

use super::Publisher;
use crate::snapshot::Snapshot;
use crate::store::Reach;
use bloc_policy::config::ConfigError;
use notify::{EventKind, RecommendedWatcher, RecursiveMode, Watcher};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::io::AsyncReadExt;
use tokio::sync::Notify;
use tokio::time::{MissedTickBehavior, interval, sleep};

/// The origin of refusals; there is only one file.
const ORIGIN: &str = "file";
/// How often the file is read without a notification: with [`SETTLE`], well within the promised
/// second.
const POLL: Duration = Duration::from_millis(250);
/// How long the content must stay the same: longer than between an editor's truncation and its
/// write.
const SETTLE: Duration = Duration::from_millis(50);
/// How many readings in a row may differ before the next poll has to try again.
const MAX_READINGS: usize = 10;
/// The largest file that is read, 16 MiB. 100,000 endpoints take about 3 MiB.
const MAX_BYTES: u64 = 16 << 20;

/// Why a file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// It cannot be read.
    #[error("{}: cannot be read: {error}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The error of the operating system.
        error: io::Error,
    },
    /// It is larger than 16 MiB.
    #[error("{}: larger than 16 MiB", path.display())]
    TooLarge {
        /// The file.
        path: PathBuf,
    },
    /// A value in it is not allowed.
    #[error("{}: {error}", path.display())]
    Invalid {
        /// The file.
        path: PathBuf,
        /// Path, value and allowed range.
        error: ConfigError,
    },
}

/// A services file and its last reading.
#[derive(Debug)]
pub struct FileSource {
    path: PathBuf,
    /// The bytes, or why they could not be read. Compared, so that each reading is judged and
    /// reported once.
    seen: Result<Vec<u8>, String>,
}

impl FileSource {
    /// Reads the file for the first time.
    ///
    /// # Errors
    /// Why it cannot be used.
    pub async fn open(path: impl Into<PathBuf>) -> Result<(Self, Snapshot), ReadError> {
        let path = path.into();
        let bytes = read(&path).await?;
        let snapshot = parse(&path, &bytes)?;
        Ok((Self { path, seen: Ok(bytes) }, snapshot))
    }

    /// Publishes every change of the file from now on; never returns.
    pub async fn watch(mut self, publisher: Publisher) -> std::convert::Infallible {
        let changed = Arc::new(Notify::new());
        let _watcher = self.notify(Arc::clone(&changed));
        let mut poll = interval(POLL);
        poll.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                () = changed.notified() => {}
                _ = poll.tick() => {}
            }
            match self.next_reading().await {
                None => {}
                Some(Ok(snapshot)) => {
                    publisher.resolve(ORIGIN);
                    publisher.accept(snapshot, Reach::default());
                }
                Some(Err(error)) => publisher.refuse(ORIGIN, &error),
            }
        }
    }

    /// What the file contains, if that differs from the last reading and is no longer changing.
    async fn next_reading(&mut self) -> Option<Result<Snapshot, ReadError>> {
        let mut last = read(&self.path).await;
        if text(&last) == self.seen {
            return None;
        }
        for _ in 0..MAX_READINGS {
            sleep(SETTLE).await;
            let next = read(&self.path).await;
            if text(&last) == text(&next) {
                let seen = std::mem::replace(&mut self.seen, text(&next));
                // The settled content may be that of before, as after a rename that left a gap.
                return (seen != self.seen).then(|| next.and_then(|bytes| parse(&self.path, &bytes)));
            }
            last = next;
        }
        tracing::warn!(path = %self.path.display(), "the file keeps changing");
        None
    }

    /// Watches the directory, because a file that is replaced loses its watch.
    fn notify(&self, changed: Arc<Notify>) -> Option<RecommendedWatcher> {
        let directory = match self.path.parent() {
            Some(parent) if parent != Path::new("") => parent,
            _ => Path::new("."),
        };
        let on_event = move |event: notify::Result<notify::Event>| {
            // Our own reading is an event too; reacting to it would never end.
            if event.is_ok_and(|event| !matches!(event.kind, EventKind::Access(_))) {
                changed.notify_one();
            }
        };
        let watcher = notify::recommended_watcher(on_event).and_then(|mut watcher| {
            watcher.watch(directory, RecursiveMode::NonRecursive)?;
            Ok(watcher)
        });
        watcher
            .inspect_err(|error| tracing::warn!(%error, "no notifications from the file system, reading every 250 ms"))
            .ok()
    }
}

fn text(reading: &Result<Vec<u8>, ReadError>) -> Result<Vec<u8>, String> {
    match reading {
        Ok(bytes) => Ok(bytes.clone()),
        Err(error) => Err(error.to_string()),
    }
}

async fn read(path: &Path) -> Result<Vec<u8>, ReadError> {
    let unreadable = |error| ReadError::Unreadable { path: path.to_owned(), error };
    let file = tokio::fs::File::open(path).await.map_err(unreadable)?;
    let mut bytes = Vec::new();
    file.take(MAX_BYTES + 1).read_to_end(&mut bytes).await.map_err(unreadable)?;
    if bytes.len() as u64 > MAX_BYTES {
        return Err(ReadError::TooLarge { path: path.to_owned() });
    }
    Ok(bytes)
}

fn parse(path: &Path, bytes: &[u8]) -> Result<Snapshot, ReadError> {
    let invalid = |error| ReadError::Invalid { path: path.to_owned(), error };
    let text = std::str::from_utf8(bytes)
        .map_err(|error| invalid(ConfigError::malformed(".", format!("not UTF-8: {error}"))))?;
    Snapshot::from_yaml(text).map_err(invalid)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    /// Opens a services file with services a and b.
    async fn open() -> (tempfile::TempDir, PathBuf, FileSource) {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("services.yaml");
        std::fs::write(&path, "services:\n  a: {}\n  b: {}\n").unwrap();
        let (source, snapshot) = FileSource::open(&path).await.unwrap();
        assert_eq!(snapshot.services().len(), 2);
        (directory, path, source)
    }

    #[tokio::test(start_paused = true)]
    async fn does_not_publish_a_half_written_file() {
        let (_directory, path, mut source) = open().await;
        // An editor truncates, writes half, which is valid without b, and then the rest.
        let mut file = std::fs::File::create(&path).unwrap();
        file.write_all(b"services:\n  a: {}\n").unwrap();
        let rest = async {
            sleep(SETTLE / 2).await;
            file.write_all(b"  b: {retries: 1}\n").unwrap();
        };
        let (reading, ()) = tokio::join!(source.next_reading(), rest);
        assert_eq!(reading.unwrap().unwrap().services().len(), 2);
        assert!(source.next_reading().await.is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn does_not_refuse_a_file_that_is_missing_during_a_rename() {
        let (_directory, path, mut source) = open().await;
        let aside = path.with_extension("aside");
        std::fs::rename(&path, &aside).unwrap();
        let back = async {
            sleep(SETTLE / 2).await;
            std::fs::rename(&aside, &path).unwrap();
        };
        let (reading, ()) = tokio::join!(source.next_reading(), back);
        assert!(reading.is_none(), "{reading:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn leaves_a_file_that_keeps_changing_to_the_next_poll() {
        let (_directory, path, mut source) = open().await;
        let scribble = async {
            for i in 0_usize.. {
                // By rename, because a read during a write would see another content.
                let beside = path.with_extension("new");
                std::fs::write(&beside, format!("services: {{}} # {i}")).unwrap();
                std::fs::rename(beside, &path).unwrap();
                sleep(SETTLE / 2).await;
            }
        };
        tokio::select! {
            reading = source.next_reading() => assert!(reading.is_none(), "{reading:?}"),
            () = scribble => {}
        }
        std::fs::write(&path, "services: {a: {}}").unwrap();
        assert_eq!(source.next_reading().await.unwrap().unwrap().services().len(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn refuses_a_binary_oversized_or_missing_file_once() {
        let (_directory, path, mut source) = open().await;
        std::fs::write(&path, [0xff]).unwrap();
        let error = source.next_reading().await.unwrap().unwrap_err().to_string();
        assert!(error.contains(".: not UTF-8"), "{error}");
        assert!(source.next_reading().await.is_none());
        std::fs::File::create(&path).unwrap().set_len(MAX_BYTES + 1).unwrap();
        assert!(matches!(source.next_reading().await, Some(Err(ReadError::TooLarge { .. }))));
        std::fs::remove_file(&path).unwrap();
        assert!(matches!(source.next_reading().await, Some(Err(ReadError::Unreadable { .. }))));
        assert!(source.next_reading().await.is_none());
    }
}
