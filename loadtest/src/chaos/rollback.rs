//! A configuration that is changed and rolled back under load, with our filters and without.
//!
//! All sidecars get their listeners from files. Those with another capacity in their plugin
//! configurations come, and go again two seconds later, while the ones before still drain: Envoy then
//! takes the old plugins for the new listeners, since they are the same and still live. When the last
//! drain has ended, the plugins of the change are gone; what they owned must not be gone with them.
//! Last, the control plane names another capacity, which arrives only where it is still asked.
//!
//! Requests are held meanwhile, in two workers each, so that turns are passed from one to the other.

use super::judge::{self, IN_FORCE, Moments, RolledBack};
use crate::backend::ServiceTime;
use crate::case::HEAD_START;
use crate::load::{self, Load, LoadPlan, Tally};
use crate::mesh::{Mesh, MeshError, MeshSpec, Tools};
use crate::policy::Policy;
use bloc_policy::config::CapacitySpec;
use indicatif::ProgressBar;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, sleep, sleep_until};

/// Its name on the command line.
pub const ROLLED_BACK: &str = "rolled-back";

/// Long enough for a 99th percentile.
const BEFORE: Duration = Duration::from_secs(6);
/// Between the change and its rollback; shorter than the drain.
const CHANGED: Duration = Duration::from_secs(2);
/// Istio's is 45 s. Longer than [`IN_FORCE`], so that the rollback meets what was before.
const DRAIN: Duration = Duration::from_secs(5);
const AFTER: Duration = Duration::from_secs(9);
/// A drain ends later than it should on a busy machine.
const DRAINED: Duration = Duration::from_secs(30);
/// Enough that requests are held; none is refused for that.
const SHARE: f64 = 0.5;
/// In the plugin configurations at first and after the rollback, in those of the change, and at the
/// control plane in the end.
const CAPACITIES: [u32; 3] = [20, 5, 30];
const HELD: Duration = Duration::from_secs(1);
const RETRIES: u32 = 3;
const LOOK: Duration = Duration::from_millis(50);

/// How long the load lasts.
pub fn window() -> Duration {
    BEFORE + CHANGED + DRAIN + AFTER
}

/// No request may take longer: held as long as is allowed, again at each retry, and then served.
pub fn bound() -> Duration {
    HELD * (RETRIES + 1) + Duration::from_secs(1)
}

/// What happens, in a line.
pub fn what() -> String {
    let [changed, drain] = [CHANGED, DRAIN].map(|time| time.as_secs());
    format!("the listeners of all sidecars are replaced, and {changed} s later rolled back; each drains for {drain} s")
}

/// A mesh of its own under load, and what was seen of it.
///
/// # Errors
/// The mesh does not start, or a part of it does not do as it is told.
pub async fn run(
    policy: Policy,
    seed: u64,
    tools: &Tools,
    directory: &Path,
    bar: &ProgressBar,
) -> Result<RolledBack, MeshError> {
    let [first, ..] = CAPACITIES;
    let ours = policy.routing().is_some();
    let spec = MeshSpec {
        backends: 4,
        concurrency: 2,
        workers: 2,
        retries: RETRIES,
        hold: ours,
        capacity: ours.then(|| CapacitySpec::Static { limit: first.into() }),
        max_queue_wait: Some(HELD),
        drain: Some(DRAIN),
        seed,
        ..MeshSpec::fleet(policy, 4, ServiceTime::Fixed(Duration::from_millis(50)))
    };
    let mut mesh = Mesh::start(&spec, tools, directory, bar).await?;
    let plan = LoadPlan {
        target: mesh.gateway(),
        path: "/".to_owned(),
        body: 0,
        load: Load::Poisson { rate: SHARE * spec.total_rate(spec.backends) },
        keep_alive: false,
        timeout: judge::PATIENCE,
        warm_up: Duration::ZERO,
        window: window(),
        outstanding_limit: 4_000,
        seed,
    };
    let start = Instant::now() + HEAD_START;
    let (measured, disturbed) =
        tokio::join!(load::run(&plan, start, Arc::<Tally>::default()), disturb(&mesh, start, ours));
    let (at, in_force_s) = disturbed?;
    mesh.check()?;
    mesh.end().await;
    Ok(RolledBack { samples: measured.samples, at, in_force_s })
}

/// Changes, rolls back, waits until all drains have ended, and asks for something else.
async fn disturb(mesh: &Mesh, start: Instant, ours: bool) -> Result<(Moments, [Option<f64>; 3]), MeshError> {
    let [first, changed, last] = CAPACITIES;
    sleep_until(start + BEFORE).await;
    let began_s = start.elapsed().as_secs_f64();
    mesh.change(Some(changed))?;
    let change = if ours { in_force(mesh, changed).await } else { None };
    sleep_until(start + BEFORE + CHANGED).await;
    let complete_s = start.elapsed().as_secs_f64();
    mesh.change(None)?;
    let rolled_back = Instant::now();
    let rollback = if ours { in_force(mesh, first).await } else { None };
    sleep_until(rolled_back + DRAIN).await;
    while !mesh.drained().await? && rolled_back.elapsed() < DRAINED {
        sleep(LOOK).await;
    }
    let mended_s = start.elapsed().as_secs_f64();
    let mut control_plane = None;
    if ours {
        // So that the silence of a proxy that asks nobody any more shows in the requests first.
        sleep(judge::SETTLE).await;
        mesh.reconfigure(mesh.endpoints().len(), CapacitySpec::Static { limit: last.into() })?;
        let asked = Instant::now();
        control_plane = in_force(mesh, last).await;
        while control_plane.is_some() && !mesh.all_poll().await {
            let late = asked.elapsed() >= IN_FORCE;
            control_plane = (!late).then(|| asked.elapsed().as_secs_f64());
            sleep(LOOK).await;
        }
    }
    Ok((Moments { began_s, complete_s, mended_s }, [change, rollback, control_plane]))
}

/// After how many seconds this is the capacity of every sidecar; none: not within [`IN_FORCE`].
async fn in_force(mesh: &Mesh, capacity: u32) -> Option<f64> {
    let began = Instant::now();
    while began.elapsed() < IN_FORCE {
        if mesh.has_capacity(capacity).await {
            return Some(began.elapsed().as_secs_f64());
        }
        sleep(LOOK).await;
    }
    None
}
