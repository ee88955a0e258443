//! Shared parts of the tests: applications, pods, senders, and a client.
//!
//! No tests belong here. What only `chain`, `grpc` or `lifecycle` needs is in that folder.

mod app;
pub mod bootstraps;
mod changing;
mod client;
mod fake_control_plane;
pub mod fleet;
mod place;
mod pods;
pub mod traffic;
mod workers;

pub use app::App;
pub use changing::{Changing, WORKERS, errors};
pub use client::{Answer, Connection, from_sidecar, grpc, request, send, send_http2};
pub use fake_control_plane::FakeControlPlane;
pub use fleet::Fleet;
pub use place::{Place, next_version};
pub use pods::{Pod, balance, dynamic, inbound, metric, outbound, sender, single_sender};
pub use traffic::{Tally, Traffic};
pub use workers::Workers;

use std::time::Duration;
use tokio::time::{Instant, sleep};

/// How long something may take before a test fails. Generous: a machine under load is slow, not
/// wrong.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// Waits until `condition` gives a value.
pub async fn eventually<T>(what: &str, mut condition: impl AsyncFnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(value) = condition().await {
            return value;
        }
        assert!(Instant::now() < deadline, "{what} did not happen within {PATIENCE:?}");
        sleep(Duration::from_millis(20)).await;
    }
}
