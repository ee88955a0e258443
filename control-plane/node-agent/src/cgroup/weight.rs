//! How much CPU a group gets compared with others that want it too.

use serde::{Deserialize, Serialize};

/// The weight for CPU while siblings want it, too.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Weight {
    /// `cpu.shares` of version 1: 1,024 for each requested core.
    Shares(u64),
    /// `cpu.weight` of version 2, which the kubelet computes from shares.
    Weight(u64),
}

/// What the kernel accepts as `cpu.shares` and as `cpu.weight`.
const SHARES: (u64, u64) = (2, 262_144);
const WEIGHT: (u64, u64) = (1, 10_000);

impl Weight {
    pub(super) fn from_v1(text: &str) -> Option<Self> {
        number(text, SHARES).map(Self::Shares)
    }

    /// None for 0, the weight of a group that runs only when no other wants to.
    pub(super) fn from_v2(text: &str) -> Option<Self> {
        number(text, WEIGHT).map(Self::Weight)
    }

    pub const fn get(self) -> u64 {
        match self {
            Self::Shares(number) | Self::Weight(number) => number,
        }
    }

    /// The smallest that the kernel accepts.
    pub const fn least(self) -> f64 {
        match self {
            Self::Shares(_) => SHARES.0 as f64,
            Self::Weight(_) => WEIGHT.0 as f64,
        }
    }

    /// Multiplied and rounded, within what the kernel accepts.
    #[must_use]
    pub fn times(self, factor: f64) -> Self {
        let within =
            |number: u64, (least, most): (u64, u64)| ((number as f64 * factor).round() as u64).clamp(least, most);
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
