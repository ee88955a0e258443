//! A file that is read again when its content changes.

use std::fmt::Display;
use std::path::{Path, PathBuf};

/// The largest file that is read, 16 MiB.
const MAX_BYTES: usize = 16 << 20;

/// A file and what was made of it last. Its content is compared, not its time stamp: Kubernetes
/// swaps symlinks to update a mounted ConfigMap.
#[derive(Debug)]
pub struct Watched<T, E> {
    path: PathBuf,
    parse: fn(&str) -> Result<T, E>,
    /// The last reading; an error as its text.
    seen: Option<Result<Vec<u8>, String>>,
    /// Whether it has been judged.
    judged: bool,
}

impl<T, E: Display> Watched<T, E> {
    /// A file that was not read yet.
    pub fn new(path: impl Into<PathBuf>, parse: fn(&str) -> Result<T, E>) -> Self {
        Self { path: path.into(), parse, seen: None, judged: false }
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Reads the file. Returns what it says if that is new: content counts once two readings in a
    /// row are equal, the first one at once. Otherwise a file that is being written would be read
    /// halfway.
    ///
    /// # Errors
    /// The path and what is wrong, once for each content.
    pub fn read(&mut self) -> Option<Result<T, String>> {
        let first = self.seen.is_none();
        let now = self.bytes();
        if self.seen.as_ref() != Some(&now) {
            (self.seen, self.judged) = (Some(now), false);
            if !first {
                return None;
            }
        }
        if self.judged {
            return None;
        }
        self.judged = true;
        let text = match self.seen.as_ref()? {
            Ok(bytes) => String::from_utf8_lossy(bytes),
            Err(error) => return Some(Err(error.clone())),
        };
        Some((self.parse)(&text).map_err(|error| format!("{}: {error}", self.path.display())))
    }

    fn bytes(&self) -> Result<Vec<u8>, String> {
        let failed = |error: &dyn Display| format!("{}: cannot be read: {error}", self.path.display());
        let bytes = std::fs::read(&self.path).map_err(|error| failed(&error))?;
        if bytes.len() > MAX_BYTES { Err(failed(&"larger than 16 MiB")) } else { Ok(bytes) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn content_counts_once_it_was_read_twice_and_the_first_one_at_once() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("number");
        let mut file = Watched::new(&path, str::parse::<u32>);
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
        let refused = format!("{}: invalid digit found in string", path.display());
        assert_eq!((file.read(), file.read(), file.read()), (None, Some(Err(refused)), None));
        let mut other = Watched::new(&path, str::parse::<u32>);
        fs::write(&path, "4").unwrap();
        assert_eq!(other.read(), Some(Ok(4)));
    }

    #[test]
    fn a_huge_file_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("number");
        fs::write(&path, vec![b' '; MAX_BYTES + 1]).unwrap();
        let error = Watched::new(&path, str::parse::<u32>).read().unwrap().unwrap_err();
        assert!(error.ends_with("cannot be read: larger than 16 MiB"), "{error}");
        fs::write(&path, vec![b' '; MAX_BYTES]).unwrap();
        let error = Watched::new(&path, str::parse::<u32>).read().unwrap().unwrap_err();
        assert!(error.ends_with("invalid digit found in string"), "{error}");
    }
}
