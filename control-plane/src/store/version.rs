//! A version: which state it is, and how much of the source's history that includes.
//!
//! ```text
//! 6f0c3a9be1d24578@e1042.s997.c1011.v4471
//! digest           stamp of each kind of object
//! ```
//!
//! The *digest* identifies the content of a subscription: the names of its services, and for each
//! the values that are not the default. It depends on nothing else, so all replicas, restarts and
//! builds give the same state the same digest, and a proxy with an equal digest is up to date. The
//! *stamps* order states: for each kind of object that the source reads, the greatest revision of
//! an object or event (none for a file). A replica that has not read as far does not contradict the
//! version at once. Only this program reads the text of a version. The decisions are in
//! [`decide`](super::decide), the reasons in `adr/0001-versions.md`.

use std::collections::BTreeMap;
use std::fmt::{self, Display};
use std::str::FromStr;
use tokio::time::Instant;

/// The longest version that a proxy may present, in bytes. A digest and seven stamps take less.
pub const MAX_LENGTH: usize = 200;

/// How far a source has read one kind of object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kind {
    /// Its name in versions, a lower-case letter.
    pub name: char,
    /// The newest revision in a list, an event or a bookmark.
    pub known: u64,
    /// The greatest revision of an object, or of an event about one.
    pub stamp: u64,
    /// When anything was last heard; none: never.
    pub told: Option<Instant>,
}

impl Kind {
    /// Nothing has been read yet.
    pub fn new(name: char) -> Self {
        Self { name, known: 0, stamp: 0, told: None }
    }

    /// All objects were listed at `revision`; `newest` is their greatest one. A list replaces what
    /// was known, even with a lower revision: etcd may have been restored.
    pub fn listed(&mut self, revision: u64, newest: u64, now: Instant) {
        let stamp = self.stamp.max(newest).min(revision);
        *self = Self { known: revision, stamp, told: Some(now), ..*self };
    }

    /// An event at `revision` was read.
    pub fn changed(&mut self, revision: u64, now: Instant) {
        *self = Self { known: revision, stamp: self.stamp.max(revision), told: Some(now), ..*self };
    }

    /// A bookmark was read: nothing else happened up to `revision`.
    pub fn passed(&mut self, revision: u64, now: Instant) {
        *self = Self { known: revision, told: Some(now), ..*self };
    }
}

/// How far a source has read each kind of object; empty for a file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reach(pub Vec<Kind>);

impl Reach {
    /// The kinds in which a version is ahead, each with the stamp that we lack. Kinds that this
    /// source does not read do not count.
    pub fn lacks<'a>(&'a self, version: &'a Version) -> impl Iterator<Item = (&'a Kind, u64)> + 'a {
        version.stamps.iter().filter_map(|(name, stamp)| {
            let kind = self.0.iter().find(|kind| kind.name == *name)?;
            (kind.known < *stamp).then_some((kind, *stamp))
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Version {
    /// Identifies the state.
    pub digest: u64,
    /// How much of the source's history it contains: the stamp of each kind, by the kind's name.
    pub stamps: Vec<(char, u64)>,
}

impl Version {
    /// The version of the state with this digest, from a source that has read up to `reach`.
    pub fn new(digest: u64, reach: &Reach) -> Self {
        Self { digest, stamps: reach.0.iter().map(|kind| (kind.name, kind.stamp)).collect() }
    }
}

impl Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.digest)?;
        self.stamps.iter().enumerate().try_for_each(|(i, (name, stamp))| {
            let separator = if i == 0 { '@' } else { '.' };
            write!(f, "{separator}{name}{stamp}")
        })
    }
}

/// The text is not one of our versions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a version")]
pub struct NotAVersion;

impl FromStr for Version {
    type Err = NotAVersion;

    fn from_str(text: &str) -> Result<Self, NotAVersion> {
        let (digest, stamps) = text.split_once('@').map_or((text, None), |(digest, stamps)| (digest, Some(stamps)));
        let stamp = |text: &str| {
            let name = text.chars().next().filter(char::is_ascii_lowercase)?;
            Some((name, text.get(1..)?.parse().ok()?))
        };
        let stamps = stamps.into_iter().flat_map(|stamps| stamps.split('.')).map(stamp);
        let digest = u64::from_str_radix(digest, 16).ok().filter(|_| digest.len() == 16).ok_or(NotAVersion)?;
        let mut greatest = BTreeMap::new();
        for (name, stamp) in stamps.collect::<Option<Vec<(char, u64)>>>().ok_or(NotAVersion)? {
            let of_kind = greatest.entry(name).or_insert(stamp);
            *of_kind = stamp.max(*of_kind);
        }
        Ok(Self { digest, stamps: greatest.into_iter().collect() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known(kinds: &[(char, u64)]) -> Reach {
        Reach(kinds.iter().map(|(name, known)| Kind { known: *known, ..Kind::new(*name) }).collect())
    }

    #[test]
    fn reads_back_a_written_version_and_refuses_other_text() {
        for (text, stamps) in [
            ("00000000000000ff", vec![]),
            ("6f0c3a9be1d24578@e7.s0.x18446744073709551615", vec![('e', 7), ('s', 0), ('x', u64::MAX)]),
        ] {
            let version: Version = text.parse().unwrap();
            assert_eq!((&version.stamps, version.to_string().as_str()), (&stamps, text));
        }
        let forged: Version = "00000000000000ff@e1.e3.s1.e2".parse().unwrap();
        assert_eq!(forged.stamps, [('e', 3), ('s', 1)], "one stamp for each kind, so one wake-up");
        for text in ["", "ff", "000000000000000g", "00000000000000ff@", "00000000000000ff@e1.", "00000000000000ff@e"] {
            assert_eq!(text.parse::<Version>(), Err(NotAVersion), "{text}");
        }
        for text in ["00000000000000ff@1", "00000000000000ff@e1x", "00000000000000ff@é1", "7"] {
            assert_eq!(text.parse::<Version>(), Err(NotAVersion), "{text}");
        }
    }

    #[test]
    fn a_source_lacks_what_a_version_has_of_the_kinds_that_it_reads() {
        let version: Version = "00000000000000ff@s3.e9.x99".parse().unwrap();
        let lacks = |reach: Reach| reach.lacks(&version).map(|(kind, stamp)| (kind.name, stamp)).collect::<Vec<_>>();
        assert_eq!(lacks(known(&[('e', 9), ('s', 3)])), []);
        assert_eq!(lacks(known(&[('e', 8), ('s', 7), ('v', 0)])), [('e', 9)]);
        assert_eq!(lacks(Reach::default()), [], "a file");
    }

    #[test]
    fn a_stamp_is_the_greatest_revision_of_objects_and_events() {
        let (now, mut kind) = (Instant::now(), Kind::new('e'));
        let mut after = |step: fn(&mut Kind, Instant)| {
            step(&mut kind, now);
            (kind.known, kind.stamp)
        };
        assert_eq!(after(|kind, now| kind.listed(20, 7, now)), (20, 7));
        assert_eq!(after(|kind, now| kind.passed(30, now)), (30, 7));
        assert_eq!(after(|kind, now| kind.changed(31, now)), (31, 31));
        assert_eq!(after(|kind, now| kind.listed(40, 9, now)), (40, 31), "31 was a deletion");
        assert_eq!(after(|kind, now| kind.listed(8, 5, now)), (8, 8), "a restored etcd");
    }
}
