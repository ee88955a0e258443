//! Replayed arrivals, delays before the sender and behind the server, and Envoy's back-off.

use bloc_sim::policies::PolicyKind;
use bloc_sim::{Outcome, Scenario};
use std::time::Duration;

fn run(millis: &[u64], change: impl FnOnce(&mut Scenario)) -> Outcome {
    let mut scenario = Scenario {
        policy: PolicyKind::Random,
        senders: 1,
        servers: 1,
        service_time: "fixed:10ms".parse().unwrap(),
        arrivals: Some(millis.iter().copied().map(Duration::from_millis).collect()),
        one_way: Duration::ZERO,
        bounce: Duration::ZERO,
        warm_up: Duration::ZERO,
        duration: Duration::from_secs(1),
        ..Scenario::default()
    };
    change(&mut scenario);
    bloc_sim::run(&scenario).unwrap()
}

fn near(measured: Option<f64>, expected: f64) {
    assert!((measured.unwrap() / expected - 1.0).abs() < 0.002, "{measured:?}, expected {expected}");
}

#[test]
fn replays_requests_at_their_given_times() {
    // Alone; alone; behind a request that needs another 8 ms; after the end.
    let outcome = run(&[0, 100, 102, 1000], |_| {});
    assert_eq!((outcome.requests, outcome.ok, outcome.total_started), (3, 3, 3));
    near(outcome.p10_ms, 10.0);
    near(outcome.mean_ms, (10.0 + 10.0 + 18.0) / 3.0);
    let warm = run(&[0, 100, 102], |scenario| scenario.warm_up = Duration::from_millis(101));
    assert_eq!(warm.requests, 1, "those of the warm-up do not count");
    near(warm.p50_ms, 18.0);
}

#[test]
fn adds_the_edge_delay_to_each_request_and_each_client_cycle() {
    let edge = |scenario: &mut Scenario| scenario.edge = Duration::from_millis(5);
    near(run(&[0, 100, 102], edge).p99_ms, 23.0);
    let closed = |edge_ms| {
        run(&[], |scenario| {
            scenario.arrivals = None;
            scenario.load = "closed:1".parse().unwrap();
            (scenario.edge, scenario.duration) = (Duration::from_millis(edge_ms), Duration::from_secs(100));
        })
    };
    near(Some(closed(0).throughput_rps), 100.0);
    near(Some(closed(15).throughput_rps), 40.0);
    near(closed(15).p50_ms, 25.0);
}

#[test]
fn adds_the_application_delay_to_answers_but_not_to_rejections() {
    let outcome = |second, limit, incident: Option<&str>| {
        run(&[0, second], |scenario| {
            scenario.policy = PolicyKind::Bloc;
            scenario.service.capacity = Some(bloc_policy::config::CapacitySpec::Static { limit });
            scenario.service.retries = Some(0);
            (scenario.edge, scenario.bounce) = (Duration::from_millis(2), Duration::from_millis(1));
            scenario.application = Duration::from_millis(5);
            scenario.incidents.extend(incident.map(|text| text.parse().unwrap()));
        })
    };
    // Until the answer reaches the sidecar, 16 ms after the start, the server has the request.
    for second in [1, 14] {
        let full = outcome(second, 1, None);
        assert_eq!((full.ok, full.shed), (1, 1));
        near(full.p50_ms, 17.0);
        near(full.shed_p50_ms, 3.0);
    }
    assert_eq!(outcome(16, 1, None).ok, 2);
    // The application takes the next request as soon as it has finished this one.
    near(outcome(5, 2, None).p99_ms, 22.0);
    let dead = outcome(500, 1, Some("down:0@13ms-100ms"));
    assert_eq!((dead.ok, dead.errors, dead.total_ended), (1, 1, 2), "its answer was under way");
}

#[test]
fn waits_for_the_back_off_before_a_retry() {
    // Two slots, taken for 10 ms: the third request is rejected at once, and at each retry until
    // none is left or a slot is free.
    let outcome = |text: &str| {
        run(&[0, 0, 1], |scenario| {
            scenario.policy = PolicyKind::Bloc;
            scenario.servers = 2;
            scenario.back_off = text.parse().unwrap();
            scenario.service.capacity = Some(bloc_policy::config::CapacitySpec::Static { limit: 1 });
            scenario.service.retries = Some(3);
        })
    };
    assert_eq!((outcome("0ms-0ms").ok, outcome("1ms-1ms").shed), (2, 1), "four attempts in no time");
    let patient = outcome("1000ms-1000ms");
    assert_eq!((patient.ok, patient.attempts_per_request), (3, 1.3333));
}
