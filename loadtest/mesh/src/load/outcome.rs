//! The outcome of one request, and of all.

use std::collections::BTreeMap;
use std::time::Duration;

/// The outcome of a request, as its client saw it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Outcome {
    /// A 2xx answer of an application, with the right body.
    Ok,
    /// Not from an application: a 429, rejected after all retries, or a 503 with `retry-after`,
    /// refused by the sender.
    Shed,
    /// Anything else.
    Error(ErrorKind),
}

/// Why a request counts as an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ErrorKind {
    /// No connection.
    Connect,
    /// The exchange broke off.
    Broken,
    /// No answer in time.
    Timeout,
    /// A status other than 2xx and a shed's 429, or one that the application did not send.
    Status(u16),
    /// The answer is not what the application sent.
    Body,
    /// Not sent, because too many requests were outstanding.
    Outstanding,
}

impl std::fmt::Display for ErrorKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Connect => f.write_str("no connection"),
            Self::Broken => f.write_str("broken off"),
            Self::Timeout => f.write_str("timeout"),
            Self::Status(code) => write!(f, "status {code}"),
            Self::Body => f.write_str("changed body"),
            Self::Outstanding => f.write_str("too many outstanding"),
        }
    }
}

/// One request.
#[derive(Clone, Copy, Debug)]
pub struct Sample {
    /// From its (intended) start to its end.
    pub latency: Duration,
    /// Its outcome.
    pub outcome: Outcome,
    /// When it ended, from the start of the load.
    pub ended: Duration,
}

/// All requests of the measured time.
#[derive(Debug, Default)]
pub struct Measurement {
    /// The requests.
    pub samples: Vec<Sample>,
    /// How long was measured.
    pub window: Duration,
}

impl Measurement {
    /// The latencies of the answered requests, ascending.
    pub fn sorted_latencies(&self) -> Vec<Duration> {
        self.sorted(Outcome::Ok)
    }

    /// The times until requests were shed, ascending.
    pub fn sorted_sheds(&self) -> Vec<Duration> {
        self.sorted(Outcome::Shed)
    }

    /// How many requests were shed.
    pub fn shed(&self) -> u64 {
        self.samples.iter().filter(|sample| sample.outcome == Outcome::Shed).count() as u64
    }

    fn sorted(&self, outcome: Outcome) -> Vec<Duration> {
        let ended_so = self.samples.iter().filter(|sample| sample.outcome == outcome);
        let mut times: Vec<Duration> = ended_so.map(|sample| sample.latency).collect();
        times.sort_unstable();
        times
    }

    /// How many errors of each kind there were.
    pub fn errors(&self) -> BTreeMap<ErrorKind, u64> {
        let mut kinds = BTreeMap::new();
        for sample in &self.samples {
            if let Outcome::Error(kind) = sample.outcome {
                *kinds.entry(kind).or_default() += 1;
            }
        }
        kinds
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_answers_count_in_the_latencies() {
        let sample = |ms, outcome| Sample { latency: Duration::from_millis(ms), outcome, ended: Duration::ZERO };
        let error = Outcome::Error(ErrorKind::Timeout);
        let samples = vec![sample(9, Outcome::Ok), sample(1, Outcome::Shed), sample(2, error), sample(3, Outcome::Ok)];
        let measurement = Measurement { samples, window: Duration::from_secs(1) };
        assert_eq!(measurement.sorted_latencies(), [Duration::from_millis(3), Duration::from_millis(9)]);
        assert_eq!(measurement.shed(), 1);
        assert_eq!(measurement.sorted_sheds(), [Duration::from_millis(1)]);
        assert_eq!(measurement.errors(), BTreeMap::from([(ErrorKind::Timeout, 1)]));
    }
}
