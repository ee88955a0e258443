//! A version: which state it is, and how much of the source's history that contains.
//!
//! ```text
//! 6f0c3a9be1d24578@1042.997.1011.4471209853345671
//! digest           progress       seal
//! ```
//!
//! The *digest* identifies the content of a subscription: the names of its services, and for each
//! the values that are not the default. It depends on nothing else, so all replicas, restarts and
//! builds give the same state the same digest, and a proxy with an equal digest is up to date. The
//! *progress* orders states: for each thing that the source watches, the revision of its last
//! change (none for a file). A replica with less progress than a proxy has seen may not contradict
//! it. The *[seal](super::seal)* proves that we issued the version; a version without progress has
//! none. Only this program reads the text of a version. The decisions are in
//! [`state`](super::state), the reasons in `adr/0001-versions.md`.

use crate::digest::of_pairs;
use std::fmt::{self, Display};
use std::str::FromStr;

/// The longest version that a proxy may present, in bytes. A digest, seven revisions and a seal
/// take less.
pub const MAX_LENGTH: usize = 200;

/// How far a source has read: for each thing that it watches a revision, which only grows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Progress(Vec<u64>);

impl Progress {
    /// From one revision for each thing that is watched.
    pub fn new(revisions: impl IntoIterator<Item = u64>) -> Self {
        Self(revisions.into_iter().collect())
    }

    /// The revisions.
    pub fn revisions(&self) -> &[u64] {
        &self.0
    }

    /// The places where `other` is ahead, with its revision there; none if `other` is of another
    /// kind of source, whose numbers cannot be compared.
    pub fn behind<'a>(&'a self, other: &'a Self) -> impl Iterator<Item = (usize, u64)> + 'a {
        let comparable = self.0.len() == other.0.len();
        let pairs = self.0.iter().zip(&other.0).enumerate();
        pairs.filter(move |(_, (own, other))| comparable && own < other).map(|(i, (_, other))| (i, *other))
    }
}

/// How far a source has read, and the last change up to there.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reach {
    /// It certainly knows everything up to here.
    pub known: Progress,
    /// The last change was here: the state was the same from here to `known`.
    pub changed: Progress,
}

/// A version. If this program, or another replica of it, issued it, its seal
/// [holds](super::seal::Seal::holds).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Version {
    /// Identifies the state.
    pub digest: u64,
    /// How much of the source's history it contains.
    pub progress: Progress,
    /// The proof that we issued it.
    pub seal: Option<u64>,
}

impl Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.digest)?;
        self.progress.0.iter().chain(&self.seal).enumerate().try_for_each(|(i, number)| {
            let separator = if i == 0 { '@' } else { '.' };
            write!(f, "{separator}{number}")
        })
    }
}

/// The text is not a version of ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a version")]
pub struct NotAVersion;

impl FromStr for Version {
    type Err = NotAVersion;

    fn from_str(text: &str) -> Result<Self, NotAVersion> {
        // The last number is the seal. Builds from before seals read it as one more revision.
        let (digest, mut numbers) = match text.split_once('@') {
            Some((digest, numbers)) => {
                let numbers: Result<Vec<u64>, _> = numbers.split('.').map(str::parse).collect();
                (digest, numbers.map_err(|_| NotAVersion)?)
            }
            None => (text, Vec::new()),
        };
        let seal = numbers.pop();
        let digest = u64::from_str_radix(digest, 16).ok().filter(|_| digest.len() == 16).ok_or(NotAVersion)?;
        Ok(Self { digest, progress: Progress(numbers), seal })
    }
}

/// The digest of named things with a digest each; must be in ascending order of names.
pub fn digest<'a>(things: impl IntoIterator<Item = (&'a String, u64)>) -> u64 {
    of_pairs(things.into_iter().map(|(name, digest)| (name, digest.to_be_bytes())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_back_a_written_version_and_refuses_other_text() {
        for (text, progress, seal) in [
            ("00000000000000ff", vec![], None),
            ("6f0c3a9be1d24578@7.0.18446744073709551615", vec![7, 0], Some(u64::MAX)),
            ("6f0c3a9be1d24578@7", vec![], Some(7)),
        ] {
            let version: Version = text.parse().unwrap();
            assert_eq!((version.progress.revisions(), version.seal), (&progress[..], seal));
            assert_eq!(version.to_string(), text);
        }
        for text in
            ["", "ff", "000000000000000g", "00000000000000ff@", "00000000000000ff@1.", "00000000000000ff@1.x", "7"]
        {
            assert_eq!(text.parse::<Version>(), Err(NotAVersion), "{text}");
        }
    }

    #[test]
    fn progress_is_behind_where_its_revision_is_lower() {
        let behind = |own: &[u64], other: &[u64]| {
            let (own, other) = (Progress::new(own.iter().copied()), Progress::new(other.iter().copied()));
            own.behind(&other).collect::<Vec<_>>()
        };
        assert_eq!(behind(&[5, 7], &[5, 7]), []);
        assert_eq!(behind(&[5, 7], &[9, 3]), [(0, 9)]);
        assert_eq!(behind(&[], &[9, 3]), [], "another kind of source");
    }

    #[test]
    fn a_digest_depends_on_names_and_contents() {
        let (a, b) = ("a".to_owned(), "b".to_owned());
        assert_eq!(digest([(&a, 1), (&b, 2)]), digest([(&a, 1), (&b, 2)]));
        assert_ne!(digest([(&a, 1), (&b, 2)]), digest([(&a, 2), (&b, 1)]));
        assert_ne!(digest([(&a, 1)]), digest([]));
    }
}
