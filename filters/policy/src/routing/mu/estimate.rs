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
//! - a queue counts for at most [`Limit`], `clamp(n / 2, 1, 4) * (mean queue + 16)` among `n`
//!   servers: a huge one would make all means huge;
//! - a queue and a rate together may say that the next answer comes between a quarter and four
//!   times ([`MAX_REPORT_FACTOR`]) of `(own + 1) * gap`. That is the time in which this sender's
//!   own requests are answered at the pace seen. The gap is the time from one answer to the next
//!   while a request of this sender is pending, an EWMA with weight 0.3. An honest server keeps
//!   that pace on average, whatever the others send. The factor is four because a server with many
//!   places is faster than it seems while it has little to do;
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
//! 5. the limits on reported values;
//! 6. rates in steps of 3 to 6%.

use crate::server::execution::aging;
use crate::server::service_rate::ServiceRate;
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
    /// Since when this sender waits for its next answer; none: not known, where its requests were
    /// under way before the routing was `mu`.
    waits: Option<Timestamp>,
    /// How long this sender waits from one answer to the next, smoothed, in seconds.
    gap: Option<f64>,
    /// How many gaps the past counts for.
    gaps: f64,
}

/// The longest queue that is believed, in requests.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Limit(f64);

impl Limit {
    /// For one of `servers` servers, whose mean queue is `mean` requests.
    pub fn new(servers: usize, mean: f64) -> Self {
        // At most half of the number of servers: otherwise one server alone could push up the mean
        // that its own limit comes from.
        Self((servers as f64 / 2.0).clamp(1.0, MOST_MEAN_QUEUES) * (mean + SLACK))
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
pub const MAX_REPORT_FACTOR: f64 = 4.0;
/// At most this many mean queues are believed. The mean is increased by the slack, in requests, so
/// that a few that wait after a pause are not cut off.
const MOST_MEAN_QUEUES: f64 = 4.0;
const SLACK: f64 = 16.0;
/// The weight of the newest gap.
const GAP_WEIGHT: f64 = 0.3;

impl Estimate {
    /// A request of this sender was answered by the application.
    pub fn answered(&mut self, now: Timestamp) {
        let Some(waits) = self.waits.replace(now) else { return };
        let gap = now.since(waits).as_secs_f64();
        self.gaps += 1.0;
        let weight = (1.0 / self.gaps).max(GAP_WEIGHT);
        self.gap = Some(self.gap.map_or(gap, |mean| mean + weight * (gap - mean)));
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
            self.gaps = self.gaps.min(1.0 / GAP_WEIGHT) / aging(now.since(self.waits.unwrap_or_default()));
            self.waits = Some(now);
        }
        if self.sent == 0 {
            self.sent_since = now;
        }
        self.sent = self.sent.saturating_add(1);
    }

    /// A request was answered without a report. What was sent before is served, as far as can be
    /// seen, so the aging of what still counts starts again.
    pub fn served_without_report(&mut self, now: Timestamp) {
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
        let rate = self.service_rate();
        let Some((rate, gap)) = rate.zip(self.gap.filter(|gap| *gap > 0.0)) else { return };
        let (line, seen) = (f64::from(own) + others + 1.0, (f64::from(own) + 1.0) * gap);
        if line * MAX_REPORT_FACTOR < seen * rate {
            // The reported requests of others are not believed then either: they would hide what
            // this sender adds.
            (self.heard, self.service) = (Some((now, 0.0)), Some(MAX_REPORT_FACTOR / gap));
        } else {
            self.service = Some(rate.max(line / (seen * MAX_REPORT_FACTOR)));
        }
    }

    /// The service rate that is believed, in requests per second.
    pub fn service_rate(&self) -> Option<f64> {
        self.service.or_else(|| self.rate.get())
    }

    /// The estimate in the form that a choice among all servers reads, for a server at which this
    /// sender has `pending` requests.
    pub fn standing(&self, pending: u32) -> Standing {
        let (at, others) = self.heard.unwrap_or_default();
        Standing {
            at,
            heard: f64::from(u8::from(self.heard.is_some())),
            others,
            rate: rounded(self.service_rate().unwrap_or(0.0)),
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
#[path = "estimate_tests.rs"]
mod tests;
