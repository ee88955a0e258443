//! Load, and what the clients saw of it.
//!
//! *Closed loop*: a fixed number of clients, each sends its next request when the last one was answered; the load follows the
//! speed of the service. *Open loop*: requests begin when a Poisson process says so, whether or not the service keeps up; latency
//! counts from that intended moment, so that a stalled client cannot hide a stalled service (coordinated omission).

mod client;
mod closed;
mod open;
mod outcome;
mod shape;

pub use client::Client;
pub use open::poisson_arrivals;
pub use outcome::{ErrorKind, Measurement, Outcome, Sample, quantile};
pub use shape::Load;

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::time::Instant;

/// What to send where, and for how long.
#[derive(Clone, Debug)]
pub struct LoadPlan {
    /// Whom to ask.
    pub target: SocketAddr,
    /// The path of each request.
    pub path: String,
    /// Open or closed loop.
    pub load: Load,
    /// Keep connections; otherwise each request has a new one.
    pub keep_alive: bool,
    /// A request without an answer for so long is an error.
    pub timeout: Duration,
    /// The load runs for so long before anything counts.
    pub warm_up: Duration,
    /// What counts: closed loop, requests that end within it; open loop, requests that are meant to begin within it.
    pub window: Duration,
    /// Open loop: more requests than these are not left waiting; one beyond is an error of its own kind.
    pub outstanding_limit: usize,
    /// Determines the arrivals.
    pub seed: u64,
}

/// How far a running load is; cheap to read from elsewhere.
#[derive(Debug, Default)]
pub struct Tally {
    ok: AtomicU64,
    shed: AtomicU64,
    errors: AtomicU64,
}

impl Tally {
    /// Answers, sheds and errors up to now, warm-up included.
    pub fn counts(&self) -> (u64, u64, u64) {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        (read(&self.ok), read(&self.shed), read(&self.errors))
    }

    fn count(&self, outcome: Outcome) {
        let counter = match outcome {
            Outcome::Ok => &self.ok,
            Outcome::Shed => &self.shed,
            Outcome::Error(_) => &self.errors,
        };
        counter.fetch_add(1, Ordering::Relaxed);
    }
}

/// Runs the load from `start`, which may lie a moment ahead.
pub async fn run(plan: &LoadPlan, start: Instant, tally: Arc<Tally>) -> Measurement {
    let client = Arc::new(Client::new(plan.target, &plan.path, plan.keep_alive, plan.timeout));
    let samples = match plan.load {
        Load::Closed { clients } => closed::run(plan, client, clients, start, tally).await,
        Load::Poisson { rate } => open::run(plan, client, rate, start, tally).await,
    };
    Measurement { samples, window: plan.window }
}
