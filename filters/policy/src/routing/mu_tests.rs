//! What Mu learns from a look at all servers, and what its list holds.

use super::super::Router;
use super::*;
use crate::config::RoutingKind;
use crate::endpoints::{Answer, Permit};
use crate::routing::tests::parameters;
use crate::wire::load_report::LoadReport;

const INTERVAL: Duration = Duration::from_secs(1);

fn at(millis: u64) -> Timestamp {
    Timestamp::ZERO.after(Duration::from_millis(millis))
}

/// Servers that have reported this queue and service rate at 0; none: nothing yet.
fn servers<const N: usize>(reports: [Option<(u32, f64)>; N]) -> (Endpoints, [EndpointId; N]) {
    let mut endpoints = Endpoints::new(INTERVAL, 10);
    let ids = std::array::from_fn(|i| endpoints.add(&format!("s{i}"), Timestamp::ZERO));
    for (id, report) in ids.iter().zip(reports) {
        if let Some((queue, service)) = report {
            let report = LoadReport { queue: Some(queue), service: Some(service), ..LoadReport::default() };
            endpoints.answer(*id, Permit::Chip, Answer::Served(report), Timestamp::ZERO);
        }
    }
    (endpoints, ids)
}

fn rejects(endpoints: &mut Endpoints, id: EndpointId, now: Timestamp) {
    endpoints.answer(id, Permit::Chip, Answer::Rejected(LoadReport::default()), now);
}

fn choose(mu: &mut Mu, endpoints: &mut Endpoints, length: usize, now: Timestamp, seed: u64) -> Vec<EndpointId> {
    let mut list = Vec::new();
    mu.choose(endpoints, length, now, &mut fastrand::Rng::with_seed(seed), &mut list);
    list
}

#[test]
fn learns_mean_wait_largest_rate_and_number_of_senders_from_all_open_servers() {
    let (mut endpoints, [busy, _, shut]) = servers([Some((4, 10.0)), Some((8, 40.0)), Some((100, 80.0))]);
    rejects(&mut endpoints, shut, at(0));
    endpoints.begin(busy, at(0));
    let mut mu = Mu::with_interval(INTERVAL);
    let (mut queue, mut pending) = (0.0, 0.0);
    for _ in 0..3 {
        choose(&mut mu, &mut endpoints, 1, at(0), 1);
        // 4 and 8 of the other senders, and one of this sender, at two servers.
        queue += 0.02 * (6.5 - queue);
        pending += 0.02 * (0.5 - pending);
        assert_eq!((mu.fleet.wait, mu.fleet.most), (13.0 / 50.0, 40.0));
        let senders = (queue + 0.5) / (pending + 0.5);
        assert!((mu.fleet.senders - senders).abs() < 1e-12, "{} senders, not {senders}", mu.fleet.senders);
    }
}

#[test]
fn a_sender_counts_as_one_even_if_all_pending_requests_are_its_own() {
    let (mut endpoints, [one, _]) = servers([None, None]);
    endpoints.begin(one, at(0));
    let mut mu = Mu::with_interval(INTERVAL);
    choose(&mut mu, &mut endpoints, 1, at(0), 1);
    assert_eq!((mu.fleet.senders, mu.fleet.most), (1.0, 1.0));
}

#[test]
fn a_server_without_a_report_is_tried_before_a_busy_one() {
    let (mut endpoints, [busy, new]) = servers([Some((4, 10.0)), None]);
    let mut mu = Mu::with_interval(INTERVAL);
    // The first look learns the largest service rate.
    choose(&mut mu, &mut endpoints, 2, at(0), 1);
    for seed in 0..10 {
        assert_eq!(choose(&mut mu, &mut endpoints, 2, at(0), seed), [new, busy]);
    }
}

#[test]
fn the_list_ends_with_shut_servers_the_one_that_opens_first_in_front() {
    let (mut endpoints, [late, slow, soon, fast]) =
        servers([Some((0, 10.0)), Some((4, 10.0)), Some((0, 10.0)), Some((0, 40.0))]);
    rejects(&mut endpoints, late, at(200));
    rejects(&mut endpoints, soon, at(100));
    let mut mu = Mu::with_interval(INTERVAL);
    for seed in 0..20 {
        let mut list = |length| choose(&mut mu, &mut endpoints, length, at(300), seed);
        assert_eq!(list(2), [fast, slow]);
        assert_eq!(list(3), [fast, slow, soon]);
        assert_eq!(list(4), [fast, slow, soon, late]);
        assert_eq!(list(11), [fast, slow, soon, late]);
    }
    rejects(&mut endpoints, slow, at(250));
    assert_eq!(choose(&mut mu, &mut endpoints, 2, at(300), 1), [fast, soon]);
}

#[test]
fn a_server_that_is_probed_comes_first_and_only_once() {
    let (mut endpoints, [shut, fast, slow]) = servers([Some((0, 40.0)), Some((1, 40.0)), Some((4, 10.0))]);
    rejects(&mut endpoints, shut, at(0));
    let mut mu = Mu::with_interval(INTERVAL);
    let mut probes = 0;
    for seed in 0..60 {
        let lists = [2, 3].map(|length| choose(&mut mu, &mut endpoints, length, at(2_000), seed));
        if lists[0][0] == shut {
            probes += 1;
            assert_eq!(lists, [vec![shut, fast], vec![shut, fast, slow]]);
            assert_eq!(mu.expected(), None, "a probe promises nothing");
        } else {
            assert_eq!(lists, [vec![fast, slow], vec![fast, slow, shut]]);
        }
    }
    assert!((8..35).contains(&probes), "{probes} of 60 choices among three servers");
}

#[test]
fn a_new_reset_interval_changes_how_long_a_report_counts() {
    let (mut endpoints, _) = servers([Some((4, 10.0))]);
    let expected = |router: &mut Router, endpoints: &mut Endpoints| {
        let mut list = Vec::new();
        router.choose(endpoints, 1, at(5_000), &mut fastrand::Rng::with_seed(1), &mut list);
        router.expected().unwrap()
    };
    // Half of ten intervals has passed here, and a twentieth below.
    let mut router = Router::new(&parameters(RoutingKind::Mu, "1s"));
    assert_eq!(expected(&mut router, &mut endpoints), Duration::from_millis(300));
    let mut router = Router::new(&parameters(RoutingKind::Mu, "1s"));
    router.configure(&parameters(RoutingKind::Mu, "10s"));
    assert_eq!(expected(&mut router, &mut endpoints), Duration::from_millis(480));
}
