//! A sidecar with next to no CPU, while requests wait in it.

use super::figure::{Bound, Claim};
use super::judge;
use super::order::Chaos;
use super::row::{Column, Row};
use super::testbed::{Place, Stand, nobody_is_ejected, plan};
use crate::case::HEAD_START;
use bloc_figures::service_time::ServiceTime;
use bloc_mesh::envoy::Guard;
use bloc_mesh::load::{self, LoadPlan, Tally};
use bloc_mesh::throttle::Throttle;
use bloc_mesh::{MeshError, MeshSpec, Role};
use bloc_policy::config::CapacitySpec;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, sleep, sleep_until};

/// Its name on the command line.
pub const THROTTLED: &str = "throttled-sidecar";
/// Its claim.
pub const CLAIM: Claim = Claim::NoHarm;
/// The share of one processor.
const SHARE_OF_CPU: f64 = 0.05;
const BEFORE: Duration = Duration::from_secs(4);
const LASTS: Duration = Duration::from_secs(10);
const AFTER: Duration = Duration::from_secs(9);
const STARTS: Duration = Duration::from_secs(30);
/// A request from the beginning may be answered soon after the end. This is less than the 15 s
/// after which Envoy itself gives up.
const CLIENT_TIMEOUT: Duration = Duration::from_secs(13);
/// Busy processes that take the rest of the processor most of the time, like an application in the
/// same cgroup.
const NEIGHBOURS: usize = 20;
/// Enough that requests wait in the sidecars; the other three can take all of it.
const SHARE: f64 = 0.7;
const GUARD: Guard = Guard { requests: 20, attempt: Duration::from_millis(500) };

/// Runs it.
///
/// # Errors
/// A mesh does not start, or a part of it does not do what it is told.
pub async fn run(chaos: &Chaos, ends: Instant, place: Place<'_>) -> Result<Row, MeshError> {
    let what = format!(
        "a sidecar with two workers that holds requests shares {:.0}% of a core with {NEIGHBOURS} busy processes for {} s",
        100.0 * SHARE_OF_CPU,
        LASTS.as_secs()
    );
    let not_run = |why| Ok(Row::not_run(THROTTLED, what.clone(), CLAIM, why));
    if let Err(error) = Throttle::check() {
        return not_run(error.to_string());
    }
    let window = BEFORE + LASTS + AFTER;
    if Instant::now() + 4 * window + STARTS > ends {
        return not_run(format!("no time left of {:?}", chaos.limit));
    }
    let spec = MeshSpec {
        backends: 4,
        workers: 2,
        hold: true,
        capacity: Some(CapacitySpec::Static { limit: 20 }),
        seed: chaos.seed,
        ..MeshSpec::fleet(chaos.policy, 4, ServiceTime::Fixed(Duration::from_millis(50)))
    };
    let mut stand = Stand::start(&spec, chaos.guard(GUARD), place, THROTTLED).await?;
    let mut columns = Vec::new();
    for (side, mesh) in &mut stand.meshes {
        place.bar.set_message(format!("{THROTTLED}, {}", side.title()));
        nobody_is_ejected(mesh).await?;
        let rate = SHARE * mesh.total_rate();
        let plan = LoadPlan { timeout: CLIENT_TIMEOUT, ..plan(mesh.gateway(), rate, window, chaos.arrivals(0)) };
        let start = Instant::now() + HEAD_START;
        let disturb = async {
            sleep_until(start + BEFORE).await;
            let throttle = mesh.throttle(Role::Sidecar(0), SHARE_OF_CPU, NEIGHBOURS).await?;
            sleep(LASTS).await;
            drop(throttle);
            Ok::<_, MeshError>(())
        };
        let (measured, disturbed) = tokio::join!(load::run(&plan, start, Arc::<Tally>::default()), disturb);
        disturbed?;
        let samples = measured.samples;
        let figure = judge::without_an_answer("requests without an answer", &samples, Bound::Chance);
        columns.push(Column::new(*side, vec![figure], &samples));
    }
    stand.end().await?;
    Ok(Row::new(THROTTLED, what, CLAIM, columns))
}
