//! Bids: each attempt says how long it is willing to wait, and the server, which knows its own queue exactly, bounces it at once if it would take longer.
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
//! A server that takes every request, whatever the bid, would swallow the bounces of all the others: one that does not speak bids, or one that lies about its wait. Each sender keeps
//! [`Promises`] for each server: whether it speaks at all, and how often it took a bid and answered after more than twice that. Such a server gets the share of first attempts that BLOC
//! would give it, and stands last for the further ones. (Simulated, 80% load, one of ten silent: p99 105 s without this, as with BLOC with it.)
//!
//! Nor may a server's numbers spoil the price: of a report no more is believed than [`TRUST`] times what this sender's own requests take ([`Bids::served`]), so that one of ten servers
//! which says anything at all raises the mean by less than half. A bounce is one if there was a bid, and if the wait that the server gives as its reason is not less than half of that
//! ([`is_bounce`]); otherwise it is a rejection, and the server is left alone like any that rejects.
//!
//! Cold start: without a mean there is no bid. Cost: a few multiplications an attempt. Not in the papers: this is the project's own step.

use crate::load_report::{LoadReport, decimal, write_thousandths};
use std::time::Duration;

/// The header in which an attempt bids, in milliseconds.
pub const BID_HEADER: &str = "x-bloc-bid";

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

/// More than this share of broken promises, and a server's word counts for nothing.
const MISTRUST: f64 = 0.5;
/// A promise is broken if the answer takes longer than this many times the bid: service times vary, and the bid is about their mean.
const BROKEN: u32 = 2;
/// The weight of the newest promise.
const PROMISE_WEIGHT: f64 = 0.35;

/// What a server's taking a bid is worth, as one sender sees it.
///
/// Nobody who has not spoken yet is trusted, so a new server is not flooded with the bounces of the others before its first answers are back.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Promises {
    silent: bool,
    broken: f64,
}

impl Default for Promises {
    fn default() -> Self {
        Self { silent: true, broken: 0.0 }
    }
}

impl Promises {
    /// The server took a request for this `bid` (none: without limit) and answered after `took`, silently or with a report.
    pub fn judge(&mut self, bid: Option<Duration>, took: Duration, silent: bool) {
        self.silent = silent;
        if let Some(bid) = bid {
            let broken = f64::from(u8::from(took > bid * BROKEN));
            self.broken += PROMISE_WEIGHT * (broken - self.broken);
        }
    }

    /// The server has bounced a request: it speaks, and it says no.
    pub fn bounced(&mut self) {
        self.silent = false;
    }

    /// Whether the server takes requests without regard to their bids, as far as can be seen.
    pub fn are_empty(&self) -> bool {
        self.silent || self.broken > MISTRUST
    }
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

/// The longest bid that is written, in microseconds: a decimal has twelve digits before its point.
const LONGEST: u64 = 999_999_999_999_999;

/// Writes the header's value: milliseconds with at most three decimals, at most 31 years of them.
pub fn encode(bid: Duration, into: &mut String) {
    into.clear();
    write_thousandths(into, u64::try_from(bid.as_micros()).unwrap_or(LONGEST).min(LONGEST));
}

/// The header's value of an attempt that accepts any wait. A request without the header comes from somebody who does not read our answers.
pub const ANY: &str = "any";

/// Reads the header's value; what is not a bid is none, which accepts any wait.
pub fn decode(value: &[u8]) -> Option<Duration> {
    let millis = decimal(value).filter(|millis| *millis >= 0.0)?;
    Duration::try_from_secs_f64(millis / 1e3).ok()
}

/// What a request's header says of who sends it. Nonsense says nothing: it is as good as no header.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Caller {
    /// Whether the caller reads our answers.
    pub speaks: bool,
    /// The longest wait that it accepts; none: any.
    pub bid: Option<Duration>,
}

impl Caller {
    /// Reads the header's value, if there is one.
    pub fn of(header: Option<&[u8]>) -> Self {
        let bid = header.and_then(decode);
        Self { speaks: bid.is_some() || header == Some(ANY.as_bytes()), bid }
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
    fn promises_are_empty_when_they_are_broken_or_never_made() {
        let bid = Some(Duration::from_millis(100));
        let (kept, broken) = (Duration::from_millis(200), Duration::from_millis(201));
        let mut promises = Promises::default();
        assert!(promises.are_empty(), "nobody is trusted unheard");
        promises.judge(bid, broken, false);
        assert!(!promises.are_empty(), "once may happen to anybody");
        promises.judge(bid, broken, false);
        assert!(promises.are_empty());
        promises.judge(None, broken, false);
        assert!(promises.are_empty(), "nothing was promised");
        promises.judge(bid, kept, false);
        assert!(!promises.are_empty(), "and trust comes back");
        promises.judge(None, kept, true);
        assert!(promises.are_empty(), "who does not speak promises nothing");
        promises.bounced();
        assert!(!promises.are_empty(), "a bounce speaks for itself");
    }

    #[test]
    fn a_bid_is_read_as_it_was_written_and_nonsense_is_none() {
        let mut text = String::new();
        for micros in [0, 1, 1_500, 120_000, 3_600_000_000] {
            encode(Duration::from_micros(micros), &mut text);
            assert_eq!(decode(text.as_bytes()).map(|bid| bid.as_micros()), Some(u128::from(micros)), "{text}");
        }
        for long in [Duration::from_secs(2_000_000_000_000), Duration::MAX] {
            encode(long, &mut text);
            assert!(decode(text.as_bytes()).is_some_and(|bid| bid > Duration::from_secs(999_999_999)), "{text}");
        }
        for nonsense in ["", "-1", "NaN", "inf", "1e3", "12ms", "1.2345", " 5", "9999999999999999"] {
            assert_eq!(decode(nonsense.as_bytes()), None, "{nonsense:?}");
        }
        assert_eq!(decode(b"\xff"), None);
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

    #[test]
    fn who_bids_nonsense_has_not_bid() {
        let of = |value: &[u8]| Caller::of(Some(value));
        assert_eq!(of(b"1.5"), Caller { speaks: true, bid: Some(Duration::from_micros(1500)) });
        assert_eq!(of(b"any"), Caller { speaks: true, bid: None });
        let long = vec![b'9'; 10 << 10];
        for nonsense in [b"".as_slice(), b"-1", b"NaN", b"inf", b"1e3", b"Any", b"any,5", b"\xff\xfe", &long] {
            assert_eq!(of(nonsense), Caller::of(None), "{}", String::from_utf8_lossy(nonsense));
        }
    }
}
