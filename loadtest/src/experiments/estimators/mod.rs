//! Compares three sources of a backend's capacity: a known optimum, the paper's average, and the
//! SLO divided by the measured service time.
//!
//! Two servers, each with one request at a time, behind four frontends with BLOC, and Poisson
//! arrivals in four phases: 120% of what the servers can do, 30%, 120% again, and 120% while they
//! run at half their speed. An estimator that only ratchets down does not recover after the second
//! phase. One that runs away lets the queue, and so the response time, grow in the first, the third
//! or the fourth. The static optimum is what full speed finishes within the SLO: `floor(slo / mean
//! service time)`, at least 1.

pub mod command;
pub mod page;

use crate::record::milliseconds;
use crate::timeline::Point;
use bloc_figures::service_time::ServiceTime;
use bloc_figures::stats::{quantile, rounded};
use bloc_mesh::load::{self, Load, LoadPlan, Measurement, Tally};
use bloc_mesh::policy::Policy;
use bloc_mesh::seeds;
use bloc_mesh::{Mesh, MeshError, MeshSpec, Tools, show_capacity};
use bloc_policy::config::CapacitySpec;
use indicatif::ProgressBar;
use serde::Serialize;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, sleep_until};

const BACKENDS: usize = 2;
const SAMPLING: Duration = Duration::from_millis(250);
/// The SLO for the estimators: the paper's 250 ms services and 2.5 s, scaled by 5.
pub const SLO: Duration = Duration::from_millis(500);

/// Name, load (share of the rate at full speed) and speed of each phase.
pub const PHASES: [(&str, f64, f64); 4] =
    [("overload", 1.2, 1.0), ("light", 0.3, 1.0), ("overload again", 1.2, 1.0), ("half speed", 1.2, 0.5)];

/// The results of one phase.
#[derive(Clone, Debug, Serialize)]
pub struct Phase {
    /// Its name in [`PHASES`].
    pub name: &'static str,
    /// Capacity in force over the phase's second half: smallest, mean and largest. Zero means no
    /// limit.
    pub capacity: [f64; 3],
    /// Requests answered per second.
    pub throughput_rps: f64,
    /// Share of the requests that were shed.
    pub shed: f64,
    /// Median and 99th percentile of the response time, in milliseconds.
    pub p50_p99_ms: [Option<f64>; 2],
    /// Errors other than sheds.
    pub errors: u64,
}

/// One estimator with one kind of service time.
#[derive(Clone, Debug, Serialize)]
pub struct Estimator {
    /// As on the command line.
    pub capacity: String,
    /// As on the command line.
    pub service_time: String,
    /// The phases in order.
    pub phases: Vec<Phase>,
    /// The mean capacity in force over time.
    pub over_time: Vec<Point>,
}

/// The three candidates for a service time; `interval` is that of the average.
pub fn candidates(time: ServiceTime, interval: Duration) -> [CapacitySpec; 3] {
    let limit = ((SLO.as_secs_f64() / time.mean().as_secs_f64()).floor() as u32).max(1);
    let text = |time: Duration| humantime::format_duration(time).to_string();
    [
        CapacitySpec::Static { limit: limit.into() },
        CapacitySpec::Average { interval: Some(text(interval)) },
        CapacitySpec::Slo { slo: text(SLO) },
    ]
}

/// Runs all phases, each for `phase`.
///
/// # Errors
/// The mesh does not start, or one of its processes ends early.
pub async fn run(
    capacity: &CapacitySpec,
    service_time: ServiceTime,
    phase: Duration,
    seed: u64,
    (tools, directory, bar): (&Tools, &Path, &ProgressBar),
) -> Result<Estimator, MeshError> {
    let spec = mesh(capacity, service_time, seed);
    let mut mesh = Mesh::start(&spec, tools, directory, bar).await?;
    let (mut phases, mut over_time) = (Vec::new(), Vec::new());
    let began = Instant::now();
    for (name, share, speed) in PHASES {
        bar.set_message(format!("{}: {name}", show_capacity(Some(capacity))));
        mesh.change_speed(speed).await?;
        let plan = LoadPlan {
            target: mesh.gateway(),
            path: "/".to_owned(),
            body: 0,
            load: Load::Poisson { rate: share * spec.total_rate(BACKENDS) },
            keep_alive: true,
            timeout: Duration::from_secs(60),
            warm_up: Duration::ZERO,
            window: phase,
            outstanding_limit: 4_000,
            seed: seeds::arrivals(seed),
        };
        let start = Instant::now();
        let (measured, seen) =
            tokio::join!(load::run(&plan, start, Arc::<Tally>::default()), capacities(&mesh, start, phase));
        let seen = seen?;
        phases.push(Phase::new(name, &measured, &seen));
        let offset = (start - began).as_secs_f64();
        over_time.extend(seen.into_iter().map(|point| Point { at_s: point.at_s + offset, ..point }));
        mesh.check()?;
    }
    mesh.end().await;
    let capacity = show_capacity(Some(capacity));
    Ok(Estimator { capacity, service_time: service_time.to_string(), phases, over_time })
}

fn mesh(capacity: &CapacitySpec, service_time: ServiceTime, seed: u64) -> MeshSpec {
    MeshSpec {
        backends: BACKENDS,
        capacity: Some(capacity.clone()),
        hold: true,
        control_plane: false,
        seed,
        ..MeshSpec::fleet(Policy::Bloc, 4, service_time)
    }
}

/// The mean of the gauge `capacity` over the backends, for `phase`.
async fn capacities(mesh: &Mesh, start: Instant, phase: Duration) -> Result<Vec<Point>, MeshError> {
    let mut points = Vec::new();
    for at in (1u32..).map(|n| SAMPLING * n).take_while(|at| *at <= phase) {
        sleep_until(start + at).await;
        let gauges = mesh.gauges("capacity").await?;
        let value = gauges.iter().sum::<u64>() as f64 / gauges.len().max(1) as f64;
        points.push(Point { at_s: at.as_secs_f64(), value });
    }
    Ok(points)
}

impl Phase {
    fn new(name: &'static str, measured: &Measurement, seen: &[Point]) -> Self {
        let late = &seen[seen.len() / 2..];
        let values = || late.iter().map(|point| point.value);
        let mean = values().sum::<f64>() / late.len().max(1) as f64;
        let sorted = measured.sorted_latencies();
        let window = measured.window.as_secs_f64().max(1e-9);
        Self {
            name,
            capacity: [values().reduce(f64::min).unwrap_or(0.0), rounded(mean, 10.0), values().fold(0.0, f64::max)],
            throughput_rps: rounded(sorted.len() as f64 / window, 10.0),
            shed: rounded(measured.shed() as f64 / measured.samples.len().max(1) as f64, 1e3),
            p50_p99_ms: [0.5, 0.99].map(|share| quantile(&sorted, share).map(milliseconds)),
            errors: measured.errors().values().sum(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bloc_mesh::load::{Outcome, Sample};

    #[test]
    fn the_optimum_is_the_slo_divided_by_the_mean_service_time() {
        for (time, limit) in [("fixed:50ms", 10), ("uniform:8ms-130ms", 7), ("fixed:2s", 1)] {
            let [optimum, average, slo] = candidates(time.parse().unwrap(), Duration::from_secs(3));
            assert_eq!(optimum, CapacitySpec::Static { limit }, "{time}");
            assert_eq!(show_capacity(Some(&average)), "average:3s");
            assert_eq!(show_capacity(Some(&slo)), "slo:500ms");
        }
    }

    #[test]
    fn a_phase_reports_the_capacity_of_its_second_half() {
        let seen: Vec<Point> = [90.0, 80.0, 4.0, 8.0].iter().map(|&value| Point { at_s: 0.0, value }).collect();
        let sample = |ms, outcome| Sample { latency: Duration::from_millis(ms), outcome, ended: Duration::ZERO };
        let samples =
            vec![sample(5, Outcome::Ok), sample(7, Outcome::Ok), sample(1, Outcome::Shed), sample(9, Outcome::Ok)];
        let phase = Phase::new("x", &Measurement { samples, window: Duration::from_secs(2) }, &seen);
        assert_eq!((phase.capacity, phase.throughput_rps, phase.shed), ([4.0, 6.0, 8.0], 1.5, 0.25));
        assert_eq!(phase.p50_p99_ms, [Some(7.0), Some(9.0)]);
    }
}
