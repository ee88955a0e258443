//! The load: closed or open.

use crate::service_time::exponential;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// The shape of the load: `closed:CLIENTS`, `closed:CLIENTS/THINK`, `poisson:RPS` or `share:SHARE`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Load {
    /// So many clients, each with one request at a time; shed or answered, the next one follows after the think time.
    Closed {
        /// How many, 1 to 1,000,000.
        clients: u32,
        /// The mean of an exponential think time; zero: none.
        think: Duration,
    },
    /// Poisson arrivals.
    Poisson {
        /// Mean requests per second, above 0, at most 10 million.
        rate: f64,
    },
    /// Poisson arrivals at a share of what all servers present at the start can do.
    Share(
        /// Above 0, at most 10; 0.95 is a load of 95%.
        f64,
    ),
}

/// A text that is no load.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "a load is closed:CLIENTS (1 to 1000000), closed:CLIENTS/THINK (think time at most 1h), poisson:RPS (above 0, at most 10000000) or share:SHARE (above 0, at most 10)"
)]
pub struct NoLoad;

impl Load {
    /// Mean arrivals per second against servers that can do `capacity` requests per second together; none if the load is closed.
    pub fn rate(&self, capacity: f64) -> Option<f64> {
        match *self {
            Self::Closed { .. } => None,
            Self::Poisson { rate } => Some(rate),
            Self::Share(share) => Some(share * capacity),
        }
    }

    /// How long a client thinks now.
    pub fn think(&self, rng: &mut fastrand::Rng) -> Duration {
        match *self {
            Self::Closed { think, .. } if !think.is_zero() => exponential(think, rng),
            _ => Duration::ZERO,
        }
    }
}

impl FromStr for Load {
    type Err = NoLoad;

    fn from_str(text: &str) -> Result<Self, NoLoad> {
        let between = |text: &str, most: f64| text.parse().ok().filter(|&n: &f64| n > 0.0 && n <= most).ok_or(NoLoad);
        match text.split_once(':').ok_or(NoLoad)? {
            ("closed", rest) => {
                let (clients, think) = rest.split_once('/').unwrap_or((rest, "0s"));
                let clients = clients.parse().ok().filter(|n| (1..=1_000_000).contains(n)).ok_or(NoLoad)?;
                let think = humantime::parse_duration(think).ok().filter(|time| *time <= Duration::from_secs(3600));
                Ok(Self::Closed { clients, think: think.ok_or(NoLoad)? })
            }
            ("poisson", rate) => Ok(Self::Poisson { rate: between(rate, 1e7)? }),
            ("share", share) => Ok(Self::Share(between(share, 10.0)?)),
            _ => Err(NoLoad),
        }
    }
}

impl fmt::Display for Load {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Closed { clients, think } if think.is_zero() => write!(f, "closed:{clients}"),
            Self::Closed { clients, think } => {
                write!(f, "closed:{clients}/{}", humantime::format_duration(think).to_string().replace(' ', ""))
            }
            Self::Poisson { rate } => write!(f, "poisson:{rate}"),
            Self::Share(share) => write!(f, "share:{share}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_and_prints_each_kind_of_load() {
        for text in ["closed:100", "closed:100/1s500ms", "poisson:180", "share:0.95"] {
            assert_eq!(text.parse::<Load>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn refuses_an_invalid_load() {
        for text in ["closed", "closed:0", "closed:1.5", "closed:1/2h", "poisson:0", "share:NaN", "share:11", "burst:1"]
        {
            assert_eq!(text.parse::<Load>(), Err(NoLoad), "{text}");
        }
    }
}
