//! Incidents, and their effect on the requests.

mod common;

use bloc_sim::policies::PolicyKind;
use bloc_sim::{Outcome, Scenario};
use common::case;

/// 300 seconds, measured from the 100th on.
fn with(policy: PolicyKind, load: &str, incidents: &[&str]) -> Outcome {
    let scenario = Scenario {
        incidents: incidents.iter().map(|text| text.parse().unwrap()).collect(),
        load: load.parse().unwrap(),
        ..case(policy, 300)
    };
    bloc_sim::run(&scenario).unwrap()
}

fn share(part: u64, outcome: &Outcome) -> f64 {
    part as f64 / outcome.requests as f64
}

#[test]
fn servers_that_are_down_fail_their_share_until_they_return() {
    assert_eq!(with(PolicyKind::Random, "share:0.5", &[]).errors, 0);
    let forever = with(PolicyKind::Random, "share:0.5", &["down:0-4@0s"]);
    assert!((share(forever.errors, &forever) - 0.5).abs() < 0.03, "{forever:?}");
    let for_a_third = with(PolicyKind::Random, "share:0.5", &["down:0-4@100s-200s"]);
    assert!((share(for_a_third.errors, &for_a_third) - 1.0 / 6.0).abs() < 0.02, "{for_a_third:?}");
}

#[test]
fn a_server_that_goes_down_fails_the_requests_inside_it() {
    // 100 closed-loop clients, 10 in every server; all servers but the first go down for a second.
    let closed = with(PolicyKind::Jsq, "closed:100", &["down:1-9@150s-151s"]);
    assert!((85..=95).contains(&closed.errors), "nine servers with ten requests each: {closed:?}");
}

#[test]
fn bloc_senders_try_a_down_server_at_most_once_per_reset_interval() {
    let of = |policy| {
        let mut scenario = Scenario { incidents: vec!["down:0@0s".parse().unwrap()], ..case(policy, 300) };
        scenario.load = "share:0.5".parse().unwrap();
        scenario.service.reset_interval = Some("60s".to_owned());
        bloc_sim::run(&scenario).unwrap().errors
    };
    let (bloc, random) = (of(PolicyKind::Bloc), of(PolicyKind::Random));
    // 40 senders, each at most once in a minute.
    assert!(bloc > 0 && bloc <= 40 * 6 && 2 * bloc < random, "{bloc} {random}");
}

#[test]
fn a_partition_fails_a_quarter_of_the_requests_until_it_heals() {
    let outcome = with(PolicyKind::Random, "share:0.5", &["partition@100s-400s"]);
    assert!((share(outcome.errors, &outcome) - 0.25).abs() < 0.03, "{outcome:?}");
    let healed = with(PolicyKind::Random, "share:0.5", &["partition@0s-90s"]);
    assert_eq!(healed.errors, 0);
}

#[test]
fn servers_that_join_take_load_and_servers_that_left_get_none() {
    for policy in
        [PolicyKind::Random, PolicyKind::Bloc, PolicyKind::LeastRequestFull, PolicyKind::Prequal, PolicyKind::Jsq]
    {
        // The load is 100% of eight servers, and 80% of ten, after two have joined.
        let eight = with(policy, "poisson:34", &["leave:8-9@0s"]);
        let ten = with(policy, "poisson:34", &["join:8-9@50s"]);
        assert_eq!(ten.errors, 0, "{policy:?}");
        assert!(ten.mean_ms < eight.mean_ms, "{policy:?}: {:?} {:?}", ten.mean_ms, eight.mean_ms);
        // When servers go down after they have left, no request fails.
        let gone = with(policy, "poisson:20", &["leave:8-9@50s", "down:8-9@90s"]);
        assert_eq!(gone.errors, 0, "{policy:?}");
    }
}

#[test]
fn a_slow_server_raises_p99_only_while_it_is_slow() {
    let of = |incidents: &[&str]| with(PolicyKind::Random, "share:0.1", incidents).p99_ms.unwrap();
    assert!(of(&["slow:0@90s=0.1"]) > 2500.0);
    assert!(of(&["slow:0@0s-50s=0.1"]) < 1000.0);
}

#[test]
fn a_lying_server_misleads_bloc_and_prequal_but_not_jsq() {
    let lies = ["lying:0", "slow:0@0s=0.2"];
    for policy in [PolicyKind::Bloc, PolicyKind::Prequal] {
        let (honest, lying) = (with(policy, "share:0.7", &lies[1..]), with(policy, "share:0.7", &lies));
        assert!(lying.max_in_server > honest.max_in_server, "{policy:?}: {honest:?} {lying:?}");
    }
    let jsq = |incidents| with(PolicyKind::Jsq, "share:0.7", incidents);
    assert_eq!(jsq(&lies[1..]), jsq(&lies));
}

#[test]
fn a_silent_server_admits_more_than_the_capacity() {
    let silent = with(PolicyKind::Bloc, "share:1.5", &["silent:0"]);
    let all_speak = with(PolicyKind::Bloc, "share:1.5", &[]);
    assert!(all_speak.max_in_server == 10 && silent.max_in_server > 20, "{silent:?}");
}
