//! The seal of a version: the proof that a replica of this control plane issued it.
//!
//! Progress that this replica lacks makes it list the cluster's objects. Without a proof, anybody
//! who may poll could make up such progress and make every replica list as often as it can. The
//! seal is the first 64 bits of the HMAC-SHA-256 over digest and progress, with a key that the
//! replicas share (with Kubernetes in a Secret). A guess takes a poll: at 10,000 polls a second, it
//! takes some 30 million years to find a seal.
//!
//! A version with a wrong seal counts for its digest only, like one without progress. Without a
//! key, which is so until the source has it, nothing is sealed and no seal holds. A version without
//! progress, as with a file, needs no seal.
//!
//! Cost: two blocks of SHA-256 per poll and per answer, well below a microsecond.

use super::version::{Progress, Version};
use ring::hmac::{Context, HMAC_SHA256, Key};

/// The length of a key, in bytes.
pub const KEY_BYTES: usize = 32;

/// The prefix of the sealed data, so that the key can serve other purposes too.
const PURPOSE: &[u8] = b"bloc version 1";

/// Seals versions and checks seals.
#[derive(Clone, Debug, Default)]
pub struct Seal(Option<Key>);

impl Seal {
    /// With this key.
    pub fn new(key: &[u8; KEY_BYTES]) -> Self {
        Self(Some(Key::new(HMAC_SHA256, key)))
    }

    /// A version that we issue.
    pub fn version(&self, digest: u64, progress: Progress) -> Version {
        let seal = self.of(digest, &progress);
        Version { digest, progress, seal }
    }

    /// Whether this version has the seal that we would give it.
    pub fn holds(&self, version: &Version) -> bool {
        version.seal.is_some() && version.seal == self.of(version.digest, &version.progress)
    }

    fn of(&self, digest: u64, progress: &Progress) -> Option<u64> {
        let key = self.0.as_ref().filter(|_| !progress.revisions().is_empty())?;
        let mut context = Context::with_key(key);
        context.update(PURPOSE);
        for number in std::iter::once(&digest).chain(progress.revisions()) {
            context.update(&number.to_be_bytes());
        }
        let tag = context.sign();
        Some(tag.as_ref().iter().take(8).fold(0, |seal, byte| seal << 8 | u64::from(*byte)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seal() -> Seal {
        Seal::new(&[7; KEY_BYTES])
    }

    #[test]
    fn a_seal_holds_only_for_its_own_version_and_key() {
        let version = seal().version(0xff, Progress::new([5, 7]));
        assert!(seal().holds(&version));
        let read: Version = version.to_string().parse().unwrap();
        assert!(seal().holds(&read), "{read}");
        // The same in every build, so that replicas of two builds accept each other's seals.
        assert_eq!(version.to_string(), "00000000000000ff@5.7.1030589537019304908");
        assert!(!Seal::new(&[8; KEY_BYTES]).holds(&version), "another key");
        for forged in [
            Version { digest: 0xfe, ..version.clone() },
            Version { progress: Progress::new([5, 8]), ..version.clone() },
            Version { progress: Progress::new([5, 7, 0]), ..version.clone() },
            Version { progress: Progress::new([5]), ..version.clone() },
            Version { seal: version.seal.map(|seal| seal ^ 1), ..version.clone() },
            Version { seal: None, ..version.clone() },
        ] {
            assert!(!seal().holds(&forged), "{forged}");
        }
    }

    #[test]
    fn versions_without_progress_or_a_key_have_no_seal() {
        assert_eq!(seal().version(0xff, Progress::default()).to_string(), "00000000000000ff");
        let unsealed = Seal::default().version(0xff, Progress::new([5, 7]));
        assert_eq!(unsealed.to_string(), "00000000000000ff@5.7");
        assert!(!Seal::default().holds(&unsealed));
        let read: Version = unsealed.to_string().parse().unwrap();
        assert!(!seal().holds(&read) && !Seal::default().holds(&read));
        assert_eq!(read.digest, 0xff);
    }
}
