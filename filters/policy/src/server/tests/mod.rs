//! One server: what it admits, measures and reports.

mod fleet;

use super::*;
use crate::config::{CapacitySpec, RoutingKind, ServiceSpec};
use crate::server::departures::{Flag, Totals};

fn server(spec: ServiceSpec) -> Server {
    Server::new(&spec.validate().unwrap())
}

fn requests(n: u32) -> Concurrency {
    Concurrency::new(n)
}

fn with_execution(mut server: Server, millis: u64) -> Server {
    let flag = server.flag(requests(0), false);
    let took = Duration::from_millis(millis);
    server.depart(flag, took, requests(0), Timestamp::ZERO.after(took));
    server.measure(Totals::default(), true, Timestamp::ZERO);
    server
}

#[test]
fn derives_service_rate_and_slo_capacity_from_the_concurrency() {
    let capacity = Some(CapacitySpec::Slo { slo: "2s".into() });
    let server = server(ServiceSpec { concurrency: Some(4), capacity, ..ServiceSpec::default() });
    assert_eq!((server.service_rate(), server.capacity()), (None, None), "cold: no limit");
    let server = with_execution(server, 100);
    assert_eq!(server.service_rate(), Some(40.0));
    assert_eq!(server.capacity(), Some(requests(80)));
    let report = server.bare_report(requests(3));
    assert_eq!((report.service, report.queue, report.chip), (Some(40.0), Some(3), false));
}

#[test]
fn reports_orca_reasons_and_places_as_configured() {
    let of = |spec: ServiceSpec| {
        let server = server(spec);
        (server.orca(), server.tells_why(), server.places())
    };
    assert_eq!(of(ServiceSpec::default()), (false, false, None));
    let all = ServiceSpec {
        orca: Some(true),
        debug_headers: Some(true),
        concurrency: Some(4),
        hold: Some(true),
        ..ServiceSpec::default()
    };
    assert_eq!(of(all.clone()), (true, true, Some(requests(4))));
    assert_eq!(of(ServiceSpec { hold: Some(false), ..all }), (true, true, None));
}

#[test]
fn a_report_for_an_answer_has_the_chip_beside_the_load() {
    let server = with_execution(server(ServiceSpec { concurrency: Some(4), ..ServiceSpec::default() }), 100);
    let report = server.report(requests(3), &mut fastrand::Rng::with_seed(1));
    assert_eq!(report, LoadReport { chip: true, ..server.bare_report(requests(3)) });
    assert_eq!((report.queue, report.service), (Some(3), Some(40.0)));
}

#[test]
fn the_measuring_interval_ends_after_a_second() {
    let mut server = server(ServiceSpec::default());
    server.measure(Totals::default(), true, Timestamp::ZERO);
    assert!(!server.is_due(Timestamp::from_nanos(999_999_999)));
    assert!(server.is_due(Timestamp::from_nanos(1_000_000_000)));
}

#[test]
fn an_execution_time_of_zero_makes_no_service_rate() {
    for concurrency in [None, Some(4)] {
        let server = with_execution(server(ServiceSpec { concurrency, ..ServiceSpec::default() }), 0);
        assert_eq!(server.service_rate(), None);
    }
}

/// A server with two places at which `others` requests have arrived at once.
fn crowded(others: u32, hold: bool) -> Server {
    let mut server = server(ServiceSpec { concurrency: Some(2), hold: Some(hold), ..ServiceSpec::default() });
    for others in 0..others {
        assert_eq!(server.judge_arrival(requests(others), None, None, Timestamp::ZERO), Ok(()));
    }
    server
}

fn answer(server: &mut Server, flag: Flag, took: u64, others: u32, at: u64) -> bool {
    let now = Timestamp::ZERO.after(Duration::from_millis(at));
    server.depart(flag, Duration::from_millis(took), requests(others), now)
}

#[test]
fn subtracts_queueing_in_the_application_from_the_execution_time() {
    let mut server = crowded(4, false);
    let flag = server.flag(requests(3), false);
    assert_eq!((server.places(), server.concurrency()), (None, Some(requests(2))));
    // Execution times of 100 ms; two at a time.
    for (others, at) in [(3, 100), (2, 100), (1, 200), (0, 200)] {
        answer(&mut server, flag, at, others, at);
    }
    let execution = server.bare_report(requests(0)).execution.unwrap();
    assert!((execution.as_secs_f64() - 0.1).abs() < 1e-6, "{execution:?}");
    assert_eq!(server.service_rate().map(f64::round), Some(20.0));
}

#[test]
fn the_time_of_a_request_that_the_sidecar_has_held_is_its_execution_time() {
    let mut server = crowded(4, true);
    let flag = server.flag(requests(3), false);
    answer(&mut server, flag, 100, 3, 100);
    assert_eq!(server.bare_report(requests(0)).execution, Some(Duration::from_millis(100)));
}

#[test]
fn a_request_that_is_reset_takes_no_part_in_the_execution_time_after_that() {
    let mut server = crowded(4, false);
    let flag = server.flag(requests(3), false);
    for others in [3, 2] {
        server.vanish(requests(others), Timestamp::ZERO, Timestamp::ZERO);
    }
    for others in [1, 0] {
        answer(&mut server, flag, 100, others, 100);
    }
    assert_eq!(server.bare_report(requests(0)).execution, Some(Duration::from_millis(100)));
}

#[test]
fn requests_that_are_never_answered_do_not_make_a_server_look_slower() {
    for watchers in [1, 2, 5] {
        let mut server = crowded(watchers, false);
        for second in 1..20 {
            let now = Timestamp::ZERO.after(Duration::from_secs(second));
            assert_eq!(server.judge_arrival(requests(watchers), None, None, now), Ok(()));
            let flag = server.flag(requests(watchers), false);
            answer(&mut server, flag, 50, watchers, second * 1000 + 50);
        }
        let execution = server.bare_report(requests(0)).execution.unwrap();
        assert!(execution <= Duration::from_millis(50), "{watchers}: {execution:?}");
    }
}

#[test]
fn a_request_that_came_under_another_configuration_is_not_measured() {
    let mut server = crowded(4, true);
    let flag = server.flag(requests(3), false);
    let inside = ServiceSpec { concurrency: Some(2), hold: Some(false), ..ServiceSpec::default() };
    server.configure(&inside.validate().unwrap());
    answer(&mut server, flag, 9_000, 3, 9_000);
    assert_eq!(server.bare_report(requests(0)).execution, None);
    let flag = server.flag(requests(1), false);
    answer(&mut server, flag, 100, 1, 9_100);
    // Two places are shared by 3 requests at first, then by 2.
    let execution = server.bare_report(requests(0)).execution.unwrap().as_secs_f64();
    assert!((execution - 0.1 * f64::midpoint(2.0 / 3.0, 1.0)).abs() < 1e-6, "{execution}");
}

#[test]
fn a_request_that_waited_in_the_application_is_not_measured_once_the_sidecar_holds() {
    let mut server = crowded(4, false);
    let flag = server.flag(requests(3), false);
    let held = ServiceSpec { concurrency: Some(2), hold: Some(true), ..ServiceSpec::default() };
    server.configure(&held.validate().unwrap());
    answer(&mut server, flag, 9_000, 3, 9_000);
    assert_eq!(server.bare_report(requests(0)).execution, None);
    let flag = server.flag(requests(1), false);
    answer(&mut server, flag, 100, 1, 9_100);
    assert_eq!(server.bare_report(requests(0)).execution, Some(Duration::from_millis(100)));
}

/// The control plane removes the parameters of a service and restores them.
#[test]
fn a_request_from_before_the_measurements_began_anew_is_not_measured() {
    let at = |seconds| Timestamp::ZERO.after(Duration::from_secs(seconds));
    for (before, after) in [(0, 1_000), (1_000, 0)] {
        let [mut old, mut new] = [(); 2].map(|()| crowded(0, false));
        assert_eq!(old.judge_arrival(requests(0), None, None, at(before)), Ok(()));
        let flag = old.flag(requests(0), false);
        assert_eq!(new.judge_arrival(requests(0), None, None, at(after)), Ok(()));
        let own = new.flag(requests(0), false);
        answer(&mut new, flag, 50, 0, after * 1_000 + 50);
        assert_eq!(new.bare_report(requests(0)).execution, None, "{before} s, {after} s");
        answer(&mut new, own, 50, 0, after * 1_000 + 50);
        let execution = new.bare_report(requests(0)).execution.unwrap().as_secs_f64();
        assert!((execution - 0.05).abs() < 1e-6, "{execution}");
    }
}

/// Bursts of 40 requests of 50 ms for two places, and another configuration in the middle of each.
#[test]
fn a_server_whose_queue_moves_into_the_application_and_back_never_looks_slower() {
    let spec = |hold| ServiceSpec { concurrency: Some(2), hold: Some(hold), ..ServiceSpec::default() };
    for views in [1, 2] {
        let mut servers = vec![server(spec(true))];
        if views == 2 {
            servers.push(servers[0].beside(&spec(false).validate().unwrap()));
        }
        for burst in 0..20u64 {
            let hold = burst % 2 == 0;
            let place = if hold { 0 } else { views - 1 };
            servers[place].configure(&spec(hold).validate().unwrap());
            let begin = burst * 4_000;
            let now = Timestamp::ZERO.after(Duration::from_millis(begin));
            let flags: Vec<Flag> = (0..40)
                .map(|others| {
                    assert_eq!(servers[place].judge_arrival(requests(others), None, None, now), Ok(()));
                    servers[place].flag(requests(others), false)
                })
                .collect();
            for (left, flag) in (0..40).rev().zip(flags) {
                if left == 19 {
                    // Held requests enter.
                    servers[place].configure(&spec(!hold).validate().unwrap());
                }
                let took = 50 * (20 - u64::from(left) / 2);
                let entered = if !hold {
                    0
                } else if left >= 20 {
                    took - 50
                } else {
                    500
                };
                answer(&mut servers[place], flag, took - entered, left, begin + took);
            }
            let execution = servers[0].bare_report(requests(0)).execution.unwrap();
            assert!(execution <= Duration::from_micros(50_001), "{views}, burst {burst}: {execution:?}");
            assert!(execution >= Duration::from_millis(10), "{views}, burst {burst}: {execution:?}");
            assert_eq!(servers[views - 1].bare_report(requests(0)).execution, Some(execution));
        }
    }
}

#[test]
fn a_request_is_confident_if_others_waited_until_it_was_answered() {
    let mut server = crowded(0, false);
    // There are two places, so of two others none waits.
    for (met, left, confident) in [(2, 3, false), (3, 3, true), (3, 2, true), (3, 3, true)] {
        let flag = server.flag(requests(met), false);
        assert_eq!(server.depart(flag, Duration::ZERO, requests(left), Timestamp::ZERO), confident, "{met}, {left}");
    }
    let flag = server.flag(requests(3), false);
    answer(&mut server, flag, 0, 2, 0);
    assert!(!server.depart(flag, Duration::ZERO, requests(3), Timestamp::ZERO), "nobody waited in between");
}

#[test]
fn a_worker_that_serves_nothing_reports_no_rate_and_no_capacity() {
    let mut server =
        server(ServiceSpec { capacity: Some(CapacitySpec::Slo { slo: "1s".into() }), ..ServiceSpec::default() });
    for second in 0..5 {
        let totals = Totals { departed: second * 100, confident: 0 };
        server.measure(totals, true, Timestamp::ZERO.after(Duration::from_secs(second)));
    }
    assert_eq!((server.service_rate(), server.capacity()), (None, None));
}

#[test]
fn an_idle_server_does_not_lower_its_service_rate() {
    let mut server = with_execution(server(ServiceSpec::default()), 50);
    let at = |seconds| Timestamp::ZERO.after(Duration::from_secs(seconds));
    // One confident departure in ten seconds.
    server.measure(Totals { departed: 1, confident: 1 }, true, at(10));
    assert_eq!(server.service_rate(), Some(20.0));
}

#[test]
fn rejects_a_request_that_cannot_meet_its_deadline() {
    let mut server = with_execution(server(ServiceSpec { concurrency: Some(1), ..ServiceSpec::default() }), 100);
    let now = Timestamp::ZERO;
    let left = |millis| Some(Duration::from_millis(millis));
    assert_eq!(server.expected(requests(4)), left(500));
    assert_eq!(server.judge_arrival(requests(4), None, left(499), now), Err(Reason::Deadline));
    assert_eq!(server.judge_arrival(requests(4), None, left(500), now), Ok(()));
    assert_eq!(server.judge_arrival(requests(4), None, None, now), Ok(()));
    assert_eq!(server.judge_arrival(requests(0), None, left(99), now), Ok(()), "there is a place");
}

#[test]
fn a_free_place_admits_any_deadline_and_any_bid_without_the_fleet() {
    let of = |concurrency| with_execution(server(ServiceSpec { concurrency, ..ServiceSpec::default() }), 2_500);
    let soon = Some(Duration::from_secs(1));
    let now = Timestamp::ZERO;
    let bid = soon.map(Bid::from);
    for (bid, left) in [(bid, None), (None, soon)] {
        assert_eq!(of(Some(4)).judge_arrival(requests(3), bid, left, now), Ok(()));
        assert!(of(Some(4)).judge_arrival(requests(4), bid, left, now).is_err());
        assert_eq!(of(None).judge_arrival(requests(0), bid, left, now), Ok(()));
        assert!(of(None).judge_arrival(requests(1), bid, left, now).is_err(), "how many places there are is not known");
    }
}

#[test]
fn rejects_a_bid_below_the_expected_response_time() {
    let mut server = with_execution(server(ServiceSpec { concurrency: Some(1), ..ServiceSpec::default() }), 100);
    let now = Timestamp::ZERO;
    let bid = |millis| Some(Duration::from_millis(millis).into());
    assert_eq!(server.judge_arrival(requests(2), bid(299), None, now), Err(Reason::Bid));
    assert_eq!(server.judge_arrival(requests(2), bid(300), None, now), Ok(()));
    assert_eq!(server.judge_arrival(requests(2), None, None, now), Ok(()), "without limit");
    let mut cold = self::server(ServiceSpec { concurrency: Some(1), ..ServiceSpec::default() });
    assert_eq!(cold.judge_arrival(requests(9), bid(1), None, now), Ok(()), "a server without measurements takes it");
}

#[test]
fn holds_no_longer_than_the_maximum_or_the_deadline_allows() {
    let spec = ServiceSpec { concurrency: Some(1), max_queue_wait: Some("300ms".into()), ..ServiceSpec::default() };
    let server = with_execution(server(spec), 100);
    let (millis, until) = (Duration::from_millis, |millis| (Duration::from_millis(millis), Reason::Deadline));
    assert_eq!(server.max_hold(None, None), until(300));
    assert_eq!(server.max_hold(None, Some(millis(250))), until(150), "the application needs the rest");
    assert_eq!(server.max_hold(None, Some(millis(1000))), until(300));
    let bid = Some(Bid { most: millis(80), fleet: Some(millis(100)) });
    assert_eq!(server.max_hold(bid, None), (millis(160), Reason::Bid));
    let default = with_execution(self::server(ServiceSpec::default()), 100);
    assert_eq!(default.max_hold(None, None), until(15_000), "as long as Envoy waits for an answer by default");
    assert_eq!(default.max_hold(None, Some(millis(60_000))), until(15_000));
}

#[test]
fn a_server_at_its_capacity_rejects_requests() {
    let mut server =
        server(ServiceSpec { capacity: Some(CapacitySpec::Static { limit: 2 }), ..ServiceSpec::default() });
    assert_eq!(server.judge_arrival(requests(1), None, None, Timestamp::ZERO), Ok(()));
    assert_eq!(server.judge_arrival(requests(2), None, None, Timestamp::ZERO), Err(Reason::Capacity));
}

#[test]
fn new_parameters_keep_the_measurements() {
    let slo = |slo: &str| ServiceSpec {
        concurrency: Some(2),
        capacity: Some(CapacitySpec::Slo { slo: slo.into() }),
        ..ServiceSpec::default()
    };
    let mut server = with_execution(server(slo("1s")), 100);
    assert_eq!(server.capacity(), Some(requests(20)));
    server.configure(&ServiceSpec { headroom: Some(0.5), ..slo("1s") }.validate().unwrap());
    assert_eq!(server.capacity(), Some(requests(20)), "the same estimator goes on");
    server.configure(&slo("2s").validate().unwrap());
    server.measure(Totals::default(), true, Timestamp::ZERO);
    assert_eq!(server.capacity(), Some(requests(40)), "another one starts from the measurements");
}

#[test]
fn two_configurations_of_a_service_share_its_measurements() {
    let slo = |slo: &str| {
        let capacity = Some(CapacitySpec::Slo { slo: slo.into() });
        ServiceSpec { concurrency: Some(2), capacity, ..ServiceSpec::default() }.validate().unwrap()
    };
    let one = with_execution(Server::new(&slo("1s")), 100);
    let mut other = one.beside(&slo("2s"));
    assert_eq!((one.capacity(), other.capacity()), (Some(requests(20)), Some(requests(40))));
    other = with_execution(other, 100);
    assert_eq!(other.expected(requests(1)), one.expected(requests(1)));
}

/// A server whose two places are not configured, after 60 requests each that met none to three
/// others.
fn with_two_places(capacity: Option<CapacitySpec>) -> Server {
    let mut server = server(ServiceSpec { capacity, ..ServiceSpec::default() });
    let mut now = Timestamp::ZERO;
    server.measure(Totals::default(), true, now);
    for _ in 0..60 {
        for (others, millis) in [(0, 100), (1, 100), (2, 150), (3, 200)] {
            let took = Duration::from_millis(millis);
            assert_eq!(server.judge_arrival(requests(others), None, None, now), Ok(()));
            let flag = server.flag(requests(others), false);
            now = now.after(took);
            server.depart(flag, took, requests(others), now);
        }
    }
    server.measure(Totals::default(), true, now);
    server
}

#[test]
fn a_concurrency_that_is_not_configured_is_estimated() {
    assert_eq!(server(ServiceSpec::default()).estimated_concurrency(), None);
    let mut server = with_two_places(None);
    assert_eq!((server.estimated_concurrency(), server.concurrency()), (Some(requests(2)), None));
    let execution = server.bare_report(requests(0)).execution.unwrap().as_secs_f64();
    assert!((execution - 0.1).abs() < 1e-4, "the part of a place that each had: {execution}");
    assert!((server.service_rate().unwrap() - 20.0).abs() < 0.02);
    assert_eq!(server.expected(requests(1)).unwrap().as_millis(), 100);
    assert_eq!(server.expected(requests(3)).unwrap().as_millis(), 200);
    let mut bid = |others| server.judge_arrival(requests(others), Some(Duration::ZERO.into()), None, Timestamp::ZERO);
    assert_eq!((bid(1), bid(2)), (Ok(()), Err(Reason::Bid)), "a place is free");
}

#[test]
fn the_estimated_concurrency_holds_nothing_and_makes_no_capacity() {
    let capacity = Some(CapacitySpec::Slo { slo: "2050ms".into() });
    let server = with_two_places(capacity.clone());
    assert_eq!(server.places(), None);
    assert_eq!(server.capacity(), Some(requests(20)), "of at least one place, as long as no rate is known");
    let spec = ServiceSpec { capacity, concurrency: Some(4), hold: Some(false), ..ServiceSpec::default() };
    let told = server.beside(&spec.validate().unwrap());
    assert_eq!(told.estimated_concurrency(), None, "what is configured counts");
    assert!((told.service_rate().unwrap() - 40.0).abs() < 0.04);
    assert_eq!(told.capacity(), Some(requests(81)));
}
