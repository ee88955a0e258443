//! What can go wrong with the kernel's files.

use std::io;
use std::path::PathBuf;

/// A file cannot be read or written, or is not what it should be.
#[derive(Debug, thiserror::Error)]
pub enum GroupError {
    /// The kernel does not let it be read.
    #[error("{path}: {error}")]
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// The kernel does not let it be written, or refuses the text.
    #[error("{path}: {text} cannot be written: {error}")]
    Write {
        /// The file.
        path: PathBuf,
        /// What was to be in it.
        text: String,
        /// Why.
        error: io::Error,
    },
    /// The text is none that the kernel writes.
    #[error("{path}: {text:?} is not understood; expected: {expected}")]
    Text {
        /// The file.
        path: PathBuf,
        /// What is in it.
        text: String,
        /// What should be.
        expected: &'static str,
    },
    /// A directory is not one of control groups that have quotas.
    #[error("{path}: {problem}; expected: {expected}")]
    Tree {
        /// The directory.
        path: PathBuf,
        /// What it is, or lacks.
        problem: &'static str,
        /// What should be.
        expected: &'static str,
    },
}

impl GroupError {
    /// Whether the group does not exist any more.
    pub fn is_gone(&self) -> bool {
        match self {
            // A file that was open is ENODEV once its group is removed.
            Self::Io { error, .. } | Self::Write { error, .. } => {
                error.kind() == io::ErrorKind::NotFound || error.raw_os_error() == Some(nix::libc::ENODEV)
            }
            Self::Text { .. } | Self::Tree { .. } => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_is_gone_if_its_file_is_missing_or_its_open_file_has_no_device() {
        let io = |code| GroupError::Io { path: "a".into(), error: io::Error::from_raw_os_error(code) };
        let write = |code| {
            let error = io::Error::from_raw_os_error(code);
            GroupError::Write { path: "a".into(), text: "5".into(), error }
        };
        for code in [nix::libc::ENOENT, nix::libc::ENODEV] {
            assert!(io(code).is_gone() && write(code).is_gone(), "{code}");
        }
        for code in [nix::libc::EINVAL, nix::libc::EACCES] {
            assert!(!io(code).is_gone() && !write(code).is_gone(), "{code}");
        }
        assert!(!GroupError::Text { path: "a".into(), text: "x".into(), expected: "y" }.is_gone());
        assert!(!GroupError::Tree { path: "a".into(), problem: "x", expected: "y" }.is_gone());
    }
}
