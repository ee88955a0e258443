//! One of ten servers fails: its share of the attempts meanwhile, and of the requests after its
//! recovery.

use bloc_policy::config::{CapacitySpec, ServiceSpec};
use bloc_sim::policies::PolicyKind;
use bloc_sim::{Outcome, Scenario};
use std::time::Duration;

const SEEDS: u64 = 5;
const SERVERS: usize = 10;
/// When it fails, and when it has recovered, in seconds.
const BREAKS: u64 = 20;
const IS_WELL: u64 = 30;

const OURS: [PolicyKind; 3] = [PolicyKind::Bloc, PolicyKind::Bid, PolicyKind::Mu];
const OTHERS: [PolicyKind; 3] = [PolicyKind::Random, PolicyKind::RoundRobin, PolicyKind::LeastRequest];

/// A kind of fault.
struct Fault {
    name: &'static str,
    incidents: &'static [&'static str],
    /// The time that each request has left when it reaches a server.
    deadline: Option<Duration>,
}

const fn fault(name: &'static str, incidents: &'static [&'static str]) -> Fault {
    Fault { name, incidents, deadline: None }
}

const REFUSES: Fault = fault("refuses connections", &["down:0@20s-30s"]);
const REJECTS: Fault = fault("rejects, and calls itself idle", &["rejecting:0@20s-30s"]);
const FAILS: Fault = fault("fails in 1 ms", &["failing:0@20s-30s=1"]);
const FAILS_HALF: Fault = fault("fails half in 1 ms", &["failing:0@20s-30s=0.5"]);
// A request that begins within this time takes 2.5 s instead of 50 ms.
const SLOW_ANSWER: Fault = fault("one slow answer", &["slow:0@27s-27.1s=0.02"]);
const SLOW_START: Fault = fault("a slow start of 2 s", &["down:0@20s-28s", "slow:0@28s-30s=0.025"]);
const SLOW_START_IN_A_HURRY: Fault = Fault {
    name: "a slow start of 2 s, to callers that have 1 s",
    deadline: Some(Duration::from_secs(1)),
    ..SLOW_START
};

/// The outcomes of all seeds, measured between two times, in seconds.
fn run(policy: PolicyKind, senders: u32, load: f64, fault: &Fault, from: u64, until: u64) -> Vec<Outcome> {
    let scenario = Scenario {
        policy,
        senders,
        servers: SERVERS as u32,
        service_time: "fixed:50ms".parse().unwrap(),
        load: format!("share:{load}").parse().unwrap(),
        warm_up: Duration::from_secs(from),
        duration: Duration::from_secs(until - from),
        incidents: fault.incidents.iter().map(|text| text.parse().unwrap()).collect(),
        deadline: fault.deadline,
        retry_failures: true,
        service: ServiceSpec {
            concurrency: Some(1),
            hold: Some(false),
            capacity: Some(CapacitySpec::Static { limit: 10 }),
            ..ServiceSpec::default()
        },
        ..Scenario::default()
    };
    (1..=SEEDS).map(|seed| bloc_sim::run(&Scenario { seed, ..scenario.clone() }).unwrap()).collect()
}

/// The first server's share of all that was counted, as a multiple of its fair share.
fn share(outcomes: &[Outcome], counted: impl Fn(&Outcome) -> &[u64]) -> f64 {
    let sum = |of: &dyn Fn(&[u64]) -> u64| outcomes.iter().map(|outcome| of(counted(outcome))).sum::<u64>() as f64;
    sum(&|counts| counts[0]) * SERVERS as f64 / sum(&|counts| counts.iter().sum())
}

/// Measured over the minute that begins 20 s after the recovery.
#[test]
fn a_recovered_server_gets_nearly_its_fair_share() {
    let faults = [SLOW_ANSWER, SLOW_START, SLOW_START_IN_A_HURRY, REFUSES, REJECTS, FAILS, FAILS_HALF];
    let mut short = Vec::new();
    for policy in OURS.into_iter().chain(OTHERS) {
        for fault in &faults {
            for (senders, load) in [(10, 0.1), (10, 0.7), (40, 0.1), (40, 0.7)] {
                let outcomes = run(policy, senders, load, fault, IS_WELL + 20, IS_WELL + 80);
                let share = share(&outcomes, |outcome| &outcome.served_by);
                let line = format!("{policy:?}, {senders} senders, {load}, {}: {share:.2}", fault.name);
                println!("{line}");
                if share < 0.8 {
                    short.push(line);
                }
            }
        }
    }
    assert!(short.is_empty(), "{short:#?}");
}

#[test]
fn a_server_that_fails_fast_gets_little_more_than_its_share() {
    let mut too_much = Vec::new();
    for policy in OURS {
        for fault in [REFUSES, REJECTS, FAILS, FAILS_HALF] {
            for senders in [1, 10, 40] {
                for load in [0.1, 0.5, 0.7, 0.9] {
                    let outcomes = run(policy, senders, load, &fault, BREAKS, IS_WELL);
                    let share = share(&outcomes, |outcome| &outcome.attempts_at);
                    let line = format!("{policy:?}, {senders} senders, {load}, {}: {share:.2}", fault.name);
                    println!("{line}");
                    if share > 1.5 {
                        too_much.push(line);
                    }
                }
            }
        }
    }
    assert!(too_much.is_empty(), "{too_much:#?}");
}

/// The other nine servers can take the whole load.
#[test]
fn loses_no_request_while_one_of_ten_servers_refuses() {
    for policy in OURS {
        for fault in [REFUSES, REJECTS] {
            for senders in [1, 40] {
                let outcomes = run(policy, senders, 0.5, &fault, BREAKS, IS_WELL);
                let lost: u64 = outcomes.iter().map(|outcome| outcome.shed + outcome.errors).sum();
                assert_eq!(lost, 0, "{policy:?}, {senders} senders, {}", fault.name);
            }
        }
    }
}
