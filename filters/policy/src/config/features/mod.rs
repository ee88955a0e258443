//! Compatibility of proxies and control planes of different versions, as in a mesh that is being
//! upgraded.
//!
//! In [`FEATURES_HEADER`], a proxy names its features with each poll, and the control plane its own
//! with each answer. Release 0.1.0 has no features. [`table`] names the feature that each later
//! field or value of a service needs. For a proxy without that feature, [`fit`] replaces or omits
//! the field. An unknown field in what a user writes is an error instead.
//!
//! Answers are rewritten only if a service uses such a field.

pub mod fit;
pub mod table;

use super::service::ServiceSpec;
use std::collections::BTreeSet;
use std::fmt::{self, Display};
pub use table::Feature;
use table::Rule;

/// The header on polls and answers with the sender's features, separated by commas.
pub const FEATURES_HEADER: &str = "x-bloc-features";
/// The header on polls with the filters' version, which the control plane's page shows.
pub const MODULE_HEADER: &str = "x-bloc-module";

/// The rules for fields and values of a service that came after 0.1.0. Outside of services, both
/// sides ignore fields that they do not know.
pub const SERVICE: &[Rule] = ServiceSpec::LATER;
/// Features of the protocol, apart from those that a field of a service needs.
const OTHERS: &[Feature] = &[];

/// A set of features.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Features(BTreeSet<Feature>);

impl Features {
    /// All features of this build.
    pub fn own() -> Self {
        OTHERS.iter().copied().chain(SERVICE.iter().map(|rule| rule.feature)).collect()
    }

    /// The features of this build that a [`FEATURES_HEADER`] names.
    pub fn read(header: &[u8]) -> Self {
        Self::own().named_in(header)
    }

    fn named_in(&self, header: &[u8]) -> Self {
        let named: BTreeSet<&[u8]> = header.split(|byte| *byte == b',').map(<[u8]>::trim_ascii).collect();
        self.iter().filter(|feature| named.contains(feature.as_bytes())).collect()
    }

    /// Whether the set has this feature.
    pub fn has(&self, feature: &str) -> bool {
        self.0.contains(feature)
    }

    /// Whether `other` has all features of this set.
    pub fn are_in(&self, other: &Self) -> bool {
        self.0.is_subset(&other.0)
    }

    /// The features, sorted.
    pub fn iter(&self) -> impl Iterator<Item = Feature> {
        self.0.iter().copied()
    }
}

impl FromIterator<Feature> for Features {
    fn from_iter<I: IntoIterator<Item = Feature>>(features: I) -> Self {
        Self(features.into_iter().collect())
    }
}

/// The names, separated by commas.
impl Display for Features {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.iter().enumerate().try_for_each(|(nth, feature)| {
            f.write_str(if nth == 0 { "" } else { "," })?;
            f.write_str(feature)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_names_features_and_unknown_names_are_ignored() {
        let all = Features::from_iter(["cost", "spare"]);
        let read = |header: &[u8]| all.named_in(header).to_string();
        assert_eq!(read(b"spare,cost"), "cost,spare");
        assert_eq!(read(b"later, spare ,\xff"), "spare");
        for none in [&b""[..], b",", b"spares", b"Spare", b"spare;q=1"] {
            assert_eq!(read(none), "", "{none:?}");
        }
        assert_eq!(Features::read(Features::own().to_string().as_bytes()), Features::own());
        let (none, one) = (Features::default(), Features::from_iter(["spare"]));
        assert!(none.are_in(&one) && one.are_in(&all) && !all.are_in(&one) && !one.are_in(&none));
    }
}
