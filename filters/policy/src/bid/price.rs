//! The bid of each attempt of a request: the longest expected response time that it accepts.
//!
//! Attempt `k` of a request carries the bid `m_k * mean`, where `mean` is this sender's running
//! mean of the expected response times that servers report, in answers and bounces alike. The
//! multiples `m` rise. After the last bid, attempts go without limit, so nothing is shed that BLOC
//! would have served. The servers are those that BLOC would choose, in its order.
//!
//! A bid cannot be stale: the sender's numbers only set the bid, and the server decides at the
//! moment of the request. The cost is a round trip for each bounce. The number of bids therefore
//! follows what they can gain:
//!
//! `n = min(5, floor(share * (mean - execution time) / bounce))`
//!
//! `mean - execution time` is the mean wait in the queue, and `bounce` the measured time of a
//! bounce (all in seconds; 2 ms until one has been measured). The share is 0.5. There are no bids
//! where a bounce costs more than half the mean wait. If there are fewer bids than
//! multiples, they are the higher ones.
//!
//! A single bounce counts for at most four times the mean bounce (or 8 ms): one that waits for the
//! body of an upload takes up to a second, and says nothing about the others.
//!
//! A bounce is measured only where there are bids. One that was slow by chance, as on a new
//! connection, would end the bids for good. So where the measured bounce allows no bid, a request
//! now and then probes: it bids as if no bounce had been measured. It is the next one after each
//! `20 * bounce / 2 ms` requests served. If its bounce is faster than the mean one, it replaces
//! that mean. Probing costs a request at most 0.1 ms on average, however slow bounces are.
//! (Simulated, 10 ms, 80% load, bounces of 20 and 200 ms: p99 within 1.2% of that without probes,
//! and one attempt more for 1,000 requests.)
//!
//! Defaults, from the simulator (40 senders, 10 servers, one request at a time, a bounce of 1.5 ms;
//! cells: p99 over that of an omniscient balancer, attempts per request):
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
//! A bid below the mean finds the few idle servers, at the cost of a bounce for each of the many
//! busy ones. A bid above it keeps a request that was bounced before from ending at a random
//! server, which is what makes a tail. Tried and dropped: ordering the servers by their last
//! reports (of two, three or all; no better, and up to 1.8 times worse with exponential times, as
//! the reports are old); a mean over 20 or 50 reports (as good within 1%). What saves bounces
//! lengthens the tail. Other attempts are in `loadtest/record/measured.md`.
//!
//! A server's numbers cannot spoil the bids. Of a report, at most [`MAX_REPORT_FACTOR`] times what
//! this sender's own requests take is believed ([`Bids::served`]), so one of ten servers that
//! reports arbitrary numbers raises the mean by less than half. A bounce counts as one only if the
//! attempt had a bid, and the expected response time that the server reports is not less than half
//! of it ([`is_bounce`]). Otherwise it is a rejection, and the server is left alone like any that
//! rejects.
//!
//! Cold start: without a mean there is no bid. Cost: a few multiplications an attempt. Not in the
//! papers: bids are this project's own.

use crate::wire::load_report::LoadReport;
use std::time::Duration;

/// The position of a bid among those of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BidPosition {
    /// The first is 0.
    pub number: usize,
    /// How many bids the request may make.
    pub of: usize,
}

/// The bids, as multiples of the mean.
pub const MULTIPLES: [f64; 5] = [0.9, 1.0, 1.1, 1.25, 1.4];
/// The share of the mean wait that all bounces of a request together may cost.
const SHARE: f64 = 0.5;
/// The weight of the newest value in the running means.
const WEIGHT: f64 = 0.1;
/// The cost of a bounce until one has been measured, in seconds.
const BOUNCE: f64 = 0.002;
/// Where a bounce costs too much for bids, one request probes after this many served requests for
/// each [`BOUNCE`] that it costs.
const PROBE: f64 = 20.0;

/// A bounce counts for at most this many times the mean bounce, or [`BOUNCE`] if that is more.
const OUTLIER: f64 = 4.0;

/// What a sender knows of a service's response times.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Bids {
    /// All times are in seconds.
    mean: Option<f64>,
    execution: Option<f64>,
    bounce: Option<f64>,
    /// How long served requests took.
    took: Option<f64>,
    /// Requests served since a bounce was measured, or since the last probe.
    served_since_bounce: u32,
}

/// By what factor a server's numbers may exceed what this sender's own requests take.
pub const MAX_REPORT_FACTOR: f64 = 4.0;

/// Whether a server that bounced a request with this `bid` and this report did so for the bid. Half
/// of the bid is enough, because the queue moves between the decision and the report.
pub fn is_bounce(bid: Option<Duration>, report: &LoadReport) -> bool {
    bid.is_some_and(|bid| report.expected().is_none_or(|expected| expected >= bid / 2))
}

fn follow(mean: &mut Option<f64>, value: f64) {
    *mean = Some(mean.map_or(value, |mean| mean + WEIGHT * (value - mean)));
}

impl Bids {
    /// A server has reported, in an answer or a bounce.
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
        self.served_since_bounce = if self.probes() { 0 } else { self.served_since_bounce.saturating_add(1) };
        follow(&mut self.took, took.as_secs_f64());
        // Limits what was believed before the first answer, too.
        let most = self.most();
        for believed in [&mut self.mean, &mut self.execution] {
            *believed = believed.map(|value| value.min(most));
        }
    }

    /// The longest time that is believed, in seconds.
    fn most(&self) -> f64 {
        self.took.map_or(f64::INFINITY, |took| took * MAX_REPORT_FACTOR)
    }

    /// A bounce took this long, from sending the attempt to its answer.
    pub fn bounced(&mut self, took: Duration) {
        let took = took.as_secs_f64();
        if self.bounce.is_some_and(|bounce| took <= bounce && self.affordable(bounce) == 0) {
            self.bounce = None;
        }
        // An upload is bounced when its body has come. One such bounce must move the mean only a
        // little.
        let most = self.bounce.map_or(f64::INFINITY, |bounce| bounce.max(BOUNCE) * OUTLIER);
        follow(&mut self.bounce, took.min(most));
        self.served_since_bounce = 0;
    }

    /// How many bids a request makes before it goes without limit, at most as many as there are
    /// [`MULTIPLES`].
    pub fn count(&self) -> usize {
        match self.affordable(self.bounce.unwrap_or(BOUNCE)) {
            0 if self.probes() => self.affordable(BOUNCE),
            count => count,
        }
    }

    /// The same for this cost of a bounce, in seconds.
    fn affordable(&self, bounce: f64) -> usize {
        let Some(mean) = self.mean else { return 0 };
        let wait = mean - self.execution.unwrap_or(0.0);
        // `as` saturates, and a negative number is none.
        ((SHARE * wait / bounce) as usize).min(MULTIPLES.len())
    }

    /// Whether attempts that begin now, before the next request is served, bid even if a bounce
    /// costs too much.
    fn probes(&self) -> bool {
        self.bounce.is_some_and(|bounce| f64::from(self.served_since_bounce) * BOUNCE >= PROBE * bounce)
    }

    /// The bid of this turn; none: without limit.
    pub fn bid(&self, turn: BidPosition) -> Option<Duration> {
        let count = self.count().min(turn.of);
        if turn.number >= count {
            return None;
        }
        // Fewer bids than multiples: the higher ones, which bounce less.
        let multiple = MULTIPLES.get(MULTIPLES.len() - count + turn.number)?;
        Duration::try_from_secs_f64(multiple * self.mean?).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The bid after so many bounces.
    fn bid(bids: &Bids, number: usize) -> Option<Duration> {
        bids.bid(BidPosition { number, of: MULTIPLES.len() })
    }

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
    fn makes_no_bid_before_the_first_report() {
        assert_eq!(bid(&Bids::default(), 0), None);
    }

    #[test]
    fn five_bids_rise_past_the_mean_and_further_attempts_have_no_limit() {
        let mut bids = Bids::default();
        for _ in 0..100 {
            bids.hear(&report(200, 50));
        }
        let millis: Vec<Option<u128>> =
            (0..7).map(|number| bid(&bids, number).map(|bid| (bid.as_secs_f64() * 1e3).round() as u128)).collect();
        assert_eq!(millis, [Some(180), Some(200), Some(220), Some(250), Some(280), None, None]);
    }

    #[test]
    fn makes_few_or_no_bids_where_a_bounce_costs_more_than_it_saves() {
        let mut bids = Bids::default();
        bids.hear(&report(60, 50));
        bids.bounced(Duration::from_millis(2));
        // Half of 10 ms pays for two bounces of 2 ms.
        assert_eq!((bids.count(), bid(&bids, 2)), (2, None));
        assert_eq!(bid(&bids, 0), Some(Duration::from_millis(75)));
        assert_eq!(bid(&bids, 1), Some(Duration::from_millis(84)));
        assert_eq!(bids.bid(BidPosition { number: 0, of: 1 }), Some(Duration::from_millis(84)), "one other server");
        let mut fast = Bids::default();
        fast.hear(&report(4, 2));
        fast.bounced(Duration::from_millis(2));
        assert_eq!(fast.count(), 0);
    }

    #[test]
    fn a_cheaper_bounce_replaces_the_mean_only_where_bounces_cost_too_much_to_bid() {
        let millis = Duration::from_millis;
        // Half of the wait of 40 ms pays for two bounces of 10 ms, and for none of a second.
        for (mean, next, expected) in [(10, 1, 0.009_1), (1_000, 2_000, 1.1), (1_000, 30, 0.03)] {
            let mut bids = Bids::default();
            bids.hear(&report(90, 50));
            bids.bounced(millis(mean));
            bids.bounced(millis(next));
            assert!((bids.bounce.unwrap() - expected).abs() < 1e-9, "{next} ms after {mean} ms: {:?}", bids.bounce);
        }
    }

    /// Sends requests, one after the other, to a service that takes 40 ms, 10 of them in the
    /// application. Up to three servers bounce each of them, in `bounce` each. Returns the number
    /// of bounces.
    fn exchanges(bids: &mut Bids, requests: usize, bounce: Duration) -> usize {
        let mut bounces = 0;
        for _ in 0..requests {
            let mut attempt = 0;
            while attempt < 3 && bid(bids, attempt).is_some() {
                bids.bounced(bounce);
                bids.hear(&report(60, 10));
                (attempt, bounces) = (attempt + 1, bounces + 1);
            }
            bids.served(Duration::from_millis(40));
            bids.hear(&report(40, 10));
        }
        bounces
    }

    #[test]
    fn bids_resume_soon_after_a_stall() {
        let fast = Duration::from_micros(500);
        for (slow, stalled) in [(20, 1), (50, 1), (50, 30), (200, 30)] {
            // The slow bounces are the first ones, or come later.
            for before in [0, 1000] {
                let mut bids = Bids::default();
                bids.hear(&report(40, 10));
                exchanges(&mut bids, before, fast);
                (0..stalled).for_each(|_| bids.bounced(Duration::from_millis(slow)));
                // One request in 20 for each 2 ms that a bounce is believed to cost.
                let soon = 20 * usize::try_from(slow).unwrap() / 2;
                exchanges(&mut bids, soon + 10, fast);
                assert_eq!(bids.count(), 5, "{stalled} of {slow} ms after {before} requests");
            }
        }
    }

    #[test]
    fn rarely_tries_bounces_that_cost_more_than_they_save() {
        for (millis, most) in [(16, 125), (20, 100), (200, 10), (1000, 2)] {
            let mut bids = Bids::default();
            bids.hear(&report(40, 10));
            let bounce = Duration::from_millis(millis);
            // The first bounces show what they cost.
            bids.bounced(bounce);
            let bounces = exchanges(&mut bids, 20_000, bounce);
            println!("{millis} ms: {bounces} of 20000");
            assert!((1..=most).contains(&bounces), "{bounces} bounces of {millis} ms");
        }
    }

    /// A bounced upload of HTTP/1.1 is answered when its body has come, after a second at the
    /// latest, whatever a bounce costs.
    #[test]
    fn a_few_slow_uploads_do_not_stop_bidding_for_other_requests() {
        let (mut bids, mut without) = (Bids::default(), 0);
        bids.hear(&report(40, 10));
        for request in 0..20_000 {
            without += usize::from(request > 5000 && bids.count() == 0);
            exchanges(&mut bids, 1, Duration::from_micros(500));
            // One in 200, from a slow client.
            if request % 200 == 0 {
                bids.bounced(Duration::from_secs(1));
            }
        }
        assert!(without < 150, "{without} of 15000 requests do not bid");
    }

    #[test]
    fn makes_no_trial_bids_where_bids_save_nothing() {
        let mut bids = Bids::default();
        bids.hear(&report(4, 2));
        bids.bounced(Duration::from_millis(20));
        for _ in 0..10_000 {
            bids.served(Duration::from_millis(4));
            bids.hear(&report(4, 2));
            assert_eq!(bids.count(), 0);
        }
    }

    #[test]
    fn believes_a_reported_wait_up_to_four_times_that_of_own_requests() {
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
    fn counts_as_a_bounce_only_with_a_bid_of_at_most_twice_the_wait() {
        let bid = |millis| Some(Duration::from_millis(millis));
        assert!(is_bounce(bid(100), &report(101, 50)));
        assert!(is_bounce(bid(100), &report(50, 50)), "the queue has moved meanwhile");
        assert!(!is_bounce(bid(101), &report(50, 50)), "it would have been fast enough");
        assert!(!is_bounce(None, &report(101, 50)), "there was no bid");
        assert!(is_bounce(bid(100), &LoadReport::default()), "the report has no numbers");
    }
}
