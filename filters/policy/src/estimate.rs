//! What a sender believes about a server between two reports (Mu, paper sections 4.3.2 and 4.3.3).
//!
//! - queue (requests) `= pending + others`. `pending` is what this sender has there, which it knows
//!   exactly. `others` is what the other senders have there: the reported queue without this
//!   sender's part, plus `g - 1` for each request that this sender has sent there since. `g` is the
//!   number of senders like this one (1 for a lone gateway): while this sender sends one request,
//!   the others send `g - 1`, which it has not heard of yet.
//! - service rate (requests/s): the server's own estimate if it reports one, else the rule of
//!   [`ServiceRate`].
//!
//! Aging: the weight of the reported part falls from 1 to 0 over the horizon ([`HORIZON`] reset
//! intervals). The rest of the weight goes to the others' usual part: `(1 - 1/g)` of the queue with
//! which this server's wait would be the mean wait of the service. So a server that looked full is
//! not avoided for ever, one that looked empty does not attract all senders, and one without any
//! report looks a little better than the mean. (With the whole mean instead, a server that was left
//! alone long enough looked as full as the others, for ever: simulated, half of the fleet starved.)
//! Cold start: a server that has not reported has the mean wait and the largest service rate known.
//!
//! A server's reports are believed only as far as this sender's own experience goes, so that a
//! server that lies, or errs, neither attracts all load nor is left alone for ever:
//!
//! - a queue counts for at most [`Limit`], `min(4, n / 2) * (mean queue + 16)` among `n` servers: a
//!   huge one would make all means huge;
//! - a queue and a rate together may say that the next answer comes between a quarter and four
//!   times ([`TRUST`]) of `(own + 1) * gap`. That is the time in which this sender's own requests
//!   are answered at the pace seen. The gap is the time from one answer to the next while a request
//!   of this sender is pending, an EWMA with weight 0.3. An honest server keeps that pace on
//!   average, whatever the others send. The factor is four because a server with many places is
//!   faster than it seems while it has little to do;
//! - a report counts for [`HORIZON`] reset intervals: a server that was not heard of for so long,
//!   and has no request of this sender, is a newcomer again.
//!
//! A request sent there counts until the next report, and no longer than it is pending: one that
//! failed, or was answered without a report, is not there any more. Its weight ages as that of a
//! report does.
//!
//! Deviations:
//! 1. the reported queue includes the requests being executed, because an idle server differs from
//!    a busy one without a queue;
//! 2. `g`;
//! 3. the aging;
//! 4. `R / c` is a guess: a server that knows its concurrency reports its exact service rate
//!    itself;
//! 5. the bounds of belief;
//! 6. rates in steps of 3 to 6%.

use crate::service_rate::ServiceRate;
use crate::units::Timestamp;
use crate::wire::load_report::LoadReport;
use std::time::Duration;

/// The estimate for one server.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Estimate {
    /// When the server last reported, and what the other senders had there.
    heard: Option<(Timestamp, f64)>,
    /// Requests of this sender that no report covers yet, and since when there are any.
    sent: u32,
    sent_since: Timestamp,
    rate: ServiceRate,
    service: Option<f64>,
    /// Since when this sender waits for its next answer.
    waits: Timestamp,
    /// How long this sender waits from one answer to the next, smoothed, in seconds.
    gap: Option<f64>,
}

/// The longest queue that is believed, in requests.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Limit(f64);

impl Limit {
    /// For one of `servers` servers, whose mean queue is `mean` requests.
    pub fn new(servers: usize, mean: f64) -> Self {
        // At most half of the number of servers: otherwise one server alone could push up the mean
        // that its own limit comes from.
        Self((servers as f64 / 2.0).clamp(1.0, MOST_MEANS) * (mean + SLACK))
    }
}

/// What is known of all servers of a service together.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Fleet {
    /// The mean wait: all queues over all service rates, in seconds.
    pub wait: f64,
    /// The largest service rate, in requests per second; 1 if none is known: then all count the
    /// same.
    pub most: f64,
    /// How many senders like this one there are, at least 1.
    pub senders: f64,
    /// The weight that a report loses per nanosecond.
    per_nano: f64,
}

impl Fleet {
    /// Nothing is known; reports are forgotten within [`HORIZON`] reset intervals.
    pub fn new(reset_interval: Duration) -> Self {
        let mut fleet = Self { wait: 0.0, most: 1.0, senders: 1.0, per_nano: 0.0 };
        fleet.configure(reset_interval);
        fleet
    }

    /// Sets the reset interval.
    pub fn configure(&mut self, reset_interval: Duration) {
        self.per_nano = 1.0 / (HORIZON * reset_interval.as_secs_f64() * 1e9);
    }
}

/// After this many reset intervals a report counts for nothing.
pub const HORIZON: f64 = 10.0;

/// By what factor a server's report and the pace of its answers may differ.
pub const TRUST: f64 = 4.0;
/// At most this many mean queues are believed. The mean is increased by the slack, in requests, so
/// that a few that wait after a pause are not cut off.
const MOST_MEANS: f64 = 4.0;
const SLACK: f64 = 16.0;
/// The weight of the newest gap.
const GAP_WEIGHT: f64 = 0.3;

impl Estimate {
    /// A request of this sender was answered by the application.
    pub fn answered(&mut self, now: Timestamp) {
        let gap = now.since(self.waits).as_secs_f64();
        self.waits = now;
        self.gap = Some(self.gap.map_or(gap, |mean| mean + GAP_WEIGHT * (gap - mean)));
    }

    /// Forgets what the server reported, if that was more than [`HORIZON`] reset intervals ago.
    /// Returns whether it was.
    pub fn forget(&mut self, reset_interval: Duration, now: Timestamp) -> bool {
        let stale = self.heard.is_some_and(|(at, _)| now.since(at) > reset_interval.mul_f64(HORIZON));
        if stale {
            let Self { sent, sent_since, waits, .. } = *self;
            *self = Self { sent, sent_since, waits, ..Self::default() };
        }
        stale
    }

    /// A request was sent there; `pending` of this sender are there now.
    pub fn sent(&mut self, pending: u32, now: Timestamp) {
        if pending <= 1 {
            self.waits = now;
        }
        if self.sent == 0 {
            self.sent_since = now;
        }
        self.sent = self.sent.saturating_add(1);
    }

    /// A request was answered without a report. What was sent before is served, as far as can be
    /// seen, so the aging of what still counts starts again.
    pub fn silent(&mut self, now: Timestamp) {
        self.sent_since = now;
    }

    /// A request has ended, with or without a report; `pending` of this sender are there still.
    pub fn ended(&mut self, pending: u32) {
        self.sent = self.sent.min(pending);
    }

    /// The server has reported, in answer to one of the `pending` requests that this sender had
    /// there.
    pub fn hear(&mut self, report: &LoadReport, pending: u32, limit: Limit, now: Timestamp) {
        let Some(queue) = report.queue else { return };
        let own = pending.saturating_sub(1);
        let others = f64::from(queue.saturating_sub(own)).min(limit.0);
        if let (Some(rate), Some(confidence)) = (report.rate, report.confidence) {
            self.rate.hear(rate, confidence, now);
        }
        (self.heard, self.sent) = (Some((now, others)), 0);
        self.service = report.service;
        let rate = self.service.or_else(|| self.rate.get());
        let Some((rate, gap)) = rate.zip(self.gap.filter(|gap| *gap > 0.0)) else { return };
        let (line, seen) = (f64::from(own) + others + 1.0, (f64::from(own) + 1.0) * gap);
        if line * TRUST < seen * rate {
            // The reported requests of others are not believed then either: they would hide what
            // this sender adds.
            (self.heard, self.service) = (Some((now, 0.0)), Some(TRUST / gap));
        } else {
            self.service = Some(rate.max(line / (seen * TRUST)));
        }
    }

    /// The estimate in the form that a choice among all servers reads, for a server at which this
    /// sender has `pending` requests.
    pub fn standing(&self, pending: u32) -> Standing {
        let (at, others) = self.heard.unwrap_or_default();
        Standing {
            at,
            heard: f64::from(u8::from(self.heard.is_some())),
            others,
            rate: rounded(self.service.or_else(|| self.rate.get()).unwrap_or(0.0)),
            pending,
            sent: self.sent,
            sent_since: self.sent_since,
            shut_until: OPEN,
        }
    }
}

/// Rounds in steps of 3 to 6%. Nobody knows a service rate more exactly, and of two idle servers
/// the one that is slightly slower would get nothing.
fn rounded(rate: f64) -> f64 {
    const CUT: u64 = 1 << (f64::MANTISSA_DIGITS - 1 - 4);
    f64::from_bits((rate.to_bits() + CUT / 2) & !(CUT - 1))
}

/// An [`Estimate`] and the pending requests of this sender, packed so that a choice that looks at
/// every server reads as little as possible, and without a branch.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Standing {
    at: Timestamp,
    /// 1 if the server has reported, else 0: the weight of `others` at `at`.
    heard: f64,
    others: f64,
    /// 0 if not known.
    rate: f64,
    pending: u32,
    sent: u32,
    sent_since: Timestamp,
    shut_until: Timestamp,
}

/// Stands for "not shut": no server is shut until the origin of time.
const OPEN: Timestamp = Timestamp::ZERO;

impl Standing {
    /// The same for a server that is left out until this time; none: it is not left out.
    #[must_use]
    pub fn shut(self, until: Option<Timestamp>) -> Self {
        Self { shut_until: until.unwrap_or(OPEN), ..self }
    }

    /// Whether it is left out, except for probes.
    pub fn is_shut(&self) -> bool {
        self.shut_until != OPEN
    }

    /// Whether an attempt may probe it.
    pub fn may_be_probed(&self, now: Timestamp) -> bool {
        self.is_shut() && self.shut_until <= now
    }

    /// Until when it is left out.
    pub fn shut_until(&self) -> Timestamp {
        self.shut_until
    }

    /// The queue at `now` as far as this sender can know, in requests, of a server with this
    /// service `rate` (requests/s).
    pub fn known_queue(&self, fleet: &Fleet, rate: f64, now: Timestamp) -> f64 {
        let usual = fleet.wait * rate * (1.0 - 1.0 / fleet.senders);
        // `max` would also check for NaN, which does not occur.
        let weight = 1.0 - now.nanos_since(self.at) as f64 * fleet.per_nano;
        let weight = if weight > 0.0 { self.heard * weight } else { 0.0 };
        f64::from(self.pending) + (usual + weight * (self.others - usual))
    }

    /// The requests that the other senders have sent since, assuming that they act like this one.
    /// The number ages as a report does.
    pub fn unknown_queue(&self, fleet: &Fleet, now: Timestamp) -> f64 {
        if self.sent == 0 {
            return 0.0;
        }
        let weight = 1.0 - now.nanos_since(self.sent_since) as f64 * fleet.per_nano;
        (fleet.senders - 1.0) * f64::from(self.sent) * weight.max(0.0)
    }

    /// The expected response time of a request that is sent there now, in seconds, by what is
    /// known.
    pub fn expected(&self, fleet: &Fleet, now: Timestamp) -> f64 {
        let rate = if self.rate > 0.0 { self.rate } else { fleet.most };
        (self.known_queue(fleet, rate, now) + 1.0) / rate
    }

    /// The service rate, in requests per second; 0 if nothing is known of it.
    pub fn service_rate(&self) -> f64 {
        self.rate
    }

    /// Requests that this sender has there.
    pub fn pending(&self) -> u32 {
        self.pending
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::Ratio;

    const NO_LIMIT: Limit = Limit(f64::INFINITY);

    fn at(millis: u64) -> Timestamp {
        Timestamp::ZERO.after(Duration::from_millis(millis))
    }

    /// A service whose servers have this queue on average and serve one request a second.
    fn fleet(wait: f64, senders: f64) -> Fleet {
        Fleet { wait, senders, ..Fleet::new(Duration::from_millis(200)) }
    }

    fn heard(queue: u32, pending: u32) -> Estimate {
        let mut estimate = Estimate::default();
        estimate.hear(&LoadReport { queue: Some(queue), ..LoadReport::default() }, pending, NO_LIMIT, at(0));
        estimate
    }

    #[test]
    fn the_queue_estimate_adds_own_requests_and_those_of_other_senders() {
        // Seven besides the answered one, two of them this sender's: five are other senders'.
        let mut estimate = heard(7, 3);
        assert_eq!(estimate.standing(2).known_queue(&fleet(9.0, 1.0), 1.0, at(0)), 7.0);
        estimate.sent(3, at(0));
        assert_eq!(estimate.standing(3).known_queue(&fleet(9.0, 1.0), 1.0, at(0)), 8.0);
        assert_eq!(estimate.standing(0).unknown_queue(&fleet(9.0, 1.0), at(0)), 0.0);
        assert_eq!(
            estimate.standing(0).unknown_queue(&fleet(9.0, 10.0), at(0)),
            9.0,
            "each own request stands for ten"
        );
        estimate.hear(&LoadReport { queue: Some(0), ..LoadReport::default() }, 3, NO_LIMIT, at(1));
        assert_eq!(estimate.standing(0).unknown_queue(&fleet(9.0, 10.0), at(0)), 0.0, "a report covers all requests");
    }

    #[test]
    fn an_old_queue_report_decays_to_the_other_senders_mean_queue() {
        for said in [0u32, 20] {
            // Ten on average, of which nine tenths are the others'.
            let (estimate, fleet) = (heard(said, 1), fleet(10.0, 10.0));
            let queues: Vec<f64> =
                [0, 1000, 2000, 9000].iter().map(|&ms| estimate.standing(0).known_queue(&fleet, 1.0, at(ms))).collect();
            let halfway = (f64::from(said) + 9.0) / 2.0;
            for (queue, expected) in queues.iter().zip([f64::from(said), halfway, 9.0, 9.0]) {
                assert!((queue - expected).abs() < 1e-9, "{queues:?}");
            }
        }
    }

    #[test]
    fn a_lone_gateway_knows_its_queues_exactly() {
        let estimate = heard(4, 5);
        assert_eq!(estimate.standing(4).known_queue(&fleet(10.0, 1.0), 1.0, at(60_000)), 4.0);
        assert_eq!(Estimate::default().standing(0).known_queue(&fleet(10.0, 1.0), 1.0, at(0)), 0.0);
    }

    #[test]
    fn assumes_the_other_senders_mean_queue_at_a_new_server() {
        assert_eq!(
            Estimate::default().standing(0).known_queue(&fleet(4.0, 2.0), 2.0, at(0)),
            4.0,
            "half of 4 s at 2/s"
        );
    }

    #[test]
    fn a_reported_service_rate_overrides_the_derived_one() {
        let mut estimate = Estimate::default();
        assert_eq!(estimate.standing(0).service_rate(), 0.0);
        let report =
            LoadReport { queue: Some(0), rate: Some(10.0), confidence: Ratio::new(0.5), ..LoadReport::default() };
        estimate.hear(&report, 1, NO_LIMIT, at(0));
        assert_eq!(estimate.standing(0).service_rate(), 20.0);
        estimate.hear(&LoadReport { service: Some(34.0), ..report }, 1, NO_LIMIT, at(0));
        assert_eq!(estimate.standing(0).service_rate(), 34.0);
    }

    fn says(queue: u32, service: f64) -> LoadReport {
        LoadReport { queue: Some(queue), service: Some(service), ..LoadReport::default() }
    }

    /// The believed response time of the next request, in seconds, at a server with this report,
    /// whose first answer took 100 ms.
    fn believed(report: &LoadReport, limit: Limit) -> f64 {
        let mut estimate = Estimate::default();
        estimate.sent(1, at(0));
        estimate.answered(at(100));
        estimate.hear(report, 1, limit, at(100));
        let (standing, fleet) = (estimate.standing(0), fleet(0.0, 1.0));
        (standing.known_queue(&fleet, standing.service_rate(), at(100)) + 1.0) / standing.service_rate()
    }

    #[test]
    fn keeps_the_expected_response_time_within_four_times_the_observed() {
        let honest = believed(&says(1, 20.0), NO_LIMIT);
        assert!((honest - 0.1).abs() < 1e-9, "{honest}");
        for (report, expected) in
            [(says(0, 1e15), 0.025), (says(9, 1e15), 0.025), (says(0, 1e-3), 0.4), (says(9, 1e-3), 0.4)]
        {
            let believed = believed(&report, NO_LIMIT);
            assert!((believed - expected).abs() < 1e-9, "{report:?}: {believed}");
        }
    }

    #[test]
    fn believes_a_huge_queue_only_up_to_a_few_times_the_mean() {
        let limited = |servers, mean| {
            let mut estimate = Estimate::default();
            estimate.hear(&says(u32::MAX, 20.0), 1, Limit::new(servers, mean), at(0));
            estimate.standing(0).known_queue(&fleet(0.0, 1.0), 1.0, at(0))
        };
        assert_eq!([limited(100, 2.0), limited(4, 2.0), limited(1, 2.0)], [72.0, 36.0, 18.0]);
    }

    #[test]
    fn forgets_a_server_after_ten_reset_intervals_without_a_report() {
        let (mut estimate, reset) = (Estimate::default(), Duration::from_millis(200));
        estimate.hear(&says(9, 1.0), 1, NO_LIMIT, at(0));
        assert!(!estimate.forget(reset, at(2000)));
        assert_eq!(estimate.standing(0).service_rate(), 1.0);
        assert!(estimate.forget(reset, at(2001)));
        assert_eq!(estimate, Estimate::default());
        assert!(!estimate.forget(reset, at(9000)), "there is nothing to forget");
    }

    /// What is believed of a server after this report to one of `pending` own requests, whose
    /// answers come every 250 ms: its service rate, and what the others have there.
    fn taken_for(report: &LoadReport, pending: u32) -> [f64; 2] {
        let mut estimate = Estimate::default();
        estimate.sent(1, at(0));
        estimate.answered(at(250));
        estimate.hear(report, pending, NO_LIMIT, at(250));
        let standing = estimate.standing(0);
        [standing.service_rate(), standing.known_queue(&fleet(0.0, 1.0), 1.0, at(250))]
    }

    #[test]
    fn believes_a_rate_of_four_times_the_observed_pace_and_no_more() {
        // One of another sender before the own one: two requests in 250 ms are eight a second.
        assert_eq!(taken_for(&says(1, 32.0), 1), [32.0, 1.0]);
        assert_eq!(taken_for(&says(1, 34.0), 1), [16.0, 0.0], "beyond that none of its numbers is believed");
        // With two more own requests, one answered every 250 ms: six before the last in 750 ms.
        assert_eq!(taken_for(&says(5, 32.0), 3), [32.0, 3.0]);
        assert_eq!(taken_for(&says(5, 34.0), 3), [16.0, 0.0]);
        assert_eq!(taken_for(&says(5, 0.1), 3), [2.0, 3.0], "six in no more than four times 750 ms");
    }

    #[test]
    fn an_answer_in_zero_time_does_not_limit_the_believed_rate() {
        let mut estimate = Estimate::default();
        estimate.sent(1, at(100));
        estimate.answered(at(100));
        estimate.hear(&says(0, 20.0), 1, NO_LIMIT, at(100));
        assert_eq!(estimate.standing(0).service_rate(), 20.0);
    }

    #[test]
    fn the_pace_averages_gaps_only_while_a_request_is_pending() {
        let mut estimate = Estimate::default();
        estimate.sent(1, at(1_000));
        estimate.sent(2, at(1_050));
        estimate.answered(at(1_100));
        assert_eq!(estimate.gap, Some(0.1), "from the first of them on");
        estimate.answered(at(1_300));
        assert!((estimate.gap.unwrap() - 0.13).abs() < 1e-12, "0.1 and 0.3 of what 0.2 exceeds it by");
        // A pause is no gap.
        estimate.sent(1, at(9_000));
        estimate.answered(at(9_130));
        assert!((estimate.gap.unwrap() - 0.13).abs() < 1e-12);
    }

    #[test]
    fn requests_assumed_of_other_senders_age_from_the_first_own_request() {
        let fleet = fleet(0.0, 3.0);
        let others = |estimate: &Estimate, ms| estimate.standing(0).unknown_queue(&fleet, at(ms));
        let mut estimate = Estimate::default();
        estimate.sent(1, at(0));
        estimate.sent(2, at(500));
        // Two own requests, two other senders; half is forgotten after a second.
        assert_eq!([others(&estimate, 0), others(&estimate, 1_000), others(&estimate, 9_000)], [4.0, 2.0, 0.0]);
        estimate.ended(1);
        assert_eq!(others(&estimate, 1_000), 1.0, "one own request has ended");
        estimate.silent(at(1_000));
        assert_eq!(others(&estimate, 1_000), 2.0, "it has been answered, so the others are served, too");
    }

    #[test]
    fn a_forgotten_server_keeps_the_requests_sent_to_it() {
        let mut estimate = Estimate::default();
        estimate.hear(&says(9, 1.0), 1, NO_LIMIT, at(0));
        estimate.sent(1, at(1_000));
        assert!(estimate.forget(Duration::from_millis(200), at(2_001)));
        assert_eq!(estimate.standing(1).unknown_queue(&fleet(0.0, 3.0), at(2_000)), 1.0);
        estimate.answered(at(2_500));
        assert_eq!(estimate.gap, Some(1.5), "from when it was sent");
    }

    #[test]
    fn a_server_of_unknown_speed_is_assumed_as_fast_as_the_fastest() {
        let fleet = Fleet { most: 8.0, ..fleet(0.0, 1.0) };
        assert_eq!(Estimate::default().standing(1).expected(&fleet, at(0)), 0.25);
        let mut slow = Estimate::default();
        slow.hear(&says(0, 2.0), 1, NO_LIMIT, at(0));
        assert_eq!(slow.standing(1).expected(&fleet, at(0)), 1.0);
    }

    #[test]
    fn an_avoided_server_may_be_probed_once_its_time_has_come() {
        let open = Estimate::default().standing(3);
        assert!(!open.is_shut() && !open.may_be_probed(at(9)));
        let shut = open.shut(Some(at(5)));
        assert_eq!((shut.is_shut(), shut.shut_until(), shut.pending()), (true, at(5), 3));
        assert_eq!([4, 5, 6].map(|ms| shut.may_be_probed(at(ms))), [false, true, true]);
        assert!(!shut.shut(None).is_shut());
    }

    #[test]
    fn rates_are_rounded_to_sixteenths_of_a_power_of_two() {
        for (rate, step) in [(1.0, 1.0), (1.03, 1.0), (1.04, 1.0625), (1.96, 1.9375), (1.97, 2.0), (34.9, 34.0)] {
            assert_eq!(rounded(rate), step, "{rate}");
        }
    }
}
