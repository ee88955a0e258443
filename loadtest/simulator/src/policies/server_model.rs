//! What decides in a server, and what it says.

use bloc_policy::units::Timestamp;
use bloc_policy::wire::load_report::LoadReport;
use std::time::Duration;

/// What a server answers to a probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Probe {
    /// Requests in the server.
    pub in_flight: u32,
    /// How long a request would take that came now.
    pub latency: Duration,
}

/// What a server says to an attempt.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Verdict {
    /// It may come in.
    Admitted,
    /// It may not.
    Rejected(LoadReport),
    /// It would take longer than its bid.
    Bounced(LoadReport),
    /// It would miss its deadline.
    Late(LoadReport),
}

/// The decisions of one server. `request` names a request while it is in the server.
pub trait ServerModel {
    /// An attempt has come, which accepts a wait of `bid` at most.
    fn arrive(&mut self, request: u32, bid: Option<Duration>, now: Timestamp, rng: &mut fastrand::Rng) -> Verdict;

    /// The application begins to work on an admitted request.
    fn begin(&mut self, _request: u32, _now: Timestamp) {}

    /// The application has finished a request, which leaves: the report that its answer carries, if
    /// any.
    fn answer(&mut self, request: u32, now: Timestamp, rng: &mut fastrand::Rng) -> Option<LoadReport>;

    /// A stream that carries nothing counts from now on, or not any more.
    fn stream(&mut self, _counts: bool) {}

    /// The places of the application that such streams take, as the sidecar sees it.
    fn places_of_streams(&self) -> u32 {
        0
    }

    /// Whether it lies, to probes too.
    fn lies(&self) -> bool {
        false
    }
}
