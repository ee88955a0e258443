//! Load, and what its clients saw.
//!
//! The application that answers is not here but in `backend`; tables and pages are in `report`.
//!
//! *Closed loop*: a fixed number of clients; each sends its next request after the answer to the
//! last one, so the load follows the speed of the service. *Open loop*: a Poisson process
//! determines when requests begin, whether or not the service keeps up. Latency counts from that
//! intended start, so a stalled client cannot hide a stalled service (coordinated omission).

mod client;
mod closed;
mod open;
mod outcome;
mod plan;
mod shape;
mod tally;

pub use client::Client;
pub use open::{at_arrivals, poisson_arrivals};
pub use outcome::{ErrorKind, Measurement, Outcome, Sample};
pub use plan::LoadPlan;
pub use shape::Load;
pub use tally::Tally;

use std::sync::Arc;
use tokio::time::Instant;

/// Runs the load from `start`, which may be a little in the future.
pub async fn run(plan: &LoadPlan, start: Instant, tally: Arc<Tally>) -> Measurement {
    let client = Arc::new(Client::new(plan.target, &plan.path, plan.keep_alive, plan.timeout).with_body(plan.body));
    let samples = match plan.load {
        Load::Closed { clients } => closed::run(plan, client, clients, start, tally).await,
        Load::Poisson { rate } => open::run(plan, client, rate, start, tally).await,
    };
    Measurement { samples, window: plan.window }
}
