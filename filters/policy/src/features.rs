//! What modules and control planes of different versions tell each other.
//!
//! Nobody upgrades a mesh in one step. So each side says which [`Feature`]s it has, in
//! [`FEATURES_HEADER`]: a proxy with each poll, the control plane with each answer. A neighbour
//! that does not send the header has none. Nobody is sent what it lacks. [`table`] says for each
//! field, and each value, since which feature it exists, and [`fit`] applies that to a service.
//!
//! What a person writes is not fitted to anything: there an unknown field stays an error.
//!
//! Cost: nothing as long as a service uses no field with a feature. Not in the papers.

pub mod fit;
pub mod table;

use std::fmt::{self, Display};

/// The header of polls and answers: the sender's features, separated by commas.
pub const FEATURES_HEADER: &str = "x-bloc-features";
/// The header of polls: the version of the module.
pub const MODULE_HEADER: &str = "x-bloc-module";

/// Something that the first release did not have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Feature {
    /// A proxy reports which services' parameters it could not read.
    Unread,
    /// A proxy reports how long requests take, of the services that it serves and those that it
    /// calls, and how its calls end.
    Latency,
    /// A service says what a bounce is worth.
    BouncePrice,
    /// A server's capacity follows its CPU.
    Cpu,
}

impl Feature {
    /// All of them, in the order in which they came.
    pub const ALL: &[Self] = &[
        // Each in a line of its own.
        Self::Unread,
        Self::Latency,
        Self::BouncePrice,
        Self::Cpu,
    ];

    /// Its name in [`FEATURES_HEADER`].
    pub const fn name(self) -> &'static str {
        match self {
            Self::Unread => "unread",
            Self::Latency => "latency",
            Self::BouncePrice => "bounce-price",
            Self::Cpu => "cpu",
        }
    }

    /// The feature of this name; none if only another version knows it.
    pub fn of_name(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|feature| feature.name() == name)
    }
}

/// A set of features that this build knows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Features(u32);

impl Features {
    /// No feature: the first release.
    pub const NONE: Self = Self(0);

    /// Those of this build: all.
    pub fn own() -> Self {
        Feature::ALL.iter().copied().collect()
    }

    /// Those that a [`FEATURES_HEADER`] names. Names of others, of a newer neighbour, are passed
    /// over.
    pub fn read(header: &[u8]) -> Self {
        let names = header.split(|byte| *byte == b',').map(<[u8]>::trim_ascii);
        names.filter_map(|name| Feature::of_name(str::from_utf8(name).ok()?)).collect()
    }

    /// Whether this one is among them.
    pub const fn has(self, feature: Feature) -> bool {
        self.0 & 1 << feature as u8 != 0
    }

    /// Those that are not in `others`.
    #[must_use]
    pub const fn without(self, others: Self) -> Self {
        Self(self.0 & !others.0)
    }

    /// Those of both sets.
    #[must_use]
    pub const fn and(self, others: Self) -> Self {
        Self(self.0 | others.0)
    }

    /// Whether there is none.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Each of them.
    pub fn iter(self) -> impl Iterator<Item = Feature> {
        Feature::ALL.iter().copied().filter(move |feature| self.has(*feature))
    }
}

impl FromIterator<Feature> for Features {
    fn from_iter<I: IntoIterator<Item = Feature>>(features: I) -> Self {
        Self(features.into_iter().fold(0, |set, feature| set | 1 << feature as u8))
    }
}

/// The names, separated by commas.
impl Display for Features {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.iter().enumerate().try_for_each(|(nth, feature)| {
            f.write_str(if nth == 0 { "" } else { "," })?;
            f.write_str(feature.name())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_names_the_features_and_others_are_passed_over() {
        assert_eq!(Features::read(Features::own().to_string().as_bytes()), Features::own());
        assert_eq!(Features::read(b"later, unread ,\xff"), Features::from_iter([Feature::Unread]));
        for none in [&b""[..], b",", b"unreads", b"Unread", b"unread;q=1"] {
            assert!(Features::read(none).is_empty(), "{none:?}");
        }
        assert_eq!(Features::default().to_string(), "");
    }

    #[test]
    fn each_feature_has_a_name_and_a_bit_of_its_own() {
        for (nth, feature) in Feature::ALL.iter().copied().enumerate() {
            assert_eq!((feature as usize, Feature::of_name(feature.name())), (nth, Some(feature)));
            let alone = Features::from_iter([feature]);
            assert!(alone.has(feature) && !Features::own().without(alone).has(feature));
            assert_eq!(
                (alone.iter().collect::<Vec<_>>(), alone.to_string()),
                (vec![feature], feature.name().to_owned())
            );
            assert!(feature.name().bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'-'));
        }
        assert_eq!(Features::own().iter().count(), Feature::ALL.len());
        let none = Features::default();
        assert_eq!([none.and(Features::own()), Features::own().and(none)], [Features::own(); 2]);
        let twice = Features::from_iter([Feature::Unread, Feature::Unread]);
        assert_eq!([twice, twice.and(twice)], [Features::from_iter([Feature::Unread]); 2]);
        assert!(none.is_empty() && !twice.is_empty());
    }
}
