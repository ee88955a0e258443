//! What the decisions may cost.
//!
//! A *bound* must hold: `make bench` fails when one is exceeded or was not measured. Each is a
//! ratio of two benches of the same run, so that it does not depend on the machine, and of their
//! fastest samples, so that other work on the machine hardly matters. Each leaves room for noise,
//! and is far below the effect of a mistake: a choice that looks at each of 1,000 servers takes at
//! least 20 times as long as one among 10.
//!
//! An *aim* is a goal of the project. Missing one fails nothing.

use crate::summary::Bench;
use serde::{Deserialize, Serialize};
use std::fmt;

/// A ratio that must not be exceeded.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Bound {
    /// What the ratio compares.
    pub what: String,
    /// Its value; None: it was not measured.
    pub value: Option<f64>,
    /// The largest value that holds.
    pub most: f64,
}

/// A ratio or a time that should not be exceeded.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Aim {
    /// What is measured, and its unit.
    pub what: String,
    /// Its value today; None: it was not measured.
    pub value: Option<f64>,
    /// The largest value that reaches the aim.
    pub aim: f64,
}

/// Some bounds do not hold.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("these bounds do not hold: {}", .0.join("; "))]
pub struct Exceeded(pub Vec<String>);

impl Bound {
    /// Whether it was measured and holds.
    pub fn holds(&self) -> bool {
        self.value.is_some_and(|value| value <= self.most)
    }
}

impl Aim {
    /// Whether it was measured and is reached.
    pub fn reached(&self) -> bool {
        self.value.is_some_and(|value| value <= self.aim)
    }
}

impl fmt::Display for Bound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { what, value, most } = self;
        match value {
            Some(value) => write!(f, "{what}: {value:.2}, at most {most}")?,
            None => write!(f, "{what}: not measured, at most {most}")?,
        }
        f.write_str(if self.holds() { ": holds" } else { ": EXCEEDED" })
    }
}

impl fmt::Display for Aim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { what, value, aim } = self;
        match value {
            Some(value) if self.reached() => write!(f, "{what}: {value:.2}, aim {aim}: reached"),
            Some(value) => {
                let above = 100.0 * (value / aim - 1.0);
                write!(f, "{what}: {value:.2}, aim {aim}: {above:.0}% above it")
            }
            None => write!(f, "{what}: not measured, aim {aim}"),
        }
    }
}

/// The cost of a choice among many servers over one among few, for each routing.
pub fn bounds(benches: &[Bench]) -> Vec<Bound> {
    let bound =
        |routing: &str, few, most| Bound { what: growth(routing, few), value: ratio(benches, routing, few), most };
    vec![
        bound("bloc", 10, 1.5),
        bound("bid", 10, 2.0),
        bound("least_request", 10, 1.5),
        // Mu looks at all of them: ten times as many take ten times as long, not more.
        bound("mu", 100, 10.0),
    ]
}

/// The aims of the same choices.
pub fn aims(benches: &[Bench]) -> Vec<Aim> {
    let micros = time(benches, "choose/mu/1000").map(|nanos| nanos / 1e3);
    vec![
        Aim { what: growth("bid", 10), value: ratio(benches, "bid", 10), aim: 1.5 },
        Aim { what: "Mu's choice among 1,000 servers, in microseconds".into(), value: micros, aim: 5.0 },
    ]
}

/// An error if a bound does not hold.
///
/// # Errors
/// One was exceeded, or not measured.
pub fn verdict(bounds: &[Bound]) -> Result<(), Exceeded> {
    let exceeded: Vec<String> = bounds.iter().filter(|bound| !bound.holds()).map(|bound| bound.what.clone()).collect();
    if exceeded.is_empty() { Ok(()) } else { Err(Exceeded(exceeded)) }
}

fn growth(routing: &str, few: usize) -> String {
    format!("choice among 1,000 servers over choice among {few}, {routing}")
}

fn ratio(benches: &[Bench], routing: &str, few: usize) -> Option<f64> {
    Some(time(benches, &format!("choose/{routing}/1000"))? / time(benches, &format!("choose/{routing}/{few}"))?)
}

fn time(benches: &[Bench], name: &str) -> Option<f64> {
    benches.iter().find(|bench| bench.name == name).map(|bench| bench.least_ns)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All choices, those with bids among 1,000 servers `bid` times as long as among 10.
    fn benches(bid: f64) -> Vec<Bench> {
        let times = [
            ("choose/bloc/10", 100.0),
            ("choose/bloc/1000", 130.0),
            ("choose/bid/10", 100.0),
            ("choose/bid/1000", 100.0 * bid),
            ("choose/least_request/10", 100.0),
            ("choose/least_request/1000", 90.0),
            ("choose/mu/100", 800.0),
            ("choose/mu/1000", 5_600.0),
        ];
        let bench = |(name, least_ns): (&str, f64)| Bench {
            name: name.into(),
            median_ns: 9e3,
            low_ns: 0.0,
            high_ns: 1e9,
            least_ns,
        };
        times.into_iter().map(bench).collect()
    }

    #[test]
    fn a_bound_is_the_ratio_of_two_benches_of_one_run() {
        let values: Vec<(Option<f64>, f64)> =
            bounds(&benches(1.6)).iter().map(|bound| (bound.value, bound.most)).collect();
        assert_eq!(values, [(Some(1.3), 1.5), (Some(1.6), 2.0), (Some(0.9), 1.5), (Some(7.0), 10.0)]);
    }

    #[test]
    fn a_missed_aim_shows_its_distance_and_does_not_fail() {
        let benches = benches(1.6);
        let aims = aims(&benches);
        assert!(aims.iter().all(|aim| !aim.reached()));
        assert_eq!(verdict(&bounds(&benches)), Ok(()));
        assert!(aims[0].to_string().ends_with("bid: 1.60, aim 1.5: 7% above it"), "{}", aims[0]);
        assert!(aims[1].to_string().ends_with("in microseconds: 5.60, aim 5: 12% above it"), "{}", aims[1]);
        assert!(Aim { aim: 5.6, ..aims[1].clone() }.to_string().ends_with("aim 5.6: reached"));
    }

    #[test]
    fn an_exceeded_bound_fails() {
        let exceeded = bounds(&benches(2.1));
        assert_eq!(verdict(&exceeded), Err(Exceeded(vec![growth("bid", 10)])));
        assert!(exceeded[1].to_string().ends_with("bid: 2.10, at most 2: EXCEEDED"), "{}", exceeded[1]);
        assert!(exceeded[0].to_string().ends_with("bloc: 1.30, at most 1.5: holds"), "{}", exceeded[0]);
    }

    #[test]
    fn a_bound_that_was_not_measured_fails() {
        assert_eq!(verdict(&bounds(&[])).unwrap_err().0.len(), 4);
        let without: Vec<Bench> = benches(1.0).into_iter().filter(|bench| bench.name != "choose/mu/100").collect();
        assert_eq!(verdict(&bounds(&without)), Err(Exceeded(vec![growth("mu", 100)])));
    }
}
