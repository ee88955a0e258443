//! The results of a case.

use crate::scenario::Scenario;
use bloc_figures::stats::rounded;
use bloc_policy::units::Timestamp;
use hdrhistogram::Histogram;
use serde::Serialize;
use std::time::Duration;

/// The result of a case; the same seed gives the same one. Percentiles cover the requests that an
/// application answered, from their arrival on, to three digits.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Outcome {
    /// Requests that arrived within the measured time.
    pub requests: u64,
    /// Of these, answered by an application.
    pub ok: u64,
    /// Of those, answered within the scenario's goal; none without a goal.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub within_goal: Option<u64>,
    /// Of the requests, rejected after all retries.
    pub shed: u64,
    /// Of the requests, failed otherwise.
    pub errors: u64,
    /// Response time.
    pub p10_ms: Option<f64>,
    /// Response time.
    pub p50_ms: Option<f64>,
    /// Response time.
    pub p90_ms: Option<f64>,
    /// Response time.
    pub p99_ms: Option<f64>,
    /// Response time.
    pub mean_ms: Option<f64>,
    /// Median time until a request was shed, over the shed ones.
    pub shed_p50_ms: Option<f64>,
    /// Waiting time in the queue of the server that answered.
    pub wait_p99_ms: Option<f64>,
    /// Waiting time in the queue of the server that answered.
    pub wait_mean_ms: Option<f64>,
    /// Answers of applications within the measured time, per second.
    pub throughput_rps: f64,
    /// Attempts for each request.
    pub attempts_per_request: f64,
    /// Of the attempts, those that waited and were bounced then, for each request.
    pub late_bounces_per_request: f64,
    /// Probes for each request.
    pub probes_per_request: f64,
    /// Reservations for each request, questions included.
    pub reservations_per_request: f64,
    /// Grants that came to callers who had one, within the measured time, for each request.
    pub refused_grants_per_request: f64,
    /// Places that were kept for nobody until the timeout, within the measured time, for each
    /// request.
    pub expired_grants_per_request: f64,
    /// The most requests that were in one server at once, from the start on.
    pub max_in_server: u32,
    /// The largest excess of one server's requests over the mean of all servers, at an arrival,
    /// from the start on.
    pub max_overshoot: f64,
    /// All requests that arrived, warm-up included.
    pub total_started: u64,
    /// All requests that were answered, shed or failed, warm-up included.
    pub total_ended: u64,
    /// Events that were processed.
    pub events: u64,
    /// Attempts that went to each server within the measured time.
    #[serde(skip)]
    pub attempts_at: Vec<u64>,
    /// Requests that each server served within the measured time.
    #[serde(skip)]
    pub served_by: Vec<u64>,
}

/// How a request ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// An application answered.
    Ok,
    /// Every server that was asked rejected it.
    Shed,
    /// No answer.
    Error,
}

/// Counts while the simulation runs.
pub struct Tally {
    opens: Timestamp,
    closes: Timestamp,
    window: Duration,
    response: Histogram<u64>,
    shed: Histogram<u64>,
    wait: Histogram<u64>,
    counts: [u64; 3],
    goal: Option<Duration>,
    within_goal: u64,
    started: u64,
    ended: u64,
    attempts: u64,
    late: u64,
    attempts_at: Vec<u64>,
    served_by: Vec<u64>,
    probes: u64,
    reservations: u64,
    refused_grants: u64,
    expired_grants: u64,
    answered_within: u64,
    max_in_server: u32,
    max_overshoot: f64,
}

/// Two weeks, in nanoseconds: longer response times count as this.
const LONGEST: u64 = 14 * 24 * 3600 * 1_000_000_000;
const DIGITS: u8 = 3;

impl Tally {
    /// Empty counts.
    ///
    /// # Panics
    /// Never: the constant bounds of the histograms are valid.
    pub fn new(scenario: &Scenario) -> Self {
        let histogram = || Histogram::new_with_bounds(1, LONGEST, DIGITS).expect("bounds and digits are in range");
        let opens = Timestamp::ZERO.after(scenario.warm_up);
        Self {
            opens,
            closes: opens.after(scenario.duration),
            window: scenario.duration,
            response: histogram(),
            shed: histogram(),
            wait: histogram(),
            counts: [0; 3],
            goal: scenario.goal,
            within_goal: 0,
            started: 0,
            ended: 0,
            attempts: 0,
            late: 0,
            attempts_at: vec![0; scenario.servers as usize],
            served_by: vec![0; scenario.servers as usize],
            probes: 0,
            reservations: 0,
            refused_grants: 0,
            expired_grants: 0,
            answered_within: 0,
            max_in_server: 0,
            max_overshoot: 0.0,
        }
    }

    /// The end of the measured time.
    pub fn closes(&self) -> Timestamp {
        self.closes
    }

    fn counts(&self, started: Timestamp) -> bool {
        started >= self.opens
    }

    /// A request arrives.
    pub fn start(&mut self) {
        self.started += 1;
    }

    /// An attempt to `server` begins at `now`, for a request that arrived at `started`.
    pub fn attempt(&mut self, started: Timestamp, server: u32, now: Timestamp) {
        self.attempts += u64::from(self.counts(started));
        self.attempts_at[server as usize] += u64::from(self.is_open(now));
    }

    /// A server has bounced a request that it held; the request arrived at `started`.
    pub fn bounced_late(&mut self, started: Timestamp) {
        self.late += u64::from(self.counts(started));
    }

    /// A server has served a request.
    pub fn served(&mut self, server: u32, now: Timestamp) {
        self.served_by[server as usize] += u64::from(self.is_open(now));
    }

    fn is_open(&self, now: Timestamp) -> bool {
        now >= self.opens && now < self.closes
    }

    /// `probes` probes are sent for a request that arrived at `started`.
    pub fn probe(&mut self, started: Timestamp, probes: usize) {
        self.probes += if self.counts(started) { probes as u64 } else { 0 };
    }

    /// `reservations` are asked for, for a request that arrived at `started`.
    pub fn reserve(&mut self, started: Timestamp, reservations: usize) {
        self.reservations += if self.counts(started) { reservations as u64 } else { 0 };
    }

    /// A caller refuses a grant.
    pub fn refused_grant(&mut self, now: Timestamp) {
        self.refused_grants += u64::from(self.is_open(now));
    }

    /// A place was kept for nobody.
    pub fn expired_grant(&mut self, now: Timestamp) {
        self.expired_grants += u64::from(self.is_open(now));
    }

    /// A server admitted a request and now has `inside`, while the mean over all servers is `mean`.
    pub fn admitted(&mut self, inside: u32, mean: f64) {
        self.max_in_server = self.max_in_server.max(inside);
        self.max_overshoot = self.max_overshoot.max(f64::from(inside) - mean);
    }

    /// A request has ended at `now`.
    pub fn end(&mut self, end: End, started: Timestamp, wait: Duration, now: Timestamp) {
        self.ended += 1;
        if end == End::Ok && self.is_open(now) {
            self.answered_within += 1;
        }
        if !self.counts(started) {
            return;
        }
        self.counts[end as usize] += 1;
        if end == End::Ok {
            self.within_goal += u64::from(self.goal.is_some_and(|goal| now.since(started) <= goal));
            self.response.saturating_record(nanos(now.since(started)));
            self.wait.saturating_record(nanos(wait));
        } else if end == End::Shed {
            self.shed.saturating_record(nanos(now.since(started)));
        }
    }

    /// The result.
    pub fn outcome(&self, events: u64) -> Outcome {
        let [ok, shed, errors] = self.counts;
        let requests = ok + shed + errors;
        let per_request = |count: u64| rounded(count as f64 / (requests.max(1)) as f64, 1e4);
        let at = |histogram: &Histogram<u64>, quantile| {
            (ok > 0).then(|| milliseconds(histogram.value_at_quantile(quantile) as f64))
        };
        Outcome {
            requests,
            ok,
            within_goal: self.goal.map(|_| self.within_goal),
            shed,
            errors,
            p10_ms: at(&self.response, 0.1),
            p50_ms: at(&self.response, 0.5),
            p90_ms: at(&self.response, 0.9),
            p99_ms: at(&self.response, 0.99),
            shed_p50_ms: (shed > 0).then(|| milliseconds(self.shed.value_at_quantile(0.5) as f64)),
            mean_ms: (ok > 0).then(|| milliseconds(self.response.mean())),
            wait_p99_ms: at(&self.wait, 0.99),
            wait_mean_ms: (ok > 0).then(|| milliseconds(self.wait.mean())),
            throughput_rps: rounded(self.answered_within as f64 / self.window.as_secs_f64(), 1e3),
            attempts_per_request: per_request(self.attempts),
            late_bounces_per_request: per_request(self.late),
            probes_per_request: per_request(self.probes),
            reservations_per_request: per_request(self.reservations),
            refused_grants_per_request: per_request(self.refused_grants),
            expired_grants_per_request: per_request(self.expired_grants),
            max_in_server: self.max_in_server,
            max_overshoot: rounded(self.max_overshoot, 1e2),
            total_started: self.started,
            total_ended: self.ended,
            events,
            attempts_at: self.attempts_at.clone(),
            served_by: self.served_by.clone(),
        }
    }
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

fn milliseconds(nanos: f64) -> f64 {
    rounded(nanos / 1e6, 1e3)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_requests_of_the_measured_time_count() {
        let second = Duration::from_secs(1);
        let at = |seconds| Timestamp::ZERO.after(second * seconds);
        let scenario =
            Scenario { warm_up: 10 * second, duration: 10 * second, goal: Some(2 * second), ..Scenario::default() };
        let mut tally = Tally::new(&scenario);
        for (end, started, ended) in
            [(End::Ok, 9, 11), (End::Ok, 10, 12), (End::Shed, 18, 19), (End::Error, 15, 16), (End::Ok, 19, 22)]
        {
            tally.start();
            tally.attempt(at(started), 0, at(started));
            tally.end(end, at(started), second, at(ended));
        }
        [9, 10].iter().for_each(|started| tally.bounced_late(at(*started)));
        let outcome = tally.outcome(7);
        assert_eq!((outcome.requests, outcome.ok, outcome.shed, outcome.errors), (4, 2, 1, 1));
        assert_eq!(outcome.within_goal, Some(1), "the other one took three seconds");
        assert_eq!((outcome.total_started, outcome.total_ended), (5, 5));
        assert_eq!(outcome.throughput_rps, 0.2, "two answers came within the ten seconds");
        assert_eq!((outcome.attempts_per_request, outcome.late_bounces_per_request), (1.0, 0.25));
        assert!((outcome.shed_p50_ms.unwrap() - 1000.0).abs() < 2.0);
        assert!((outcome.p10_ms.unwrap() - 2000.0).abs() < 2.0 && (outcome.p99_ms.unwrap() - 3000.0).abs() < 3.0);
    }
}
