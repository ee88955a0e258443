//! What modules and control planes of different versions tell each other.
//!
//! Nobody upgrades a mesh in one step. So each side names in [`FEATURES_HEADER`] the features that
//! it has: a proxy with each poll, the control plane with each answer. Without the header there are
//! none. Release 0.1.0 has none either: all that it knows is the base. A proxy is sent nothing that
//! it lacks: [`table`] names the fields and values that came later, and [`fit`] applies that to a
//! service.
//!
//! What a person writes is not fitted to anything: there an unknown field stays an error.
//!
//! Cost: nothing as long as a service uses no field with a feature. Not in the papers.

pub mod fit;
pub mod table;

use super::service::ServiceSpec;
use std::collections::BTreeSet;
use std::fmt::{self, Display};
pub use table::Feature;
use table::Rule;

/// The header of polls and answers: the sender's features, separated by commas.
pub const FEATURES_HEADER: &str = "x-bloc-features";
/// The header of polls: the version of the module.
pub const MODULE_HEADER: &str = "x-bloc-module";

/// Fields and values of a service that came after 0.1.0. Both sides ignore unknown members of all
/// else that they send each other.
pub const SERVICE: &[Rule] = ServiceSpec::LATER;
/// Features of anything else.
const OTHERS: &[Feature] = &[];

/// A set of features.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Features(BTreeSet<Feature>);

impl Features {
    /// Those of this build: all.
    pub fn own() -> Self {
        OTHERS.iter().copied().chain(SERVICE.iter().map(|rule| rule.feature)).collect()
    }

    /// Those that a [`FEATURES_HEADER`] names and that this build knows.
    pub fn read(header: &[u8]) -> Self {
        Self::own().named_in(header)
    }

    fn named_in(&self, header: &[u8]) -> Self {
        let named: BTreeSet<&[u8]> = header.split(|byte| *byte == b',').map(<[u8]>::trim_ascii).collect();
        self.iter().filter(|feature| named.contains(feature.as_bytes())).collect()
    }

    /// Whether this one is among them.
    pub fn has(&self, feature: &str) -> bool {
        self.0.contains(feature)
    }

    /// Whether all of them are among `others`.
    pub fn are_in(&self, others: &Self) -> bool {
        self.0.is_subset(&others.0)
    }

    /// Each of them.
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
