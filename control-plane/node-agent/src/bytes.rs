//! An amount of memory.

use crate::quantity::{Written, arithmetic};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::ops::{Add, Sub};
use std::str::FromStr;

/// Memory in bytes. Sums saturate; differences saturate at zero.
///
/// Read as Kubernetes writes it: `1048576`, `64Mi`, `1.5Gi`, `100M`, `1e9`, or `128974848000m`, the
/// thousandths of a byte that vertical autoscalers write. Fractions of a byte are rounded up.
/// Serialized as a number of bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "Written")]
pub struct Bytes(u64);

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} is not an amount of memory; allowed: bytes such as 1048576 or 1e9, or a number with Ki to Ei, k to E or m, such as 64Mi"
)]
pub struct NotBytes(String);

/// Suffix; power of ten, appended to the digits so that the number is parsed exactly; factor.
const UNITS: [(&str, &str, u64); 13] = [
    ("Ki", "", 1 << 10),
    ("Mi", "", 1 << 20),
    ("Gi", "", 1 << 30),
    ("Ti", "", 1 << 40),
    ("Pi", "", 1 << 50),
    ("Ei", "", 1 << 60),
    ("m", "e-3", 1),
    ("k", "e3", 1),
    ("M", "e6", 1),
    ("G", "e9", 1),
    ("T", "e12", 1),
    ("P", "e15", 1),
    ("E", "e18", 1),
];

impl Bytes {
    pub const ZERO: Self = Self(0);

    pub const fn new(bytes: u64) -> Self {
        Self(bytes)
    }

    pub const fn mebi(mebibytes: u64) -> Self {
        Self(mebibytes.saturating_mul(1 << 20))
    }

    pub const fn get(self) -> u64 {
        self.0
    }

    /// A fraction of it, 0 to 1, rounded down.
    pub fn part(self, part: f64) -> Self {
        Self((self.0 as f64 * part.clamp(0.0, 1.0)) as u64)
    }
}

impl Add for Bytes {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

impl Sub for Bytes {
    type Output = Self;
    fn sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }
}

arithmetic!(Bytes);

impl FromStr for Bytes {
    type Err = NotBytes;
    fn from_str(text: &str) -> Result<Self, NotBytes> {
        let with_unit = UNITS.iter().find_map(|(unit, power, factor)| {
            let digits = text.strip_suffix(unit)?;
            Some((digits, *power, *factor))
        });
        let (digits, power, factor) = with_unit.unwrap_or_else(|| {
            let (digits, power) = text.find(['e', 'E']).map_or((text, ""), |at| text.split_at(at));
            (digits, power, 1)
        });
        let plain = digits.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
        let bytes = format!("{digits}{power}").parse::<f64>().map(|number| (number * factor as f64).ceil());
        match bytes {
            Ok(bytes) if plain && bytes < u64::MAX as f64 => Ok(Self(bytes as u64)),
            _ => Err(NotBytes(text.to_owned())),
        }
    }
}

impl TryFrom<Written> for Bytes {
    type Error = NotBytes;
    fn try_from(written: Written) -> Result<Self, NotBytes> {
        match written {
            Written::Whole(bytes) => Ok(Self(bytes)),
            other => other.to_string().parse(),
        }
    }
}

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            mebibytes if mebibytes.is_multiple_of(1 << 20) => write!(f, "{}Mi", mebibytes >> 20),
            bytes => bytes.fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_kubernetes_writes() {
        for (text, bytes) in [
            ("0", 0),
            ("1048576", 1 << 20),
            ("64Mi", 64 << 20),
            ("1.5Gi", 3 << 29),
            ("2Ti", 2 << 40),
            ("3Ki", 3 << 10),
            ("5k", 5_000),
            ("100M", 100_000_000),
            ("2G", 2_000_000_000),
            ("1T", 1_000_000_000_000),
            ("2P", 2_000_000_000_000_000),
            ("3E", 3_000_000_000_000_000_000),
            ("3Pi", 3 << 50),
            ("15Ei", 15 << 60),
            ("1e9", 1_000_000_000),
            ("128e6", 128_000_000),
            ("1E3", 1_000),
            ("1.5E+3", 1_500),
            ("4000e-3", 4),
            ("128974848000m", 128_974_848),
            ("1.1G", 1_100_000_000),
            ("0.29M", 290_000),
            ("1m", 1),
            ("1000.1m", 2),
        ] {
            assert_eq!(text.parse(), Ok(Bytes(bytes)), "{text}");
        }
        for text in [
            "",
            "Mi",
            "E",
            "e3",
            "-1",
            "+1",
            "-1Mi",
            "1 Mi",
            "1mi",
            "1.2.3",
            "NaN",
            "inf",
            "1e",
            "1e3e3",
            "1e3Mi",
            "1e3M",
            "16Ei",
            "19E",
            "1e20",
            "1e999",
            "99999999999Ti",
        ] {
            let error = text.parse::<Bytes>().unwrap_err().to_string();
            assert!(error.starts_with(&format!("{text:?} is not an amount of memory; allowed: ")), "{error}");
        }
        assert_eq!(bloc_yaml::read::<Bytes>("1024").unwrap(), Bytes(1_024));
        assert_eq!(bloc_yaml::read::<Bytes>("4Mi").unwrap(), Bytes::mebi(4));
        assert_eq!(bloc_yaml::read::<Bytes>("1e9").unwrap(), Bytes(1_000_000_000));
        assert_eq!(serde_json::to_string(&Bytes(7)).unwrap(), "7");
        for yaml in ["-1", "-0.5", ".nan", ".inf", "1mi", "[]", "true"] {
            let error = bloc_yaml::read::<Bytes>(yaml).unwrap_err().to_string();
            assert!(error.contains("64Mi"), "{yaml}: {error}");
        }
    }

    #[test]
    fn sums_and_differences_saturate() {
        assert_eq!(Bytes(u64::MAX) + Bytes(1), Bytes(u64::MAX));
        assert_eq!((Bytes(1) - Bytes(2), Bytes(3) - Bytes(2)), (Bytes::ZERO, Bytes(1)));
        assert_eq!([Bytes(1), Bytes(2)].into_iter().sum::<Bytes>(), Bytes(3));
        assert_eq!((Bytes(10).part(0.25), Bytes(10).part(2.0)), (Bytes(2), Bytes(10)));
        assert_eq!((Bytes::mebi(5).to_string(), Bytes(7).to_string()), ("5Mi".to_owned(), "7".to_owned()));
    }
}
