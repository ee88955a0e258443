//! A digest that is the same in every build of this program.
//!
//! The standard library's hashes may change between releases. A new compiler would then give every
//! state a new version.

use sha2::{Digest, Sha256};

/// The first 64 bits of the SHA-256 of the pairs. A length precedes each part, so that different
/// pairs never make the same bytes. The order of the pairs matters.
pub fn of_pairs<N: AsRef<[u8]>, V: AsRef<[u8]>>(pairs: impl IntoIterator<Item = (N, V)>) -> u64 {
    let mut hasher = Sha256::new();
    let mut add = |part: &[u8]| {
        hasher.update((part.len() as u64).to_be_bytes());
        hasher.update(part);
    };
    for (name, value) in pairs {
        add(name.as_ref());
        add(value.as_ref());
    }
    let bytes: [u8; 32] = hasher.finalize().into();
    bytes.iter().take(8).fold(0, |digest, byte| digest << 8 | u64::from(*byte))
}

/// The digest of named things that have a digest each; names must ascend.
pub fn of_named<'a>(things: impl IntoIterator<Item = (&'a String, u64)>) -> u64 {
    of_pairs(things.into_iter().map(|(name, digest)| (name, digest.to_be_bytes())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn digests_differ_when_the_same_text_is_split_differently() {
        let all = [
            of_pairs([("ab", "c")]),
            of_pairs([("a", "bc")]),
            of_pairs([("", "abc")]),
            of_pairs([("a", "b"), ("c", "")]),
            of_pairs([("c", ""), ("a", "b")]),
            of_pairs([("", "")]),
            of_pairs::<&str, &str>([]),
        ];
        assert_eq!(BTreeSet::from(all).len(), all.len(), "{all:x?}");
    }

    #[test]
    fn a_digest_depends_on_names_and_contents() {
        let (a, b) = ("a".to_owned(), "b".to_owned());
        assert_eq!(of_named([(&a, 1), (&b, 2)]), of_named([(&a, 1), (&b, 2)]));
        assert_ne!(of_named([(&a, 1), (&b, 2)]), of_named([(&a, 2), (&b, 1)]));
        assert_ne!(of_named([(&a, 1)]), of_named([]));
    }
}
