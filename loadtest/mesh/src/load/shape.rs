//! A closed or open loop, as written on the command line.

use crate::quantity::NotAllowed;
use std::fmt;
use std::str::FromStr;

/// The shape of the load: `closed:CLIENTS` (1 to 10,000) or `poisson:RPS` (above 0, at most
/// 20,000).
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Load {
    /// A fixed number of clients, each with one request at a time.
    Closed {
        /// The number of clients.
        clients: usize,
    },
    /// Poisson arrivals.
    Poisson {
        /// Mean requests per second.
        rate: f64,
    },
}

impl Load {
    /// The name of the experiment in `summary.json`.
    pub fn experiment(&self) -> &'static str {
        match self {
            Self::Closed { .. } => "closed-loop",
            Self::Poisson { .. } => "poisson",
        }
    }
}

impl FromStr for Load {
    type Err = NotAllowed;

    fn from_str(text: &str) -> Result<Self, NotAllowed> {
        let load = match text.split_once(':') {
            Some(("closed", clients)) => {
                clients.parse().ok().filter(|n| (1..=10_000).contains(n)).map(|clients| Self::Closed { clients })
            }
            Some(("poisson", rate)) => rate
                .parse()
                .ok()
                .filter(|&rate: &f64| rate > 0.0 && rate <= 20_000.0)
                .map(|rate| Self::Poisson { rate }),
            _ => None,
        };
        let forms =
            "closed:CLIENTS with 1 to 10000 clients, or poisson:RPS with above 0 and at most 20000 requests per second";
        load.ok_or_else(|| NotAllowed(forms.to_owned()))
    }
}

impl fmt::Display for Load {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Closed { clients } => write!(f, "closed:{clients}"),
            Self::Poisson { rate } => write!(f, "poisson:{rate}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_and_prints_each_kind_of_load() {
        for text in ["closed:100", "poisson:180", "poisson:0.5"] {
            assert_eq!(text.parse::<Load>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn refuses_an_invalid_load() {
        for text in
            ["closed", "closed:0", "closed:10001", "closed:1.5", "poisson:0", "poisson:NaN", "poisson:20001", "burst:1"]
        {
            assert!(text.parse::<Load>().is_err(), "{text}");
        }
    }
}
