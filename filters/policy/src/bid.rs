//! Bids: each attempt says how long it is willing to wait, and the server, which knows its own queue exactly, bounces it at once if it would take longer.
//!
//! Attempt `k` of a request carries the bid `m_k * mean`, where `mean` is this sender's running mean of the expected response times that it hears about the
//! service, from answers and bounces alike; `m` rises, and after the last bid attempts bid without limit, so nothing is shed that BLOC would have served.
//!
//! Nothing is stale: the numbers that a sender holds only set the price, the decision is taken by the server at the moment of the request. A server that is better than
//! average takes a request at the first bid; one that is worse never sees it. What it costs is a round trip for each bounce. Therefore the number of bids follows what there is to gain:
//!
//! `n = min(most, floor(share * (mean - execution time) / bounce))`
//!
//! the mean wait in the queue over the measured time of a bounce: no bids where a bounce costs more than the wait it can save.
//!
//! Defaults: see [`MULTIPLES`] and [`SHARE`]. Cold start: without a mean there is no bid. Cost: a few multiplications an attempt. Not in the papers: this is the
//! project's own step.

use crate::load_report::{LoadReport, decimal, write_thousandths};
use std::time::Duration;

/// The header in which an attempt bids, in milliseconds.
pub const BID_HEADER: &str = "x-bloc-bid";

/// What the bids are, as multiples of the mean.
pub const MULTIPLES: [f64; 5] = [0.6, 0.7, 0.8, 0.9, 1.0];
/// The share of the mean wait that the bounces of a request may cost together.
const SHARE: f64 = 0.5;
/// The weight of the newest in the running means.
const WEIGHT: f64 = 0.05;
/// What a bounce costs until one has been measured.
const BOUNCE: f64 = 0.002;

/// What a sender knows of a service's response times.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Bids {
    /// Seconds, all of them.
    mean: Option<f64>,
    execution: Option<f64>,
    bounce: Option<f64>,
}

fn follow(mean: &mut Option<f64>, value: f64) {
    *mean = Some(mean.map_or(value, |mean| mean + WEIGHT * (value - mean)));
}

impl Bids {
    /// A server has spoken, in an answer or a bounce.
    pub fn hear(&mut self, report: &LoadReport) {
        if let Some(expected) = report.expected() {
            follow(&mut self.mean, expected.as_secs_f64());
        }
        if let Some(execution) = report.execution {
            follow(&mut self.execution, execution.as_secs_f64());
        }
    }

    /// A bounce took this long, from sending the attempt to its answer.
    pub fn bounced(&mut self, took: Duration) {
        follow(&mut self.bounce, took.as_secs_f64());
    }

    /// How many bids a request may make before it goes without limit, at most as many as there are [`MULTIPLES`].
    pub fn count(&self) -> usize {
        let Some(mean) = self.mean else { return 0 };
        let wait = mean - self.execution.unwrap_or(0.0);
        let affordable = SHARE * wait / self.bounce.unwrap_or(BOUNCE);
        // `as` saturates, and a negative number is none.
        (affordable as usize).min(MULTIPLES.len())
    }

    /// The bid of attempt `attempt` (the first is 0); none: without limit.
    pub fn bid(&self, attempt: usize) -> Option<Duration> {
        let count = self.count();
        if attempt >= count {
            return None;
        }
        // Fewer bids than multiples: the higher ones, which bounce less.
        let multiple = MULTIPLES.get(MULTIPLES.len() - count + attempt)?;
        Duration::try_from_secs_f64(multiple * self.mean?).ok()
    }
}

/// Writes the header's value: milliseconds with at most three decimals.
pub fn encode(bid: Duration, into: &mut String) {
    into.clear();
    write_thousandths(into, u64::try_from(bid.as_micros()).unwrap_or(u64::MAX));
}

/// Reads the header's value; what is not a bid is none, which accepts any wait.
pub fn decode(value: &[u8]) -> Option<Duration> {
    let millis = decimal(value).filter(|millis| *millis >= 0.0)?;
    Duration::try_from_secs_f64(millis / 1e3).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(expected_ms: u32, execution_ms: u64) -> LoadReport {
        // One request a millisecond: the queue is the expected response time.
        LoadReport {
            queue: Some(expected_ms - 1),
            service: Some(1000.0),
            execution: Some(Duration::from_millis(execution_ms)),
            ..LoadReport::default()
        }
    }

    #[test]
    fn without_knowledge_there_is_no_bid() {
        assert_eq!(Bids::default().bid(0), None);
    }

    #[test]
    fn the_bids_rise_to_the_mean_and_then_there_is_no_limit() {
        let mut bids = Bids::default();
        for _ in 0..100 {
            bids.hear(&report(200, 50));
        }
        let millis: Vec<Option<u128>> =
            (0..7).map(|attempt| bids.bid(attempt).map(|bid| (bid.as_secs_f64() * 1e3).round() as u128)).collect();
        assert_eq!(millis, [Some(120), Some(140), Some(160), Some(180), Some(200), None, None]);
    }

    #[test]
    fn where_a_bounce_costs_more_than_it_saves_there_are_few_bids_or_none() {
        let mut bids = Bids::default();
        bids.hear(&report(60, 50));
        bids.bounced(Duration::from_millis(2));
        // Half of 10 ms pays for two bounces of 2 ms.
        assert_eq!((bids.count(), bids.bid(2)), (2, None));
        assert_eq!(bids.bid(0), Some(Duration::from_millis(54)));
        assert_eq!(bids.bid(1), Some(Duration::from_millis(60)));
        let mut fast = Bids::default();
        fast.hear(&report(4, 2));
        fast.bounced(Duration::from_millis(2));
        assert_eq!(fast.count(), 0);
    }

    #[test]
    fn a_bid_is_read_as_it_was_written_and_nonsense_is_none() {
        let mut text = String::new();
        for micros in [0, 1, 1_500, 120_000, 3_600_000_000] {
            encode(Duration::from_micros(micros), &mut text);
            assert_eq!(decode(text.as_bytes()).map(|bid| bid.as_micros()), Some(u128::from(micros)), "{text}");
        }
        for nonsense in ["", "-1", "NaN", "inf", "1e3", "12ms", "1.2345", " 5", "9999999999999999"] {
            assert_eq!(decode(nonsense.as_bytes()), None, "{nonsense:?}");
        }
        assert_eq!(decode(b"\xff"), None);
    }
}
