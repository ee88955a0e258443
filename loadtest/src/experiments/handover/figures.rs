//! What a round has measured, and the medians over the rounds.

use bloc_figures::stats::{Spread, median, quantile};
use serde::Serialize;
use std::time::Duration;

/// One round of one sidecar.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Round {
    /// The median time between two executions, in microseconds.
    pub gap_p50_us: f64,
    /// Their 90th percentile.
    pub gap_p90_us: f64,
    /// Their mean.
    pub gap_mean_us: f64,
    /// CPU time of Envoy per request, in microseconds.
    pub cpu_us: f64,
    /// How often a thread of Envoy went to sleep, per request.
    pub sleeps: f64,
}

impl Round {
    /// From the times between executions, and from Envoy's CPU time and sleeps meanwhile. None
    /// without any.
    pub fn new(mut gaps: Vec<Duration>, cpu: Duration, sleeps: u64) -> Option<Self> {
        gaps.sort_unstable();
        let micros = |time: Duration| time.as_secs_f64() * 1e6;
        let at = |share| quantile(&gaps, share).map(micros);
        let requests = gaps.len() as f64;
        Some(Self {
            gap_p50_us: at(0.5)?,
            gap_p90_us: at(0.9)?,
            gap_mean_us: micros(gaps.iter().sum()) / requests,
            cpu_us: micros(cpu) / requests,
            sleeps: sleeps as f64 / requests,
        })
    }
}

/// Medians over the rounds, and the range of the medians of the times.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Summary {
    /// Median by median.
    pub median: Round,
    /// The lowest and the highest `gap_p50_us`.
    pub range_us: [f64; 2],
}

impl Summary {
    /// None without rounds.
    pub fn new(rounds: &[Round]) -> Option<Self> {
        let each = |of: fn(&Round) -> f64| rounds.iter().map(of).collect::<Vec<_>>();
        let median = |of| median(&each(of));
        let p50 = Spread::of(&each(|round| round.gap_p50_us))?;
        Some(Self {
            median: Round {
                gap_p50_us: p50.median,
                gap_p90_us: median(|round| round.gap_p90_us)?,
                gap_mean_us: median(|round| round.gap_mean_us)?,
                cpu_us: median(|round| round.cpu_us)?,
                sleeps: median(|round| round.sleeps)?,
            },
            range_us: p50.range,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_round_is_per_request_and_a_summary_takes_medians() {
        let us = Duration::from_micros;
        let round = Round::new(vec![us(30), us(10), us(20), us(40)], us(400), 8).unwrap();
        let expected = Round { gap_p50_us: 20.0, gap_p90_us: 40.0, gap_mean_us: 25.0, cpu_us: 100.0, sleeps: 2.0 };
        let near = |one: f64, other: f64| (one - other).abs() < 1e-6;
        assert!(near(round.gap_p50_us, expected.gap_p50_us) && near(round.gap_p90_us, expected.gap_p90_us));
        assert!(near(round.gap_mean_us, expected.gap_mean_us) && near(round.cpu_us, expected.cpu_us));
        assert!(near(round.sleeps, expected.sleeps));
        assert_eq!(Round::new(vec![], us(1), 1), None);
        let of = |gap_p50_us| Round { gap_p50_us, ..expected };
        let summary = Summary::new(&[of(9.0), of(1.0), of(2.0)]).unwrap();
        assert_eq!(summary, Summary { median: of(2.0), range_us: [1.0, 9.0] });
        assert_eq!(Summary::new(&[]), None);
    }
}
