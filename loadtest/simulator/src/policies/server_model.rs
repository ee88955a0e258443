//! The decisions of a server, and its answers.

use super::reserve::Queue;
use bloc_policy::units::Timestamp;
use bloc_policy::wire::bid::Bid;
use bloc_policy::wire::load_report::LoadReport;
use std::time::Duration;

/// What a server answers to a probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Probe {
    /// Requests in the server.
    pub in_flight: u32,
    /// The expected response time of a request that arrives now.
    pub latency: Duration,
}

/// A server's answer to an attempt.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Verdict {
    /// Admitted.
    Admitted,
    /// Rejected for want of capacity.
    Rejected(LoadReport),
    /// Rejected because the wait would exceed the bid.
    Bounced(LoadReport),
    /// Rejected because the deadline would be missed.
    Late(LoadReport),
}

/// The decisions of one server. `request` identifies a request while it is in the server.
pub trait ServerModel {
    /// An attempt has arrived, which accepts a wait of `bid` at most.
    fn arrive(&mut self, request: u32, bid: Option<Bid>, now: Timestamp, rng: &mut fastrand::Rng) -> Verdict;

    /// The application begins to work on an admitted request.
    fn begin(&mut self, _request: u32, _now: Timestamp) {}

    /// Until when the sidecar holds a request that has just been admitted and waits, if it then
    /// bounces it.
    fn holds_until(&self, _request: u32) -> Option<Timestamp> {
        None
    }

    /// The sidecar bounces a request that it has held: the report, if it does.
    fn give_up(&mut self, _request: u32) -> Option<LoadReport> {
        None
    }

    /// The application has finished a request, which leaves: the report in its answer, if any.
    fn answer(&mut self, request: u32, now: Timestamp, rng: &mut fastrand::Rng) -> Option<LoadReport>;

    /// The application has failed a request. How fast says nothing of how fast it serves.
    fn fail(&mut self, request: u32, now: Timestamp, rng: &mut fastrand::Rng) -> Option<LoadReport> {
        self.answer(request, now, rng)
    }

    /// An idle stream begins to count, or stops.
    fn stream(&mut self, _counts: bool) {}

    /// The places of the application that the sidecar believes idle streams take.
    fn places_of_streams(&self) -> u32 {
        0
    }

    /// How many requests the sidecar gives to the application at once; none: all.
    fn holds(&self) -> Option<u32> {
        None
    }

    /// Its queue of reservations; none: it takes no reservations.
    fn reservations(&mut self) -> Option<&mut Queue> {
        None
    }

    /// Whether it lies, to probes too.
    fn lies(&self) -> bool {
        false
    }
}
