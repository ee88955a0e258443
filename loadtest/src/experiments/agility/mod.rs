//! A new server joins: four servers (two fast, two slow, as in [`crate::heterogeneous`]) are nearly
//! overloaded, then a fast one joins.
//!
//! It joins as in a mesh, through EDS and the control plane. The experiment measures how long the
//! 90th percentile (of the answers of the last two seconds) takes until it stays at most twice the
//! unloaded service time. That is taken as the 200 ms of a server of speed 1: slow servers answer
//! part of the requests, so the 90th percentile cannot be below their time. If the percentile never
//! exceeded the bound, the result is zero.

pub mod command;
pub mod page;

use crate::case::HEAD_START;
use crate::heterogeneous;
use crate::timeline::{Point, recovery_s, sliding};
use bloc_mesh::load::{self, Load, LoadPlan, Tally};
use bloc_mesh::policy::Policy;
use bloc_mesh::seeds;
use bloc_mesh::{Mesh, MeshError, MeshSpec, Tools};
use indicatif::ProgressBar;
use serde::Serialize;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, sleep_until};

const WINDOW: Duration = Duration::from_secs(2);
const STEP: Duration = Duration::from_millis(100);
/// The percentile must stay down for this long, so that one lucky second does not count.
const STAY_S: f64 = 2.0;

/// What to run.
#[derive(Clone, Copy, Debug)]
pub struct Agility {
    /// The load as a share of what the four can do.
    pub share: f64,
    /// When the fifth joins, from the start of the load.
    pub join_after: Duration,
    /// How long to watch after that.
    pub watch: Duration,
    /// How many gateways.
    pub frontends: usize,
    /// The seed of the arrivals and service times.
    pub seed: u64,
}

/// The result of one policy.
#[derive(Clone, Debug, Serialize)]
pub struct Joining {
    /// The policy.
    pub policy: Policy,
    /// How many gateways.
    pub frontends: usize,
    /// Requests per second.
    pub rate_rps: f64,
    /// When the new one joined, in seconds from the start of the load.
    pub joined_s: f64,
    /// The bound, in milliseconds.
    pub limit_ms: f64,
    /// The 90th percentile in the second before the join, in milliseconds.
    pub before_ms: Option<f64>,
    /// How long it took to return below the bound, in seconds; none: it did not.
    pub recovery_s: Option<f64>,
    /// The 90th percentile over time, in milliseconds.
    pub p90_ms: Vec<Point>,
    /// Requests in the new server, running or held, over time; for policies with filters.
    pub newcomer: Vec<Point>,
    /// The same for the other servers, on average.
    pub others: Vec<Point>,
    /// Requests that were not answered by an application.
    pub failed: u64,
}

impl Agility {
    /// The mesh for `policy`, with a spare fast server.
    pub fn mesh(&self, policy: Policy) -> MeshSpec {
        let four = heterogeneous::mesh(policy, self.frontends, self.seed, true);
        MeshSpec { spare: 1, speeds: vec![2.0, 2.0, 1.0, 1.0, 2.0], ..four }
    }

    /// Runs it for `policy`.
    ///
    /// # Errors
    /// The mesh does not start, or one of its processes ends early.
    pub async fn run(
        &self,
        policy: Policy,
        tools: &Tools,
        directory: &Path,
        bar: &ProgressBar,
    ) -> Result<Joining, MeshError> {
        let spec = self.mesh(policy);
        let mut mesh = Mesh::start(&spec, tools, directory, bar).await?;
        let rate = self.share * spec.total_rate(spec.backends);
        let plan = LoadPlan {
            target: mesh.gateway(),
            path: "/".to_owned(),
            body: 0,
            load: Load::Poisson { rate },
            keep_alive: false,
            timeout: Duration::from_secs(20),
            warm_up: Duration::ZERO,
            window: self.join_after + self.watch,
            outstanding_limit: 4_000,
            seed: seeds::arrivals(self.seed),
        };
        bar.set_message(format!("{} joining", policy.name()));
        let start = Instant::now() + HEAD_START;
        let join = async {
            sleep_until(start + self.join_after).await;
            mesh.join_spare()
        };
        let watch = queues(&mesh, policy, start, plan.window);
        let (measured, joined, queues) = tokio::join!(load::run(&plan, start, Arc::<Tally>::default()), join, watch);
        joined?;
        let (newcomer, others) = queues?;
        mesh.check()?;
        mesh.end().await;

        let limit_ms = 2e3 * spec.service_time.mean().as_secs_f64();
        let p90_ms = sliding(&measured.samples, 0.9, WINDOW, STEP);
        let joined_s = self.join_after.as_secs_f64();
        Ok(Joining {
            policy,
            frontends: self.frontends,
            rate_rps: rate,
            joined_s,
            limit_ms,
            before_ms: p90_ms.iter().rfind(|point| point.at_s <= joined_s).map(|point| point.value),
            recovery_s: recovery_s(&p90_ms, joined_s, limit_ms, STAY_S),
            p90_ms,
            newcomer,
            others,
            failed: measured.shed() + measured.errors().values().sum::<u64>(),
        })
    }
}

/// The requests in flight in the new server and, on average, in the others.
async fn queues(
    mesh: &Mesh,
    policy: Policy,
    start: Instant,
    window: Duration,
) -> Result<(Vec<Point>, Vec<Point>), MeshError> {
    let (mut newcomer, mut others) = (Vec::new(), Vec::new());
    let moments = (1u32..).map(|n| STEP * n).take_while(|at| policy.routing().is_some() && *at <= window);
    for at in moments {
        sleep_until(start + at).await;
        let gauges = mesh.gauges("in_flight").await?;
        let Some((last, rest)) = gauges.split_last() else { continue };
        let at_s = at.as_secs_f64();
        newcomer.push(Point { at_s, value: *last as f64 });
        others.push(Point { at_s, value: rest.iter().sum::<u64>() as f64 / rest.len().max(1) as f64 });
    }
    Ok((newcomer, others))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_new_server_is_fast_and_the_load_is_set_without_it() {
        let agility = Agility {
            share: 0.95,
            join_after: Duration::from_secs(20),
            watch: Duration::from_secs(20),
            frontends: 1,
            seed: 1,
        };
        let spec = agility.mesh(Policy::Mu);
        assert_eq!((spec.speed(4), spec.spare, spec.hold), (2.0, 1, true));
        assert!((spec.total_rate(spec.backends) - 120.0).abs() < 1e-9 && (spec.total_rate(5) - 160.0).abs() < 1e-9);
    }
}
