//! The price: how long each attempt of a request is willing to wait.
//!
//! Attempt `k` of a request carries the bid `m_k * mean`, where `mean` is this sender's running mean of the expected response times that it hears about the
//! service, from answers and bounces alike; `m` rises, and after the last bid attempts go without limit, so nothing is shed that BLOC would have served. The servers are those that
//! BLOC would choose, in its order.
//!
//! Nothing is stale: the numbers that a sender holds only set the price, the decision is taken by the server at the moment of the request. What it costs is a round trip for each
//! bounce. Therefore the number of bids follows what there is to gain:
//!
//! `n = min(5, floor(share * (mean - execution time) / bounce))`
//!
//! with the mean wait in the queue over the measured time of a bounce (all in seconds; 2 ms until one has been measured) and a share of 0.5: no bids where a bounce costs more than the wait it can save. Fewer bids than
//! multiples are the higher ones.
//!
//! Defaults, from the simulator (40 senders, 10 servers, one request at a time, a bounce of 1.5 ms; p99 over that of an omniscient balancer, and attempts per request):
//!
//! | multiples | 50 ms, 90% | 50 ms, 95% | two speeds, 95% | exponential 10 ms, 90% |
//! |---|---|---|---|---|
//! | **0.9, 1.0, 1.1, 1.25, 1.4** | 1.24, 2.0 | 1.12, 2.1 | 1.09, 2.1 | 1.25, 2.1 |
//! | 0.8 to 1.4 in five | 1.23, 2.3 | 1.10, 2.4 | 1.08, 2.3 | 1.23, 2.3 |
//! | 0.9 to 1.5 in five | 1.26, 1.9 | 1.14, 2.0 | 1.11, 2.0 | 1.27, 2.0 |
//! | 0.6 to 1.0 in five | 1.31, 3.8 | 1.11, 3.9 | 1.13, 3.7 | 1.21, 3.4 |
//! | 0.6 to 1.4 in five | 1.23, 3.0 | 1.09, 3.0 | 1.06, 2.9 | 1.20, 2.8 |
//! | 0.6 to 1.5 in seven | 1.20, 3.3 | 1.08, 3.4 | 1.05, 3.3 | 1.19, 2.8 |
//! | 0.8 to 1.4 in three | 1.29, 2.0 | 1.16, 2.0 | 1.13, 2.0 | 1.30, 2.0 |
//! | 1.0 and 1.5 | 1.46, 1.6 | 1.23, 1.5 | 1.27, 1.6 | 1.42, 1.5 |
//! | least request | 3.79, 1 | 2.48, 1 | 9.41, 1 | 2.57, 1 |
//!
//! A bid below the mean finds the few that are idle, at a bounce for each of the many that are not; one above it spares the requests that had no luck the random server at the end, which is
//! what makes a tail. Lost: ordering the servers by what they said last (of two, three or all; no better, with exponential times up to 1.8 times worse, as the news is old);
//! a mean over 20 or 50 reports (as good within 1%). What saves bounces costs tail; what else was tried is in `loadtest/record/measured.md`.
//!
//! A server's numbers cannot spoil the price: of a report no more is believed than [`TRUST`] times what this sender's own requests take ([`Bids::served`]), so that one of ten servers
//! which says anything at all raises the mean by less than half. A bounce is one if there was a bid, and if the wait that the server gives as its reason is not less than half of that
//! ([`is_bounce`]); otherwise it is a rejection, and the server is left alone like any that rejects.
//!
//! Cold start: without a mean there is no bid. Cost: a few multiplications an attempt. Not in the papers: this is the project's own step.

use crate::wire::load_report::LoadReport;
use std::time::Duration;

/// What the bids are, as multiples of the mean.
pub const MULTIPLES: [f64; 5] = [0.9, 1.0, 1.1, 1.25, 1.4];
/// The share of the mean wait that the bounces of a request may cost together.
const SHARE: f64 = 0.5;
/// The weight of the newest in the running means.
const WEIGHT: f64 = 0.1;
/// What a bounce costs until one has been measured.
const BOUNCE: f64 = 0.002;

/// What a sender knows of a service's response times.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Bids {
    /// Seconds, all of them.
    mean: Option<f64>,
    execution: Option<f64>,
    bounce: Option<f64>,
    /// What requests that were served took.
    took: Option<f64>,
}

/// By what factor a server's numbers may exceed what this sender's own requests take.
pub const TRUST: f64 = 4.0;

/// Whether a server that bounced a request with this `bid` and this report did so for the bid. Half, because its line moves between the decision and the report.
pub fn is_bounce(bid: Option<Duration>, report: &LoadReport) -> bool {
    bid.is_some_and(|bid| report.expected().is_none_or(|expected| expected >= bid / 2))
}

fn follow(mean: &mut Option<f64>, value: f64) {
    *mean = Some(mean.map_or(value, |mean| mean + WEIGHT * (value - mean)));
}

impl Bids {
    /// A server has spoken, in an answer or a bounce.
    pub fn hear(&mut self, report: &LoadReport) {
        let most = self.most();
        if let Some(expected) = report.expected() {
            follow(&mut self.mean, expected.as_secs_f64().min(most));
        }
        if let Some(execution) = report.execution {
            follow(&mut self.execution, execution.as_secs_f64().min(most));
        }
    }

    /// A request was served after `took`, from sending the attempt to its answer.
    pub fn served(&mut self, took: Duration) {
        follow(&mut self.took, took.as_secs_f64());
        // What was believed before the first answer came.
        let most = self.most();
        for believed in [&mut self.mean, &mut self.execution] {
            *believed = believed.map(|value| value.min(most));
        }
    }

    /// The longest time that is believed, in seconds.
    fn most(&self) -> f64 {
        self.took.map_or(f64::INFINITY, |took| took * TRUST)
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
    fn the_bids_rise_past_the_mean_and_then_there_is_no_limit() {
        let mut bids = Bids::default();
        for _ in 0..100 {
            bids.hear(&report(200, 50));
        }
        let millis: Vec<Option<u128>> =
            (0..7).map(|attempt| bids.bid(attempt).map(|bid| (bid.as_secs_f64() * 1e3).round() as u128)).collect();
        assert_eq!(millis, [Some(180), Some(200), Some(220), Some(250), Some(280), None, None]);
    }

    #[test]
    fn where_a_bounce_costs_more_than_it_saves_there_are_few_bids_or_none() {
        let mut bids = Bids::default();
        bids.hear(&report(60, 50));
        bids.bounced(Duration::from_millis(2));
        // Half of 10 ms pays for two bounces of 2 ms.
        assert_eq!((bids.count(), bids.bid(2)), (2, None));
        assert_eq!(bids.bid(0), Some(Duration::from_millis(75)));
        assert_eq!(bids.bid(1), Some(Duration::from_millis(84)));
        let mut fast = Bids::default();
        fast.hear(&report(4, 2));
        fast.bounced(Duration::from_millis(2));
        assert_eq!(fast.count(), 0);
    }

    #[test]
    fn no_report_moves_the_price_beyond_what_own_requests_take() {
        let liar = LoadReport { execution: Some(Duration::from_secs(1 << 30)), ..report(u32::MAX, 50) };
        let mut bids = Bids::default();
        bids.hear(&liar);
        bids.served(Duration::from_millis(100));
        assert_eq!(bids.mean, Some(0.4), "four times as long");
        for _ in 0..1000 {
            (0..9).for_each(|_| bids.hear(&report(200, 50)));
            bids.hear(&liar);
            bids.served(Duration::from_millis(200));
        }
        let mean = bids.mean.unwrap();
        assert!(0.2 < mean && mean < 0.3, "{mean}");
        assert_eq!(bids.count(), 5);
    }

    #[test]
    fn a_bounce_needs_a_bid_and_a_reason() {
        let bid = |millis| Some(Duration::from_millis(millis));
        assert!(is_bounce(bid(100), &report(101, 50)));
        assert!(is_bounce(bid(100), &report(50, 50)), "the line has moved meanwhile");
        assert!(!is_bounce(bid(101), &report(50, 50)), "it would have been fast enough");
        assert!(!is_bounce(None, &report(101, 50)), "nobody had bid");
        assert!(is_bounce(bid(100), &LoadReport::default()), "it does not say why");
    }
}
