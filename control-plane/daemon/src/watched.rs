//! Files that are read again when their content changes.
//!
//! Content is compared, not time stamps: Kubernetes swaps symlinks to update a mounted ConfigMap,
//! and an edit may keep time stamp and size. New content counts once two consecutive readings are
//! equal: half of a file that an editor is writing may be valid. A writer that is slower than the
//! readings should write another file and rename it.

use bloc_policy::config::ConfigError;
use nix::fcntl::OFlag;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// The largest file that is read, 16 MiB. 100,000 endpoints take about 3 MiB.
const MAX_BYTES: u64 = 16 << 20;

/// The content of a file, or its path and why it cannot be read.
pub type Reading = Result<Vec<u8>, String>;

/// Reads a file once. May take forever if the file is on a server that is away.
pub fn read(path: &Path) -> Reading {
    let mut bytes = Vec::new();
    let read = open(path).and_then(|file| file.take(MAX_BYTES + 1).read_to_end(&mut bytes));
    match read {
        Ok(_) if bytes.len() as u64 > MAX_BYTES => {
            Err(format!("{}: cannot be read: larger than 16 MiB", path.display()))
        }
        Ok(_) => Ok(bytes),
        Err(error) => Err(format!("{}: cannot be read: {error}", path.display())),
    }
}

/// Opens a regular file. Opening a pipe would wait for a writer.
///
/// # Errors
/// Those of the operating system, and if it is not a regular file.
pub fn open(path: &Path) -> io::Result<File> {
    let file = File::options().read(true).custom_flags(OFlag::O_NONBLOCK.bits()).open(path)?;
    if file.metadata()?.is_file() { Ok(file) } else { Err(io::Error::other("not a regular file")) }
}

/// What a reading means.
#[derive(Debug, PartialEq)]
pub enum Look<T> {
    /// The content is known.
    Same,
    /// The content is new, but was read only once.
    Changing,
    /// The content is new: its value, or its path and what is wrong.
    New(Result<T, String>),
}

/// A file, and the content that counts.
#[derive(Debug)]
pub struct Watched<T> {
    path: PathBuf,
    parse: fn(&str) -> Result<T, ConfigError>,
    judged: Option<Reading>,
    /// New content that was read once.
    once: Option<Reading>,
}

impl<T> Watched<T> {
    pub fn new(path: impl Into<PathBuf>, parse: fn(&str) -> Result<T, ConfigError>) -> Self {
        Self { path: path.into(), parse, judged: None, once: None }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Judges another reading of the file. The first one counts at once; each content is parsed
    /// once.
    pub fn receive(&mut self, reading: Reading) -> Look<T> {
        let once = self.once.take();
        if self.judged.as_ref() == Some(&reading) {
            return Look::Same;
        }
        if self.judged.is_some() && once.as_ref() != Some(&reading) {
            self.once = Some(reading);
            return Look::Changing;
        }
        let said = reading
            .as_deref()
            .map_err(Clone::clone)
            .and_then(|bytes| self.judge(bytes).map_err(|error| format!("{}: {error}", self.path.display())));
        self.judged = Some(reading);
        Look::New(said)
    }

    fn judge(&self, bytes: &[u8]) -> Result<T, ConfigError> {
        let text = std::str::from_utf8(bytes);
        (self.parse)(text.map_err(|error| ConfigError::malformed(".", format!("not UTF-8: {error}")))?)
    }

    /// Reads the file. Returns its value if the content is new and was read twice.
    pub fn read(&mut self) -> Option<Result<T, String>> {
        match self.receive(read(&self.path)) {
            Look::New(said) => Some(said),
            Look::Same | Look::Changing => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn number(text: &str) -> Result<u32, ConfigError> {
        text.trim().parse().map_err(|error| ConfigError::malformed("number", error))
    }

    #[test]
    fn content_counts_once_it_was_read_twice_and_the_first_one_at_once() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("number");
        let mut file = Watched::new(&path, number);
        assert_eq!(file.path(), path);
        let missing = file.read().unwrap().unwrap_err();
        assert!(missing.starts_with(&format!("{}: cannot be read: ", path.display())), "{missing}");
        assert_eq!(file.read(), None);
        fs::write(&path, "1").unwrap();
        assert_eq!((file.read(), file.read(), file.read()), (None, Some(Ok(1)), None));
        fs::write(&path, "2").unwrap();
        assert_eq!(file.read(), None);
        fs::write(&path, "3").unwrap();
        assert_eq!((file.read(), file.read()), (None, Some(Ok(3))));
        fs::write(&path, "x").unwrap();
        let refused = format!("{}: number: invalid digit found in string", path.display());
        assert_eq!((file.read(), file.read(), file.read()), (None, Some(Err(refused)), None));
        let mut other = Watched::new(&path, number);
        fs::write(&path, "4").unwrap();
        assert_eq!(other.read(), Some(Ok(4)));
    }

    #[test]
    fn content_that_was_there_for_one_reading_was_never_there() {
        let mut file = Watched::new("f", number);
        let mut receive = |text: &str| file.receive(Ok(text.into()));
        assert_eq!(receive("1"), Look::New(Ok(1)));
        assert_eq!([receive("2"), receive("1"), receive("2")], [Look::Changing, Look::Same, Look::Changing]);
        assert_eq!([receive("3"), receive("2"), receive("2")], [Look::Changing, Look::Changing, Look::New(Ok(2))]);
    }

    #[test]
    fn a_huge_or_binary_file_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("number");
        let read = || Watched::new(&path, number).read().unwrap();
        fs::write(&path, vec![b' '; (MAX_BYTES + 1) as usize]).unwrap();
        let error = read().unwrap_err();
        assert!(error.ends_with("cannot be read: larger than 16 MiB"), "{error}");
        fs::write(&path, [vec![b' '; (MAX_BYTES - 1) as usize], vec![b'1']].concat()).unwrap();
        assert_eq!(read(), Ok(1));
        fs::write(&path, [0xff]).unwrap();
        assert!(read().unwrap_err().starts_with(&format!("{}: .: not UTF-8", path.display())));
    }
}
