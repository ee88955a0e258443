//! Decisions of a server with one place by the age of the running request.

use super::*;
use crate::config::{RoutingKind, ServiceSpec};
use crate::routing::bid::is_bounce;
use crate::wire::reason::Reason;

fn at(millis: u64) -> Timestamp {
    Timestamp::ZERO.after(Duration::from_millis(millis))
}

fn requests(n: u32) -> Concurrency {
    Concurrency::new(n)
}

fn spec(hold: bool) -> ServiceSpec {
    ServiceSpec { concurrency: Some(1), hold: Some(hold), routing: Some(RoutingKind::Bid), ..ServiceSpec::default() }
}

/// A server after sequential requests of 100 ms. With `vary`, one of 20 took 2 s.
fn served(spec: ServiceSpec, vary: bool) -> Server {
    let mut server = Server::new(&spec.validate().unwrap());
    let mut now = 0;
    for request in 0..4_000 {
        let took = if vary && request % 20 == 10 { 2_000 } else { 100 };
        server.judge_arrival(requests(0), None, None, at(now)).unwrap();
        let flag = server.flag(requests(0), false);
        now += took;
        server.depart(flag, Duration::from_millis(took), requests(0), at(now));
    }
    server
}

const NOW: u64 = 10_000_000;

fn micros(micros: u64) -> Duration {
    Duration::from_micros(micros)
}

/// The smallest bid in microseconds that lets in a request that meets `others`, the first of which
/// has been running for `age` milliseconds.
fn least_exact(server: &mut Server, others: u32, age: u64) -> u64 {
    let (mut rejected, mut admitted) = (0, 1 << 40);
    while admitted - rejected > 1 {
        let bid = (admitted + rejected) / 2;
        server.observe_start(Some(at(NOW - age)));
        match server.judge(requests(others), Some(micros(bid).into()), None, at(NOW)) {
            Ok(()) => admitted = bid,
            Err(_) => rejected = bid,
        }
    }
    admitted
}

/// The same in tenths of a millisecond.
fn least(server: &mut Server, others: u32, age: u64) -> u64 {
    (least_exact(server, others, age) + 50) / 100
}

#[test]
fn where_times_are_fixed_a_request_is_expected_to_end_sooner_the_longer_it_has_been_running() {
    for hold in [true, false] {
        let mut server = served(spec(hold), false);
        let ages = [5, 45, 105, 200, 201, NOW];
        assert_eq!(ages.map(|age| least(&mut server, 1, age)), [2_300, 2_000, 1_550, 1_000, 2_000, 2_000]);
        assert_eq!(ages.map(|age| least(&mut server, 3, age)), [4_300, 4_000, 3_550, 3_000, 4_000, 4_000]);
    }
}

#[test]
fn bids_and_deadlines_are_compared_with_it_and_reports_are_not_of_it() {
    for fleet in [None, Some(micros(100_000))] {
        let mut server = served(spec(true), false);
        let mut arrive = |start, bid, deadline, others| {
            server.observe_start(start);
            let bid: Option<u64> = bid;
            let bid = bid.map(|most| Bid { most: micros(most), fleet });
            let deadline: Option<u64> = deadline;
            server.judge_arrival(requests(others), bid, deadline.map(micros), at(NOW))
        };
        let start = Some(at(NOW - 105));
        assert_eq!(arrive(start, Some(154_900), None, 1), Err(Reason::Bid));
        assert_eq!(arrive(start, None, Some(154_900), 1), Err(Reason::Deadline));
        assert_eq!(arrive(start, Some(155_100), Some(155_100), 1), Ok(()));
        assert_eq!(arrive(start, Some(0), Some(0), 0), Ok(()), "a free place");
        assert_eq!(arrive(None, Some(199_900), None, 1), Err(Reason::Bid), "the start is not known");
        assert_eq!(arrive(None, None, Some(199_900), 1), Err(Reason::Deadline), "the start is not known");
        assert_eq!(arrive(None, Some(200_100), Some(200_100), 1), Ok(()), "the start is not known");
        assert_eq!(arrive(Some(at(NOW + 1)), Some(233_700), None, 1), Err(Reason::Bid), "it has just begun");
        assert_eq!(arrive(Some(at(NOW + 1)), Some(233_800), None, 1), Ok(()), "it has just begun");
        assert_eq!(server.bare_report(requests(1)).expected(), server.expected(requests(1)));
        let expected = server.expected(requests(1)).unwrap().as_secs_f64();
        assert!((expected - 0.2).abs() < 1e-6, "{expected}");
    }
}

#[test]
fn a_start_is_for_the_next_request_only() {
    let mut server = served(spec(true), false);
    let bid = Some(micros(180_000).into());
    server.observe_start(Some(at(NOW - 100)));
    let both = [(); 2].map(|()| server.judge_arrival(requests(1), bid, None, at(NOW)));
    assert_eq!(both, [Ok(()), Err(Reason::Bid)]);
}

#[test]
fn where_few_requests_take_long_the_offer_grows_with_the_age_by_half_at_most() {
    let mut server = served(spec(true), true);
    let report = server.expected(requests(1)).unwrap().as_micros() as u64 / 100;
    let [new, older, oldest] = [0, 200, 2_000].map(|age| least(&mut server, 1, age));
    assert!(new.abs_diff(report) <= 1, "{new}, {report}");
    assert!(older > new + 800 && older < new + 1_500, "{older}");
    assert!(oldest.abs_diff(report * 3 / 2) <= 1, "{oldest}");
}

#[test]
fn what_the_server_reports_makes_every_bid_that_it_rejects_a_bounce() {
    for vary in [false, true] {
        let mut server = served(spec(true), vary);
        for (others, age) in [1, 2, 100].into_iter().flat_map(|n| [0, 60, 500, 2_000, NOW].map(|age| (n, age))) {
            let rejected = least_exact(&mut server, others, age) - 1;
            let bid = Some(micros(rejected).into());
            assert!(is_bounce(bid, &server.bare_report(requests(others))), "{others} {age}");
        }
    }
}

/// The fleet takes ten times as long. A minute after its last answer, the server is no longer sure
/// to be faster.
#[test]
fn a_bid_that_a_fast_server_rejects_while_it_is_not_sure_is_a_bounce() {
    let mut server = served(spec(true), true);
    let fleet = Some(server.expected(requests(0)).unwrap() * 10);
    let last = 4_000 * 195;
    for (idle, at_least) in [(0, 0), (60_000, 5_800_000)] {
        let now = at(last + idle);
        let rejects = |server: &mut Server, bid| {
            server.observe_start(Some(at(last + idle - 5_000)));
            server.judge(requests(1), bid, None, now).is_err()
        };
        let bid = |most| Some(Bid { most: micros(most), fleet });
        let most = (0..10_000).rev().map(|most| most * 1_000).find(|most| rejects(&mut server, bid(*most))).unwrap();
        assert!(most >= at_least, "{most}");
        assert!(is_bounce(bid(most), &server.bare_report(requests(1))), "{most}");
    }
}

#[test]
fn starts_matter_with_one_place_where_callers_bid() {
    let of = |spec: ServiceSpec| {
        let server = Server::new(&spec.validate().unwrap());
        let others = [0, 1, 2].map(requests);
        [
            others.map(|others| server.asks_for_start(others)),
            others.map(|others| server.begins(others)),
            others.map(|others| server.passes_on(others)),
        ]
    };
    let none = [false; 3];
    assert_eq!(of(spec(true)), [[false, true, true], [true; 3], none]);
    assert_eq!(of(spec(false)), [[false, true, true], [true, false, false], [false, true, true]]);
    for hold in [true, false] {
        assert_eq!(of(ServiceSpec { concurrency: Some(2), ..spec(hold) }), [none; 3]);
        assert_eq!(of(ServiceSpec { routing: Some(RoutingKind::Bloc), ..spec(hold) }), [none; 3]);
    }
    assert_eq!(of(ServiceSpec { concurrency: None, hold: None, ..spec(true) }), [none; 3]);
}

#[test]
fn the_variation_is_that_of_requests_which_ran_from_the_hand_over_on() {
    // For each `hold` and number of requests met: whether the request counts.
    for (hold, met, counts) in [(true, 0, true), (true, 2, true), (false, 0, true), (false, 2, false)] {
        let mut server = served(spec(hold), false);
        let before = server.measured.borrow().remaining;
        server.judge_arrival(requests(met), None, None, at(NOW)).unwrap();
        let flag = server.flag(requests(met), false);
        server.depart(flag, Duration::from_millis(300), requests(met), at(NOW + 300));
        assert_eq!(server.measured.borrow().remaining != before, counts, "{hold}, {met}");
    }
}

#[test]
fn a_request_that_came_under_another_configuration_says_nothing_of_the_variation() {
    let mut server = served(spec(false), false);
    let before = server.measured.borrow().remaining;
    let held = server.beside(&spec(true).validate().unwrap()).flag(requests(0), false);
    server.depart(held, Duration::from_millis(300), requests(0), at(NOW));
    assert_eq!(server.measured.borrow().remaining, before);
}
