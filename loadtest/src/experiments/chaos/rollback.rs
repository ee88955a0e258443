//! A configuration change and its rollback under load, with our filters and without.
//!
//! All sidecars read their listeners from files. New listeners with another capacity in their
//! plugin configurations arrive, and are replaced by the original ones two seconds later. The first
//! listeners still drain then, so Envoy reuses their plugins, which are identical and still live.
//! When the last drain ends, the plugins of the change are deleted; what they owned must survive.
//! Last, the control plane sends another capacity, which arrives only where a proxy still polls.
//!
//! Meanwhile requests are held, in two workers of each sidecar, so that one worker passes places to
//! the other.

use super::figure::{Bound, Claim, Figure};
use super::judge::{self, Moments};
use super::order::Chaos;
use super::row::{Column, Row};
use super::testbed::{Place, Stand, plan};
use crate::case::HEAD_START;
use crate::timeline::recovery_s;
use bloc_figures::service_time::ServiceTime;
use bloc_mesh::envoy::Guard;
use bloc_mesh::load::{self, LoadPlan, Outcome, Sample, Tally};
use bloc_mesh::{Mesh, MeshError, MeshSpec};
use bloc_policy::config::CapacitySpec;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, sleep, sleep_until};

/// Its name on the command line.
pub const ROLLED_BACK: &str = "rolled-back";
/// Its claim.
pub const CLAIM: Claim = Claim::NoHarm;

/// Long enough for a 99th percentile.
const BEFORE: Duration = Duration::from_secs(6);
/// The time between the change and its rollback; shorter than the drain.
const CHANGED: Duration = Duration::from_secs(2);
/// Istio's drain takes 45 s. This one is longer than [`IN_FORCE`], so the original listeners still
/// drain at the rollback.
const DRAIN: Duration = Duration::from_secs(5);
const AFTER: Duration = Duration::from_secs(9);
/// On a busy machine a drain ends later than it should.
const DRAINED: Duration = Duration::from_secs(30);
/// Enough that requests are held, and none is rejected.
const SHARE: f64 = 0.5;
/// The capacity in the plugin configurations at first and after the rollback, in those of the
/// change, and in the control plane's parameters at the end.
const CAPACITIES: [u32; 3] = [20, 5, 30];
const HELD: Duration = Duration::from_secs(1);
const RETRIES: u32 = 3;
const LOOK: Duration = Duration::from_millis(50);

/// Within this time the latest configuration is in force in every sidecar.
const IN_FORCE: Duration = Duration::from_secs(4);
/// Within this time requests show that a proxy has stopped polling.
const SILENCE: Duration = Duration::from_secs(5);
/// Longer than a sidecar may hold a request.
const CLIENT_TIMEOUT: Duration = Duration::from_secs(10);
/// Requests answered after the last drain, as a share of the load.
const GOODPUT: f64 = 0.9;
const STARTS: Duration = Duration::from_secs(30);
const GUARD: Guard = Guard { requests: 20, attempt: Duration::from_secs(2) };

/// How long the load lasts.
fn window() -> Duration {
    BEFORE + CHANGED + DRAIN + AFTER
}

/// The longest time of a request: held as long as allowed, again at each retry, then served.
fn bound() -> Duration {
    HELD * (RETRIES + 1) + Duration::from_secs(1)
}

/// A description in one line.
fn what() -> String {
    let [changed, drain] = [CHANGED, DRAIN].map(|time| time.as_secs());
    format!("the listeners of all sidecars are replaced, and {changed} s later rolled back; each drains for {drain} s")
}

/// Runs its own meshes under load, and judges what happened.
///
/// # Errors
/// A mesh does not start, or a part of it does not do what it is told.
pub async fn run(chaos: &Chaos, ends: Instant, place: Place<'_>) -> Result<Row, MeshError> {
    if Instant::now() + 4 * (window() + DRAINED) + STARTS > ends {
        let why = format!("no time left of {:?}", chaos.limit);
        return Ok(Row::not_run(ROLLED_BACK, what(), CLAIM, why));
    }
    let [first, ..] = CAPACITIES;
    let spec = MeshSpec {
        backends: 4,
        concurrency: 2,
        workers: 2,
        retries: RETRIES,
        hold: true,
        capacity: Some(CapacitySpec::Static { limit: first.into() }),
        max_queue_wait: Some(HELD),
        drain: Some(DRAIN),
        seed: chaos.seed,
        ..MeshSpec::fleet(chaos.policy, 4, ServiceTime::Fixed(Duration::from_millis(50)))
    };
    let stand = Stand::start(&spec, chaos.guard(GUARD), place, ROLLED_BACK).await?;
    let mut row = Row::new(ROLLED_BACK, what(), CLAIM, vec![]);
    for (side, mesh) in &stand.meshes {
        place.bar.set_message(format!("{ROLLED_BACK}, {}", side.title()));
        let rate = SHARE * mesh.total_rate();
        let plan = plan(mesh.gateway(), rate, window(), chaos.arrivals(0));
        let plan = LoadPlan { timeout: CLIENT_TIMEOUT, ..plan };
        let start = Instant::now() + HEAD_START;
        let (measured, disturbed) =
            tokio::join!(load::run(&plan, start, Arc::<Tally>::default()), disturb(mesh, start, side.is_ours()));
        let (at, in_force_s) = disturbed?;
        let samples = measured.samples;
        // Stock Envoy's limit; its column is the first.
        let limit_ms = *row.limit_ms.get_or_insert_with(|| judge::twice_the_undisturbed(&samples, at.began_s));
        let busy = judge::restless(&samples, at, limit_ms).map(|why| format!("{}: {why}", side.title()));
        row.not_run = row.not_run.or(busy);
        let mut figures = figures(&samples, at, limit_ms);
        if side.is_ours() {
            let most = Bound::AtMost(IN_FORCE.as_secs_f64());
            let names = ["the change in every sidecar", "its rollback", "the control plane's word"];
            let took = names.into_iter().zip(in_force_s);
            figures.extend(took.map(|(what, seconds)| judge::took(what, seconds, most)));
        }
        row.columns.push(Column::new(*side, figures, &samples));
        row.moments = Some(at);
    }
    stand.end().await?;
    Ok(row)
}

fn figures(samples: &[Sample], at: Moments, limit_ms: f64) -> Vec<Figure> {
    let began_s = |sample: &Sample| sample.ended.saturating_sub(sample.latency).as_secs_f64();
    let longest = samples.iter().map(|sample| sample.latency).max();
    let back = recovery_s(&judge::p99(samples), at.mended_s, limit_ms, 2.0);
    let after: Vec<&Sample> = samples.iter().filter(|one| began_s(one) >= at.mended_s).collect();
    let answered = after.iter().filter(|sample| sample.outcome == Outcome::Ok).count();
    let good = answered as f64 / after.len().max(1) as f64;
    let no_more = Bound::NoWorse { times: 1.0, plus: 0.0 };
    vec![
        judge::without_an_answer("requests without an answer", samples, no_more),
        judge::took(
            "the longest request",
            longest.map(|longest| longest.as_secs_f64()),
            Bound::AtMost(bound().as_secs_f64()),
        ),
        judge::took("p99 below twice the undisturbed, after the last drain", back, Bound::AtMost(judge::SETTLE_S)),
        judge::goodput_figure("goodput after that, of the load", good, Bound::AtLeast(GOODPUT)),
    ]
}

/// Changes, rolls back, waits until all drains have ended, and sends another capacity.
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
        // First give a proxy that has stopped polling the time to affect requests.
        sleep(SILENCE).await;
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

/// The seconds until every sidecar has this capacity; none: not within [`IN_FORCE`].
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
