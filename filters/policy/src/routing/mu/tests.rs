//! What Mu learns from a scan of all servers, and the contents of its list.

use super::*;
use crate::config::RoutingKind;
use crate::endpoints::{Answer, Permit};
use crate::routing::tests::parameters;
use crate::wire::load_report::LoadReport;

const INTERVAL: Duration = Duration::from_secs(1);

fn at(millis: u64) -> Timestamp {
    Timestamp::ZERO.after(Duration::from_millis(millis))
}

/// An attempt to this server begins, and ends.
fn begin(mu: &mut Mu, endpoints: &mut Endpoints, endpoint: EndpointId, now: Timestamp) {
    endpoints.begin(endpoint, now);
    mu.learn(&Event::Began { endpoint, now }, endpoints);
}

fn end(mu: &mut Mu, endpoints: &mut Endpoints, endpoint: EndpointId) {
    endpoints.end(endpoint);
    mu.learn(&Event::Ended(endpoint), endpoints);
}

fn answer(mu: &mut Mu, endpoints: &mut Endpoints, endpoint: EndpointId, answer: Answer, now: Timestamp) {
    endpoints.answer(endpoint, Permit::Chip, answer, now);
    let (bid, took) = (None, Duration::ZERO);
    mu.learn(&Event::Answered { endpoint, bid, took, answer: &answer, now }, endpoints);
}

/// Servers that reported this queue and service rate at 0; none: no report yet.
fn servers<const N: usize>(reports: [Option<(u32, f64)>; N]) -> (Endpoints, Mu, [EndpointId; N]) {
    let (mut endpoints, mut mu) = (Endpoints::new(INTERVAL), Mu::with_interval(INTERVAL));
    let ids = std::array::from_fn(|i| endpoints.add(&format!("s{i}"), Timestamp::ZERO));
    for (id, report) in ids.iter().zip(reports) {
        if let Some((queue, service)) = report {
            let report = LoadReport { queue: Some(queue), service: Some(service), ..LoadReport::default() };
            answer(&mut mu, &mut endpoints, *id, Answer::Served(report), Timestamp::ZERO);
        }
    }
    (endpoints, mu, ids)
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
    let (mut endpoints, mut mu, [busy, _, shut]) = servers([Some((4, 10.0)), Some((8, 40.0)), Some((100, 80.0))]);
    rejects(&mut endpoints, shut, at(0));
    begin(&mut mu, &mut endpoints, busy, at(0));
    let (mut queue, mut pending) = (0.0, 0.0);
    for _ in 0..3 {
        choose(&mut mu, &mut endpoints, 1, at(0), 1);
        // Two servers, with 4 and 8 requests of other senders, and one of this sender.
        queue += 0.02 * (6.5 - queue);
        pending += 0.02 * (0.5 - pending);
        assert_eq!((mu.fleet.wait, mu.fleet.most), (13.0 / 50.0, 40.0));
        let senders = (queue + 0.5) / (pending + 0.5);
        assert!((mu.fleet.senders - senders).abs() < 1e-12, "{} senders, not {senders}", mu.fleet.senders);
    }
}

#[test]
fn a_sender_counts_as_one_even_if_all_pending_requests_are_its_own() {
    let (mut endpoints, mut mu, [one, _]) = servers([None, None]);
    begin(&mut mu, &mut endpoints, one, at(0));
    choose(&mut mu, &mut endpoints, 1, at(0), 1);
    assert_eq!((mu.fleet.senders, mu.fleet.most), (1.0, 1.0));
}

#[test]
fn a_server_without_a_report_is_tried_before_a_busy_one() {
    let (mut endpoints, mut mu, [busy, new]) = servers([Some((4, 10.0)), None]);
    // The first look learns the largest service rate.
    choose(&mut mu, &mut endpoints, 2, at(0), 1);
    for seed in 0..10 {
        assert_eq!(choose(&mut mu, &mut endpoints, 2, at(0), seed), [new, busy]);
    }
}

#[test]
fn the_list_ends_with_shut_servers_the_one_that_opens_first_in_front() {
    let (mut endpoints, mut mu, [late, slow, soon, fast]) =
        servers([Some((0, 10.0)), Some((4, 10.0)), Some((0, 10.0)), Some((0, 40.0))]);
    rejects(&mut endpoints, late, at(200));
    rejects(&mut endpoints, soon, at(100));
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
    let (mut endpoints, mut mu, [shut, fast, slow]) = servers([Some((0, 40.0)), Some((1, 40.0)), Some((4, 10.0))]);
    rejects(&mut endpoints, shut, at(0));
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
    let expected = |mu: &mut Mu, endpoints: &mut Endpoints| {
        choose(mu, endpoints, 1, at(5_000), 1);
        mu.expected().unwrap()
    };
    // Half of ten intervals has passed here, and a twentieth below.
    let (mut endpoints, mut mu, _) = servers([Some((4, 10.0))]);
    assert_eq!(expected(&mut mu, &mut endpoints), Duration::from_millis(300));
    let (mut endpoints, mut mu, _) = servers([Some((4, 10.0))]);
    mu.configure(&parameters(RoutingKind::Mu, "10s"));
    assert_eq!(expected(&mut mu, &mut endpoints), Duration::from_millis(480));
}

#[test]
fn an_orca_report_sets_the_service_rate() {
    let (mut endpoints, mut mu, [id]) = servers([None]);
    let report = crate::wire::orca::decode(b"TEXT cpu_utilization=0.5,rps=20").unwrap();
    answer(&mut mu, &mut endpoints, id, Answer::Orca(report), at(1));
    mu.known.refresh(&mut endpoints);
    assert_eq!(mu.known.standings()[0].service_rate(), 40.0);
}

#[test]
fn an_answer_without_a_report_restarts_the_aging_of_unreported_requests() {
    let others = |said| {
        let (mut endpoints, mut mu, [id]) = servers([None]);
        begin(&mut mu, &mut endpoints, id, at(0));
        begin(&mut mu, &mut endpoints, id, at(0));
        answer(&mut mu, &mut endpoints, id, said, at(5_000));
        // Two own requests, so two are assumed of the other sender; half is forgotten in 5 s.
        let mut fleet = Fleet::new(INTERVAL);
        fleet.senders = 2.0;
        mu.known.refresh(&mut endpoints);
        mu.known.standings()[0].unknown_queue(&fleet, at(5_000))
    };
    assert_eq!(others(Answer::Unreported), 2.0);
    assert_eq!(others(Answer::Served(LoadReport::default())), 1.0);
}

/// How many servers have a known service rate.
fn remembered(mu: &mut Mu, endpoints: &mut Endpoints) -> usize {
    mu.known.refresh(endpoints);
    mu.known.standings().iter().filter(|standing| standing.service_rate() > 0.0).count()
}

/// This many servers that reported at the start, last surveyed before their reports expired.
fn old_words<const N: usize>() -> (Endpoints, Mu, [EndpointId; N]) {
    let (mut endpoints, mut mu, ids) = servers([Some((7, 10.0)); N]);
    let mut none = Endpoints::new(INTERVAL);
    mu.known.survey(0.0, &mut none, at(10_000));
    assert_eq!(remembered(&mut mu, &mut endpoints), N);
    (endpoints, mu, ids)
}

#[test]
fn forgets_one_old_report_per_survey_and_all_within_a_reset_interval() {
    let (mut endpoints, mut mu, _) = old_words::<10>();
    for left in (0..10).rev() {
        mu.known.survey(0.0, &mut endpoints, at(10_001));
        assert_eq!(remembered(&mut mu, &mut endpoints), left, "one with each survey");
    }
    let (mut endpoints, mut mu, _) = old_words::<10>();
    for (now, left) in [(10_005, 9), (10_505, 3), (11_505, 0)] {
        mu.known.survey(0.0, &mut endpoints, at(now));
        assert_eq!(remembered(&mut mu, &mut endpoints), left, "at {now} ms");
    }
    let (mut endpoints, mut mu, [id]) = old_words();
    begin(&mut mu, &mut endpoints, id, at(1));
    mu.known.survey(0.0, &mut endpoints, at(45_000));
    assert_eq!(remembered(&mut mu, &mut endpoints), 1, "kept while an answer is pending");
}

#[test]
fn believes_a_service_rate_up_to_four_times_the_observed_pace() {
    let (mut endpoints, mut mu, [id]) = servers([None]);
    begin(&mut mu, &mut endpoints, id, at(0));
    let boasts = LoadReport { queue: Some(0), service: Some(1_000.0), ..LoadReport::default() };
    answer(&mut mu, &mut endpoints, id, Answer::Served(boasts), at(1_000));
    mu.known.refresh(&mut endpoints);
    assert_eq!(mu.known.standings()[0].service_rate(), 4.0);
}

/// The routing may become `mu` while requests are under way. Their times are unknown, because
/// nobody recorded when they began.
#[test]
fn requests_under_way_before_the_first_choice_do_not_make_their_server_slow() {
    let (mut endpoints, mut mu, [id]) = servers([None]);
    endpoints.begin(id, at(0));
    let report = LoadReport { queue: Some(0), service: Some(10.0), ..LoadReport::default() };
    answer(&mut mu, &mut endpoints, id, Answer::Served(report), at(900_000));
    end(&mut mu, &mut endpoints, id);
    choose(&mut mu, &mut endpoints, 1, at(900_000), 1);
    assert_eq!(mu.expected(), Some(Duration::from_millis(100)));
}

/// Standings are updated for changed servers only, or all of them if the order changed.
#[test]
fn standings_follow_the_endpoints_through_any_history() {
    for seed in 0..200 {
        let mut rng = fastrand::Rng::with_seed(seed);
        let (mut endpoints, mut mu, _) = servers([None, Some((4, 10.0)), None]);
        for step in 0..60u64 {
            let now = at(100 * step);
            let id = endpoints.at(rng.usize(..endpoints.len())).unwrap();
            match rng.u8(..9) {
                0 | 1 => begin(&mut mu, &mut endpoints, id, now),
                2 => end(&mut mu, &mut endpoints, id),
                3 => rejects(&mut endpoints, id, now),
                4 => {
                    let report = LoadReport { queue: Some(2), service: Some(20.0), ..LoadReport::default() };
                    answer(&mut mu, &mut endpoints, id, Answer::Served(report), now);
                }
                5 => endpoints.resume(id),
                6 if endpoints.len() > 1 => endpoints.remove(id),
                7 => _ = endpoints.add(&format!("s{}", rng.u8(..6)), now),
                _ => crate::routing::LeastRequest.choose(&mut endpoints, 2, now, &mut rng, &mut Vec::new()),
            }
            if rng.bool() {
                continue;
            }
            mu.known.refresh(&mut endpoints);
            let mut anew = mu.known.clone();
            anew.forget_order();
            anew.refresh(&mut endpoints);
            assert_eq!(mu.known.standings(), anew.standings(), "seed {seed}, step {step}");
            let open = endpoints.iter().filter(|(_, server)| !server.is_shut()).count();
            assert_eq!(mu.known.standings().iter().filter(|one| !one.is_shut()).count(), open);
            let pending: u32 = endpoints.iter().map(|(_, server)| server.pending()).sum();
            assert_eq!(mu.known.standings().iter().map(Standing::pending).sum::<u32>(), pending);
        }
    }
}
