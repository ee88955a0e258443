//! Bids that say the fleet's execution time.

use super::*;

/// A server with two places and `hold`, whose requests take this long.
fn that_takes(millis: u64, spec: ServiceSpec) -> (Server, Timestamp) {
    let mut server = server(spec);
    let mut now = Timestamp::ZERO;
    for _ in 0..200 {
        let flag = server.flag(requests(0));
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
    // 96.6 ms are sure: half of it for each request beyond the second, and half of it and of 50 ms.
    for (others, offer) in [(2, 121), (3, 169), (5, 266)] {
        let mut arrive = |most| server.arrive(requests(others), bid_among(most, 50), None, now);
        assert_eq!((arrive(offer), arrive(offer + 1)), (Err(Reason::Bid), Ok(())), "{others}");
    }
    assert_eq!(server.arrive(requests(2), Some(Duration::from_millis(149).into()), None, now), Err(Reason::Bid));
    assert_eq!(server.arrive(requests(2), bid_among(149, 100), None, now), Err(Reason::Bid), "like the fleet");
    assert_eq!(server.arrive(requests(2), bid_among(151, 100), None, now), Ok(()));
    let (mut untold, now) = that_takes(100, ServiceSpec { concurrency: None, ..two_places() });
    assert_eq!(untold.arrive(requests(1), bid_among(149, 50), None, now), Err(Reason::Bid), "the whole time");
    assert_eq!(untold.arrive(requests(0), bid_among(1, 50), None, now), Ok(()), "a free place");
}

#[test]
fn a_surely_slow_server_bounces_from_a_free_place_until_it_is_not_sure_any_more() {
    let (mut slow, now) = that_takes(100, two_places());
    let mut arrive = |most, fleet, seconds| {
        slow.arrive(requests(1), bid_among(most, fleet), Some(Duration::ZERO), now.after(Duration::from_secs(seconds)))
    };
    // Half of 100 and of 50 ms.
    assert_eq!((arrive(74, 50, 0), arrive(76, 50, 0)), (Err(Reason::Bid), Ok(())));
    assert_eq!(arrive(1, 100, 0), Ok(()), "it is like the fleet");
    assert_eq!(arrive(1, 300, 0), Ok(()), "it is faster");
    assert_eq!((arrive(74, 50, 5), arrive(1, 50, 30)), (Err(Reason::Bid), Ok(())));
    let now = now.after(Duration::from_secs(1));
    assert_eq!(slow.arrive(requests(1), Some(Duration::from_millis(1).into()), None, now), Ok(()), "no fleet");
}

#[test]
fn announces_that_it_reads_the_fleet_if_it_knows_its_places_and_callers_bid() {
    let announces = |spec| server(spec).bare_report(requests(0)).fleet;
    assert!(announces(two_places()));
    assert!(!announces(ServiceSpec { concurrency: None, ..two_places() }));
    assert!(!announces(ServiceSpec { routing: Some(RoutingKind::Bloc), ..two_places() }));
}
