//! How to try your own policy: a simple version of the bid policy, a hundred lines outside the
//! crate.
//!
//! A request asks servers at random, each once. Attempt k bids `BIDS[k]` times the running mean of
//! the expected response times that the sender has heard of. The server bounces the attempt if (in
//! flight + 1) * service time is longer. The last attempt bids without limit.

mod common;

use bloc_policy::endpoints::Answer;
use bloc_policy::units::Timestamp;
use bloc_policy::wire::bid::Bid;
use bloc_policy::wire::load_report::LoadReport;
use bloc_sim::Scenario;
use bloc_sim::policies::{Choice, Moment, Policy, PolicyKind, SenderModel, ServerModel, Verdict};
use bloc_sim::requests::Plan;
use common::case;
use std::time::Duration;

const BIDS: [f64; 5] = [0.6, 0.7, 0.8, 0.9, 1.0];
const SERVICE: Duration = Duration::from_millis(250);
const MEMORY: f64 = 0.9;

struct Bids;

impl Policy for Bids {
    fn sender(&self) -> Box<dyn SenderModel> {
        Box::new(Sender { members: Vec::new(), mean: SERVICE })
    }

    fn server(&self) -> Box<dyn ServerModel> {
        Box::new(Server { in_flight: 0 })
    }
}

struct Sender {
    members: Vec<u32>,
    mean: Duration,
}

impl SenderModel for Sender {
    fn members(&mut self, servers: &[u32], _now: Timestamp) {
        self.members = servers.to_vec();
    }

    fn choose(&mut self, plan: &mut Plan, attempt: u32, moment: &mut Moment<'_>) -> Option<Choice> {
        if attempt == 0 {
            moment.rng.shuffle(&mut self.members);
            plan.set(self.members.iter().copied());
        }
        let bid = BIDS.get(attempt as usize).map(|factor| self.mean.mul_f64(*factor).into());
        Some(Choice { bid, ..Choice::plain(plan.next()?) })
    }

    fn answer(&mut self, _attempt: Choice, answer: &Answer, _began: Timestamp, _now: Timestamp) {
        if let Answer::Served(LoadReport { queue: Some(queue), .. })
        | Answer::Rejected(LoadReport { queue: Some(queue), .. }) = answer
        {
            self.mean = self.mean.mul_f64(MEMORY) + (SERVICE * (queue + 1)).mul_f64(1.0 - MEMORY);
        }
    }
}

struct Server {
    in_flight: u32,
}

impl Server {
    fn report(&self) -> LoadReport {
        LoadReport { queue: Some(self.in_flight), ..LoadReport::default() }
    }
}

impl ServerModel for Server {
    fn arrive(&mut self, _: u32, bid: Option<Bid>, _: Timestamp, _: &mut fastrand::Rng) -> Verdict {
        if bid.is_some_and(|bid| SERVICE * (self.in_flight + 1) > bid.most) {
            return Verdict::Rejected(self.report());
        }
        self.in_flight += 1;
        Verdict::Admitted
    }

    fn answer(&mut self, _: u32, _: Timestamp, _: &mut fastrand::Rng) -> Option<LoadReport> {
        self.in_flight -= 1;
        Some(self.report())
    }
}

#[test]
fn a_policy_outside_the_crate_comes_near_the_omniscient_balancer() {
    let mut scenario = Scenario { ..case(PolicyKind::Jsq, 5000) };
    scenario.service.retries = Some(BIDS.len() as i64);
    let bids = bloc_sim::run_with(&scenario, &Bids).unwrap();
    let jsq = bloc_sim::run(&scenario).unwrap();
    let least_request = bloc_sim::run(&Scenario { policy: PolicyKind::LeastRequest, ..scenario }).unwrap();
    println!("bids {bids:?}\njsq {jsq:?}\nleast request {least_request:?}");
    assert_eq!((bids.ok, bids.shed), (jsq.ok, 0));
    assert!(bids.p99_ms.unwrap() < 1.3 * jsq.p99_ms.unwrap());
    assert!(bids.p99_ms.unwrap() < 0.5 * least_request.p99_ms.unwrap());
    assert!(bids.attempts_per_request > 1.5 && bids.attempts_per_request < 5.0);
}
