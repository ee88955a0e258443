//! Decisions of senders, one by one.

mod doubts;
mod gateway_rules;
mod two;

use super::*;
use crate::config::{RoutingKind, ServiceSpec};
use crate::endpoints::{Answer, Endpoint, Permit};
use crate::wire::load_report::LoadReport;
use std::collections::BTreeSet;

const FAST: &str = "1.1.1.1:1";
const SLOW: &str = "1.1.1.2:1";

fn at(millis: u64) -> Timestamp {
    Timestamp::ZERO.after(Duration::from_millis(millis))
}

/// The report of a server with two places that takes this many milliseconds, and has `queue`.
fn report(millis: u64, queue: u32) -> LoadReport {
    let (execution, service) = (Some(Duration::from_millis(millis)), Some(2e3 / millis as f64));
    LoadReport { chip: true, queue: Some(queue), capacity: Some(99), execution, service, ..LoadReport::default() }
}

fn sender(endpoints: Option<&[&str]>) -> Sender {
    let endpoints = endpoints.map(|texts| texts.iter().map(ToString::to_string).collect());
    let routing = Some(RoutingKind::Bloc);
    let spec = ServiceSpec { routing, endpoints, retries: Some(2), ..ServiceSpec::default() };
    Sender::new(spec.validate().unwrap(), Timestamp::ZERO)
}

/// A request that explores meets this server. Leaves out the attempt's effect on its chips.
fn meet(sender: &mut Sender, address: &str) -> EndpointId {
    let endpoint = sender.endpoint_at(address, Timestamp::ZERO).unwrap();
    let (bid, permit) = (None, Permit::Probe);
    sender.placed_by_envoy(&mut Attempt { endpoint, began: Timestamp::ZERO, bid, permit, explores: false });
    endpoint
}

#[test]
fn lists_a_different_named_server_for_each_attempt_from_the_start() {
    let mut sender = sender(Some(&["1.1.1.1:1", "2.2.2.2:2", "3.3.3.3:3", "[::1]:4"]));
    let mut rng = fastrand::Rng::with_seed(1);
    let list = sender.choose(Timestamp::ZERO, &mut rng);
    assert_eq!((list.len(), list.iter().collect::<BTreeSet<_>>().len()), (3, 3));
    assert_eq!(sender.begin("9.9.9.9:9", None, Timestamp::ZERO), None, "only those that were named");
    assert!(sender.begin("[::1]:4", None, Timestamp::ZERO).is_some());
}

/// A new server for each twentieth request: every request explores, so no list ever names a server
/// that has left.
#[test]
fn forgets_servers_that_come_and_go_all_the_time() {
    let (mut sender, mut rng) = (sender(None), fastrand::Rng::with_seed(3));
    let mut most = 0;
    for request in 0..20_000u32 {
        assert!(sender.choose(Timestamp::ZERO, &mut rng).is_empty());
        let newest = request / 20;
        let address = format!("10.0.{}.{}:80", newest / 256, newest % 256 + request % 10);
        meet(&mut sender, &address);
        most = most.max(sender.endpoints().len());
    }
    assert!((10..150).contains(&most), "{most} servers known at once");
}

/// Attempts meet the servers that are there, so none of them is forgotten, however many there are.
#[test]
fn keeps_servers_that_stay_while_new_ones_are_found() {
    let (mut sender, mut rng) = (sender(None), fastrand::Rng::with_seed(4));
    // After the last find, there is time to meet it again.
    for known in (1..=200u32).chain([200; 40]) {
        for _ in 0..50 {
            sender.choose(Timestamp::ZERO, &mut rng);
            let address = format!("10.0.0.{}:80", rng.u32(0..known));
            meet(&mut sender, &address);
        }
    }
    assert_eq!(sender.endpoints().len(), 200);
}

/// Envoy chooses among three servers for 1,000 requests, then only among the last two.
#[test]
fn forgets_a_server_that_envoy_no_longer_chooses() {
    let (mut sender, mut rng) = (sender(None), fastrand::Rng::with_seed(5));
    let mut drawn = [0, 0];
    for request in 0..10_000 {
        let listed = sender.choose(Timestamp::ZERO, &mut rng).first().copied();
        let first = if request < 1_000 { 1 } else { 2 };
        let attempt = match listed {
            Some(id) => sender.begin_chosen(id, None, Timestamp::ZERO).unwrap(),
            None => {
                let id = meet(&mut sender, &format!("10.0.0.{}:80", rng.u32(first..=3)));
                sender.begin_chosen(id, None, Timestamp::ZERO).unwrap()
            }
        };
        let chosen = sender.endpoints().get(attempt.endpoint).map(Endpoint::address) == Some("10.0.0.1:80");
        drawn[0] += usize::from(chosen && request < 1_000);
        drawn[1] += usize::from(chosen && request >= 5_000);
        sender.answer(&attempt, Answer::Unreported, Timestamp::ZERO);
        sender.end(&attempt);
    }
    assert!(drawn[0] > 200 && drawn[1] == 0, "{drawn:?}");
    assert_eq!(sender.endpoints().len(), 2);
}

#[test]
fn rejections_of_requests_without_a_list_do_not_fill_the_retry_budget() {
    let left = |explores: bool| {
        let mut sender = sender(None);
        for _ in 0..30 {
            sender.budget.attempt();
        }
        let mut attempt = sender.begin("1.1.1.1:1", None, at(0)).unwrap();
        if explores {
            sender.placed_by_envoy(&mut attempt);
        }
        for _ in 0..40 {
            sender.answer(&attempt, Answer::Rejected(LoadReport::default()), at(0));
        }
        sender.may_repeat()
    };
    assert_eq!([left(false), left(true)], [true, false]);
}

#[test]
fn rejections_are_retried_where_there_may_be_another_server() {
    let retries = |sender: &Sender| sender.retries(0, true);
    let none = Retries::new(0, 0, 0);
    assert_eq!([retries(&sender(Some(&["1.1.1.1:1"]))), retries(&sender(Some(&[])))], [none, none]);
    assert_eq!(retries(&sender(Some(&["1.1.1.1:1", "2.2.2.2:2"]))), Retries::new(0, 0, 2));
    let mut learning = sender(None);
    meet(&mut learning, "1.1.1.1:1");
    assert_eq!(retries(&learning), Retries::new(0, 0, 2), "there may be one that is not known yet");
}

#[test]
fn makes_no_bids_for_a_while_after_envoy_did_not_retry() {
    let (mut sender, mut rng) = (bidders(3), fastrand::Rng::with_seed(7));
    sender.choose(at(0), &mut rng);
    assert_eq!(sender.retries(0, true), Retries::new(0, 2, 2));
    sender.overflowed(at(0));
    for request in 0..8_000 {
        assert_eq!(sender.retries(0, true), Retries::new(0, 0, 2), "request {request}");
        sender.choose(at(request), &mut rng);
    }
    assert_eq!(sender.retries(0, true), Retries::new(0, 2, 2));
}

#[test]
fn learns_unnamed_servers_and_forgets_missing_ones() {
    let mut sender = sender(None);
    let mut rng = fastrand::Rng::with_seed(2);
    assert!(sender.choose(Timestamp::ZERO, &mut rng).is_empty());
    let first = meet(&mut sender, "1.1.1.1:1");
    meet(&mut sender, "2.2.2.2:2");
    let lists = (0..500).filter(|_| !sender.choose(Timestamp::ZERO, &mut rng).is_empty()).count();
    assert!(lists > 450, "{lists} of 500 with a list");
    sender.missing(first, Timestamp::ZERO);
    assert_eq!(sender.endpoints().len(), 1);
    assert!(sender.choose(Timestamp::ZERO, &mut rng).is_empty(), "the search begins anew");
}

#[test]
fn avoids_a_named_server_that_envoy_does_not_have() {
    let mut sender = sender(Some(&["1.1.1.1:1", "2.2.2.2:2"]));
    let mut rng = fastrand::Rng::with_seed(3);
    let missing = meet(&mut sender, "1.1.1.1:1");
    sender.missing(missing, Timestamp::ZERO);
    let first: BTreeSet<EndpointId> = (0..100).map(|_| sender.choose(Timestamp::ZERO, &mut rng)[0]).collect();
    assert!(!first.contains(&missing));
    assert_eq!(sender.endpoints().len(), 2);
}

#[test]
fn failures_use_up_the_retry_budget_and_rejections_do_not() {
    let mut sender = sender(Some(&["1.1.1.1:1", "2.2.2.2:2", "3.3.3.3:3"]));
    let mut rng = fastrand::Rng::with_seed(8);
    let mut repeated = |answer: fn() -> Answer| {
        let mut repeated = 0;
        for _ in 0..1_000 {
            sender.choose(Timestamp::ZERO, &mut rng);
            for again in [true, true, false] {
                let attempt = sender.begin("1.1.1.1:1", None, Timestamp::ZERO).unwrap();
                sender.answer(&attempt, answer(), Timestamp::ZERO);
                sender.end(&attempt);
                if !again || !sender.may_repeat() {
                    break;
                }
                repeated += 1;
            }
        }
        repeated
    };
    assert_eq!(repeated(|| Answer::Rejected(LoadReport::default())), 2_000);
    let after_failures = repeated(|| Answer::Failed);
    assert!((200..=211).contains(&after_failures), "{after_failures}: a fifth, and the burst");
    let none =
        ServiceSpec { retry_budget: Some(0.0), endpoints: Some(vec!["1.1.1.1:1".into()]), ..ServiceSpec::default() };
    sender.configure(none.validate().unwrap(), Timestamp::ZERO);
    assert!(!sender.may_repeat());
}

#[test]
fn reports_by_how_much_a_request_would_exceed_the_slo() {
    let spec = ServiceSpec {
        routing: Some(RoutingKind::Mu),
        slo: Some("1s".into()),
        endpoints: Some(vec!["1.1.1.1:1".into()]),
        ..ServiceSpec::default()
    };
    let mut sender = Sender::new(spec.validate().unwrap(), Timestamp::ZERO);
    let mut rng = fastrand::Rng::with_seed(5);
    let attempt = sender.begin("1.1.1.1:1", None, Timestamp::ZERO).unwrap();
    sender.end(&attempt);
    sender.choose(Timestamp::ZERO, &mut rng);
    assert_eq!(sender.overrun(), None, "nothing is known yet");
    for (queue, overrun) in [(9, None), (10, Some(100)), (19, Some(1_000))] {
        let report = LoadReport { queue: Some(queue), service: Some(10.0), ..LoadReport::default() };
        sender.answer(&attempt, Answer::Served(report), Timestamp::ZERO);
        sender.choose(Timestamp::ZERO, &mut rng);
        let millis = sender.overrun().map(|overrun| (overrun.as_secs_f64() * 1e3).round() as u64);
        assert_eq!(millis, overrun, "queue {queue}");
    }
}

fn bidders(servers: usize) -> Sender {
    let spec = ServiceSpec {
        routing: Some(RoutingKind::Bid),
        retries: Some(2),
        endpoints: Some((1..=servers).map(|i| format!("1.1.1.{i}:1")).collect()),
        ..ServiceSpec::default()
    };
    Sender::new(spec.validate().unwrap(), Timestamp::ZERO)
}

#[test]
fn bids_come_on_top_of_retries_and_rise_with_each_turn() {
    let mut sender = bidders(9);
    let mut rng = fastrand::Rng::with_seed(6);
    assert_eq!(sender.retries(1, true), Retries::new(1, 5, 2));
    assert_eq!(sender.retries(1, false), Retries::new(1, 0, 2));
    assert_eq!(sender.choose(Timestamp::ZERO, &mut rng).len(), 8, "the first, five bids and two retries");
    let bid = |sender: &mut Sender, turn, now| {
        sender.begin("1.1.1.1:1", turn, now).map(|attempt| attempt.bid.map(|bid| bid.most))
    };
    let turn = |number| Some(BidPosition { number, of: 5 });
    let attempt = sender.begin("1.1.1.1:1", turn(0), Timestamp::ZERO).unwrap();
    assert_eq!(attempt.bid, None, "nothing is known yet");
    let report = LoadReport { queue: Some(9), service: Some(20.0), ..LoadReport::default() };
    let now = Timestamp::ZERO.after(Duration::from_millis(1));
    (0..8).for_each(|_| sender.answer(&attempt, Answer::Served(report), now));
    // What was served in 1 ms is believed up to 4 ms, and a bounce costs 2.5 ms.
    assert_eq!(bid(&mut sender, turn(0), now), Some(Some(Duration::from_micros(6_500))));
    assert_eq!(bid(&mut sender, turn(4), now), Some(Some(Duration::from_micros(8_100))));
    assert_eq!(bid(&mut sender, turn(5), now), Some(None), "later attempts have no limit");
    assert_eq!(bid(&mut sender, None, now), Some(None));
}

/// A sender with this price of a bounce, set at the start or later.
fn priced(price: f64, later: bool) -> Sender {
    let spec = |price| ServiceSpec {
        routing: Some(RoutingKind::Bid),
        endpoints: Some((1..=9).map(|i| format!("1.1.1.{i}:1")).collect()),
        bounce_price: price,
        ..ServiceSpec::default()
    };
    let first = if later { None } else { Some(price) };
    let mut sender = Sender::new(spec(first).validate().unwrap(), Timestamp::ZERO);
    if later {
        sender.configure(spec(Some(price)).validate().unwrap(), Timestamp::ZERO);
    }
    sender
}

fn served(sender: &mut Sender, report: LoadReport) {
    let attempt = sender.begin("1.1.1.1:1", None, Timestamp::ZERO).unwrap();
    sender.answer(&attempt, Answer::Served(report), Timestamp::ZERO.after(Duration::from_millis(100)));
    sender.end(&attempt);
}

#[test]
fn the_price_of_a_bounce_comes_on_top_of_its_time() {
    let execution = Some(Duration::from_millis(50));
    let report = LoadReport { queue: Some(1), service: Some(20.0), execution, ..LoadReport::default() };
    for (price, millis) in [(0.0, 102.5), (0.1, 107.5), (10.0, 602.5)] {
        for later in [false, true] {
            let mut sender = priced(price, later);
            (0..8).for_each(|_| served(&mut sender, report));
            let bid = sender.bid(sender.turn(0)).map(|bid| bid.as_secs_f64() * 1e3);
            assert!(bid.is_some_and(|bid| (bid - millis).abs() < 1e-3), "{price}, {later}: {bid:?}");
        }
    }
}

#[test]
fn does_not_bid_while_servers_are_full_whatever_else_they_reject() {
    let report = LoadReport { queue: Some(1), service: Some(20.0), ..LoadReport::default() };
    let late = LoadReport { queue: Some(9), service: Some(0.01), ..LoadReport::default() };
    let deadline = Answer::RejectedForDeadline(late);
    for (answer, is_full) in [
        (Answer::Rejected(report), true),
        (Answer::Rejected(report), false),
        (deadline, false),
        (Answer::Bounced(report), false),
    ] {
        let mut sender = priced(0.1, false);
        (0..8).for_each(|_| served(&mut sender, report));
        for _ in 0..10 {
            let attempt = sender.begin("1.1.1.2:1", Some(sender.turn(0)), Timestamp::ZERO).unwrap();
            sender.answer(&attempt, answer, Timestamp::ZERO);
            if is_full {
                sender.refused_as_full();
            }
            sender.end(&attempt);
        }
        assert_eq!(sender.bid(sender.turn(0)).is_none(), is_full, "{answer:?}");
        (0..20).for_each(|_| served(&mut sender, report));
        assert!(sender.bid(sender.turn(0)).is_some());
    }
}

#[test]
fn a_rejection_tells_what_a_bid_may_expect() {
    let report = LoadReport { queue: Some(1), service: Some(20.0), ..LoadReport::default() };
    let mut sender = priced(0.1, false);
    (0..7).for_each(|_| served(&mut sender, report));
    assert_eq!(sender.bid(sender.turn(0)), None);
    let attempt = sender.begin("1.1.1.2:1", None, Timestamp::ZERO).unwrap();
    sender.answer(&attempt, Answer::Rejected(report), Timestamp::ZERO);
    assert!(sender.bid(sender.turn(0)).is_some());
}

#[test]
fn allows_one_bid_per_other_server_and_at_most_five() {
    for (servers, bids) in [(0, 0), (1, 0), (2, 1), (5, 4), (6, 5), (20, 5)] {
        let sender = bidders(servers);
        let rejections = if servers < 2 { 0 } else { 2 };
        assert_eq!(sender.retries(0, true), Retries::new(0, bids, rejections), "{servers}");
        assert_eq!(sender.turn(0), BidPosition { number: 0, of: bids as usize });
    }
}

#[test]
fn a_server_that_sends_no_reports_comes_first_by_its_share_or_last() {
    let spec = ServiceSpec {
        routing: Some(RoutingKind::Bid),
        endpoints: Some((1..=5).map(|i| format!("1.1.1.{i}:1")).collect()),
        ..ServiceSpec::default()
    };
    let mut sender = Sender::new(spec.validate().unwrap(), Timestamp::ZERO);
    let mut rng = fastrand::Rng::with_seed(7);
    for i in 1..=5 {
        let attempt = sender.begin(&format!("1.1.1.{i}:1"), None, Timestamp::ZERO).unwrap();
        let attempt = Attempt { bid: Some(Duration::from_millis(100).into()), ..attempt };
        sender.answer(&attempt, Answer::Bounced(LoadReport::default()), Timestamp::ZERO);
        sender.end(&attempt);
    }
    let attempt = sender.begin("1.1.1.3:1", None, Timestamp::ZERO).unwrap();
    sender.answer(&attempt, Answer::Unreported, Timestamp::ZERO);
    sender.end(&attempt);
    let silent = attempt.endpoint;
    let places: Vec<usize> = (0..1000)
        .map(|_| sender.choose(Timestamp::ZERO, &mut rng).iter().position(|&id| id == silent).unwrap())
        .collect();
    assert!(places.iter().all(|&place| place == 0 || place == 4), "first by its share, or last");
    let first = places.iter().filter(|&&place| place == 0).count();
    assert!((150..250).contains(&first), "{first} of 1000 first");
}

#[test]
fn an_unjustified_bounce_costs_the_chips_like_a_rejection() {
    let bid = Some(Duration::from_millis(100).into());
    let idle = LoadReport { queue: Some(0), service: Some(1000.0), ..LoadReport::default() };
    for (bid, report, chips) in [(None, LoadReport::default(), 0), (bid, idle, 0), (bid, LoadReport::default(), 1)] {
        let mut sender = sender(Some(&["1.1.1.1:1", "2.2.2.2:2"]));
        let attempt = sender.begin("1.1.1.1:1", None, Timestamp::ZERO).unwrap();
        sender.answer(&Attempt { bid, ..attempt }, Answer::Bounced(report), Timestamp::ZERO);
        let endpoint = sender.endpoints().get(attempt.endpoint);
        assert_eq!(endpoint.map(Endpoint::chips), Some(chips), "{bid:?}, {report:?}");
    }
}

#[test]
fn new_parameters_keep_chips_and_pending_requests() {
    let mut sender = sender(Some(&["1.1.1.1:1", "2.2.2.2:2"]));
    let attempt = sender.begin("1.1.1.1:1", None, Timestamp::ZERO).unwrap();
    assert_eq!(attempt.permit, Permit::Chip);
    let spec = ServiceSpec { endpoints: Some(vec!["1.1.1.1:1".into()]), retries: Some(0), ..ServiceSpec::default() };
    sender.configure(spec.validate().unwrap(), Timestamp::ZERO);
    assert_eq!(sender.endpoints().len(), 1);
    assert_eq!(sender.choose(Timestamp::ZERO, &mut fastrand::Rng::with_seed(4)), [attempt.endpoint]);
    let next = sender.begin("1.1.1.1:1", None, Timestamp::ZERO).unwrap();
    assert_eq!(next.permit, Permit::Forced, "its chip was spent before");
    assert_eq!(sender.endpoints().get(attempt.endpoint).map(Endpoint::pending), Some(2));
    sender.end(&attempt);
    assert_eq!(sender.endpoints().get(attempt.endpoint).map(Endpoint::pending), Some(1));
}

/// A listener is updated: for a while requests use both the old configuration and the new one.
#[test]
fn a_second_configuration_copies_servers_but_no_pending_attempts() {
    let mut one = sender(None);
    let known = meet(&mut one, "1.1.1.1:1");
    let attempt = one.begin("1.1.1.1:1", None, Timestamp::ZERO).unwrap();
    let none = ServiceSpec { retries: Some(7), ..ServiceSpec::default() };
    let mut other = one.beside(none.validate().unwrap(), Timestamp::ZERO);
    let pending = |sender: &Sender| sender.endpoints().get(known).map(Endpoint::pending);
    assert_eq!((pending(&one), pending(&other)), (Some(1), Some(0)));
    assert_eq!([&one, &other].map(|sender| sender.retries(0, true).left()), [2, 7]);
    other.begin("1.1.1.1:1", None, Timestamp::ZERO).unwrap();
    one.end(&attempt);
    assert_eq!((pending(&one), pending(&other)), (Some(0), Some(1)));
}

#[test]
fn a_bid_says_the_fleets_execution_time_to_servers_that_read_it() {
    let mut sender = bidders(2);
    let turn = Some(BidPosition { number: 0, of: 1 });
    let now = Timestamp::ZERO.after(Duration::from_millis(50));
    let old = LoadReport {
        queue: Some(0),
        service: Some(20.0),
        execution: Some(Duration::from_millis(50)),
        ..LoadReport::default()
    };
    for (address, report) in [("1.1.1.1:1", LoadReport { fleet: true, ..old }), ("1.1.1.2:1", old)] {
        for _ in 0..8 {
            let attempt = sender.begin(address, None, Timestamp::ZERO).unwrap();
            sender.answer(&attempt, Answer::Served(report), now);
        }
    }
    let fleet = |sender: &mut Sender, address| sender.begin(address, turn, now).unwrap().bid.unwrap().fleet;
    assert_eq!(fleet(&mut sender, "1.1.1.1:1"), Some(Duration::from_millis(50)));
    assert_eq!(fleet(&mut sender, "1.1.1.2:1"), None);
    let attempt = sender.begin("1.1.1.1:1", turn, now).unwrap();
    sender.answer(&attempt, Answer::Unreported, now);
    assert_eq!(fleet(&mut sender, "1.1.1.1:1"), None, "rolled back");
}

#[test]
fn a_bid_says_nothing_of_the_fleet_ten_seconds_after_the_last_report() {
    let mut sender = bidders(2);
    let report = LoadReport {
        queue: Some(0),
        service: Some(20.0),
        execution: Some(Duration::from_millis(50)),
        fleet: true,
        ..LoadReport::default()
    };
    let attempt = sender.begin("1.1.1.1:1", None, at(0)).unwrap();
    (0..8).for_each(|_| sender.answer(&attempt, Answer::Served(report), at(50)));
    let turn = Some(BidPosition { number: 0, of: 1 });
    let fleet = [10_049, 10_050].map(|now| sender.begin("1.1.1.1:1", turn, at(now)).unwrap().bid.unwrap().fleet);
    assert_eq!(fleet, [Some(Duration::from_millis(50)), None]);
}

#[test]
fn an_error_without_a_report_comes_from_a_server_that_does_not_read_the_fleet() {
    let mut sender = bidders(2);
    let attempt = sender.begin("1.1.1.1:1", None, Timestamp::ZERO).unwrap();
    let reads = |sender: &Sender| sender.endpoints().get(attempt.endpoint).unwrap().report().fleet;
    let report = LoadReport { fleet: true, ..LoadReport::default() };
    for (answer, then) in [(Answer::Erred(Some(report)), true), (Answer::Failed, true), (Answer::Erred(None), false)] {
        sender.answer(&attempt, Answer::Served(report), Timestamp::ZERO);
        sender.answer(&attempt, answer, Timestamp::ZERO);
        assert_eq!(reads(&sender), then, "{answer:?}");
    }
}

#[test]
fn a_request_without_a_list_is_retried_where_servers_are_learned_unless_the_budget_is_0() {
    let may = |endpoints: Option<&str>, budget| {
        let endpoints = endpoints.map(|one| vec![one.to_owned()]);
        let spec = ServiceSpec { endpoints, retry_budget: Some(budget), ..ServiceSpec::default() };
        Sender::new(spec.validate().unwrap(), Timestamp::ZERO).may_repeat_without_list()
    };
    assert_eq!(
        [may(None, 0.2), may(None, 0.0), may(Some(FAST), 0.2), may(Some(FAST), 0.0)],
        [true, false, false, false]
    );
}

#[test]
fn attempts_bid_only_with_that_routing() {
    let bids = |routing| {
        let spec = ServiceSpec { routing: Some(routing), ..ServiceSpec::default() };
        Sender::new(spec.validate().unwrap(), Timestamp::ZERO).bids()
    };
    assert_eq!([RoutingKind::Bid, RoutingKind::Bloc, RoutingKind::Mu].map(bids), [true, false, false]);
}
