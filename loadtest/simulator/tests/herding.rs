//! Many gateways route by the servers' reports, and a new server joins. It looks empty to all of
//! them at once, and must not be overloaded.

mod common;

use bloc_policy::units::Timestamp;
use bloc_policy::wire::bid::Bid;
use bloc_policy::wire::load_report::LoadReport;
use bloc_sim::Scenario;
use bloc_sim::policies::{Inbound, Mesh, Policy, PolicyKind, SenderModel, ServerModel, Verdict};
use common::case;
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

const SERVERS: u32 = 11;
const NEWCOMER: usize = 10;
const JOINS: Duration = Duration::from_secs(60);

/// Mu, with a record of how many requests are in each server.
struct Watched {
    mu: Mesh,
    service: bloc_policy::config::ServiceParameters,
    made: Cell<usize>,
    seen: Rc<RefCell<Seen>>,
}

#[derive(Default)]
struct Seen {
    inside: Vec<u32>,
    /// The mean of the others when the newcomer got its first request.
    mean_at_join: Option<f64>,
    most_in_newcomer: u32,
    to_newcomer: u32,
}

struct Eye {
    server: usize,
    model: Inbound,
    seen: Rc<RefCell<Seen>>,
}

impl Policy for Watched {
    fn sender(&self) -> Box<dyn SenderModel> {
        self.mu.sender()
    }

    fn server(&self) -> Box<dyn ServerModel> {
        let server = self.made.replace(self.made.get() + 1);
        self.seen.borrow_mut().inside.push(0);
        Box::new(Eye { server, model: Inbound::new(&self.service), seen: Rc::clone(&self.seen) })
    }
}

impl ServerModel for Eye {
    fn arrive(&mut self, request: u32, bid: Option<Bid>, now: Timestamp, rng: &mut fastrand::Rng) -> Verdict {
        let verdict = self.model.arrive(request, bid, now, rng);
        let mut seen = self.seen.borrow_mut();
        seen.inside[self.server] += u32::from(verdict == Verdict::Admitted);
        if self.server == NEWCOMER {
            let others = seen.inside[..NEWCOMER].iter().sum::<u32>();
            seen.mean_at_join.get_or_insert(f64::from(others) / NEWCOMER as f64);
            seen.most_in_newcomer = seen.most_in_newcomer.max(seen.inside[NEWCOMER]);
            seen.to_newcomer += 1;
        }
        verdict
    }

    fn begin(&mut self, request: u32, now: Timestamp) {
        self.model.begin(request, now);
    }

    fn answer(&mut self, request: u32, now: Timestamp, rng: &mut fastrand::Rng) -> Option<LoadReport> {
        self.seen.borrow_mut().inside[self.server] -= 1;
        self.model.answer(request, now, rng)
    }
}

fn join(gateways: u32, seed: u64) -> Seen {
    let mut scenario = Scenario {
        senders: gateways,
        servers: SERVERS,
        service_time: "fixed:50ms".parse().unwrap(),
        // Nearly more than ten servers can serve.
        load: "poisson:198".parse().unwrap(),
        warm_up: Duration::from_secs(10),
        duration: Duration::from_secs(60),
        incidents: vec![format!("join:{NEWCOMER}@{}s", JOINS.as_secs()).parse().unwrap()],
        seed,
        ..case(PolicyKind::Mu, 60)
    };
    scenario.service.capacity = None;
    scenario.service.concurrency = Some(1);
    scenario.service.hold = Some(true);
    scenario.service.reset_interval = Some("200ms".into());
    let watched = Watched {
        mu: Mesh::new("mu", &scenario).unwrap(),
        service: scenario.service.validate().unwrap(),
        made: Cell::new(0),
        seen: Rc::default(),
    };
    bloc_sim::run_with(&scenario, &watched).unwrap();
    Rc::try_unwrap(watched.seen).ok().expect("the simulation is over").into_inner()
}

#[test]
fn a_new_server_gets_requests_but_at_most_twice_the_usual_queue() {
    for gateways in [1, 10, 40] {
        let (mut most, mut mean) = (0.0, 0.0);
        for seed in 1..=5 {
            let seen = join(gateways, seed);
            let at_join = seen.mean_at_join.expect("the newcomer gets requests");
            println!(
                "{gateways} gateways, seed {seed}: {at_join:.1} in each at the join, {} in the newcomer at the most, {} to it",
                seen.most_in_newcomer, seen.to_newcomer
            );
            // Ten seconds at a fair share of 18 a second.
            assert!(seen.to_newcomer > 100, "{} requests to the newcomer", seen.to_newcomer);
            most += f64::from(seen.most_in_newcomer);
            mean += at_join;
        }
        assert!(
            most <= 2.0 * mean,
            "{gateways} gateways: {most} in the newcomer, {mean} in the others, sums of five runs"
        );
    }
}
