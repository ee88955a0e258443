//! How much a group gets of a CPU for which others wait too.

use serde::{Deserialize, Serialize};

/// How much a group gets of a CPU for which its siblings wait too, in proportion to theirs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Weight {
    /// Of version 1: `cpu.shares`, 1,024 for each core that is requested.
    Shares(u64),
    /// Of version 2: `cpu.weight`, which the kubelet makes of shares.
    Weight(u64),
}

/// What the kernel takes as `cpu.shares`.
const SHARES: (u64, u64) = (2, 262_144);
/// What the kernel takes as `cpu.weight`.
const WEIGHT: (u64, u64) = (1, 10_000);

impl Weight {
    /// From `cpu.shares`.
    pub(super) fn from_v1(text: &str) -> Option<Self> {
        number(text, SHARES).map(Self::Shares)
    }

    /// From `cpu.weight`; 0, of a group that runs only if nobody else wants to, is none.
    pub(super) fn from_v2(text: &str) -> Option<Self> {
        number(text, WEIGHT).map(Self::Weight)
    }

    /// The number in the file.
    pub const fn get(self) -> u64 {
        match self {
            Self::Shares(number) | Self::Weight(number) => number,
        }
    }

    /// The least that there is.
    pub const fn least(self) -> f64 {
        match self {
            Self::Shares(_) => 2.0,
            Self::Weight(_) => 1.0,
        }
    }

    /// So many times as much, rounded, within what the kernel takes.
    #[must_use]
    pub fn times(self, factor: f64) -> Self {
        let within = |number: u64, (least, most): (u64, u64)| {
            let number = (number as f64 * factor).round() as u64;
            number.clamp(least, most)
        };
        match self {
            Self::Shares(shares) => Self::Shares(within(shares, SHARES)),
            Self::Weight(weight) => Self::Weight(within(weight, WEIGHT)),
        }
    }
}

fn number(text: &str, (least, most): (u64, u64)) -> Option<u64> {
    text.trim().parse().ok().filter(|number| (least..=most).contains(number))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_the_kernel_writes() {
        for (text, number) in [("1024\n", Some(1_024)), ("2", Some(2)), ("262144\n", Some(262_144))] {
            assert_eq!(Weight::from_v1(text), number.map(Weight::Shares), "{text:?}");
        }
        for (text, number) in [("100\n", Some(100)), ("1\n", Some(1)), ("10000", Some(10_000))] {
            assert_eq!(Weight::from_v2(text), number.map(Weight::Weight), "{text:?}");
        }
        for text in ["", "1", "262145", "-1", "max", "1024 5"] {
            assert_eq!(Weight::from_v1(text), None, "{text:?}");
        }
        for text in ["", "0", "10001", "-1", "max", "100 5"] {
            assert_eq!(Weight::from_v2(text), None, "{text:?}");
        }
    }

    #[test]
    fn a_part_is_rounded_and_within_what_the_kernel_takes() {
        for (shares, factor, times) in
            [(1_024, 1.25, 1_280), (1_024, 0.5004, 512), (1_025, 0.5, 513), (2, 0.1, 2), (262_144, 2.0, 262_144)]
        {
            assert_eq!(Weight::Shares(shares).times(factor), Weight::Shares(times));
        }
        for (weight, factor, times) in [(39, 1.02, 40), (39, 1.0, 39), (1, 0.1, 1), (9_999, 2.0, 10_000)] {
            assert_eq!(Weight::Weight(weight).times(factor), Weight::Weight(times));
        }
        for odd in [f64::NAN, -1.0, 0.0] {
            assert_eq!(Weight::Weight(39).times(odd), Weight::Weight(1), "{odd}");
        }
        assert_eq!(Weight::Shares(7).times(f64::INFINITY).get(), 262_144);
    }

    #[test]
    fn is_kept_as_a_number_and_its_file() {
        let json = serde_json::to_string(&[Weight::Shares(1_024), Weight::Weight(39)]).unwrap();
        assert_eq!(json, r#"[{"shares":1024},{"weight":39}]"#);
        let read: [Weight; 2] = serde_json::from_str(&json).unwrap();
        assert_eq!(read, [Weight::Shares(1_024), Weight::Weight(39)]);
    }
}
