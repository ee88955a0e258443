//! Files that are read often.

use super::error::GroupError;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// Longer than most files: the kernel writes few lines.
const CHUNK: usize = 4_096;

/// A file that is opened when it is first read and stays open: opening it each time costs seven
/// times as much as reading it.
#[derive(Debug)]
pub struct Kept {
    path: PathBuf,
    file: OnceLock<File>,
}

impl Kept {
    pub const fn new(path: PathBuf) -> Self {
        Self { path, file: OnceLock::new() }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    pub fn read(&self) -> Result<String, GroupError> {
        let failed = |error| GroupError::Io { path: self.path.clone(), error };
        let file = match self.file.get() {
            Some(file) => file,
            None => {
                let file = File::open(&self.path).map_err(failed)?;
                self.file.get_or_init(|| file)
            }
        };
        // The kernel produces the text again for a read from the beginning. A short read is the
        // last.
        let (mut text, mut chunk, mut length) = (Vec::new(), [0; CHUNK], CHUNK);
        while length == CHUNK {
            length = file.read_at(&mut chunk, text.len() as u64).map_err(failed)?;
            text.extend_from_slice(chunk.get(..length).unwrap_or_default());
        }
        Ok(String::from_utf8_lossy(&text).into_owned())
    }

    pub fn parse<T>(&self, expected: &'static str, parse: impl FnOnce(&str) -> Option<T>) -> Result<T, GroupError> {
        let text = self.read()?;
        parse(&text).ok_or_else(|| GroupError::Text { path: self.path.clone(), text, expected })
    }
}

/// Replaces the content of an existing file.
pub fn write(path: &Path, text: &str) -> Result<(), GroupError> {
    // Creating a file in a group fails with EACCES, which would hide that the file is missing.
    OpenOptions::new()
        .write(true)
        .truncate(true)
        .open(path)
        .and_then(|mut file| file.write_all(text.as_bytes()))
        .map_err(|error| GroupError::Write { path: path.to_owned(), text: text.to_owned(), error })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn a_file_is_opened_once_and_read_from_the_beginning_each_time() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("cpu.max");
        let kept = Kept::new(path.clone());
        assert_eq!(kept.path(), path);
        assert!(kept.read().unwrap_err().is_gone());
        // A file that could not be opened is retried.
        fs::write(&path, "max 100000\n").unwrap();
        assert_eq!(kept.read().unwrap(), "max 100000\n");
        write(&path, "5000 100000").unwrap();
        assert_eq!(kept.read().unwrap(), "5000 100000");
        write(&path, "70").unwrap();
        assert_eq!(kept.read().unwrap(), "70");
        fs::remove_file(&path).unwrap();
        assert_eq!(kept.read().unwrap(), "70");
    }

    #[test]
    fn a_file_of_any_length_is_read_to_its_end() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("memory.stat");
        let kept = Kept::new(path.clone());
        for length in [0, 1, CHUNK - 1, CHUNK, CHUNK + 1, 2 * CHUNK, 3 * CHUNK + 5] {
            let text: String = ('a'..='z').cycle().take(length).collect();
            fs::write(&path, &text).unwrap();
            assert_eq!(kept.read().unwrap(), text, "{length}");
        }
    }

    #[test]
    fn a_file_that_is_missing_is_not_created_and_named() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("cpu.max");
        let error = write(&path, "5000 100000").unwrap_err();
        assert!(error.is_gone() && !path.exists());
        let path = path.display();
        let expected = format!("{path}: 5000 100000 cannot be written: No such file or directory (os error 2)");
        assert_eq!(error.to_string(), expected);
    }
}
