//! Reservations and the central queue in whole simulations: nothing is lost, whatever goes wrong.
//!
//! In a debug build a run also checks at the end that no reservation and no kept place is left.

mod common;

use bloc_policy::config::ServiceSpec;
use bloc_sim::policies::PolicyKind::{self, BestOf, Central, Jsq, Reserve};
use bloc_sim::policies::reserve::Reserving;
use bloc_sim::{Outcome, Scenario};
use common::case;
use std::time::Duration;

fn scenario(policy: PolicyKind) -> Scenario {
    Scenario {
        service_time: "lognormal:50ms/1.5".parse().unwrap(),
        load: "share:0.85".parse().unwrap(),
        one_way: Duration::from_micros(250),
        bounce: Duration::from_millis(1),
        warm_up: Duration::from_secs(20),
        service: ServiceSpec { concurrency: Some(1), ..ServiceSpec::default() },
        ..case(policy, 300)
    }
}

fn run(scenario: &Scenario) -> Outcome {
    let outcome = bloc_sim::run(scenario).unwrap();
    assert_eq!(outcome.total_started, outcome.total_ended);
    assert_eq!(outcome.requests, outcome.ok + outcome.shed + outcome.errors);
    outcome
}

fn reserve(settings: Reserving) -> Outcome {
    run(&Scenario { reserve: settings, ..scenario(Reserve) })
}

#[test]
fn a_server_never_has_more_than_its_places() {
    let outcome = reserve(Reserving::default());
    assert_eq!((outcome.max_in_server, outcome.shed, outcome.errors), (1, 0, 0), "{outcome:?}");
    // A first look, and a second attempt with a grant if that was bounced; three reservations each.
    assert!(outcome.attempts_per_request > 1.7 && outcome.attempts_per_request < 2.0, "{outcome:?}");
    let bounces = outcome.attempts_per_request - 1.0;
    assert!((outcome.reservations_per_request / bounces / 3.0 - 1.0).abs() < 0.01, "{outcome:?}");
    assert!(outcome.refused_grants_per_request > 0.0 && outcome.expired_grants_per_request == 0.0, "{outcome:?}");
}

#[test]
fn a_question_saves_every_second_attempt() {
    let outcome = reserve(Reserving { question: true, ..Reserving::default() });
    assert_eq!((outcome.attempts_per_request, outcome.max_in_server), (1.0, 1), "{outcome:?}");
    assert!(outcome.reservations_per_request > 3.0, "{outcome:?}");
}

#[test]
fn late_binding_lies_between_the_central_queue_and_fresh_looks() {
    let p99 = |policy| run(&scenario(policy)).p99_ms.unwrap();
    let [central, reserve, jsq, best_of] = [Central, Reserve, Jsq, BestOf].map(p99);
    println!("central {central}, reserve {reserve}, jsq {jsq}, best of three {best_of}");
    assert!(central < reserve && reserve < jsq && jsq < best_of);
}

#[test]
fn the_central_queue_fills_every_place() {
    let outcome = run(&Scenario {
        service_time: "fixed:10ms".parse().unwrap(),
        load: "closed:25".parse().unwrap(),
        one_way: Duration::ZERO,
        ..scenario(Central)
    });
    assert_eq!((outcome.throughput_rps, outcome.max_in_server), (1000.0, 1), "{outcome:?}");
}

#[test]
fn no_request_is_lost_with_its_messages() {
    for lost in [0.01, 0.3, 1.0] {
        let patience = Duration::from_millis(500);
        let outcome = reserve(Reserving { lost, patience, ..Reserving::default() });
        assert_eq!(outcome.errors + outcome.shed, 0, "{lost}: {outcome:?}");
        assert!(outcome.expired_grants_per_request > 0.0, "{lost}: {outcome:?}");
        // Only lost grants: what a lost cancellation leaves behind is granted, and refused.
        assert!(lost > 0.01 || outcome.expired_grants_per_request < 1.5 * lost, "{outcome:?}");
    }
}

#[test]
fn a_caller_that_dies_takes_only_its_own_request_with_it() {
    let outcome = reserve(Reserving { callers_die: 0.1, ..Reserving::default() });
    let granted = outcome.attempts_per_request - 1.0;
    let lost = outcome.errors as f64 / outcome.requests as f64;
    assert!(lost > 0.05 && lost < 0.1, "{granted}: {outcome:?}");
    assert!(outcome.expired_grants_per_request > lost, "places that nobody came for: {outcome:?}");
}

#[test]
fn reservations_at_a_server_that_dies_go_elsewhere() {
    for policy in [Reserve, Central] {
        let incidents = (0..20).map(|n| format!("down:{}@{}s-{}s", n % 10, 30 + 10 * n, 31 + 10 * n));
        let scenario = Scenario {
            incidents: incidents.map(|text| text.parse().unwrap()).collect(),
            retry_failures: true,
            // A caller that had to wait for its patience would show: a broken call is noticed.
            reserve: Reserving { servers: 1, patience: Duration::from_secs(3600), ..Reserving::default() },
            ..scenario(policy)
        };
        let outcome = run(&scenario);
        assert_eq!((outcome.errors, outcome.shed), (0, 0), "{policy:?}: {outcome:?}");
        assert!(outcome.mean_ms.unwrap() < 1_000.0, "{policy:?}: {outcome:?}");
    }
}

#[test]
fn every_trouble_at_once_ends_and_repeats() {
    for question in [false, true] {
        let scenario = Scenario {
            incidents: [
                "down:0-3@50s-60s",
                "join:9@40s",
                "leave:8@80s",
                "partition@120s-130s",
                "lying:4",
                "silent:6",
                "rejecting:5@60s-70s",
                "failing:7@60s-70s=0.5",
            ]
            .map(|text| text.parse().unwrap())
            .to_vec(),
            retry_failures: true,
            hand_over: Duration::from_micros(300),
            reserve: Reserving { question, weighs: true, lost: 0.05, callers_die: 0.01, ..Reserving::default() },
            speeds: vec![1.0, 0.5],
            load: "share:0.6".parse().unwrap(),
            ..scenario(Reserve)
        };
        let outcome = run(&scenario);
        assert!(outcome.ok as f64 > 0.95 * outcome.requests as f64, "{outcome:?}");
        assert_eq!(outcome, run(&scenario));
    }
}

#[test]
fn of_two_servers_the_slow_one_is_not_overloaded() {
    let scenario = Scenario {
        servers: 2,
        speeds: vec![1.0, 0.5],
        service_time: "fixed:50ms".parse().unwrap(),
        load: "share:0.9".parse().unwrap(),
        ..scenario(Reserve)
    };
    let outcome = run(&scenario);
    let jsq = bloc_sim::run(&Scenario { policy: Jsq, ..scenario }).unwrap();
    assert!(outcome.mean_ms.unwrap() < 2.0 * jsq.mean_ms.unwrap(), "{outcome:?} {jsq:?}");
}

#[test]
fn a_sidecar_that_is_not_told_its_places_takes_everything() {
    let unknown = Scenario { service: ServiceSpec::default(), ..scenario(Reserve) };
    let outcome = run(&unknown);
    assert_eq!((outcome.attempts_per_request, outcome.reservations_per_request), (1.0, 0.0), "{outcome:?}");
}
