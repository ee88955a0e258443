//! When the request began that the application works on: one value for all threads of a proxy.
//!
//! Each thread writes what it sees, and the last one wins. So a value may be missing, or be that of
//! a request which is long over: after a crash, or when two requests came to an empty server at
//! once, and both threads saw one before theirs. [`bloc_policy::server::bid::age`] makes that
//! harmless. All threads read the same clock.
//!
//! Not in a gauge, which would be cheaper: a point on a clock means nothing to those who read
//! metrics, and a hot restart adds up the gauges of two processes.

use crate::host::Host;
use crate::metrics::Total;
use bloc_policy::server::departures::Totals;
use bloc_policy::server::steps::Threads;
use bloc_policy::units::Timestamp;

/// When the running request of one service began.
pub struct Running<H: Host> {
    host: H,
    key: String,
}

impl<H: Host> Running<H> {
    /// That of a service.
    pub fn new(host: &H, service: &str) -> Self {
        Self { host: host.clone(), key: format!("bloc/start/{service}") }
    }

    /// A request begins to run.
    pub fn begin(&self, now: Timestamp) {
        self.host.overwrite(&self.key, &now.as_nanos().to_le_bytes());
    }

    /// When the last one began, if a thread has told so.
    pub fn since(&self) -> Option<Timestamp> {
        let bytes = self.host.get(&self.key).0?;
        Some(Timestamp::from_nanos(u64::from_le_bytes(bytes.try_into().ok()?)))
    }
}

/// What all threads of this proxy know of one application.
pub struct AllThreads<H: Host> {
    /// When the running request began.
    pub running: Running<H>,
    /// Requests that were answered.
    pub departed: Total<H>,
    /// The confident ones.
    pub confident: Total<H>,
}

impl<H: Host> Threads for AllThreads<H> {
    fn running_since(&self) -> Option<Timestamp> {
        self.running.since()
    }

    fn runs_since(&mut self, now: Timestamp) {
        self.running.begin(now);
    }

    fn departed(&mut self, confident: bool) {
        self.departed.add(1);
        if confident {
            self.confident.add(1);
        }
    }

    fn totals(&self) -> Totals {
        Totals { departed: self.departed.get(), confident: self.confident.get() }
    }
}
