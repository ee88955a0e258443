//! Properties of the policies at any parameters: orders and bounds, not exact figures.

mod common;

use bloc_policy::config::CapacitySpec;
use bloc_sim::policies::PolicyKind;
use bloc_sim::{Scenario, figure};
use common::case;
use std::time::Duration;

#[test]
fn more_knowledge_of_queues_gives_shorter_response_times() {
    for seed in 1..=3 {
        let of = |policy| bloc_sim::run(&Scenario { seed, ..case(policy, 3000) }).unwrap();
        let (jsq, least_connection) = (of(PolicyKind::Jsq), of(PolicyKind::LeastRequestFull));
        let (two_choices, random) = (of(PolicyKind::LeastRequest), of(PolicyKind::Random));
        assert!(jsq.p99_ms < least_connection.p99_ms && jsq.mean_ms < least_connection.mean_ms, "seed {seed}");
        assert!(least_connection.mean_ms < two_choices.mean_ms && two_choices.mean_ms < random.mean_ms, "seed {seed}");
        assert!(jsq.max_overshoot < least_connection.max_overshoot, "seed {seed}");
    }
}

#[test]
fn where_speeds_differ_the_shortest_wait_beats_the_shortest_queue() {
    let of = |policy| {
        let scenario = Scenario { speeds: vec![1.0, 2.0], ..case(policy, 3000) };
        bloc_sim::run(&scenario).unwrap().p99_ms
    };
    assert!(of(PolicyKind::ShortestWait) < of(PolicyKind::Jsq));
}

#[test]
fn probing_lies_between_random_and_omniscient() {
    let of = |policy| {
        let scenario = Scenario { senders: 100, servers: 50, ..case(policy, 400) };
        bloc_sim::run(&scenario).unwrap().p99_ms.unwrap()
    };
    let (jsq, prequal, random) = (of(PolicyKind::Jsq), of(PolicyKind::Prequal), of(PolicyKind::Random));
    assert!(jsq < prequal && 3.0 * prequal < random, "{jsq} {prequal} {random}");
}

#[test]
fn bloc_never_has_more_than_the_capacity_in_a_server() {
    for (load, limit) in [("share:1.5", 4), ("closed:110", 10), ("share:0.95", 2)] {
        let mut scenario = Scenario { load: load.parse().unwrap(), ..case(PolicyKind::Bloc, 200) };
        scenario.service.capacity = Some(CapacitySpec::Static { limit });
        let outcome = bloc_sim::run(&scenario).unwrap();
        assert_eq!(i64::from(outcome.max_in_server), limit, "{load}: the limit is reached and not passed");
        assert!(outcome.shed > 0 && outcome.attempts_per_request > 1.0, "{load}: {outcome:?}");
    }
}

#[test]
fn retries_a_rejected_request_up_to_its_limit() {
    let mut scenario = Scenario { load: "share:5".parse().unwrap(), ..case(PolicyKind::Bloc, 100) };
    scenario.service.capacity = Some(CapacitySpec::Static { limit: 1 });
    scenario.service.retries = Some(3);
    let outcome = bloc_sim::run(&scenario).unwrap();
    assert!(outcome.attempts_per_request > 2.5 && outcome.attempts_per_request <= 4.0, "{outcome:?}");
    // Three servers: the fourth attempt goes where Envoy's fallback sends it.
    let few = bloc_sim::run(&Scenario { servers: 3, ..scenario.clone() }).unwrap();
    assert!(few.attempts_per_request > 3.2 && few.attempts_per_request <= 4.0, "{few:?}");
    scenario.service.retries = Some(0);
    assert_eq!(bloc_sim::run(&scenario).unwrap().attempts_per_request, 1.0);
}

#[test]
fn a_bounce_costs_its_delay() {
    // Two slots, often taken: a request is served at its first attempt, or after up to three
    // bounces.
    let mut scenario = Scenario {
        servers: 2,
        senders: 1,
        load: "share:0.4".parse().unwrap(),
        bounce: Duration::from_millis(100),
        ..case(PolicyKind::Bloc, 2000)
    };
    scenario.service.capacity = Some(CapacitySpec::Static { limit: 1 });
    let outcome = bloc_sim::run(&scenario).unwrap();
    // Served at the first, second, third or fourth attempt: 251, 351, 451, 551 ms.
    assert!((outcome.p50_ms.unwrap() - 251.0).abs() < 1.0, "{outcome:?}");
    let slowest = outcome.p99_ms.unwrap();
    assert!([451.0, 551.0].iter().any(|expected| (slowest - expected).abs() < 1.0), "{outcome:?}");
}

#[test]
fn figure_5_6_jsq_is_flat_and_least_connection_rises() {
    let scenario = Scenario { duration: Duration::from_secs(6000), seed: 3, ..figure::scenario() };
    let policies = [PolicyKind::Jsq, PolicyKind::LeastRequestFull];
    let figure = figure::simulate(&scenario, &policies, &[1, 10, 40, 100], |_| {}).unwrap();
    let waits = |place: usize| figure.points.iter().map(|p| p.wait_p99_ms[place].unwrap()).collect::<Vec<_>>();
    let (jsq, least_connection) = (waits(0), waits(1));
    assert!(jsq.iter().all(|wait| (wait / jsq[0] - 1.0).abs() < 0.05), "flat: {jsq:?}");
    assert!((least_connection[0] / jsq[0] - 1.0).abs() < 0.05, "one balancer sees all: {least_connection:?}, {jsq:?}");
    assert!(least_connection.windows(2).all(|pair| pair[1] > 1.15 * pair[0]), "rising: {least_connection:?}");
    assert!(least_connection[3] > 2.0 * jsq[3], "{least_connection:?}, {jsq:?}");
}
