//! What every routing promises, and the shares that the baselines must give.

use super::mu::estimate::{Estimate, Limit};
use super::*;
use crate::config::{RoutingKind, ServiceParameters, ServiceSpec};
use crate::endpoints::{Answer, EndpointId, Endpoints, Permit};
use crate::units::Timestamp;
use crate::wire::load_report::LoadReport;
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

fn endpoints(count: usize) -> Endpoints {
    let mut endpoints = Endpoints::new(Duration::from_secs(1));
    for i in 0..count {
        endpoints.add(&format!("s{i}"), Timestamp::ZERO);
    }
    endpoints
}

fn router(kind: RoutingKind) -> Router {
    Router::new(&parameters(kind, "1s"))
}

/// For a service with this reset interval.
pub(super) fn parameters(kind: RoutingKind, reset_interval: &str) -> ServiceParameters {
    let (routing, reset_interval) = (Some(kind), Some(reset_interval.to_owned()));
    ServiceSpec { routing, reset_interval, ..ServiceSpec::default() }.validate().unwrap().with_baseline(kind)
}

proptest! {
    #[test]
    fn a_list_never_names_a_server_twice(count in 0usize..20, length in 0usize..12, seed: u64, begun in prop::collection::vec(0usize..20, 0..40)) {
        let mut rng = fastrand::Rng::with_seed(seed);
        for kind in RoutingKind::ALL.iter().copied() {
            let mut endpoints = endpoints(count);
            let mut router = router(kind);
            let mut list = Vec::new();
            for &i in &begun {
                if let Some(id) = endpoints.find(&format!("s{i}")) {
                    endpoints.begin(id, Timestamp::ZERO);
                    // Some report, and some have no room.
                    let execution = Some(Duration::from_millis(10 + i as u64));
                    let report = LoadReport { chip: true, execution, service: Some(50.0), ..LoadReport::default() };
                    match i % 5 {
                        0 | 1 => endpoints.answer(id, Permit::Chip, Answer::Served(report), Timestamp::ZERO),
                        2 => endpoints.answer(id, Permit::Chip, Answer::Rejected(report), Timestamp::ZERO),
                        _ => {}
                    }
                }
                router.choose(&mut endpoints, length, Timestamp::ZERO, &mut rng, &mut list);
                let distinct: BTreeSet<EndpointId> = list.iter().copied().collect();
                prop_assert_eq!(distinct.len(), list.len(), "{:?}", kind);
                prop_assert_eq!(list.len(), length.min(count), "{:?}", kind);
            }
        }
    }
}

/// How often each of ten servers comes first in 100,000 lists.
fn shares(kind: RoutingKind, endpoints: &mut Endpoints) -> BTreeMap<String, f64> {
    let mut rng = fastrand::Rng::with_seed(5);
    let (mut router, mut list, mut first) = (router(kind), Vec::new(), BTreeMap::new());
    for _ in 0..100_000 {
        router.choose(endpoints, 3, Timestamp::ZERO, &mut rng, &mut list);
        let address = endpoints.get(list[0]).unwrap().address().to_owned();
        *first.entry(address).or_insert(0.0) += 1e-5;
    }
    first
}

#[test]
fn equal_servers_get_equal_shares() {
    for kind in RoutingKind::ALL.iter().copied() {
        let shares = shares(kind, &mut endpoints(10));
        assert_eq!(shares.len(), 10, "{kind:?}");
        // Four standard deviations of a share of 0.1 in 100,000 draws are 0.0038.
        assert!(shares.values().all(|share| (share - 0.1).abs() < 0.0038), "{kind:?}: {shares:?}");
    }
}

#[test]
fn bloc_mu_and_least_request_avoid_the_busier_server() {
    for kind in [RoutingKind::LeastRequest, RoutingKind::Bloc, RoutingKind::Mu] {
        let mut endpoints = endpoints(10);
        let busy = endpoints.find("s3").unwrap();
        endpoints.begin(busy, Timestamp::ZERO);
        endpoints.answer(busy, Permit::Chip, crate::endpoints::Answer::Unreported, Timestamp::ZERO);
        let shares = shares(kind, &mut endpoints);
        // The busy server loses every comparison, so it is never first while another one can be
        // drawn beside it.
        assert_eq!(shares.get("s3"), None, "{kind:?}");
    }
    let mut endpoints = endpoints(10);
    let busy = endpoints.find("s3").unwrap();
    endpoints.begin(busy, Timestamp::ZERO);
    assert!(shares(RoutingKind::Random, &mut endpoints).contains_key("s3"), "random ignores pending requests");
}

#[test]
fn of_two_servers_the_one_with_fewer_pending_requests_comes_first() {
    let mut endpoints = endpoints(2);
    let busy = endpoints.find("s0").unwrap();
    endpoints.begin(busy, Timestamp::ZERO);
    let (mut router, mut list) = (router(RoutingKind::LeastRequest), Vec::new());
    for seed in 0..20 {
        router.choose(&mut endpoints, 2, Timestamp::ZERO, &mut fastrand::Rng::with_seed(seed), &mut list);
        assert_eq!((list.len(), list[1]), (2, busy));
    }
}

#[test]
fn round_robin_takes_turns() {
    let mut endpoints = endpoints(3);
    let (mut router, mut list) = (router(RoutingKind::RoundRobin), Vec::new());
    let mut rng = fastrand::Rng::with_seed(9);
    let mut turns = Vec::new();
    for _ in 0..6 {
        router.choose(&mut endpoints, 2, Timestamp::ZERO, &mut rng, &mut list);
        turns.push((list[0], list[1]));
    }
    assert_eq!(turns[0].1, turns[1].0, "the retry goes to the next one");
    assert_eq!(turns[..3], turns[3..]);
    assert_eq!(turns.iter().map(|turn| turn.0).collect::<BTreeSet<_>>().len(), 3);
}

fn report(queue: u32, service: f64) -> crate::endpoints::Answer {
    let report =
        crate::wire::load_report::LoadReport { queue: Some(queue), service: Some(service), ..Default::default() };
    crate::endpoints::Answer::Served(report)
}

fn answer(router: &mut Router, endpoints: &mut Endpoints, endpoint: EndpointId, answer: Answer) {
    let (now, took, bid) = (Timestamp::ZERO, Duration::ZERO, None);
    endpoints.answer(endpoint, Permit::Chip, answer, now);
    router.learn(&Event::Answered { endpoint, bid, took, answer: &answer, now }, endpoints);
}

#[test]
fn mu_orders_by_expected_response_time() {
    let (mut router, mut endpoints) = (router(RoutingKind::Mu), endpoints(4));
    for (name, queue, service) in [("s0", 3, 10.0), ("s1", 3, 40.0), ("s2", 0, 20.0), ("s3", 9, 200.0)] {
        let id = endpoints.find(name).unwrap();
        answer(&mut router, &mut endpoints, id, report(queue, service));
    }
    let mut list = Vec::new();
    // 0.4 s, 0.1 s, 0.05 s, 0.05 s.
    router.choose(&mut endpoints, 4, Timestamp::ZERO, &mut fastrand::Rng::with_seed(1), &mut list);
    let order: Vec<&str> = list.iter().map(|&id| endpoints.get(id).unwrap().address()).collect();
    assert!(order[..2] == ["s2", "s3"] || order[..2] == ["s3", "s2"], "{order:?}");
    assert_eq!(order[2..], ["s1", "s0"]);
    assert_eq!(router.expected(), Some(Duration::from_millis(50)));
}

proptest! {
    /// The oracle sorts all servers. The numbers are small, so that many servers are equally good;
    /// the rates have no exact inverse, so that roundings differ.
    #[test]
    fn mu_lists_the_servers_with_the_shortest_expected_response_times(servers in prop::collection::vec((0u32..9, 1u32..8), 1..60), length in 1usize..12, seed: u64) {
        let (mut router, mut endpoints) = (router(RoutingKind::Mu), endpoints(servers.len()));
        let mut costs = Vec::new();
        for (i, (queue, rate)) in servers.into_iter().enumerate() {
            let id = endpoints.find(&format!("s{i}")).unwrap();
            let said = report(queue, 0.3 * f64::from(rate));
            answer(&mut router, &mut endpoints, id, said);
            let mut estimate = Estimate::default();
            estimate.observe(said.report().unwrap(), 0, Limit::new(1, 0.0), Timestamp::ZERO);
            costs.push((id, (f64::from(queue) + 1.0) / estimate.standing(0).service_rate()));
        }
        let mut list = Vec::new();
        router.choose(&mut endpoints, length, Timestamp::ZERO, &mut fastrand::Rng::with_seed(seed), &mut list);
        let chosen: Vec<f64> = list.iter().map(|id| costs.iter().find(|cost| cost.0 == *id).unwrap().1).collect();
        let mut sorted: Vec<f64> = costs.iter().map(|cost| cost.1).collect();
        sorted.sort_by(f64::total_cmp);
        sorted.truncate(length);
        prop_assert_eq!(chosen, sorted);
    }
}

#[test]
fn mu_assumes_a_new_server_is_as_fast_as_the_fastest_known_one() {
    let (mut router, mut endpoints) = (router(RoutingKind::Mu), endpoints(2));
    let id = endpoints.find("s0").unwrap();
    answer(&mut router, &mut endpoints, id, report(0, 10.0));
    let (mut list, mut rng) = (Vec::new(), fastrand::Rng::with_seed(1));
    let mut first = Vec::new();
    for _ in 0..6 {
        router.choose(&mut endpoints, 1, Timestamp::ZERO, &mut rng, &mut list);
        endpoints.begin(list[0], Timestamp::ZERO);
        first.push(list[0]);
    }
    let to_newcomer = first.iter().filter(|&&other| other != id).count();
    assert_eq!(to_newcomer, 3, "as fast as the other one, so they share");
}
