//! The filters' routing `bid`, compared with omniscient balancers, least request and BLOC.

mod common;

use bloc_figures::stats;
use bloc_policy::config::CapacitySpec;
use bloc_sim::Scenario;
use bloc_sim::outcome::Outcome;
use bloc_sim::policies::PolicyKind;
use bloc_sim::scenario::Spread;
use common::case;

/// 40 senders, 10 servers with `concurrency: 1` that take 50 ms for a request.
fn run(policy: PolicyKind, load: &str, change: impl FnOnce(&mut Scenario)) -> Outcome {
    let mut scenario =
        Scenario { service_time: "fixed:50ms".parse().unwrap(), load: load.parse().unwrap(), ..case(policy, 400) };
    scenario.service.concurrency = Some(1);
    scenario.service.hold = Some(false);
    scenario.service.capacity = None;
    change(&mut scenario);
    bloc_sim::run(&scenario).unwrap()
}

fn p99(outcome: &Outcome) -> f64 {
    outcome.p99_ms.unwrap()
}

#[test]
fn bids_come_near_an_omniscient_balancer_at_one_bounce_per_request() {
    for load in ["share:0.9", "share:0.95"] {
        let of = |seed| {
            [PolicyKind::Bid, PolicyKind::Jsq, PolicyKind::LeastRequest]
                .map(|policy| run(policy, load, |scenario| scenario.seed = seed))
        };
        let ratios = |other: usize| {
            let ratios: Vec<f64> = (1..=5).map(of).map(|all| p99(&all[0]) / p99(&all[other])).collect();
            stats::Spread::of(&ratios).unwrap()
        };
        let (jsq, least) = (ratios(1), ratios(2));
        println!("{load}: of jsq's {}, of least request's {}", jsq.shown(2), least.shown(2));
        assert!(jsq.median < 1.35 && least.median < 0.6, "{load}");
        let [bid, ..] = of(1);
        assert_eq!((bid.shed, bid.errors), (0, 0));
        assert!((1.5..2.5).contains(&bid.attempts_per_request), "{} attempts", bid.attempts_per_request);
    }
}

#[test]
fn bids_come_near_the_shortest_wait_on_servers_of_two_speeds() {
    let two_speeds = |scenario: &mut Scenario| scenario.speeds = vec![2.0, 1.0];
    let bid = run(PolicyKind::Bid, "share:0.95", two_speeds);
    let central = run(PolicyKind::ShortestWait, "share:0.95", two_speeds);
    let least = run(PolicyKind::LeastRequest, "share:0.95", two_speeds);
    println!("bid {} central {} least request {}", p99(&bid), p99(&central), p99(&least));
    assert!(p99(&bid) < 1.35 * p99(&central) && p99(&bid) < 0.25 * p99(&least));
}

#[test]
fn bids_answer_as_many_requests_as_bloc_under_overload() {
    let capacity = |scenario: &mut Scenario| scenario.service.capacity = Some(CapacitySpec::Static { limit: 10 });
    for load in ["share:1.05", "share:1.3"] {
        let (bid, bloc) = (run(PolicyKind::Bid, load, capacity), run(PolicyKind::Bloc, load, capacity));
        println!("{load}: {} answered with bids, {} with bloc", bid.ok, bloc.ok);
        assert!(bid.ok as f64 >= 0.995 * bloc.ok as f64, "{load}");
    }
}

#[test]
fn one_bad_server_does_little_more_harm_with_bids_than_with_bloc() {
    for incident in ["lying:3", "silent:3", "slow:3@100s-500s=0.3", "down:3@150s-250s", "partition@150s-250s"] {
        let bad = |scenario: &mut Scenario| {
            scenario.incidents = vec![incident.parse().unwrap()];
            scenario.retry_failures = true;
        };
        let (bid, bloc) = (run(PolicyKind::Bid, "share:0.8", bad), run(PolicyKind::Bloc, "share:0.8", bad));
        println!("{incident}: p99 {} with bids, {} with bloc; ok {} and {}", p99(&bid), p99(&bloc), bid.ok, bloc.ok);
        assert!(p99(&bid) < 1.3 * p99(&bloc), "{incident}");
        assert!(bid.ok as f64 >= 0.995 * bloc.ok as f64, "{incident}");
    }
}

#[test]
fn bids_bounce_almost_no_requests_of_1_ms() {
    let fast = |scenario: &mut Scenario| scenario.service_time = "fixed:1ms".parse().unwrap();
    let bid = run(PolicyKind::Bid, "share:0.5", fast);
    println!("{} attempts per request", bid.attempts_per_request);
    assert!(bid.attempts_per_request < 1.02);
}

/// One in twenty requests takes more than four times the mean.
#[test]
fn a_request_that_is_held_behind_a_long_one_goes_elsewhere() {
    let [held, not] = [true, false].map(|hold| {
        run(PolicyKind::Bid, "share:0.7", |scenario: &mut Scenario| {
            scenario.service_time = "lognormal:50ms/1.5".parse().unwrap();
            scenario.service.hold = Some(hold);
        })
    });
    let bounced = [&held, &not].map(|outcome| outcome.late_bounces_per_request);
    println!("held: p99 {}, mean {:?}; not: {}, {:?}; {bounced:?}", p99(&held), held.mean_ms, p99(&not), not.mean_ms);
    assert!(bounced[0] > 0.02 && bounced[1] == 0.0);
    assert!(p99(&held) < 0.9 * p99(&not));
    assert!(held.attempts_per_request < not.attempts_per_request + 0.25);
    assert_eq!((held.shed, held.errors, held.ok), (0, 0, held.requests));
}

#[test]
fn no_held_request_is_bounced_where_all_take_the_same_time() {
    let held = run(PolicyKind::Bid, "share:0.95", |scenario: &mut Scenario| scenario.service.hold = Some(true));
    assert_eq!(held.late_bounces_per_request, 0.0);
}

/// Each caller has one request at a time, so both servers are free whenever it chooses.
#[test]
fn a_slow_server_of_two_is_spared_by_each_caller_though_it_is_free() {
    for seed in 1..=5 {
        let outcome = run(PolicyKind::Bid, "closed:2", |scenario| {
            (scenario.senders, scenario.servers, scenario.concurrency) = (2, 2, 2);
            scenario.service.concurrency = Some(2);
            scenario.service_time = "fixed:20ms".parse().unwrap();
            (scenario.speeds, scenario.spread, scenario.seed) = (vec![0.1, 1.0], Spread::Own, seed);
        });
        println!("{seed}: {:?}, {} attempts", outcome.served_by, outcome.attempts_per_request);
        let of_slow = outcome.served_by[0];
        assert!(of_slow > 0 && 100 * of_slow < outcome.ok, "{of_slow} of {}", outcome.ok);
        assert!(outcome.attempts_per_request < 1.2);
    }
}
