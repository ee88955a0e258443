//! Figure 5.6 of the paper: how waiting grows with the number of load balancers (section 5.3).
//!
//! Ten servers; Poisson arrivals spread at random over 1 to 100 balancers; the 99th percentile of
//! the time in the queue. Join-the-shortest-queue sees all queues, so the number of balancers does
//! not affect it. Least Connection sees only its own requests. The paper names neither load nor
//! service time. The defaults are 95%, an exponential service time of 250 ms and no network delay,
//! so that the two kinds agree for one balancer.

use crate::load::Load;
use crate::policies::PolicyKind;
use crate::scenario::{Scenario, ScenarioError};
use bloc_figures::service_time::ServiceTime;
use serde::Serialize;
use std::time::Duration;

/// The numbers of balancers.
pub const BALANCERS: [u32; 10] = [1, 2, 5, 10, 20, 30, 40, 60, 80, 100];

/// Waiting times at one number of balancers.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Point {
    /// Load balancers.
    pub balancers: u32,
    /// The 99th percentile of the wait by policy, in milliseconds, in the order of
    /// [`Figure::policies`].
    pub wait_p99_ms: Vec<Option<f64>>,
}

/// The figure.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Figure {
    /// The policies compared.
    pub policies: Vec<PolicyKind>,
    /// The case that varies.
    pub scenario: Scenario,
    /// By number of balancers.
    pub points: Vec<Point>,
}

/// The case behind the figure.
pub fn scenario() -> Scenario {
    Scenario {
        servers: 10,
        service_time: ServiceTime::Exponential(Duration::from_millis(250)),
        load: Load::Share(0.95),
        one_way: Duration::ZERO,
        bounce: Duration::ZERO,
        warm_up: Duration::from_secs(500),
        duration: Duration::from_secs(10_000),
        ..Scenario::default()
    }
}

/// Simulates every point and passes each to `progress`.
pub fn simulate(
    scenario: &Scenario,
    policies: &[PolicyKind],
    balancers: &[u32],
    mut progress: impl FnMut(&Point),
) -> Result<Figure, ScenarioError> {
    let mut points = Vec::new();
    for &balancers in balancers {
        let wait = |&policy: &PolicyKind| {
            let case = Scenario { senders: balancers, policy, ..scenario.clone() };
            crate::run(&case).map(|outcome| outcome.wait_p99_ms)
        };
        let point = Point { balancers, wait_p99_ms: policies.iter().map(wait).collect::<Result<_, _>>()? };
        progress(&point);
        points.push(point);
    }
    Ok(Figure { policies: policies.to_vec(), scenario: scenario.clone(), points })
}
