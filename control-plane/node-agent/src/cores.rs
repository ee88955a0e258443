//! An amount of CPU.

use crate::quantity::{Written, arithmetic};
use serde::Deserialize;
use std::fmt;
use std::ops::{Add, Mul, Sub};
use std::str::FromStr;

/// CPU in cores: 1.5 is a core and a half. Finite, never negative: differences saturate at zero.
///
/// Read as Kubernetes writes it: `2`, `0.5` or `500m`.
#[derive(Clone, Copy, Debug, Default, PartialEq, PartialOrd, Deserialize)]
#[serde(try_from = "Written")]
pub struct Cores(f64);

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not an amount of CPU; allowed: cores such as 2 or 0.5, or thousandths such as 500m")]
pub struct NotCores(String);

impl Cores {
    pub const ZERO: Self = Self(0.0);

    /// 0 for a number that is negative or not finite.
    pub const fn new(cores: f64) -> Self {
        Self(if cores > 0.0 && cores < f64::INFINITY { cores } else { 0.0 })
    }

    pub fn milli(thousandths: u32) -> Self {
        Self(f64::from(thousandths) / 1_000.0)
    }

    pub const fn get(self) -> f64 {
        self.0
    }

    pub const fn min(self, other: Self) -> Self {
        if other.0 < self.0 { other } else { self }
    }

    pub const fn max(self, other: Self) -> Self {
        if other.0 > self.0 { other } else { self }
    }
}

impl Add for Cores {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self::new(self.0 + other.0)
    }
}

impl Sub for Cores {
    type Output = Self;
    fn sub(self, other: Self) -> Self {
        Self::new(self.0 - other.0)
    }
}

impl Mul<f64> for Cores {
    type Output = Self;
    fn mul(self, factor: f64) -> Self {
        Self::new(self.0 * factor)
    }
}

arithmetic!(Cores);

impl FromStr for Cores {
    type Err = NotCores;
    fn from_str(text: &str) -> Result<Self, NotCores> {
        let (digits, unit) = text.strip_suffix('m').map_or((text, 1.0), |digits| (digits, 1_000.0));
        let plain = digits.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
        match digits.parse::<f64>() {
            Ok(number) if plain && number.is_finite() => Ok(Self::new(number / unit)),
            _ => Err(NotCores(text.to_owned())),
        }
    }
}

impl TryFrom<Written> for Cores {
    type Error = NotCores;
    fn try_from(written: Written) -> Result<Self, NotCores> {
        written.to_string().parse()
    }
}

impl fmt::Display for Cores {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}m", (self.0 * 1_000.0).round())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_kubernetes_writes() {
        for (text, cores) in [("2", 2.0), ("0.5", 0.5), ("500m", 0.5), ("0", 0.0), ("1500m", 1.5), ("2.5m", 0.0025)] {
            assert_eq!(text.parse(), Ok(Cores(cores)), "{text}");
        }
        for text in ["", "m", "-1", "+1", "1e3", "NaN", "inf", "1 ", "1k", "1.2.3", "."] {
            let error = text.parse::<Cores>().unwrap_err().to_string();
            assert!(error.starts_with(&format!("{text:?} is not an amount of CPU; allowed: ")), "{error}");
        }
    }

    #[test]
    fn reads_numbers_and_texts_in_yaml() {
        for (yaml, cores) in [("2", 2.0), ("0.5", 0.5), ("500m", 0.5), ("'2'", 2.0)] {
            assert_eq!(bloc_yaml::read::<Cores>(yaml).unwrap(), Cores(cores), "{yaml}");
        }
        for yaml in ["-1", "-0.5", "1k", "[]", "true", ".nan", ".inf"] {
            let error = bloc_yaml::read::<Cores>(yaml).unwrap_err().to_string();
            assert!(error.contains("500m"), "{yaml}: {error}");
        }
    }

    #[test]
    fn is_never_negative_nor_endless() {
        for odd in [-1.0, f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -0.0] {
            assert_eq!(Cores::new(odd).get().to_bits(), 0.0_f64.to_bits(), "{odd}");
        }
        assert_eq!(Cores(1.0) - Cores(2.0), Cores::ZERO);
        assert_eq!(Cores(2.0) - Cores(0.5), Cores(1.5));
        assert_eq!(Cores(f64::MAX) + Cores(f64::MAX), Cores::ZERO);
        assert_eq!(Cores(2.0) * 0.25, Cores::milli(500));
        assert_eq!([Cores(1.0), Cores(0.5)].into_iter().sum::<Cores>(), Cores(1.5));
        assert_eq!((Cores(1.0).min(Cores(2.0)), Cores(1.0).max(Cores(2.0))), (Cores(1.0), Cores(2.0)));
        assert_eq!((Cores(2.0).min(Cores(1.0)), Cores(2.0).max(Cores(1.0))), (Cores(1.0), Cores(2.0)));
        assert_eq!(Cores(0.0504).to_string(), "50m");
    }
}
