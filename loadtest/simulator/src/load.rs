//! The load: closed or open.

use bloc_figures::service_time::exponential;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// The shape of the load: `closed:CLIENTS`, `closed:CLIENTS/THINK`, `poisson:RPS` or `share:SHARE`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Load {
    /// So many clients, each with one request at a time. When it is answered or shed, the next one
    /// follows after the think time.
    Closed {
        /// The number of clients, 1 to 1,000,000.
        clients: u32,
        /// The mean of an exponential think time; zero: none.
        think: Duration,
    },
    /// Poisson arrivals.
    Poisson {
        /// Mean requests per second, above 0, at most 10 million.
        rate: f64,
    },
    /// Poisson arrivals at a share of the capacity of all servers present at the start.
    Share(
        /// Above 0, at most 10; 0.95 is a load of 95%.
        f64,
    ),
}

/// The text is not a load.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "a load is closed:CLIENTS (1 to 1000000), closed:CLIENTS/THINK (think time at most 1h), poisson:RPS (above 0, at most 10000000) or share:SHARE (above 0, at most 10)"
)]
pub struct NoLoad;

impl Load {
    /// Mean arrivals per second against servers that can do `capacity` requests per second
    /// together; none for a closed load.
    pub fn rate(&self, capacity: f64) -> Option<f64> {
        match *self {
            Self::Closed { .. } => None,
            Self::Poisson { rate } => Some(rate),
            Self::Share(share) => Some(share * capacity),
        }
    }

    /// Draws a client's think time.
    pub fn think(&self, rng: &mut fastrand::Rng) -> Duration {
        match *self {
            Self::Closed { think, .. } if !think.is_zero() => exponential(think, || rng.f64()),
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
    fn an_open_load_is_a_rate_or_a_share_of_what_the_servers_can_do() {
        let rate = |text: &str| text.parse::<Load>().unwrap().rate(200.0);
        assert_eq!((rate("poisson:180"), rate("share:0.5")), (Some(180.0), Some(100.0)));
        assert_eq!(rate("closed:100"), None, "its clients decide");
    }

    #[test]
    fn clients_think_for_an_exponential_time() {
        let (load, mut rng) = ("closed:1/100ms".parse::<Load>().unwrap(), fastrand::Rng::with_seed(7));
        let thoughts: Vec<f64> = (0..100_000).map(|_| load.think(&mut rng).as_secs_f64() * 1e3).collect();
        let mean = thoughts.iter().sum::<f64>() / thoughts.len() as f64;
        // The standard error of the mean is 0.3.
        assert!((mean - 100.0).abs() < 1.5, "{mean}");
        let longer = thoughts.iter().filter(|&&time| time > 100.0).count() as f64 / thoughts.len() as f64;
        assert!((longer - (-1f64).exp()).abs() < 0.01, "{longer}");
    }

    #[test]
    fn a_load_without_a_think_time_draws_no_number_for_it() {
        for text in ["closed:1", "poisson:180"] {
            let (load, mut rng) = (text.parse::<Load>().unwrap(), fastrand::Rng::with_seed(7));
            assert_eq!(load.think(&mut rng), Duration::ZERO);
            assert_eq!(rng.get_seed(), 7, "{text}: the senders would be others");
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
