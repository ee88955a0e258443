//! What a sender believes about a server between two reports (Mu, paper sections 4.3.2 and 4.3.3).
//!
//! - Queue (requests): this sender's pending requests, plus the reported requests of others, plus
//!   `g - 1` for each request sent since. `g` is the number of senders like this one.
//! - Service rate (requests/s): as reported, else by [`ServiceRate`].
//!
//! The reported part loses weight linearly over [`HORIZON`] reset intervals, in favor of the usual
//! queue of the others. A report is believed only within [`Limit`] and [`MAX_REPORT_FACTOR`].
//! Formulas, reasons and deviations from the paper: `filters/adr/0024-what-is-not-believed.md`.

use crate::server::execution::aging;
use crate::server::service_rate::ServiceRate;
use crate::units::Timestamp;
use crate::wire::load_report::LoadReport;
use std::time::Duration;

/// The estimate for one server.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Estimate {
    /// When the server last reported, and how many requests of other senders it then had.
    heard: Option<(Timestamp, f64)>,
    /// Requests sent since the last report and still pending, and since when there are any.
    sent: u32,
    sent_since: Timestamp,
    rate: ServiceRate,
    service: Option<f64>,
    /// When this sender began to wait for its next answer; none: not known, for requests sent
    /// before the routing became `mu`.
    waits: Option<Timestamp>,
    /// The smoothed time between answers while a request is pending, in seconds.
    gap: Option<f64>,
    /// The number of gaps that the past counts for.
    gaps: f64,
}

/// The longest queue of others to believe, in requests.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Limit(f64);

impl Limit {
    /// For `servers` servers with a mean queue of `mean` requests.
    pub fn new(servers: usize, mean: f64) -> Self {
        // At most half of the servers: otherwise one server could raise the mean that limits it.
        Self((servers as f64 / 2.0).clamp(1.0, MOST_MEAN_QUEUES) * (mean + SLACK))
    }
}

/// What is known about all servers of a service together.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Fleet {
    /// The mean wait in seconds: all queues over all service rates.
    pub wait: f64,
    /// The largest service rate, in requests per second; 1 if none is known, so that all servers
    /// count the same.
    pub most: f64,
    /// The number of senders like this one, at least 1.
    pub senders: f64,
    /// The weight that a report loses in a nanosecond.
    per_nano: f64,
}

impl Fleet {
    /// No knowledge yet. Reports expire after [`HORIZON`] reset intervals.
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

/// After this many reset intervals a report has no weight.
pub const HORIZON: f64 = 10.0;

/// By what factor a report may differ from the pace of the server's answers.
pub const MAX_REPORT_FACTOR: f64 = 4.0;
/// The most mean queues to believe. The slack, in requests, spares short queues after a pause.
const MOST_MEAN_QUEUES: f64 = 4.0;
const SLACK: f64 = 16.0;
/// The weight of the newest gap.
const GAP_WEIGHT: f64 = 0.3;

impl Estimate {
    /// The application answered a request of this sender.
    pub fn answered(&mut self, now: Timestamp) {
        let Some(waits) = self.waits.replace(now) else { return };
        let gap = now.since(waits).as_secs_f64();
        self.gaps += 1.0;
        let weight = (1.0 / self.gaps).max(GAP_WEIGHT);
        self.gap = Some(self.gap.map_or(gap, |mean| mean + weight * (gap - mean)));
    }

    /// Forgets a report older than [`HORIZON`] reset intervals. Returns whether there was one.
    pub fn forget(&mut self, reset_interval: Duration, now: Timestamp) -> bool {
        let stale = self.heard.is_some_and(|(at, _)| now.since(at) > reset_interval.mul_f64(HORIZON));
        if stale {
            let Self { sent, sent_since, waits, .. } = *self;
            *self = Self { sent, sent_since, waits, ..Self::default() };
        }
        stale
    }

    /// A request was sent; `pending` of this sender are there now.
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

    /// A request was answered without a report. Earlier requests are presumably served, so aging
    /// restarts for those that still count.
    pub fn served_without_report(&mut self, now: Timestamp) {
        self.sent_since = now;
    }

    /// A request ended; `pending` of this sender are still there.
    pub fn ended(&mut self, pending: u32) {
        self.sent = self.sent.min(pending);
    }

    /// The server reported, in answer to one of `pending` requests of this sender.
    pub fn observe(&mut self, report: &LoadReport, pending: u32, limit: Limit, now: Timestamp) {
        let Some(queue) = report.queue else { return };
        let own = pending.saturating_sub(1);
        let others = f64::from(queue.saturating_sub(own)).min(limit.0);
        if let (Some(rate), Some(confidence)) = (report.rate, report.confidence) {
            self.rate.observe(rate, confidence, now);
        }
        (self.heard, self.sent) = (Some((now, others)), 0);
        self.service = report.service;
        let rate = self.service_rate();
        let Some((rate, gap)) = rate.zip(self.gap.filter(|gap| *gap > 0.0)) else { return };
        let (line, seen) = (f64::from(own) + others + 1.0, (f64::from(own) + 1.0) * gap);
        if line * MAX_REPORT_FACTOR < seen * rate {
            // Ignore the reported requests of others, too: they would hide what this sender adds.
            (self.heard, self.service) = (Some((now, 0.0)), Some(MAX_REPORT_FACTOR / gap));
        } else {
            self.service = Some(rate.max(line / (seen * MAX_REPORT_FACTOR)));
        }
    }

    /// The service rate to use, in requests per second.
    pub fn service_rate(&self) -> Option<f64> {
        self.service.or_else(|| self.rate.get())
    }

    /// The estimate in the form that choices read, with this sender's `pending` requests.
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

/// Rounds to steps of 3 to 6%: rates are not known more exactly, and of two idle servers the
/// slightly slower one would get nothing.
fn rounded(rate: f64) -> f64 {
    const CUT: u64 = 1 << (f64::MANTISSA_DIGITS - 1 - 4);
    f64::from_bits((rate.to_bits() + CUT / 2) & !(CUT - 1))
}

/// An [`Estimate`] and this sender's pending requests, packed so that a scan of all servers reads
/// little memory and does not branch.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Standing {
    at: Timestamp,
    /// The weight of `others` at time `at`: 1 if the server has reported, else 0.
    heard: f64,
    others: f64,
    /// 0: not known.
    rate: f64,
    pending: u32,
    sent: u32,
    sent_since: Timestamp,
    shut_until: Timestamp,
}

/// Stands for "not shut": no server is shut until time zero.
const OPEN: Timestamp = Timestamp::ZERO;

impl Standing {
    /// The same, left out until this time; none: not left out.
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

    /// The queue at `now` that this sender knows of, in requests; `rate` is the server's service
    /// rate (requests/s).
    pub fn known_queue(&self, fleet: &Fleet, rate: f64, now: Timestamp) -> f64 {
        let usual = fleet.wait * rate * (1.0 - 1.0 / fleet.senders);
        // `f64::max` would also check for NaN, which cannot occur.
        let weight = 1.0 - now.nanos_since(self.at) as f64 * fleet.per_nano;
        let weight = if weight > 0.0 { self.heard * weight } else { 0.0 };
        f64::from(self.pending) + (usual + weight * (self.others - usual))
    }

    /// The requests that other senders have presumably sent since, if they act like this one. Ages
    /// as a report does.
    pub fn unknown_queue(&self, fleet: &Fleet, now: Timestamp) -> f64 {
        if self.sent == 0 {
            return 0.0;
        }
        let weight = 1.0 - now.nanos_since(self.sent_since) as f64 * fleet.per_nano;
        (fleet.senders - 1.0) * f64::from(self.sent) * weight.max(0.0)
    }

    /// The expected response time of a request sent there now, in seconds.
    pub fn expected(&self, fleet: &Fleet, now: Timestamp) -> f64 {
        let rate = if self.rate > 0.0 { self.rate } else { fleet.most };
        (self.known_queue(fleet, rate, now) + 1.0) / rate
    }

    /// In requests per second; 0: not known.
    pub fn service_rate(&self) -> f64 {
        self.rate
    }

    /// This sender's requests there.
    pub fn pending(&self) -> u32 {
        self.pending
    }
}

#[cfg(test)]
#[path = "estimate_tests.rs"]
mod tests;
