//! Services from a YAML file, which is watched for changes.
//!
//! The file is read every [`POLL`], as in [`bloc_daemon::watched`]; two equal readings, [`SETTLE`]
//! apart, are needed. This works alike for renames, swapped symlinks (a mounted ConfigMap) and
//! network file systems. An idle control plane takes 0.3% of a core (debug build, a file of 1 KB).
//!
//! From edit to publication: at most `POLL + 2 * SETTLE` plus parsing. A file that cannot be read
//! within [`DEADLINE`], twice, is refused; a hung network file system then holds one thread.

use crate::snapshot::Snapshot;
use crate::store::{Reach, Store};
use bloc_daemon::watched::{self, Look, Reading, Watched};
use std::path::PathBuf;
use std::time::Duration;
use tokio::task::{JoinHandle, spawn_blocking};
use tokio::time::{MissedTickBehavior, interval, sleep, timeout};

/// The origin of refusals; there is only one file.
const ORIGIN: &str = "file";
const POLL: Duration = Duration::from_millis(250);
/// How long the content must stay the same: longer than the time between an editor's truncation and
/// its write.
const SETTLE: Duration = Duration::from_millis(50);
/// How long one reading may take.
const DEADLINE: Duration = Duration::from_secs(5);
/// The most differing readings in a row before the next poll tries again.
const MAX_READINGS: usize = 10;

/// A services file.
#[derive(Debug)]
pub struct FileSource {
    file: Watched<Snapshot>,
    /// A reading that has not ended.
    pending: Option<JoinHandle<Reading>>,
}

impl FileSource {
    /// Reads the file for the first time.
    ///
    /// # Errors
    /// Its path, and why it cannot be used.
    pub async fn open(path: impl Into<PathBuf>) -> Result<(Self, Snapshot), String> {
        let mut source = Self { file: Watched::new(path, Snapshot::from_yaml), pending: None };
        match source.next_reading().await {
            Some(said) => Ok((source, said?)),
            None => Err(format!("{}: keeps changing", source.file.path().display())),
        }
    }

    /// Publishes every change of the file from now on; never returns.
    pub async fn watch(mut self, store: Store) -> std::convert::Infallible {
        let mut poll = interval(POLL);
        poll.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            poll.tick().await;
            match self.next_reading().await {
                None => {}
                Some(Ok(snapshot)) => {
                    store.resolve(ORIGIN);
                    store.publish(snapshot, Reach::default());
                }
                Some(Err(error)) => store.refuse(ORIGIN, &error),
            }
        }
    }

    /// Reads the file once, or waits for the last reading to end.
    async fn reading(&mut self) -> Reading {
        let path = self.file.path().to_owned();
        let refused = format!("{}: cannot be read: no answer within {} s", path.display(), DEADLINE.as_secs());
        let pending = self.pending.get_or_insert_with(|| spawn_blocking(move || watched::read(&path)));
        let Ok(read) = timeout(DEADLINE, pending).await else { return Err(refused) };
        self.pending = None;
        read.unwrap_or_else(|error| Err(error.to_string()))
    }

    /// The file's content, if it differs from the last reading and no longer changes.
    async fn next_reading(&mut self) -> Option<Result<Snapshot, String>> {
        for _ in 0..=MAX_READINGS {
            let reading = self.reading().await;
            match self.file.receive(reading) {
                Look::Same => return None,
                Look::New(said) => return Some(said),
                Look::Changing => sleep(SETTLE).await,
            }
        }
        tracing::warn!(path = %self.file.path().display(), "the services file keeps changing; reading it again later");
        None
    }
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
                // By rename, because a read during a write would see other content.
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
    async fn refuses_a_binary_or_missing_file_once() {
        let (_directory, path, mut source) = open().await;
        std::fs::write(&path, [0xff]).unwrap();
        let error = source.next_reading().await.unwrap().unwrap_err();
        assert!(error.contains(".: not UTF-8"), "{error}");
        assert!(source.next_reading().await.is_none());
        std::fs::remove_file(&path).unwrap();
        let error = source.next_reading().await.unwrap().unwrap_err();
        assert!(error.starts_with(&format!("{}: cannot be read: ", path.display())), "{error}");
        assert!(source.next_reading().await.is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn refuses_a_file_that_does_not_answer_until_it_does() {
        let (_directory, path, mut source) = open().await;
        let (release, held) = std::sync::mpsc::channel::<()>();
        let content = b"services: {}".to_vec();
        source.pending = Some(spawn_blocking(move || {
            let _ = held.recv();
            Ok(content)
        }));
        let clock = async {
            loop {
                // Time does not pass by itself while a thread works.
                tokio::time::advance(Duration::from_millis(100)).await;
                tokio::task::yield_now().await;
            }
        };
        let error = tokio::select! {
            reading = source.next_reading() => reading.unwrap().unwrap_err(),
            () = clock => unreachable!(),
        };
        assert_eq!(error, format!("{}: cannot be read: no answer within 5 s", path.display()));
        drop(release);
        std::fs::write(&path, "services: {a: {}}").unwrap();
        assert_eq!(source.next_reading().await.unwrap().unwrap().services().len(), 1);
    }

    #[tokio::test]
    async fn refuses_a_pipe_and_does_not_wait_for_a_writer() {
        let (_directory, path, mut source) = open().await;
        std::fs::remove_file(&path).unwrap();
        nix::unistd::mkfifo(&path, nix::sys::stat::Mode::S_IRWXU).unwrap();
        let reading = timeout(2 * DEADLINE, source.next_reading()).await.unwrap();
        let error = reading.unwrap().unwrap_err();
        assert_eq!(error, format!("{}: cannot be read: not a regular file", path.display()));
        std::fs::remove_file(&path).unwrap();
        std::fs::write(&path, "services: {a: {}}").unwrap();
        assert_eq!(source.next_reading().await.unwrap().unwrap().services().len(), 1);
    }
}
