//! What can go wrong with the kernel's files.

use crate::bytes::Bytes;
use std::io;
use std::path::PathBuf;

#[derive(Debug, thiserror::Error)]
pub enum GroupError {
    #[error("{path}: {error}")]
    Io { path: PathBuf, error: io::Error },
    #[error("{path}: {text} cannot be written: {error}")]
    Write { path: PathBuf, text: String, error: io::Error },
    #[error("{path}: {text:?} cannot be parsed; expected: {expected}")]
    Text { path: PathBuf, text: String, expected: &'static str },
    /// A memory limit below the use, at which the kernel would kill. It was not written.
    #[error("{path}: {limit} is below what is in use; allowed: {used} and more")]
    InUse { path: PathBuf, limit: Bytes, used: Bytes },
    /// A directory that is not a control group with quotas.
    #[error("{path}: {problem}; expected: {expected}")]
    Tree { path: PathBuf, problem: &'static str, expected: &'static str },
}

impl GroupError {
    pub(super) fn is_busy(&self) -> bool {
        matches!(self, Self::Write { error, .. } if error.raw_os_error() == Some(nix::libc::EBUSY))
    }

    /// What is in use, if a memory limit was not written because of that.
    pub const fn in_use(&self) -> Option<Bytes> {
        match self {
            Self::InUse { used, .. } => Some(*used),
            _ => None,
        }
    }

    pub const fn is_in_use(&self) -> bool {
        self.in_use().is_some()
    }

    pub fn is_gone(&self) -> bool {
        match self {
            // Reads of an open file fail with ENODEV once its group is removed.
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
        assert_eq!(in_use.to_string(), "a: 1Mi is below what is in use; allowed: 2Mi and more");
        assert!(!GroupError::Tree { path: "a".into(), problem: "x", expected: "y" }.is_gone());
    }
}
