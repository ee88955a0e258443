//! Injects one fault after the other, on the meshes of all columns.

use super::fault::{FAULTS, Fault, Victim};
use super::figure::Claim;
use super::judge::{self, CLIENT_TIMEOUT, Counted, Kind, Moments, Seen};
use super::order::Chaos;
use super::row::{Column, Row};
use super::side::{SIDES, Side};
use super::testbed::{Place, Stand, counted, nobody_is_ejected, plan, since};
use crate::case::HEAD_START;
use bloc_figures::service_time::ServiceTime;
use bloc_figures::stats::quantile;
use bloc_mesh::envoy::Guard;
use bloc_mesh::load::{self, LoadPlan, Sample, Tally};
use bloc_mesh::network_faults::Impossible;
use bloc_mesh::{Mesh, MeshError, MeshSpec};
use bloc_policy::config::CapacitySpec;
use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, sleep, sleep_until};

const BEFORE: Duration = Duration::from_secs(3);
/// Three times as long as clients wait.
const FAULT: Duration = CLIENT_TIMEOUT.saturating_mul(3);
const AFTER: Duration = Duration::from_secs(8);
/// How long several Envoys may take to start at once on a busy machine.
const STARTS: Duration = Duration::from_secs(9);
const UNDISTURBED: Duration = Duration::from_secs(12);
/// A request flushes the filters' counters once they have waited for a second; without one it takes
/// five.
const COUNTERS_LAG: Duration = Duration::from_millis(1_100);
/// Half of the servers' total rate: three of four can take all of it.
const SHARE: f64 = 0.5;
/// Each sender has some two requests in flight. An attempt takes 50 ms, and 100 at the 99th
/// percentile.
pub(super) const GUARD: Guard = Guard { requests: 20, attempt: Duration::from_millis(500) };

/// The longest time that a fault takes on the meshes of all columns.
pub(super) fn length(fault: Fault) -> Duration {
    SIDES.len() as u32 * (window(fault) + COUNTERS_LAG + Duration::from_secs(2)) + STARTS
}

fn window(fault: Fault) -> Duration {
    BEFORE + FAULT + if fault.leaves_nobody() { AFTER + STARTS } else { AFTER }
}

fn mesh(chaos: &Chaos) -> MeshSpec {
    let service_time = ServiceTime::Fixed(Duration::from_millis(50));
    MeshSpec {
        backends: 4,
        concurrency: 2,
        capacity: Some(CapacitySpec::Static { limit: 20 }),
        // The default of the product.
        reset_interval: Duration::from_secs(1),
        seed: chaos.seed,
        ..MeshSpec::fleet(chaos.policy, 4, service_time)
    }
}

/// Runs the selected faults. The seed determines their order and their victims. Each row goes to
/// `tell` at once.
///
/// # Errors
/// A mesh does not start, or a part of it does not do what it is told.
pub async fn run(chaos: &Chaos, ends: Instant, place: Place<'_>, tell: &mut impl FnMut(Row)) -> Result<(), MeshError> {
    let mut rng = StdRng::seed_from_u64(chaos.seed);
    let mut faults: Vec<Fault> = FAULTS.into_iter().filter(|fault| chaos.wants(fault.name())).collect();
    if faults.is_empty() {
        return Ok(());
    }
    faults.shuffle(&mut rng);
    let spec = mesh(chaos);
    let clocked;
    let tools = if faults.contains(&Fault::Clock) {
        clocked = place.tools.with_clocks(place.directory)?;
        &clocked
    } else {
        place.tools
    };
    let mut stand = Stand::start(&spec, chaos.guard(GUARD), Place { tools, ..place }, "faults").await?;
    // One limit for all columns: twice stock Envoy's p99.
    let limit_ms = limit_ms(chaos, &stand.meshes[0].1, SHARE).await;
    for (number, fault) in (1..).zip(faults) {
        let victim =
            Victim { backend: rng.random_range(0..spec.backends), frontend: rng.random_range(0..spec.frontends) };
        place.bar.set_message(fault.name());
        let whom = format!("{} (backend {}, frontend {})", fault.what(), victim.backend, victim.frontend);
        let not_run = |why| Row::not_run(fault.name(), whom.clone(), fault.claim(), why);
        if Instant::now() + length(fault) > ends {
            tell(not_run(format!("no time left of {:?}", chaos.limit)));
            continue;
        }
        if let Err(Impossible(why)) = fault.check().await {
            tell(not_run(why));
            continue;
        }
        let case = Case { name: fault.name(), what: whom, fault, victim, arrivals: chaos.arrivals(number) };
        tell(case.run(&mut stand, SHARE, limit_ms).await?);
    }
    stand.end().await
}

/// A fault at a victim, and the arrivals meanwhile.
pub(super) struct Case {
    /// The name of its row.
    pub name: &'static str,
    /// A description in one line.
    pub what: String,
    /// The fault.
    pub fault: Fault,
    /// Whom it meets.
    pub victim: Victim,
    /// The seed of the arrivals.
    pub arrivals: u64,
}

impl Case {
    /// Runs it on the meshes of all columns, under this share of what their servers can do.
    ///
    /// # Errors
    /// A part of a mesh does not do what it is told.
    pub async fn run(self, stand: &mut Stand, share: f64, limit_ms: f64) -> Result<Row, MeshError> {
        let Self { name, what, fault, victim, arrivals } = self;
        let mut row = Row::new(name, what, fault.claim(), vec![]);
        for (side, mesh) in &mut stand.meshes {
            nobody_is_ejected(mesh).await?;
            let plan = plan(mesh.gateway(), share * mesh.total_rate(), window(fault), arrivals);
            let (samples, at, counted) = breaks(fault, victim, mesh, &plan).await?;
            let kind = Kind { kills: fault.kills(), leaves_nobody: fault.leaves_nobody() };
            let seen = Seen { samples: &samples, kind, at, counted, limit_ms };
            // Ours, tuned, has to be no worse than tuned Envoy, which keeps fewer promises.
            let claim = if *side == Side::OursTuned { Claim::NoHarm } else { fault.claim() };
            let figures = judge::fault(&seen, claim);
            row.columns.push(Column::new(*side, figures, &samples));
            row.moments = Some(at);
            row.limit_ms = Some(limit_ms);
            let busy = judge::restless(&samples, at, limit_ms);
            row.not_run = row.not_run.or(busy.map(|why| format!("{}: {why}", side.title())));
        }
        Ok(row)
    }
}

/// Twice the 99th percentile without a fault, in milliseconds.
pub(super) async fn limit_ms(chaos: &Chaos, mesh: &Mesh, share: f64) -> f64 {
    2e3 * undisturbed_p99(chaos, mesh, share).await.as_secs_f64()
}

/// The 99th percentile without a fault.
async fn undisturbed_p99(chaos: &Chaos, mesh: &Mesh, share: f64) -> Duration {
    let warm_up = Duration::from_secs(3);
    let rate = share * mesh.total_rate();
    let plan = LoadPlan { warm_up, ..plan(mesh.gateway(), rate, UNDISTURBED, chaos.arrivals(0)) };
    let measured = load::run(&plan, Instant::now() + HEAD_START, Arc::<Tally>::default()).await;
    quantile(&measured.sorted_latencies(), 0.99).unwrap_or_default()
}

/// One fault on one mesh. Returns what the clients saw, when it was, and what the frontends
/// counted.
async fn breaks(
    fault: Fault,
    victim: Victim,
    mesh: &mut Mesh,
    plan: &LoadPlan,
) -> Result<(Vec<Sample>, Moments, Option<Counted>), MeshError> {
    let before = counted(mesh).await?;
    let start = Instant::now() + HEAD_START;
    let disturb = async {
        sleep_until(start + BEFORE).await;
        let began_s = start.elapsed().as_secs_f64();
        let broken = fault.inject(mesh, victim).await?;
        // A fault that kills nothing is in force at once, also a clock that jumps in two steps.
        let complete_s = if fault.kills() { start.elapsed().as_secs_f64() } else { began_s };
        sleep_until(start + BEFORE + FAULT).await;
        fault.mend(mesh, victim, broken).await?;
        let mended_s = start.elapsed().as_secs_f64();
        Ok::<_, MeshError>(Moments { began_s, complete_s, mended_s })
    };
    let (measured, moments) = tokio::join!(load::run(plan, start, Arc::<Tally>::default()), disturb);
    let moments = moments?;
    sleep(COUNTERS_LAG).await;
    mesh.ask_frontends().await?;
    let after = counted(mesh).await?;
    let counted = (!fault.restarts_frontends()).then(|| since(after, before));
    Ok((measured.samples, moments, counted))
}
