//! One experiment: a mesh, a load on it, and the record of the results.

use crate::record::{Environment, Record, Row, STEPS, milliseconds};
use bloc_figures::stats::{quantile, rounded};
use bloc_mesh::envoy;
use bloc_mesh::load::{self, Load, LoadPlan, Measurement, Tally};
use bloc_mesh::seeds;
use bloc_mesh::{Mesh, MeshError, MeshSpec, Tools, show_capacity};
use indicatif::ProgressBar;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, interval, sleep_until};

/// The load begins this long after the mesh is ready, so that all clients begin at the same moment.
pub(crate) const HEAD_START: Duration = Duration::from_millis(100);
/// Open loop: at most this many requests wait at once. Each holds a socket or two, here and in the
/// gateway.
const OUTSTANDING_LIMIT: usize = 4_000;

/// An experiment.
#[derive(Clone, Debug, PartialEq)]
pub struct Case {
    /// Its name in `summary.json`; `None`: that of the shape of its load.
    pub experiment: Option<String>,
    /// The mesh.
    pub mesh: MeshSpec,
    /// The load on it.
    pub load: Load,
    /// Whether clients keep their connections.
    pub keep_alive: bool,
    /// A request without an answer for this long is an error.
    pub timeout: Duration,
    /// How long the load runs before anything counts.
    pub warm_up: Duration,
    /// How long is measured.
    pub duration: Duration,
}

impl Case {
    /// A short name, unique among the cases of a demo. It is also the name of the run directory.
    pub fn name(&self) -> String {
        format!("{}-{}-{}", self.experiment(), self.mesh.policy.name(), self.mesh.frontends)
    }

    fn experiment(&self) -> &str {
        self.experiment.as_deref().unwrap_or_else(|| self.load.experiment())
    }

    /// Starts the mesh, measures, and ends the mesh. Progress goes to `bar`.
    ///
    /// # Errors
    /// The mesh does not start, or one of its processes ends early.
    pub async fn run(&self, tools: &Tools, directory: &Path, bar: &ProgressBar) -> Result<Record, MeshError> {
        let mut standing = self.start(tools, directory, bar).await?;
        let record = self.measure(&mut standing, bar).await?;
        standing.mesh.end().await;
        Ok(record)
    }

    /// Starts the mesh of this case. Other cases that differ only in their load can use it too.
    ///
    /// # Errors
    /// The mesh does not start.
    pub async fn start(&self, tools: &Tools, directory: &Path, bar: &ProgressBar) -> Result<Standing, MeshError> {
        bar.set_message("mesh");
        let began = Instant::now();
        let mesh = Mesh::start(&self.mesh, tools, directory, bar).await?;
        Ok(Standing { mesh, took: began.elapsed(), envoy: tools.envoy.clone() })
    }

    /// Measures on a running mesh. From now on its backends draw the service times of this case's
    /// seed.
    ///
    /// # Errors
    /// One of its processes ended early, or a backend does not accept the seed.
    pub async fn measure(&self, standing: &mut Standing, bar: &ProgressBar) -> Result<Record, MeshError> {
        let Standing { mesh, took, envoy } = standing;
        let envoys = mesh.envoy_ids();
        let plan = self.plan(mesh.gateway());
        // A running mesh has drawn service times for other cases. Each case begins with its own.
        mesh.reseed(self.mesh.seed).await?;
        let tally = Arc::new(Tally::default());
        let start = Instant::now() + HEAD_START;
        let (opens, closes) = (start + self.warm_up, start + self.warm_up + self.duration);
        let counters = async {
            sleep_until(opens).await;
            let (before, cpu) = (mesh.counters().await?, cpu_time(&envoys));
            sleep_until(closes).await;
            let cpu = cpu_time(&envoys).saturating_sub(cpu);
            Ok::<_, MeshError>((mesh.counters().await?.since(&before), cpu))
        };
        let (measured, counters, ()) =
            tokio::join!(load::run(&plan, start, Arc::clone(&tally)), counters, show(&tally, start, closes, bar));
        mesh.check()?;
        let (counters, cpu) = counters?;

        let attempts = counters.attempts_per_request();
        Ok(Record {
            counters: counters.filters,
            mesh_start_s: rounded(took.as_secs_f64(), 10.0),
            environment: Environment::here(envoy::version(envoy)),
            ..self.result(&measured, attempts, cpu)
        })
    }

    /// The load on a mesh at this address.
    pub fn plan(&self, target: SocketAddr) -> LoadPlan {
        LoadPlan {
            target,
            path: "/".to_owned(),
            body: 0,
            load: self.load,
            keep_alive: self.keep_alive,
            timeout: self.timeout,
            warm_up: self.warm_up,
            window: self.duration,
            outstanding_limit: OUTSTANDING_LIMIT,
            seed: self.arrivals_seed(),
        }
    }

    /// The record of this measurement, with the attempts per request and the CPU time of all
    /// Envoys. It has no counters, no start and no environment.
    pub fn result(&self, measured: &Measurement, attempts_per_request: f64, cpu: Duration) -> Record {
        let (sorted, shed) = (measured.sorted_latencies(), measured.sorted_sheds());
        let at = |share| quantile(&sorted, share).map(milliseconds);
        let ok = sorted.len() as u64;
        let of_each = |total: Duration| (ok > 0).then(|| rounded(total.as_secs_f64() * 1e3 / ok as f64, 1e3));
        let row = Row {
            experiment: self.experiment().to_owned(),
            policy: self.mesh.policy,
            frontends: self.mesh.frontends,
            backends: self.mesh.backends,
            load: self.load.to_string(),
            service_ms: milliseconds(self.mesh.service_time.mean()),
            requests: measured.samples.len() as u64,
            ok,
            shed: measured.shed(),
            errors: measured.errors().values().sum(),
            p10_ms: at(0.1),
            p50_ms: at(0.5),
            p90_ms: at(0.9),
            p99_ms: at(0.99),
            throughput_rps: rounded(ok as f64 / measured.window.as_secs_f64().max(1e-9), 100.0),
            attempts_per_request: rounded(attempts_per_request, 1e3),
            mean_ms: of_each(sorted.iter().sum()),
            envoy_cpu_ms_per_request: of_each(cpu),
            balancing: Some(self.mesh.choice()),
        };
        Record {
            quantiles_ms: (0..=STEPS).filter_map(|step| at(Record::share(step))).collect(),
            shed_p50_ms: quantile(&shed, 0.5).map(milliseconds),
            errors_by_kind: measured.errors().into_iter().map(|(kind, count)| (kind.to_string(), count)).collect(),
            command: self.command(),
            measured_s: self.duration.as_secs_f64(),
            ..Record::from(row)
        }
    }

    /// The seed of the arrivals, also for a replay of them.
    pub fn arrivals_seed(&self) -> u64 {
        seeds::arrivals(self.mesh.seed)
    }

    /// The command line that repeats this case.
    pub fn command(&self) -> String {
        let time = |time: Duration| humantime::format_duration(time).to_string().replace(' ', "");
        let mesh = &self.mesh;
        let mut command = format!(
            "bloc-lab run --policy {} --frontends {} --backends {} --load {} --service-time {} --concurrency {} --warm-up {} \
             --duration {} --timeout {} --workers {} --seed {}",
            mesh.policy.name(),
            mesh.frontends,
            mesh.backends,
            self.load,
            mesh.service_time,
            mesh.concurrency,
            time(self.warm_up),
            time(self.duration),
            time(self.timeout),
            mesh.workers,
            mesh.seed,
        );
        if mesh.policy.routing().is_some() {
            let capacity = show_capacity(mesh.capacity.as_ref());
            let reset = time(mesh.reset_interval);
            command += &format!(" --capacity {capacity} --reset-interval {reset} --retries {}", mesh.retries);
            command += if mesh.control_plane { "" } else { " --no-control-plane" };
            command += if mesh.hold { " --hold" } else { " --no-hold" };
            command += &mesh.slo.map(|slo| format!(" --slo {}", time(slo))).unwrap_or_default();
        }
        command += &mesh.guard.map(|guard| format!(" --guard {guard}")).unwrap_or_default();
        command += if mesh.two_choices { " --two-choices" } else { "" };
        command += &self.experiment.as_ref().map(|name| format!(" --experiment {name}")).unwrap_or_default();
        if !mesh.speeds.is_empty() {
            let speeds: Vec<String> = mesh.speeds.iter().map(ToString::to_string).collect();
            command += &format!(" --speeds {}", speeds.join(","));
        }
        command + if self.keep_alive { " --keep-alive" } else { "" }
    }
}

/// A running mesh, to measure cases on.
#[derive(Debug)]
pub struct Standing {
    /// The mesh. The caller ends it after the last case.
    pub mesh: Mesh,
    took: Duration,
    envoy: PathBuf,
}

/// CPU time that these processes have used so far. A process that has ended counts as zero.
pub fn cpu_time(processes: &[u32]) -> Duration {
    // Linux reports hundredths of a second here, whatever the kernel's own clock rate.
    let ticks: u64 =
        processes.iter().filter_map(|id| ticks(&std::fs::read_to_string(format!("/proc/{id}/stat")).ok()?)).sum();
    Duration::from_millis(10 * ticks)
}

/// User and system time from `/proc/ID/stat`: the 14th and 15th field. The second field, the name,
/// may contain anything but ends with the last `)`.
fn ticks(stat: &str) -> Option<u64> {
    let mut fields = stat.rsplit_once(')')?.1.split_ascii_whitespace().skip(11);
    Some(fields.next()?.parse::<u64>().ok()? + fields.next()?.parse::<u64>().ok()?)
}

/// Advances the bar until the load has ended.
async fn show(tally: &Tally, start: Instant, closes: Instant, bar: &ProgressBar) {
    bar.set_length((closes - start).as_secs());
    let mut ticks = interval(Duration::from_millis(250));
    while Instant::now() < closes {
        ticks.tick().await;
        let (ok, shed, errors) = tally.counts();
        bar.set_position(start.elapsed().as_secs());
        bar.set_message(format!("load: {ok} ok, {shed} shed, {errors} errors"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bloc_mesh::load::{ErrorKind, Outcome, Sample};
    use bloc_mesh::policy::Policy;

    #[test]
    fn a_record_counts_every_request_once() {
        let sample = |ms, outcome| Sample { latency: Duration::from_millis(ms), outcome, ended: Duration::ZERO };
        let mut samples: Vec<Sample> = (1..=100).map(|ms| sample(ms, Outcome::Ok)).collect();
        samples.extend([
            sample(7, Outcome::Shed),
            sample(9, Outcome::Shed),
            sample(1, Outcome::Error(ErrorKind::Timeout)),
        ]);
        let case = crate::heterogeneous::case(
            crate::heterogeneous::mesh(Policy::Bid, 1, 1, true),
            0.5,
            Duration::from_secs(4),
        );
        let measured = Measurement { samples, window: Duration::from_secs(4) };
        let record = case.result(&measured, 1.5, Duration::from_millis(200));
        let row = &record.row;
        assert_eq!((row.requests, row.ok, row.shed, row.errors), (103, 100, 2, 1));
        assert_eq!([row.p10_ms, row.p50_ms, row.p90_ms, row.p99_ms], [10.0, 50.0, 90.0, 99.0].map(Some));
        assert_eq!((row.throughput_rps, row.mean_ms, row.envoy_cpu_ms_per_request), (25.0, Some(50.5), Some(2.0)));
        assert_eq!(record.shed_p50_ms, Some(7.0));
        assert_eq!((record.quantiles_ms.len(), record.quantiles_ms[0], record.quantiles_ms[400]), (401, 1.0, 100.0));
        let none = case.result(&Measurement { samples: vec![], ..measured }, 0.0, Duration::from_millis(200)).row;
        assert_eq!((none.p50_ms, none.mean_ms, none.envoy_cpu_ms_per_request), (None, None, None));
    }

    #[test]
    fn adds_user_and_system_time_for_any_process_name() {
        let stat = "7 (a) b) S 1 7 7 0 -1 4194560 100 0 0 0 123 45 0 0 20 0 1 0 100 1 1 1";
        assert_eq!(ticks(stat), Some(168));
        assert_eq!(ticks("7 (short) S 1"), None);
        let own = cpu_time(&[std::process::id()]);
        let began = Instant::now();
        while cpu_time(&[std::process::id()]) < own + Duration::from_millis(20) {
            assert!(began.elapsed() < Duration::from_secs(20), "no CPU time is seen");
        }
    }
}
