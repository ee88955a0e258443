//! Percentiles over time, and how long they take to recover.

use bloc_figures::stats::quantile;
use bloc_mesh::load::{Outcome, Sample};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// The percentile at a moment, over the answers shortly before it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Point {
    /// Seconds from the start of the load.
    pub at_s: f64,
    /// Milliseconds.
    pub value: f64,
}

/// The `share` quantile of the response times of the requests answered within `window` before each
/// moment, one moment every `step`. Requests without an answer are left out.
pub fn sliding(samples: &[Sample], share: f64, window: Duration, step: Duration) -> Vec<Point> {
    let mut answers: Vec<&Sample> = samples.iter().filter(|sample| sample.outcome == Outcome::Ok).collect();
    answers.sort_by_key(|sample| sample.ended);
    let end = answers.last().map_or(Duration::ZERO, |last| last.ended);
    let moments = (1u32..).map(|n| step * n).take_while(|at| *at <= end);
    let point = |at: Duration| {
        let from = answers.partition_point(|sample| sample.ended + window <= at);
        let to = answers.partition_point(|sample| sample.ended <= at);
        let mut latencies: Vec<Duration> = answers[from..to].iter().map(|sample| sample.latency).collect();
        latencies.sort_unstable();
        Some(Point { at_s: at.as_secs_f64(), value: crate::record::milliseconds(quantile(&latencies, share)?) })
    };
    moments.filter_map(point).collect()
}

/// How long after `event_s` the values fall to at most `limit` and stay there for `stay_s`. `None`:
/// they do not within the points, or there are no points for that long.
pub fn recovery_s(points: &[Point], event_s: f64, limit: f64, stay_s: f64) -> Option<f64> {
    let after: Vec<&Point> = points.iter().filter(|point| point.at_s >= event_s).collect();
    let last = after.last()?.at_s;
    let mut good_since = None;
    for point in after {
        if point.value > limit {
            good_since = None;
            continue;
        }
        let since: f64 = *good_since.get_or_insert(point.at_s);
        if point.at_s - since >= stay_s {
            break;
        }
    }
    good_since.filter(|since| last - since >= stay_s).map(|since| since - event_s)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(ended: u64, latency: u64, outcome: Outcome) -> Sample {
        Sample { latency: Duration::from_millis(latency), outcome, ended: Duration::from_millis(ended) }
    }

    #[test]
    fn only_answers_of_the_window_count() {
        let ok = |ended, latency| sample(ended, latency, Outcome::Ok);
        let samples = [ok(100, 10), ok(900, 30), sample(950, 99, Outcome::Shed), ok(1_000, 50), ok(2_000, 40)];
        let second = Duration::from_secs(1);
        let points = sliding(&samples, 1.0, second, second);
        // An answer at the end of a window belongs to it. One at its beginning belongs to the
        // window before.
        assert_eq!(points, [Point { at_s: 1.0, value: 50.0 }, Point { at_s: 2.0, value: 40.0 }]);
        assert_eq!(sliding(&[], 0.9, second, second), []);
    }

    #[test]
    fn recovery_requires_staying_below_the_limit() {
        let values = [1.0, 9.0, 9.0, 1.0, 9.0, 1.0, 1.0, 1.0, 9.0];
        let points: Vec<Point> = values.iter().zip(0u32..).map(|(v, n)| Point { at_s: n.into(), value: *v }).collect();
        assert_eq!(recovery_s(&points, 1.0, 5.0, 2.0), Some(4.0), "not the dip at 3");
        assert_eq!(recovery_s(&points, 1.0, 5.0, 3.0), None, "good for only two seconds");
        assert_eq!(recovery_s(&points, 5.0, 5.0, 2.0), Some(0.0));
        assert_eq!(recovery_s(&points, 20.0, 5.0, 2.0), None);
    }
}
