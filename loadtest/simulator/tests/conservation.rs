//! Nothing is lost, and the same seed gives the same result.

mod common;

use bloc_sim::policies::PolicyKind;
use bloc_sim::{Outcome, Scenario};
use common::{POLICIES, case};
use std::time::Duration;

/// In a debug build `run` also checks at the end that every queue, count and slot is empty.
fn run(scenario: &Scenario) -> Outcome {
    let outcome = bloc_sim::run(scenario).unwrap();
    assert_eq!(outcome.total_started, outcome.total_ended, "{:?}", scenario.policy);
    assert_eq!(outcome.requests, outcome.ok + outcome.shed + outcome.errors);
    outcome
}

#[test]
fn a_closed_loop_loses_no_request_whatever_the_policy() {
    for policy in POLICIES {
        let scenario = Scenario { load: "closed:120".parse().unwrap(), ..case(policy, 200) };
        let outcome = run(&scenario);
        assert!(outcome.ok > 7_500, "{policy:?}: {outcome:?}");
        if outcome.shed == 0 {
            // Little's law: clients = throughput * response time.
            let clients = outcome.throughput_rps * outcome.mean_ms.unwrap() / 1e3;
            assert!((clients / 120.0 - 1.0).abs() < 0.02, "{policy:?}: {clients} clients by Little's law");
        }
    }
}

#[test]
fn a_closed_loop_keeps_one_server_fully_busy() {
    let scenario = Scenario {
        policy: PolicyKind::LeastRequest,
        senders: 1,
        servers: 1,
        load: "closed:5".parse().unwrap(),
        service_time: "fixed:10ms".parse().unwrap(),
        one_way: Duration::ZERO,
        ..case(PolicyKind::LeastRequest, 100)
    };
    let outcome = run(&scenario);
    assert_eq!(outcome.throughput_rps, 100.0);
    assert!(
        (outcome.p10_ms.unwrap() - 50.0).abs() < 0.05 && (outcome.p99_ms.unwrap() - 50.0).abs() < 0.05,
        "{outcome:?}"
    );
}

#[test]
fn clients_wait_their_think_time_between_requests() {
    let scenario = Scenario { load: "closed:20/750ms".parse().unwrap(), ..case(PolicyKind::Jsq, 2000) };
    let outcome = run(&scenario);
    let cycle = 750.0 + outcome.mean_ms.unwrap();
    assert!((outcome.throughput_rps * cycle / 20_000.0 - 1.0).abs() < 0.02, "{outcome:?}");
}

#[test]
fn accounts_for_every_request_through_seven_incidents() {
    let incidents = [
        "down:0-3@150s-200s",
        "join:9@120s",
        "leave:8@180s",
        "slow:5@150s=0.2",
        "partition@220s-260s",
        "lying:4",
        "silent:6",
    ];
    for policy in POLICIES {
        for retry_failures in [false, true] {
            let scenario = Scenario {
                incidents: incidents.iter().map(|text| text.parse().unwrap()).collect(),
                load: "share:1.3".parse().unwrap(),
                retry_failures,
                ..case(policy, 200)
            };
            let outcome = run(&scenario);
            println!("{policy:?}: {outcome:?}");
            assert!(outcome.ok > 3000, "{policy:?}: {outcome:?}");
            // The central queue sends nothing to a dead server, and with this backlog the requests
            // that die in one arrived before anything counted.
            assert!(outcome.errors > 0 || policy == PolicyKind::Central, "{policy:?}: {outcome:?}");
        }
    }
}

#[test]
fn the_same_seed_repeats_a_run_and_another_seed_does_not() {
    for policy in POLICIES {
        let scenario = Scenario { load: "share:1.05".parse().unwrap(), ..case(policy, 200) };
        let first = run(&scenario);
        assert_eq!(first, run(&scenario), "{policy:?}");
        assert_ne!(first, run(&Scenario { seed: 6, ..scenario }), "{policy:?}");
    }
}

#[test]
fn every_policy_gets_the_same_number_of_requests() {
    let counts: Vec<u64> = POLICIES.iter().map(|&policy| run(&case(policy, 200)).total_started).collect();
    assert!(counts.windows(2).all(|pair| pair[0] == pair[1]), "{counts:?}");
}

/// Answers per second of one server with two places of 10 ms each, always busy, which takes 2 ms
/// from its application to its sidecar and back.
fn busy(service: &str, hand_over_ms: u64) -> f64 {
    let scenario = Scenario {
        senders: 1,
        servers: 1,
        concurrency: 2,
        load: "closed:20".parse().unwrap(),
        service_time: "fixed:10ms".parse().unwrap(),
        application: Duration::from_millis(2),
        hand_over: Duration::from_millis(hand_over_ms),
        service: serde_json::from_str(service).unwrap(),
        ..case(PolicyKind::Bid, 100)
    };
    run(&scenario).throughput_rps
}

#[test]
fn a_held_queue_leaves_a_place_empty_until_the_sidecar_fills_it_again() {
    assert_eq!(busy(r#"{"concurrency":2,"hold":false}"#, 3), 200.0, "the application has its own queue");
    let held = busy(r#"{"concurrency":2,"hold":true}"#, 0);
    assert!((held - 2.0 / 0.012).abs() < 0.1, "the sidecar sees the answer 2 ms later: {held}");
    let slower = busy(r#"{"concurrency":2,"hold":true}"#, 3);
    assert!((slower - 2.0 / 0.015).abs() < 0.1, "and hands the next over 3 ms after that: {slower}");
    let fewer = busy(r#"{"concurrency":1,"hold":true}"#, 0);
    assert!((fewer - 1.0 / 0.012).abs() < 0.1, "one at a time: {fewer}");
    assert!(
        (busy(r#"{"concurrency":9,"hold":true}"#, 0) - 200.0).abs() < 0.1,
        "the application has two places, and queues"
    );
}

#[test]
fn a_server_that_dies_with_held_requests_loses_them_and_serves_again() {
    for incident in ["down:0@20s-20s1ms", "down:0@20s-30s"] {
        let scenario = Scenario {
            senders: 2,
            servers: 1,
            load: "closed:20".parse().unwrap(),
            service_time: "fixed:10ms".parse().unwrap(),
            hand_over: Duration::from_millis(50),
            incidents: vec![incident.parse().unwrap()],
            service: serde_json::from_str(r#"{"concurrency":1,"hold":true}"#).unwrap(),
            ..case(PolicyKind::Bid, 100)
        };
        let outcome = run(&scenario);
        assert!((outcome.throughput_rps - 1.0 / 0.06).abs() < 0.1, "{incident}: {outcome:?}");
    }
}
