//! What can go wrong with the kernel's files.

use crate::bytes::Bytes;
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
    /// A limit of memory is less than what is in use, so that the kernel would have to kill.
    #[error("{path}: {limit} is less than what is in use; allowed: {used} and more")]
    InUse {
        /// The file, which was not written.
        path: PathBuf,
        /// What was to be in it.
        limit: Bytes,
        /// What is in use.
        used: Bytes,
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
    /// Whether the kernel says that something is in use.
    pub(super) fn is_busy(&self) -> bool {
        matches!(self, Self::Write { error, .. } if error.raw_os_error() == Some(nix::libc::EBUSY))
    }

    /// What is in use, if a limit of memory was not written because of that.
    pub const fn in_use(&self) -> Option<Bytes> {
        match self {
            Self::InUse { used, .. } => Some(*used),
            _ => None,
        }
    }

    /// Whether a limit of memory was not written because of what is in use.
    pub const fn is_in_use(&self) -> bool {
        self.in_use().is_some()
    }

    /// Whether the group does not exist any more.
    pub fn is_gone(&self) -> bool {
        match self {
            // A file that was open is ENODEV once its group is removed.
            Self::Io { error, .. } | Self::Write { error, .. } => {
                error.kind() == io::ErrorKind::NotFound || error.raw_os_error() == Some(nix::libc::ENODEV)
            }
            Self::Text { .. } | Self::InUse { .. } | Self::Tree { .. } => false,
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
            assert!(!write(code).is_busy() && !write(code).is_in_use(), "{code}");
        }
        assert!(write(nix::libc::EBUSY).is_busy() && !io(nix::libc::EBUSY).is_busy());
        assert!(!GroupError::Text { path: "a".into(), text: "x".into(), expected: "y" }.is_gone());
        let in_use = GroupError::InUse { path: "a".into(), limit: Bytes::mebi(1), used: Bytes::mebi(2) };
        assert!(!in_use.is_gone());
        assert_eq!(in_use.to_string(), "a: 1Mi is less than what is in use; allowed: 2Mi and more");
        assert!(!GroupError::Tree { path: "a".into(), problem: "x", expected: "y" }.is_gone());
    }
}
