//! Servers that have recovered: each routing that promises anything, each kind of fault.
//!
//! What a sender or a server learned during a fault must not outlast it. The clusters have no
//! outlier detection, which would end the fault for them.

use super::fault::{Fault, Victim};
use super::figure::{Bound, Claim};
use super::judge::{self, CLIENT_TIMEOUT, Kind, Moments, Seen};
use super::order::Chaos;
use super::row::{Column, Row};
use super::side::Side;
use super::testbed::{Place, finds_out, nobody_is_ejected, plan};
use crate::case::HEAD_START;
use bloc_figures::service_time::ServiceTime;
use bloc_mesh::envoy::Guard;
use bloc_mesh::load::{self, Sample, Tally};
use bloc_mesh::policy::Policy;
use bloc_mesh::{Mesh, MeshError, MeshSpec, Role};
use bloc_policy::config::CapacitySpec;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, sleep, sleep_until};

/// The claim of each of these rows.
pub const CLAIM: Claim = Claim::NoHarm;
const BACKENDS: usize = 4;
/// Three of the four backends can take all of it.
const SHARE: f64 = 0.5;
const BEFORE: Duration = Duration::from_secs(3);
/// Three times as long as clients wait.
const BROKEN: Duration = CLIENT_TIMEOUT.saturating_mul(3);
/// How long several processes may take to start.
const STARTS: Duration = Duration::from_secs(4);
/// When a recovered server must have its share, and how long that is measured.
const SETTLES: Duration = Duration::from_secs(10);
const LOOKS: Duration = Duration::from_secs(14);
/// The least that a recovered server gets, as a multiple of its fair share.
const RECOVERED: f64 = 0.8;
const GUARD: Guard = Guard { requests: 20, attempt: Duration::from_millis(500) };
/// Time for the meshes to start.
const MESHES: Duration = Duration::from_secs(15);
/// A slow start: 2.5 s for a request of 50 ms, for this long.
const SLOW_START: (f64, Duration) = (0.02, Duration::from_secs(2));

/// The fault of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wrong {
    /// Nobody listens at its address.
    Refuses,
    /// Its application answers 500 within a millisecond.
    Fails,
    /// Nobody listens at first, and the application is slow when it is back.
    StartsSlowly,
}

/// All kinds; the number of each is that of its backend.
const WRONGS: [Wrong; 3] = [Wrong::Refuses, Wrong::Fails, Wrong::StartsSlowly];

/// A row about a recovered server.
#[derive(Clone, Copy, Debug)]
pub struct Recovery {
    /// Its name on the command line.
    pub name: &'static str,
    policy: Policy,
    wrong: Wrong,
}

const fn recovery(name: &'static str, policy: Policy, wrong: Wrong) -> Recovery {
    Recovery { name, policy, wrong }
}

/// All rows.
pub const RECOVERIES: [Recovery; 9] = [
    recovery("refuses-bloc", Policy::Bloc, Wrong::Refuses),
    recovery("fails-bloc", Policy::Bloc, Wrong::Fails),
    recovery("starts-slowly-bloc", Policy::Bloc, Wrong::StartsSlowly),
    recovery("refuses-bid", Policy::Bid, Wrong::Refuses),
    recovery("fails-bid", Policy::Bid, Wrong::Fails),
    recovery("starts-slowly-bid", Policy::Bid, Wrong::StartsSlowly),
    recovery("refuses-mu", Policy::Mu, Wrong::Refuses),
    recovery("fails-mu", Policy::Mu, Wrong::Fails),
    recovery("starts-slowly-mu", Policy::Mu, Wrong::StartsSlowly),
];

/// The results of one mesh.
struct Met {
    column: Column,
    at: Moments,
    limit_ms: f64,
    /// Why they prove nothing; none: they count.
    busy: Option<String>,
}

impl Recovery {
    /// A description in one line.
    pub fn what(&self) -> String {
        let (policy, seconds) = (self.policy.name(), BROKEN.as_secs());
        match self.wrong {
            Wrong::Refuses => format!("{policy}: a backend refuses connections for {seconds} s"),
            Wrong::Fails => format!("{policy}: a backend answers 500 within a millisecond for {seconds} s"),
            Wrong::StartsSlowly => format!(
                "{policy}: a backend is away for {seconds} s, and takes 50 times as long in its first {} s",
                SLOW_START.1.as_secs()
            ),
        }
    }

    /// Breaks this backend, and measures it when it has recovered. The limit of the 99th percentile
    /// is that of stock Envoy, which runs first; none: this is stock Envoy.
    async fn run(&self, mesh: &mut Mesh, side: Side, chaos: &Chaos, limit_ms: Option<f64>) -> Result<Met, MeshError> {
        nobody_is_ejected(mesh).await?;
        let backend = self.wrong as usize;
        let rate = SHARE * mesh.total_rate();
        let plan = plan(mesh.gateway(), rate, window(), chaos.arrivals(backend));
        let start = Instant::now() + HEAD_START;
        let (measured, disturbed) =
            tokio::join!(load::run(&plan, start, Arc::<Tally>::default()), self.disturb(mesh, backend, start));
        let (at, served) = disturbed?;
        let kind = Kind { kills: self.wrong != Wrong::Fails, leaves_nobody: false };
        let samples: &[Sample] = &measured.samples;
        let limit_ms = limit_ms.unwrap_or_else(|| judge::twice_the_undisturbed(samples, at.began_s));
        let seen = Seen { samples, kind, at, counted: None, limit_ms };
        let mut figures = judge::fault(&seen, CLAIM);
        let (own, all) = (served[backend], served.iter().sum::<u64>());
        let share = own as f64 * served.len() as f64 / all.max(1) as f64;
        let what = "its share when it is well again, of a fair one";
        figures.push(judge::goodput_figure(what, share, Bound::AtLeast(RECOVERED)));
        let busy = judge::restless(samples, at, limit_ms);
        Ok(Met { column: Column::new(side, figures, samples), at, limit_ms, busy })
    }

    /// Breaks the backend and mends it. Returns what each backend has served after that.
    async fn disturb(&self, mesh: &mut Mesh, backend: usize, start: Instant) -> Result<(Moments, Vec<u64>), MeshError> {
        let victim = Victim { backend, frontend: 0 };
        let fault = if self.wrong == Wrong::Fails { Fault::Failing } else { Fault::KillPod };
        sleep_until(start + BEFORE).await;
        let began_s = start.elapsed().as_secs_f64();
        let broken = fault.inject(mesh, victim).await?;
        let complete_s = start.elapsed().as_secs_f64();
        sleep_until(start + BEFORE + BROKEN).await;
        if self.wrong == Wrong::StartsSlowly {
            let (speed, time) = SLOW_START;
            mesh.restart_backend(backend).await?;
            mesh.change_speed_of(backend, speed).await?;
            mesh.restart(&[Role::Sidecar(backend)]).await?;
            sleep(time).await;
            mesh.change_speed_of(backend, 1.0).await?;
        } else {
            fault.mend(mesh, victim, broken).await?;
        }
        let mended_s = start.elapsed().as_secs_f64();
        sleep(SETTLES).await;
        let before = mesh.answered_by_sidecars().await?;
        sleep(LOOKS).await;
        let after = mesh.answered_by_sidecars().await?;
        let served = after.iter().zip(before).map(|(after, before)| after - before).collect();
        Ok((Moments { began_s, complete_s, mended_s }, served))
    }
}

/// How long a row takes on one mesh.
fn window() -> Duration {
    BEFORE + BROKEN + STARTS + SLOW_START.1 + SETTLES + LOOKS
}

fn mesh(policy: Policy, seed: u64) -> MeshSpec {
    MeshSpec {
        backends: BACKENDS,
        concurrency: 2,
        capacity: Some(CapacitySpec::Static { limit: 20 }),
        // The default of the product.
        reset_interval: Duration::from_secs(1),
        seed,
        ..MeshSpec::fleet(policy, 4, ServiceTime::Fixed(Duration::from_millis(50)))
    }
}

/// Runs the selected rows. Each kind of fault runs once on stock Envoy, tuned and not, and then
/// with each routing. Each row goes to `tell` when it is complete.
///
/// # Errors
/// A mesh does not start, or a part of it does not do what it is told.
pub async fn run(chaos: &Chaos, ends: Instant, place: Place<'_>, tell: &mut impl FnMut(Row)) -> Result<(), MeshError> {
    let wanted = RECOVERIES.into_iter().filter(|one| chaos.wants(one.name));
    let mut rows: Vec<(Recovery, Row)> =
        wanted.map(|one| (one, Row::new(one.name, one.what(), CLAIM, vec![]))).collect();
    let baselines = [Side::Stock, Side::Tuned].map(|side| (side, Policy::LeastRequest));
    let policies = [Policy::Bloc, Policy::Bid, Policy::Mu];
    let ours = [Side::Ours, Side::OursTuned].into_iter().flat_map(|side| policies.map(|policy| (side, policy)));
    for (side, policy) in baselines.into_iter().chain(ours) {
        let concerns = |one: &Recovery| !side.is_ours() || one.policy == policy;
        if !rows.iter().any(|(one, _)| concerns(one)) {
            continue;
        }
        let runs = WRONGS.len() as u32;
        if Instant::now() + MESHES + runs * window() > ends {
            for (_, row) in rows.iter_mut().filter(|(one, _)| concerns(one)) {
                row.not_run = Some(format!("no time left of {:?}", chaos.limit));
            }
            continue;
        }
        let name = format!("recovery-{}-{}", side.name(), policy.name());
        place.bar.set_message(name.clone());
        let spec = side.mesh(&mesh(policy, chaos.seed), chaos.guard(GUARD));
        let directory = place.directory.join(&name);
        let mut mesh = Mesh::start(&spec, place.tools, &directory, place.bar).await?;
        finds_out(&mesh, side, chaos.seed).await;
        for wrong in WRONGS {
            let mut concerned = rows.iter_mut().filter(|(one, _)| one.wrong == wrong && concerns(one)).peekable();
            let Some((recovery, row)) = concerned.peek() else { continue };
            let met = recovery.run(&mut mesh, side, chaos, row.limit_ms).await?;
            for (_, row) in concerned {
                row.columns.push(met.column.clone());
                row.moments = Some(met.at);
                row.limit_ms = Some(met.limit_ms);
                let busy = met.busy.as_ref().map(|why| format!("{}: {why}", side.title()));
                row.not_run = row.not_run.take().or(busy);
            }
        }
        mesh.check()?;
        mesh.end().await;
    }
    rows.into_iter().for_each(|(_, row)| tell(row));
    Ok(())
}
