//! The engine against the formulas of queueing theory, with one sender and no network, so that only
//! the queue matters.

use bloc_sim::policies::PolicyKind;
use bloc_sim::{Outcome, Scenario};
use std::time::Duration;

fn simulate(service_time: &str, load: f64, servers: u32, concurrency: u32, speed: f64) -> Outcome {
    let scenario = Scenario {
        policy: PolicyKind::Random,
        senders: 1,
        servers,
        concurrency,
        speeds: vec![speed],
        service_time: service_time.parse().unwrap(),
        load: format!("share:{load}").parse().unwrap(),
        one_way: Duration::ZERO,
        bounce: Duration::ZERO,
        warm_up: Duration::from_secs(10),
        duration: Duration::from_secs(4000),
        seed: 11,
        ..Scenario::default()
    };
    bloc_sim::run(&scenario).unwrap()
}

/// Within 3%: four standard deviations of the mean at the loads and lengths used here.
fn near(what: &str, measured: Option<f64>, expected: f64) {
    let measured = measured.unwrap();
    assert!((measured / expected - 1.0).abs() < 0.03, "{what}: {measured}, expected {expected}");
}

#[test]
fn exponential_service_on_one_server_is_m_m_1() {
    for load in [0.5, 0.7] {
        let outcome = simulate("exponential:10ms", load, 1, 1, 1.0);
        // The response time is exponential with mean 1 / (mu - lambda).
        let mean = 10.0 / (1.0 - load);
        near("mean", outcome.mean_ms, mean);
        near("median", outcome.p50_ms, mean * 2f64.ln());
        near("p99", outcome.p99_ms, mean * 100f64.ln());
        near("wait", outcome.wait_mean_ms, mean * load);
    }
}

#[test]
fn fixed_service_on_one_server_is_m_d_1() {
    // Pollaczek and Khinchine: the wait is half of M/M/1's.
    let outcome = simulate("fixed:10ms", 0.7, 1, 1, 1.0);
    near("wait", outcome.wait_mean_ms, 0.7 * 10.0 / (2.0 * 0.3));
    near("mean", outcome.mean_ms, 10.0 + 0.7 * 10.0 / (2.0 * 0.3));
}

#[test]
fn one_server_with_uniform_service_matches_pollaczek_khinchine() {
    let outcome = simulate("uniform:1us-20ms", 0.6, 1, 1, 1.0);
    // lambda * E[S^2] / (2 (1 - rho)), E[S^2] = 400 / 3 ms^2.
    near("wait", outcome.wait_mean_ms, 0.06 * (400.0 / 3.0) / (2.0 * 0.4));
}

#[test]
fn one_server_with_four_slots_matches_m_m_4() {
    // Erlang C with 2.8 erlangs on 4 places: 0.42865; the mean wait is C / (4 mu - lambda).
    let outcome = simulate("exponential:10ms", 0.7, 1, 4, 1.0);
    near("wait", outcome.wait_mean_ms, 0.428_654 * 10.0 / (4.0 * 0.3));
}

#[test]
fn four_servers_chosen_at_random_match_four_m_m_1_queues() {
    let outcome = simulate("exponential:20ms", 0.6, 4, 1, 2.0);
    near("mean", outcome.mean_ms, 10.0 / 0.4);
}
