//! What a thread measures of latencies until it hands them over, with the counters.

use crate::host::Host;
use bloc_policy::sync::latency::dispersion::Slots;
use bloc_policy::sync::latency::histogram::{Recorder, bucket};
use bloc_policy::sync::latency::store::{Side, hand_over};
use bloc_policy::sync::latency::{Calls, Growth};
use bloc_policy::units::Timestamp;

/// The latencies of a service that this proxy stands in front of.
#[derive(Default)]
pub struct ServerLatencies {
    response: Recorder,
    execution: Recorder,
    slots: Slots,
}

impl ServerLatencies {
    /// A request has come, and was not rejected.
    pub fn arrive(&mut self, now: Timestamp) {
        self.slots.arrive(now);
    }

    /// The application has answered a request that arrived and was passed on to it at these times.
    pub fn answer(&mut self, arrived: Timestamp, passed: Timestamp, now: Timestamp) {
        let (response, execution) = (now.nanos_since(arrived), now.nanos_since(passed));
        let of_response = bucket(response);
        let of_execution = if passed == arrived { of_response } else { bucket(execution) };
        self.response.record_in(of_response, response);
        self.execution.record_in(of_execution, execution);
    }

    /// Whether there is something to hand over.
    pub fn any(&self) -> bool {
        !self.slots.is_empty() || self.response.any()
    }

    /// Hands everything over; returns whether there was anything.
    pub fn flush(&mut self, host: &impl Host, service: &str) -> bool {
        let any = self.any();
        if any {
            let histograms = vec![self.response.take(), self.execution.take()];
            let (slots, growth) = (std::mem::take(&mut self.slots), Growth { numbers: Vec::new(), histograms });
            hand_over(host, Side::Server, service, &growth, &slots, host.now());
        }
        any
    }
}

/// How calls to a service end, and how long they take.
#[derive(Default)]
pub struct CallLatencies {
    calls: Calls,
    latency: Recorder,
}

/// How a call has ended.
#[derive(Clone, Copy, Debug)]
pub struct Ended {
    /// From the choice of a server.
    pub began: Timestamp,
    /// To the last response.
    pub at: Timestamp,
    /// Attempts.
    pub attempts: usize,
    /// Whether there was no response, or an error.
    pub failed: bool,
    /// Whether it was rejected in the end.
    pub exhausted: bool,
    /// Whether Envoy did not retry it, although it might have.
    pub overflowed: bool,
}

impl CallLatencies {
    /// A call is over.
    pub fn end(&mut self, Ended { began, at, attempts, failed, exhausted, overflowed }: Ended) {
        self.calls.requests += 1;
        self.calls.failed += u64::from(failed);
        self.calls.exhausted += u64::from(exhausted);
        self.calls.overflowed += u64::from(overflowed);
        self.calls.retried += u64::from(attempts > 1);
        self.latency.record(at.nanos_since(began));
    }

    /// A call was refused because no server would have met the SLO.
    pub fn refuse(&mut self) {
        self.calls.requests += 1;
        self.calls.refused += 1;
    }

    /// A call that is over has failed after all: its trailers say so.
    pub fn fail(&mut self) {
        self.calls.failed += 1;
    }

    /// Whether there is something to hand over.
    pub fn any(&self) -> bool {
        self.calls != Calls::default()
    }

    /// Hands everything over; returns whether there was anything.
    pub fn flush(&mut self, host: &impl Host, service: &str) -> bool {
        let any = self.any();
        if any {
            let numbers = std::mem::take(&mut self.calls).numbers().to_vec();
            let growth = Growth { numbers, histograms: vec![self.latency.take()] };
            hand_over(host, Side::Caller, service, &growth, &Slots::default(), host.now());
        }
        any
    }
}
