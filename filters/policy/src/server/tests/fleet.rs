//! Bids that say the fleet's execution time.

use super::*;

/// A server with two places and `hold`, whose requests take this long.
fn that_takes(millis: u64, spec: ServiceSpec) -> (Server, Timestamp) {
    let mut server = server(spec);
    let mut now = Timestamp::ZERO;
    for _ in 0..200 {
        let flag = server.flag(requests(0), false);
        now = now.after(Duration::from_millis(millis));
        server.depart(flag, Duration::from_millis(millis), requests(0), now);
    }
    (server, now)
}

fn two_places() -> ServiceSpec {
    ServiceSpec { concurrency: Some(2), routing: Some(RoutingKind::Bid), ..ServiceSpec::default() }
}

fn bid_among(most: u64, fleet: u64) -> Option<Bid> {
    Some(Bid { most: Duration::from_millis(most), fleet: Some(Duration::from_millis(fleet)) })
}

#[test]
fn compares_the_wait_and_half_of_the_execution_times_with_a_bid_that_says_the_fleets() {
    let (mut server, now) = that_takes(100, two_places());
    // 96.6 ms are sure. The offer is half of that for each request beyond the second, plus the mean
    // of that and 50 ms.
    for (others, offer) in [(2, 121), (3, 169), (5, 266)] {
        let mut arrive = |most| server.judge_arrival(requests(others), bid_among(most, 50), None, now);
        assert_eq!((arrive(offer), arrive(offer + 1)), (Err(Reason::Bid), Ok(())), "{others}");
    }
    assert_eq!(server.judge_arrival(requests(2), Some(Duration::from_millis(149).into()), None, now), Err(Reason::Bid));
    assert_eq!(server.judge_arrival(requests(2), bid_among(149, 100), None, now), Err(Reason::Bid), "like the fleet");
    assert_eq!(server.judge_arrival(requests(2), bid_among(151, 100), None, now), Ok(()));
    let (mut untold, now) = that_takes(100, ServiceSpec { concurrency: None, ..two_places() });
    assert_eq!(untold.judge_arrival(requests(1), bid_among(99, 50), None, now), Err(Reason::Bid), "the whole time");
    assert_eq!(untold.judge_arrival(requests(1), bid_among(101, 50), None, now), Ok(()), "there may be two places");
    assert_eq!(untold.judge_arrival(requests(0), bid_among(1, 50), None, now), Ok(()), "a free place");
}

#[test]
fn a_surely_slow_server_bounces_from_a_free_place_until_it_is_not_sure_any_more() {
    let (mut slow, now) = that_takes(100, two_places());
    let mut arrive = |most, fleet, seconds| {
        slow.judge_arrival(
            requests(1),
            bid_among(most, fleet),
            Some(Duration::ZERO),
            now.after(Duration::from_secs(seconds)),
        )
    };
    // The mean of 100 and 50 ms.
    assert_eq!((arrive(74, 50, 0), arrive(76, 50, 0)), (Err(Reason::Bid), Ok(())));
    assert_eq!(arrive(1, 100, 0), Ok(()), "it is like the fleet");
    assert_eq!(arrive(1, 300, 0), Ok(()), "it is faster");
    assert_eq!((arrive(74, 50, 5), arrive(1, 50, 30)), (Err(Reason::Bid), Ok(())));
    let now = now.after(Duration::from_secs(1));
    assert_eq!(slow.judge_arrival(requests(1), Some(Duration::from_millis(1).into()), None, now), Ok(()), "no fleet");
}

#[test]
fn announces_that_it_reads_the_fleet_if_it_knows_its_places_and_callers_bid() {
    let announces = |spec| server(spec).bare_report(requests(0)).fleet;
    assert!(announces(two_places()));
    assert!(!announces(ServiceSpec { concurrency: None, ..two_places() }));
    assert!(!announces(ServiceSpec { routing: Some(RoutingKind::Bloc), ..two_places() }));
}

/// A server that is no longer sure, 30 s after its last answer.
fn unsure() -> (Server, Timestamp) {
    let (mut slow, now) = that_takes(100, two_places());
    assert_eq!(slow.judge_arrival(requests(0), bid_among(60, 50), None, now), Err(Reason::Bid));
    (slow, now.after(Duration::from_secs(30)))
}

#[test]
fn tries_one_request_at_a_time_to_learn_whether_it_is_still_slow() {
    let (mut slow, now) = unsure();
    let arrive = |slow: &mut Server| slow.judge_arrival(requests(0), bid_among(60, 50), None, now);
    assert_eq!([arrive(&mut slow), arrive(&mut slow)], [Ok(()), Err(Reason::Bid)]);
    slow.vanish(requests(0), Timestamp::ZERO, now);
    assert_eq!(arrive(&mut slow), Err(Reason::Bid), "another request has left");
    slow.vanish(requests(0), now, now);
    assert_eq!(arrive(&mut slow), Ok(()), "it has left without an answer");
    let flag = slow.flag(requests(0), true);
    slow.depart(flag, Duration::from_millis(10), requests(0), now);
    assert_eq!([arrive(&mut slow), arrive(&mut slow)], [Ok(()); 2], "it is fast");
}

#[test]
fn an_answer_that_does_not_count_ends_no_probe() {
    for (bid, next) in [(false, Err(Reason::Bid)), (true, Ok(()))] {
        let (mut slow, now) = unsure();
        let arrive = |slow: &mut Server, now| slow.judge_arrival(requests(0), bid_among(60, 50), None, now);
        assert_eq!([arrive(&mut slow, now), arrive(&mut slow, now)], [Ok(()), Err(Reason::Bid)]);
        let flag = slow.flag(requests(0), bid);
        slow.depart(flag, Duration::from_millis(1), requests(0), now);
        assert_eq!(arrive(&mut slow, now), next, "{bid}");
    }
}

/// Uploads make no bid, and take longer.
#[test]
fn requests_without_a_bid_do_not_count_while_bids_are_bounced() {
    for (bounces, execution) in [(false, true), (true, false)] {
        let (mut server, now) = that_takes(100, two_places());
        if bounces {
            assert_eq!(server.judge_arrival(requests(0), bid_among(60, 50), None, now), Err(Reason::Bid));
        }
        for bid in [None, bid_among(1_000, 50)] {
            let before = server.expected(requests(0));
            assert_eq!(server.judge_arrival(requests(0), bid, None, now), Ok(()));
            let flag = server.flag(requests(0), bid.is_some());
            server.depart(flag, Duration::from_secs(1), requests(0), now);
            assert_eq!(server.expected(requests(0)) != before, execution || bid.is_some(), "{bounces}, {bid:?}");
        }
    }
}

#[test]
fn a_request_that_says_nothing_about_the_execution_time_says_nothing_about_the_places() {
    for (took, counts) in [(4_900, true), (5_100, false)] {
        let (mut server, now) = that_takes(100, ServiceSpec { concurrency: None, ..two_places() });
        let places = |server: &Server| format!("{:?}", server.measured.borrow().places);
        let before = places(&server);
        let flag = server.flag(requests(0), false);
        server.depart(flag, Duration::from_millis(took), requests(0), now);
        assert_eq!(places(&server) != before, counts, "{took} ms");
    }
}

#[test]
fn the_concurrency_is_also_estimated_if_an_older_configuration_has_one() {
    let untold = with_two_places(None);
    let mut now = Timestamp::ZERO.after(Duration::from_secs(60));
    let mut told = untold.beside(&two_places().validate().unwrap());
    let mut again = told.beside(&ServiceSpec::default().validate().unwrap());
    for _ in 0..60 {
        for (others, millis) in [(0, 100), (1, 100), (2, 100), (3, 100), (4, 125), (5, 150)] {
            assert_eq!(again.judge_arrival(requests(others), None, None, now), Ok(()));
            let flag = again.flag(requests(others), false);
            now = now.after(Duration::from_millis(millis));
            again.depart(flag, Duration::from_millis(millis), requests(others), now);
        }
    }
    assert_eq!(again.estimated_concurrency(), Some(requests(2)));
    told.measure(Totals::default(), true, now);
    assert_eq!(told.estimated_concurrency(), None);
    assert!(again.estimated_concurrency() > Some(requests(3)), "{:?}", again.estimated_concurrency());
}
