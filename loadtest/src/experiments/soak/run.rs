//! The soak run.

use super::books::Books;
use super::bursts::Bursts;
use super::watch::{Series, Unit, descriptors, idle_again, resident_mib, steady};
use crate::case::HEAD_START;
use crate::experiments::chaos::judge::Promise;
use crate::timeline::Point;
use bloc_figures::service_time::ServiceTime;
use bloc_mesh::load::{self, Load, LoadPlan, Outcome, Tally};
use bloc_mesh::policy::Policy;
use bloc_mesh::{Mesh, MeshError, MeshSpec, Parts, Tools};
use bloc_policy::config::CapacitySpec;
use indicatif::ProgressBar;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use serde::Serialize;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, sleep, sleep_until};

/// The time between two changes.
const CHANGE: Duration = Duration::from_secs(1);
/// Changes between two readings of memory and descriptors.
const LOOK: u64 = 3;
/// The filters' counters lag by up to five seconds after the traffic, and the last answers are
/// still under way.
const SETTLE: Duration = Duration::from_secs(7);
/// Connections are closed after this idle time. Otherwise the pools would keep what the worst
/// second needed.
const IDLE: Duration = Duration::from_secs(5);
/// Longer than the 5 s after which a sidecar without traffic checks whether to poll the control
/// plane, on a connection of its own.
const IDLE_TIME: Duration = Duration::from_secs(7);
/// What an Envoy has allocated and not freed, in bytes; at most 5 s old.
const HEAP: &str = "server.memory_allocated";
const MIB: f64 = (1 << 20) as f64;
/// How long everything may take to become idle again.
const IDLE_AGAIN: Duration = Duration::from_secs(20);

/// A soak run.
#[derive(Clone, Copy, Debug)]
pub struct Soak {
    /// What balances the load.
    pub policy: Policy,
    /// The length of the run; at least three minutes, since a slope needs enough values.
    pub duration: Duration,
    /// Requests per second beside the bursts. The four servers that are always there serve 400 per
    /// second, the two that come and go 200 more.
    pub rate: f64,
    /// The seed of the service times, and of the arrivals of the steady load and the bursts.
    pub seed: u64,
}

/// The result of a soak run.
#[derive(Clone, Debug, Serialize)]
pub struct Lived {
    /// What all parts counted.
    pub books: Books,
    /// The number of changes.
    pub changes: u64,
    /// The quantities over time.
    pub series: Vec<Series>,
    /// The promises.
    pub promises: Vec<Promise>,
}

impl Lived {
    /// Whether all promises hold.
    pub fn holds(&self) -> bool {
        self.promises.iter().all(|promise| promise.holds)
    }
}

impl Soak {
    /// Runs it.
    ///
    /// # Errors
    /// The mesh does not start, or one of its processes ends early.
    pub async fn run(&self, tools: &Tools, directory: &Path, bar: &ProgressBar) -> Result<Lived, MeshError> {
        let [servers, steady_load, bursts] = self.seeds();
        let mut mesh = Mesh::start(&self.mesh(servers), tools, directory, bar).await?;
        let parts = mesh.parts();
        let envoys = [parts.outer.clone(), parts.sidecars.clone()].concat();
        let idle = steady(IDLE_TIME, IDLE_AGAIN, || descriptors(&envoys)).await;
        let plan = LoadPlan {
            target: mesh.gateway(),
            path: "/".to_owned(),
            body: 0,
            load: Load::Poisson { rate: self.rate },
            keep_alive: true,
            timeout: Duration::from_secs(20),
            warm_up: Duration::ZERO,
            window: self.duration,
            outstanding_limit: 4_000,
            seed: steady_load,
        };
        let bursts = Bursts::new(self.duration, bursts);
        let start = Instant::now() + HEAD_START;
        bar.set_length(self.duration.as_secs());
        bar.set_position(0);
        let (measured, overload, watched) = tokio::join!(
            load::run(&plan, start, Arc::<Tally>::default()),
            bursts.run(&plan, start),
            self.watch(&mesh, &parts, &envoys, start, bar)
        );
        let (series, changes) = watched?;
        sleep(SETTLE).await;
        mesh.check()?;
        let mut books = Books::of(&mesh).await?;
        let closed = idle_again(idle, IDLE_AGAIN, || descriptors(&envoys)).await;
        mesh.end().await;
        let outcomes: Vec<Outcome> =
            measured.samples.iter().chain(overload.samples()).map(|sample| sample.outcome).collect();
        let count = |matches: fn(&&Outcome) -> bool| outcomes.iter().filter(matches).count() as u64;
        books.sent = outcomes.len() as u64;
        books.answered = count(|outcome| **outcome == Outcome::Ok);
        books.shed = count(|outcome| **outcome == Outcome::Shed);
        books.errors = count(|outcome| matches!(outcome, Outcome::Error(_)));
        (books.bursts, books.bursts_shed) = (overload.bursts.len() as u64, overload.shed_in());
        let happened = books.happened(self.policy == Policy::Bid);
        let flat = series.iter().filter_map(Series::judge);
        let promises = books.balance().into_iter().chain(happened).chain(flat).chain([closed]).collect();
        Ok(Lived { books, changes, series, promises })
    }

    /// Independent seeds of the service times, the steady load and the bursts.
    fn seeds(&self) -> [u64; 3] {
        let mut rng = StdRng::seed_from_u64(self.seed);
        std::array::from_fn(|_| rng.random())
    }

    fn mesh(&self, seed: u64) -> MeshSpec {
        let service_time = ServiceTime::Exponential(Duration::from_millis(20));
        MeshSpec {
            backends: 4,
            spare: 2,
            concurrency: 2,
            capacity: Some(CapacitySpec::Static { limit: 10 }),
            seed,
            idle_timeout: Some(IDLE),
            ..MeshSpec::fleet(self.policy, 4, service_time)
        }
    }

    /// Changes something each second, and takes readings.
    async fn watch(
        &self,
        mesh: &Mesh,
        parts: &Parts,
        envoys: &[u32],
        start: Instant,
        bar: &ProgressBar,
    ) -> Result<(Vec<Series>, u64), MeshError> {
        let mut series = [
            ("heap of the gateway and the frontends' Envoys", Unit::Mib),
            ("heap of the backends' Envoys", Unit::Mib),
            ("memory of the control plane", Unit::Mib),
            ("resident memory of the gateway and the frontends' Envoys", Unit::ResidentMib),
            ("resident memory of the backends' Envoys", Unit::ResidentMib),
            ("linear memory of the frontends' guests", Unit::Pages),
            ("linear memory of the backends' guests", Unit::Pages),
            ("file descriptors of all Envoys", Unit::Connections),
            ("file descriptors of the control plane", Unit::Descriptors),
        ]
        .map(|(name, unit)| Series { name, unit, points: vec![] });
        let seconds = self.duration.as_secs();
        for second in 1..=seconds {
            sleep_until(start + CHANGE * u32::try_from(second).unwrap_or(u32::MAX)).await;
            let (servers, capacity) = self.state(second);
            mesh.reconfigure(servers, CapacitySpec::Static { limit: capacity })?;
            if second % LOOK == 0 {
                let guests = mesh.guest_pages().await?;
                let outer = mesh.gateway_counter(HEAP).await? + mesh.frontends_sum(HEAP).await?;
                let values = [
                    outer as f64 / MIB,
                    mesh.sidecars_sum(HEAP).await? as f64 / MIB,
                    resident_mib(&parts.control_plane),
                    resident_mib(&parts.outer),
                    resident_mib(&parts.sidecars),
                    guests[0] as f64,
                    guests[1] as f64,
                    descriptors(envoys),
                    descriptors(&parts.control_plane),
                ];
                let at_s = start.elapsed().as_secs_f64();
                series.iter_mut().zip(values).for_each(|(one, value)| one.points.push(Point { at_s, value }));
            }
            bar.set_position(second);
        }
        Ok((series.into(), seconds))
    }

    /// The number of servers in this second (4, 5, 6, 5 in turn) and the capacity of each (10 to
    /// 16).
    fn state(&self, second: u64) -> (usize, i64) {
        let servers = [4, 5, 6, 5][(second % 4) as usize];
        (servers, 10 + (second % 7) as i64)
    }
}

#[cfg(test)]
mod tests {
    use super::super::bursts::{LENGTH, RATE};
    use super::*;
    use bloc_mesh::load::poisson_arrivals;

    const SOAK: Soak = Soak { policy: Policy::Bid, duration: CHANGE, rate: 300.0, seed: 1 };

    #[test]
    fn changes_servers_or_capacity_each_second() {
        for second in 0..100 {
            assert_ne!(SOAK.state(second), SOAK.state(second + 1));
            assert!((4..=6).contains(&SOAK.state(second).0));
        }
    }

    #[test]
    fn a_burst_exceeds_what_all_servers_can_serve_and_queue() {
        let spec = SOAK.mesh(1);
        let servers = spec.backends + spec.spare;
        let most = (0..100).map(|second| SOAK.state(second).1).max().unwrap();
        let room = spec.total_rate(servers) * LENGTH.as_secs_f64() + servers as f64 * most as f64;
        // The steady load comes on top, so this holds at any rate.
        for seed in 0..200 {
            let arrivals = poisson_arrivals(RATE, LENGTH, seed).len() as f64;
            assert!(arrivals > 1.2 * room, "{arrivals} requests, room for {room}");
        }
        assert!(SOAK.rate < spec.total_rate(spec.backends), "the steady load alone is no overload");
    }

    #[test]
    fn derives_three_distinct_seeds_from_one() {
        assert_eq!(SOAK.seeds(), SOAK.seeds());
        let [servers, steady, bursts] = SOAK.seeds();
        assert!(servers != steady && steady != bursts && bursts != servers);
        assert!(!SOAK.seeds().contains(&Soak { seed: 2, ..SOAK }.seeds()[0]));
    }
}
