//! A service of two servers, one of which freezes.
//!
//! With exactly two servers, a bid is at most what the other server has offered. One that freezes
//! must not draw with its last offer what the other one bounces.

use super::fault::{Fault, Victim};
use super::faults::{self, Case, GUARD};
use super::figure::Claim;
use super::order::Chaos;
use super::row::Row;
use super::testbed::{Place, Stand};
use bloc_figures::service_time::ServiceTime;
use bloc_mesh::{MeshError, MeshSpec};
use bloc_policy::config::CapacitySpec;
use std::time::Duration;
use tokio::time::Instant;

/// The other server can take all of it, and then has a load of 70%, so that it bounces.
const SHARE: f64 = 0.35;
/// Time for the meshes to start, and for the percentile without a fault.
const STARTS: Duration = Duration::from_secs(30);

/// One of two servers freezes.
#[derive(Clone, Copy, Debug)]
pub struct OfTwo {
    /// Its name on the command line.
    pub name: &'static str,
    fault: Fault,
    /// Each row has its own victim, so that no row begins with what the one before has left.
    backend: usize,
}

/// All rows.
pub const OF_TWO: [OfTwo; 2] = [
    OfTwo { name: "stop-app-of-two", fault: Fault::StopApp, backend: 0 },
    OfTwo { name: "stop-sidecar-of-two", fault: Fault::StopSidecar, backend: 1 },
];

impl OfTwo {
    /// The claim of its row.
    pub fn claim(self) -> Claim {
        self.fault.claim()
    }
}

/// The same places in all, the same service time, and the same senders as with four servers.
fn mesh(chaos: &Chaos) -> MeshSpec {
    MeshSpec {
        backends: 2,
        concurrency: 4,
        capacity: Some(CapacitySpec::Static { limit: 40 }),
        // The default of the product.
        reset_interval: Duration::from_secs(1),
        seed: chaos.seed,
        ..MeshSpec::fleet(chaos.policy, 4, ServiceTime::Fixed(Duration::from_millis(50)))
    }
}

/// Runs the selected rows. Each row goes to `tell` at once.
///
/// # Errors
/// A mesh does not start, or a part of it does not do what it is told.
pub async fn run(chaos: &Chaos, ends: Instant, place: Place<'_>, tell: &mut impl FnMut(Row)) -> Result<(), MeshError> {
    let wanted: Vec<OfTwo> = OF_TWO.into_iter().filter(|one| chaos.wants(one.name)).collect();
    let what = |one: &OfTwo| format!("of two: {} (backend {})", one.fault.what(), one.backend);
    let lengths: Duration = wanted.iter().map(|one| faults::length(one.fault)).sum();
    if Instant::now() + STARTS + lengths > ends {
        for one in wanted {
            tell(Row::not_run(one.name, what(&one), one.claim(), format!("no time left of {:?}", chaos.limit)));
        }
        return Ok(());
    }
    if wanted.is_empty() {
        return Ok(());
    }
    let mut stand = Stand::start(&mesh(chaos), chaos.guard(GUARD), place, "two").await?;
    let limit_ms = faults::limit_ms(chaos, &stand.meshes[0].1, SHARE).await;
    for one in wanted {
        place.bar.set_message(one.name);
        let victim = Victim { backend: one.backend, frontend: 0 };
        let arrivals = chaos.arrivals(1 + one.backend);
        let case = Case { name: one.name, what: what(&one), fault: one.fault, victim, arrivals };
        tell(case.run(&mut stand, SHARE, limit_ms).await?);
    }
    stand.end().await
}
