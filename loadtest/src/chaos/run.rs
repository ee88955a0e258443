//! The run: one mesh for all faults, then the flood on a mesh of each kind.

use super::fault::{FAULTS, Fault, Victim};
use super::impossible::Impossible;
use super::judge::{self, Counted, Kind, Moments, Promise};
use super::recovery::{RECOVERIES, Recovery};
use super::rollback::{self, ROLLED_BACK};
use super::uploads::{self, UPLOADS};
use crate::backend::ServiceTime;
use crate::case::HEAD_START;
use crate::envoy::SERVICE;
use crate::load::{self, ErrorKind, Load, LoadPlan, Outcome as Seen, Sample, Tally, quantile};
use crate::mesh::{Mesh, MeshError, MeshSpec, Role, Tools};
use crate::policy::Policy;
use crate::throttle::Throttle;
use crate::timeline::Point;
use bloc_policy::config::CapacitySpec;
use indicatif::ProgressBar;
use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};
use serde::Serialize;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, sleep, sleep_until};

const BEFORE: Duration = Duration::from_secs(4);
const FAULT: Duration = Duration::from_secs(6);
const AFTER: Duration = Duration::from_secs(9);
/// What several Envoys may take to start at once on a busy machine.
const STARTS: Duration = Duration::from_secs(9);
const UNDISTURBED: Duration = Duration::from_secs(15);
/// A request hands the filters' counters over when they have waited for a second; without one it takes five.
const COUNTERS_LAG: Duration = Duration::from_millis(1_100);
/// Half of what the servers can do: three of four can take it all.
const SHARE: f64 = 0.5;
const FLOOD_SHARE: f64 = 5.0;
/// Enough that requests wait in the sidecars; the other three can take nearly all of it.
const THROTTLED_SHARE: f64 = 0.7;
/// A client in a flood has this much patience: twice what a full server needs for all that it admits.
const FLOOD_PATIENCE: Duration = Duration::from_secs(2);

/// The name of the flood on the command line.
const FLOOD: &str = "flood";
/// The name of the throttled sidecar on the command line.
const THROTTLED: &str = "throttled-sidecar";
/// Of one processor.
const THROTTLED_TO: f64 = 0.05;
const THROTTLED_FOR: Duration = Duration::from_secs(10);
/// What came at the beginning may be answered soon after the end. Less than the 15 s after which Envoy
/// gives up itself.
const THROTTLED_PATIENCE: Duration = Duration::from_secs(13);
/// What takes the rest of that away most of the time, as an application in the same cgroup does.
const NEIGHBOURS: usize = 20;

/// What to run.
#[derive(Clone, Debug)]
pub struct Chaos {
    /// What balances the load.
    pub policy: Policy,
    /// Only the faults whose name is this; all if empty.
    pub only: Vec<String>,
    /// How long the flood lasts.
    pub flood: Duration,
    /// Nothing begins that would end later.
    pub limit: Duration,
    /// Determines the order, the victims and the arrivals.
    pub seed: u64,
}

/// What came out of one case.
#[derive(Clone, Debug, Serialize)]
pub struct Outcome {
    /// Its name.
    pub name: &'static str,
    /// What happened.
    pub what: String,
    /// When.
    pub moments: Option<Moments>,
    /// Why it did not happen.
    pub not_run: Option<String>,
    /// What was promised.
    pub promises: Vec<Promise>,
    /// The 99th percentile over time, in milliseconds.
    pub p99_ms: Vec<Point>,
    /// The level below which it should be.
    pub limit_ms: f64,
    /// Answers, refusals and losses a second.
    pub per_second: [Vec<Point>; 3],
    /// What was counted.
    pub counted: Option<Counted>,
}

impl Outcome {
    fn not_run(name: &'static str, what: &str, why: String) -> Self {
        Self {
            name,
            what: what.to_owned(),
            moments: None,
            not_run: Some(why),
            promises: vec![],
            p99_ms: vec![],
            limit_ms: 0.0,
            per_second: [const { Vec::new() }; 3],
            counted: None,
        }
    }

    /// Whether everything that was promised holds.
    pub fn holds(&self) -> bool {
        self.promises.iter().all(|promise| promise.holds)
    }

    /// What the clients saw, for the page.
    fn drawn(mut self, samples: &[Sample]) -> Self {
        self.p99_ms = judge::p99(samples);
        self.per_second = [
            judge::per_second(samples, |outcome| outcome == Seen::Ok),
            judge::per_second(samples, |outcome| outcome == Seen::Shed),
            judge::per_second(samples, |outcome| matches!(outcome, Seen::Error(_))),
        ];
        self
    }
}

impl Chaos {
    /// The names that [`Chaos::only`] knows.
    pub fn names() -> impl Iterator<Item = &'static str> {
        let recoveries = RECOVERIES.iter().map(|recovery| recovery.name);
        let faults = FAULTS.iter().map(|fault| fault.name());
        faults.chain(recoveries).chain([ROLLED_BACK, UPLOADS, THROTTLED, FLOOD])
    }

    /// Runs it; what has come out goes to `tell` at once.
    ///
    /// # Errors
    /// A mesh does not start, or a part of it does not do as it is told.
    pub async fn run(
        &self,
        tools: &Tools,
        directory: &Path,
        bar: &ProgressBar,
        mut tell: impl FnMut(&Outcome),
    ) -> Result<Vec<Outcome>, MeshError> {
        let ends = Instant::now() + self.limit;
        let wanted = |name: &str| self.only.is_empty() || self.only.iter().any(|only| only == name);
        let mut rng = StdRng::seed_from_u64(self.seed);
        let mut faults: Vec<Fault> = FAULTS.into_iter().filter(|fault| wanted(fault.name())).collect();
        faults.shuffle(&mut rng);
        let mut outcomes = Vec::new();
        if !faults.is_empty() {
            let spec = self.mesh();
            // The flood's Envoys start as they are: they need no clocks.
            let tools = if faults.contains(&Fault::Clock) { &tools.with_clocks(directory)? } else { tools };
            let mut mesh = Mesh::start(&spec, tools, directory, bar).await?;
            let undisturbed = self.undisturbed(&mesh).await;
            for (number, fault) in (1..).zip(faults) {
                let victim = Victim {
                    backend: rng.random_range(0..spec.backends),
                    frontend: rng.random_range(0..spec.frontends),
                };
                bar.set_message(fault.name());
                let flood = if wanted(FLOOD) { 2 * (self.flood + AFTER) } else { Duration::ZERO };
                let throttled = if wanted(THROTTLED) { 2 * (throttled_window() + STARTS) } else { Duration::ZERO };
                let rolled_back = if wanted(ROLLED_BACK) { 2 * (rollback::window() + STARTS) } else { Duration::ZERO };
                let uploads = if wanted(UPLOADS) { uploads::window() + STARTS } else { Duration::ZERO };
                let recoveries = RECOVERIES.iter().filter(|recovery| wanted(recovery.name)).count() as u32;
                let recoveries = recoveries * (Recovery::window() + STARTS);
                let others = flood + throttled + rolled_back + uploads + recoveries;
                let outcome = if Instant::now() + BEFORE + FAULT + AFTER + STARTS + others > ends {
                    Outcome::not_run(fault.name(), fault.what(), format!("no time left of {:?}", self.limit))
                } else {
                    self.fault(fault, victim, &mut mesh, number, undisturbed).await?
                };
                tell(&outcome);
                outcomes.push(outcome);
            }
            mesh.check()?;
            mesh.end().await;
        }
        let recoveries: Vec<Recovery> = RECOVERIES.into_iter().filter(|recovery| wanted(recovery.name)).collect();
        for together in recoveries.chunk_by(Recovery::is_with) {
            for outcome in self.recoveries(together, tools, directory, bar).await? {
                tell(&outcome);
                outcomes.push(outcome);
            }
        }
        if wanted(ROLLED_BACK) {
            let outcome = self.rolled_back(tools, directory, bar).await?;
            tell(&outcome);
            outcomes.push(outcome);
        }
        if wanted(UPLOADS) {
            let outcome = self.uploads(tools, directory, bar).await?;
            tell(&outcome);
            outcomes.push(outcome);
        }
        if wanted(THROTTLED) {
            let outcome = self.throttled_sidecar(tools, directory, bar).await?;
            tell(&outcome);
            outcomes.push(outcome);
        }
        if wanted(FLOOD) {
            let least = self.flood(Policy::LeastRequest, tools, &directory.join("least-request"), bar).await?;
            let ours = self.flood(self.policy, tools, &directory.join("flood"), bar).await?;
            let outcome = self.judge_flood(&ours, &least);
            tell(&outcome);
            outcomes.push(outcome);
        }
        Ok(outcomes)
    }

    fn mesh(&self) -> MeshSpec {
        let service_time = ServiceTime::Fixed(Duration::from_millis(50));
        MeshSpec {
            backends: 4,
            concurrency: 2,
            capacity: Some(CapacitySpec::Static { limit: 20 }),
            seed: self.seed,
            ..MeshSpec::fleet(self.policy, 4, service_time)
        }
    }

    /// Four servers that do 10 requests a second each: five times that is what two cores can make and carry.
    fn flooded(&self, policy: Policy) -> MeshSpec {
        let service_time = ServiceTime::Fixed(Duration::from_millis(100));
        let capacity = policy.routing().map(|_| CapacitySpec::Static { limit: 10 });
        MeshSpec { backends: 4, capacity, seed: self.seed, ..MeshSpec::fleet(policy, 4, service_time) }
    }

    fn plan(&self, mesh: &Mesh, rate: f64, window: Duration, patience: Duration, number: u64) -> LoadPlan {
        LoadPlan {
            target: mesh.gateway(),
            path: "/".to_owned(),
            body: 0,
            load: Load::Poisson { rate },
            keep_alive: false,
            timeout: patience,
            warm_up: Duration::ZERO,
            window,
            outstanding_limit: 4_000,
            seed: self.seed.wrapping_add(1_000 * number),
        }
    }

    fn rate(&self) -> f64 {
        let spec = self.mesh();
        SHARE * spec.total_rate(spec.backends)
    }

    /// The 99th percentile without a fault.
    async fn undisturbed(&self, mesh: &Mesh) -> Duration {
        let warm_up = Duration::from_secs(3);
        let plan = LoadPlan { warm_up, ..self.plan(mesh, self.rate(), UNDISTURBED, judge::PATIENCE, 0) };
        let measured = load::run(&plan, Instant::now() + HEAD_START, Arc::<Tally>::default()).await;
        quantile(&measured.sorted_latencies(), 0.99).unwrap_or_default()
    }

    async fn fault(
        &self,
        fault: Fault,
        victim: Victim,
        mesh: &mut Mesh,
        number: u64,
        undisturbed: Duration,
    ) -> Result<Outcome, MeshError> {
        if let Err(Impossible(why)) = fault.check().await {
            return Ok(Outcome::not_run(fault.name(), fault.what(), why));
        }
        let backends = mesh.endpoints().len();
        let window = BEFORE + FAULT + if fault.leaves_nobody() { AFTER + STARTS } else { AFTER };
        let plan = self.plan(mesh, self.rate(), window, judge::PATIENCE, number);
        let before = counted(mesh).await?;
        let start = Instant::now() + HEAD_START;
        let disturb = async {
            sleep_until(start + BEFORE).await;
            let began_s = start.elapsed().as_secs_f64();
            let broken = fault.inject(mesh, victim).await?;
            let complete_s = start.elapsed().as_secs_f64();
            if fault.lasts() {
                sleep_until(start + BEFORE + FAULT).await;
            }
            fault.mend(mesh, victim, broken).await?;
            let mended_s = start.elapsed().as_secs_f64();
            Ok::<_, MeshError>(Moments { began_s, complete_s, mended_s })
        };
        let (measured, moments) = tokio::join!(load::run(&plan, start, Arc::<Tally>::default()), disturb);
        let moments = moments?;
        sleep(COUNTERS_LAG).await;
        mesh.ask_frontends().await?;
        let after = counted(mesh).await?;
        let counted = (!fault.restarts_frontends()).then(|| since(after, before));
        let own = match fault {
            Fault::Failing => Some((ErrorKind::Status(500), backends)),
            Fault::Cutting => Some((ErrorKind::Broken, backends)),
            _ => None,
        };
        let kind = Kind {
            kills: fault.kills(),
            leaves_nobody: fault.leaves_nobody(),
            heals_by_itself: fault.heals_by_itself(),
            own,
        };
        let limit_ms = 2e3 * undisturbed.as_secs_f64();
        if let Some(why) = judge::restless(&measured.samples, moments, limit_ms) {
            return Ok(Outcome::not_run(fault.name(), fault.what(), why).drawn(&measured.samples));
        }
        let frontends = mesh.frontend_count() as u64;
        let promises =
            judge::judge(&measured.samples, kind, moments, limit_ms, counted.map(|counted| (counted, frontends)));
        let whom = format!("{} (backend {}, frontend {})", fault.what(), victim.backend, victim.frontend);
        let outcome = Outcome {
            moments: Some(moments),
            not_run: None,
            promises,
            limit_ms,
            counted,
            ..Outcome::not_run(fault.name(), &whom, String::new())
        };
        Ok(outcome.drawn(&measured.samples))
    }

    async fn flood(
        &self,
        policy: Policy,
        tools: &Tools,
        directory: &Path,
        bar: &ProgressBar,
    ) -> Result<Vec<Sample>, MeshError> {
        let spec = self.flooded(policy);
        bar.set_message("flood");
        let mut mesh = Mesh::start(&spec, tools, directory, bar).await?;
        let rate = FLOOD_SHARE * spec.total_rate(spec.backends);
        let plan = self.plan(&mesh, rate, self.flood, FLOOD_PATIENCE, 0);
        let measured = load::run(&plan, Instant::now() + HEAD_START, Arc::<Tally>::default()).await;
        mesh.check()?;
        mesh.end().await;
        Ok(measured.samples)
    }

    /// One server after the other breaks and is well again, on one mesh.
    async fn recoveries(
        &self,
        together: &[Recovery],
        tools: &Tools,
        directory: &Path,
        bar: &ProgressBar,
    ) -> Result<Vec<Outcome>, MeshError> {
        let Some(first) = together.first() else { return Ok(vec![]) };
        let mut mesh = first.mesh(self.seed, tools, &directory.join("recovery"), bar).await?;
        let mut outcomes = Vec::new();
        for (backend, recovery) in together.iter().enumerate() {
            bar.set_message(recovery.name);
            let seen = recovery.run(&mut mesh, backend, self.seed.wrapping_add(backend as u64)).await?;
            let outcome = Outcome {
                moments: Some(seen.at),
                not_run: None,
                promises: seen.promises,
                ..Outcome::not_run(recovery.name, &recovery.what(), String::new())
            };
            outcomes.push(outcome.drawn(&seen.samples));
        }
        mesh.check()?;
        mesh.end().await;
        Ok(outcomes)
    }

    /// A configuration is changed and rolled back; the same without our filters.
    async fn rolled_back(&self, tools: &Tools, directory: &Path, bar: &ProgressBar) -> Result<Outcome, MeshError> {
        bar.set_message(ROLLED_BACK);
        let apart = directory.join("rolled-back-least-request");
        let least = rollback::run(Policy::LeastRequest, self.seed, tools, &apart, bar).await?;
        let ours = rollback::run(self.policy, self.seed, tools, &directory.join("rolled-back"), bar).await?;
        let outcome = Outcome {
            moments: Some(ours.at),
            not_run: None,
            promises: judge::judge_rolled_back(&ours, &least.samples, rollback::bound()),
            limit_ms: judge::twice_the_undisturbed(&ours.samples, ours.at),
            ..Outcome::not_run(ROLLED_BACK, &rollback::what(), String::new())
        };
        Ok(outcome.drawn(&ours.samples))
    }

    /// Large bodies among small ones, always with bids: nothing else bounces without a capacity.
    async fn uploads(&self, tools: &Tools, directory: &Path, bar: &ProgressBar) -> Result<Outcome, MeshError> {
        bar.set_message(UPLOADS);
        let seen = uploads::run(self.seed, tools, &directory.join(UPLOADS), bar).await?;
        let outcome = Outcome {
            moments: Some(seen.at),
            not_run: None,
            promises: judge::judge_uploads(&seen),
            ..Outcome::not_run(UPLOADS, &uploads::what(), String::new())
        };
        Ok(outcome.drawn(&seen.large))
    }

    /// A sidecar that holds requests gets next to nothing of a processor; the same without our filters.
    async fn throttled_sidecar(
        &self,
        tools: &Tools,
        directory: &Path,
        bar: &ProgressBar,
    ) -> Result<Outcome, MeshError> {
        let what = format!(
            "a sidecar with two workers that holds requests shares {:.0}% of a core with {NEIGHBOURS} busy processes for {} s",
            100.0 * THROTTLED_TO,
            THROTTLED_FOR.as_secs()
        );
        if let Err(error) = Throttle::check() {
            return Ok(Outcome::not_run(THROTTLED, &what, error.to_string()));
        }
        bar.set_message(THROTTLED);
        let least =
            self.throttled(Policy::LeastRequest, tools, &directory.join("throttled-least-request"), bar).await?;
        let ours = self.throttled(self.policy, tools, &directory.join("throttled"), bar).await?;
        let promises = judge::judge_throttled(&ours, &least, THROTTLED_PATIENCE);
        Ok(Outcome { not_run: None, promises, ..Outcome::not_run(THROTTLED, &what, String::new()) }.drawn(&ours))
    }

    async fn throttled(
        &self,
        policy: Policy,
        tools: &Tools,
        directory: &Path,
        bar: &ProgressBar,
    ) -> Result<Vec<Sample>, MeshError> {
        let service_time = ServiceTime::Fixed(Duration::from_millis(50));
        let capacity = policy.routing().map(|_| CapacitySpec::Static { limit: 20 });
        let hold = policy.routing().is_some();
        let fleet = MeshSpec::fleet(policy, 4, service_time);
        let spec = MeshSpec { backends: 4, workers: 2, hold, capacity, seed: self.seed, ..fleet };
        let mut mesh = Mesh::start(&spec, tools, directory, bar).await?;
        let rate = THROTTLED_SHARE * spec.total_rate(spec.backends);
        let plan = self.plan(&mesh, rate, throttled_window(), THROTTLED_PATIENCE, 0);
        let start = Instant::now() + HEAD_START;
        let disturb = async {
            sleep_until(start + BEFORE).await;
            let throttle = mesh.throttle(Role::Sidecar(0), THROTTLED_TO, NEIGHBOURS).await?;
            sleep(THROTTLED_FOR).await;
            drop(throttle);
            Ok::<_, MeshError>(())
        };
        let (measured, disturbed) = tokio::join!(load::run(&plan, start, Arc::<Tally>::default()), disturb);
        disturbed?;
        mesh.check()?;
        mesh.end().await;
        Ok(measured.samples)
    }

    fn judge_flood(&self, ours: &[Sample], least: &[Sample]) -> Outcome {
        let spec = self.flooded(self.policy);
        let capacity = spec.total_rate(spec.backends);
        let (from_s, to_s) = (1.0, self.flood.as_secs_f64());
        let least = judge::goodput(least, from_s, to_s, capacity);
        let what = format!("{FLOOD_SHARE} times what the servers can do, for {} s", self.flood.as_secs());
        let promises = judge::judge_flood(ours, from_s, to_s, capacity, least);
        Outcome { not_run: None, promises, ..Outcome::not_run(FLOOD, &what, String::new()) }.drawn(ours)
    }
}

fn throttled_window() -> Duration {
    BEFORE + THROTTLED_FOR + AFTER
}

async fn counted(mesh: &Mesh) -> Result<Counted, MeshError> {
    let ours = |name: &str| format!("wasmcustom.bloc.outbound.{SERVICE}.{name}");
    let sum = async |name: &str| mesh.frontends_sum(&ours(name)).await;
    Ok(Counted {
        requests: mesh.frontends_sum("http.outbound.downstream_rq_total").await?,
        retries: mesh.frontends_sum(&format!("cluster.{SERVICE}.upstream_rq_retry")).await?
            - sum("refused_retries").await?,
        rejections: sum("rejections").await? + sum("bounces").await?,
        exhausted: sum("retries_exhausted").await?,
    })
}

fn since(after: Counted, before: Counted) -> Counted {
    Counted {
        requests: after.requests.saturating_sub(before.requests),
        retries: after.retries.saturating_sub(before.retries),
        rejections: after.rejections.saturating_sub(before.rejections),
        exhausted: after.exhausted.saturating_sub(before.exhausted),
    }
}
