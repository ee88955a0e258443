//! Senders, one decision after the other.

use super::*;
use crate::config::ServiceSpec;
use std::collections::BTreeSet;

fn sender(endpoints: Option<&[&str]>) -> Sender {
    let endpoints = endpoints.map(|texts| texts.iter().map(ToString::to_string).collect());
    let spec = ServiceSpec { endpoints, retries: Some(2), ..ServiceSpec::default() };
    Sender::new(spec.validate().unwrap(), Timestamp::ZERO)
}

/// The sender meets this server; an attempt's effect on its chips is left out.
fn meet(sender: &mut Sender, address: &str) -> EndpointId {
    sender.endpoint_at(address, Timestamp::ZERO).unwrap()
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
    for known in 1..=200u32 {
        for _ in 0..50 {
            sender.choose(Timestamp::ZERO, &mut rng);
            let address = format!("10.0.0.{}:80", rng.u32(0..known));
            meet(&mut sender, &address);
        }
    }
    assert!(sender.endpoints().len() >= 198, "{} of 200 known", sender.endpoints().len());
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
fn reports_by_how_much_a_request_would_exceed_the_slo_and_its_grace() {
    let spec = ServiceSpec {
        routing: Some(RoutingKind::Mu),
        slo: Some("1s".into()),
        slo_grace: Some("100ms".into()),
        endpoints: Some(vec!["1.1.1.1:1".into()]),
        ..ServiceSpec::default()
    };
    let mut sender = Sender::new(spec.validate().unwrap(), Timestamp::ZERO);
    let mut rng = fastrand::Rng::with_seed(5);
    let attempt = sender.begin("1.1.1.1:1", None, Timestamp::ZERO).unwrap();
    sender.end(&attempt);
    sender.choose(Timestamp::ZERO, &mut rng);
    assert_eq!(sender.overrun(), None, "nothing is known yet");
    for (queue, overrun) in [(10, None), (11, Some(100)), (19, Some(900))] {
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
    let bid = |sender: &mut Sender, turn, now| sender.begin("1.1.1.1:1", turn, now).map(|attempt| attempt.bid);
    let turn = |number| Some(Turn { number, of: 5 });
    let attempt = sender.begin("1.1.1.1:1", turn(0), Timestamp::ZERO).unwrap();
    assert_eq!(attempt.bid, None, "nothing is known yet");
    let report = LoadReport { queue: Some(9), service: Some(20.0), ..LoadReport::default() };
    let now = Timestamp::ZERO.after(Duration::from_millis(1));
    sender.answer(&attempt, Answer::Bounced(report), now);
    assert_eq!(bid(&mut sender, turn(0), now), Some(Some(Duration::from_millis(450))), "0.9 of half a second");
    assert_eq!(bid(&mut sender, turn(4), now), Some(Some(Duration::from_millis(700))));
    assert_eq!(bid(&mut sender, turn(5), now), Some(None), "later attempts have no limit");
    assert_eq!(bid(&mut sender, None, now), Some(None));
}

#[test]
fn allows_one_bid_per_other_server_and_at_most_five() {
    for (servers, bids) in [(0, 0), (1, 0), (2, 1), (5, 4), (6, 5), (20, 5)] {
        let sender = bidders(servers);
        assert_eq!(sender.retries(0, true), Retries::new(0, bids, 2), "{servers}");
        assert_eq!(sender.turn(0), Turn { number: 0, of: bids as usize });
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
        let attempt = Attempt { bid: Some(Duration::from_millis(100)), ..attempt };
        sender.answer(&attempt, Answer::Bounced(LoadReport::default()), Timestamp::ZERO);
        sender.end(&attempt);
    }
    let attempt = sender.begin("1.1.1.3:1", None, Timestamp::ZERO).unwrap();
    sender.answer(&attempt, Answer::Silent, Timestamp::ZERO);
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
    let bid = Some(Duration::from_millis(100));
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
    assert_eq!(attempt.right, Right::Chip);
    let spec = ServiceSpec { endpoints: Some(vec!["1.1.1.1:1".into()]), retries: Some(0), ..ServiceSpec::default() };
    sender.configure(spec.validate().unwrap(), Timestamp::ZERO);
    assert_eq!(sender.endpoints().len(), 1);
    assert_eq!(sender.choose(Timestamp::ZERO, &mut fastrand::Rng::with_seed(4)), [attempt.endpoint]);
    let next = sender.begin("1.1.1.1:1", None, Timestamp::ZERO).unwrap();
    assert_eq!(next.right, Right::Forced, "its chip was spent before");
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

/// A sender with Mu and an SLO of a second, to two servers that serve ten requests a second each.
fn gateway() -> Sender {
    let spec = ServiceSpec {
        routing: Some(RoutingKind::Mu),
        endpoints: Some(["1.1.1.1:1", "2.2.2.2:2"].map(str::to_owned).to_vec()),
        slo: Some("1s".into()),
        ..ServiceSpec::default()
    };
    Sender::new(spec.validate().unwrap(), Timestamp::ZERO)
}

fn at(millis: u64) -> Timestamp {
    Timestamp::ZERO.after(Duration::from_millis(millis))
}

#[test]
fn a_mostly_sequential_gateway_does_not_overestimate_response_times() {
    let mut rng = fastrand::Rng::with_seed(1);
    for sequential in [10, 100, 1_000] {
        let mut sender = gateway();
        let mut now = 0;
        let begin = |sender: &mut Sender, rng: &mut fastrand::Rng, now| {
            let id = sender.choose(at(now), rng)[0];
            let expected = sender.router.expected();
            assert!(expected.is_none_or(|time| time < Duration::from_millis(500)), "{expected:?} after {sequential}");
            sender.begin_chosen(id, None, at(now)).unwrap()
        };
        // First there is another sender; then this gateway is alone, one request at a time.
        for round in 0..50 + sequential {
            let queue = if round < 50 { 2 } else { 0 };
            let report = LoadReport { chip: true, queue: Some(queue), service: Some(10.0), ..LoadReport::default() };
            let attempt = begin(&mut sender, &mut rng, now);
            now += 100;
            sender.answer(&attempt, Answer::Served(report), at(now));
            sender.end(&attempt);
            now += 200;
        }
        // Three at a time: the third one waits for 0.1 s.
        for _ in 0..3 {
            begin(&mut sender, &mut rng, now);
        }
    }
}

#[test]
fn mu_forgets_requests_lost_at_a_server_and_restores_its_share() {
    for answer in [Some(Answer::Failed), Some(Answer::Silent), None] {
        let (mut sender, mut rng) = (gateway(), fastrand::Rng::with_seed(1));
        let gone = sender.endpoints().find("1.1.1.1:1").unwrap();
        let report =
            |queue| LoadReport { chip: true, queue: Some(queue), service: Some(10.0), ..LoadReport::default() };
        // Nine tenths of what is in each server are the other senders'.
        for millis in 0..2_000 {
            let id = sender.choose(at(millis), &mut rng)[0];
            let attempt = sender.begin_chosen(id, None, at(millis)).unwrap();
            sender.answer(&attempt, Answer::Served(report(9)), at(millis));
            sender.end(&attempt);
        }
        let lost: Vec<Attempt> = (0..50).map(|_| sender.begin_chosen(gone, None, at(2_000)).unwrap()).collect();
        for attempt in &lost {
            if let Some(answer) = answer {
                sender.answer(attempt, answer, at(2_010));
            }
            sender.end(attempt);
        }
        let mut share = 0;
        for millis in 0..1_000 {
            let now = at(14_000 + 10 * millis);
            let id = sender.choose(now, &mut rng)[0];
            share += u32::from(id == gone);
            let attempt = sender.begin_chosen(id, None, now).unwrap();
            sender.answer(&attempt, Answer::Served(report(9)), now);
            sender.end(&attempt);
        }
        assert!((350..650).contains(&share), "{share} of 1,000 after {answer:?}");
    }
}

#[test]
fn mu_probes_a_failing_or_rejecting_server_once_per_reset_interval() {
    for answer in [Answer::Failed, Answer::Rejected(LoadReport { queue: Some(0), ..LoadReport::default() })] {
        let (mut sender, mut rng) = (gateway(), fastrand::Rng::with_seed(1));
        let gone = sender.endpoints().find("1.1.1.1:1").unwrap();
        let mut attempts = Vec::new();
        for millis in 0..10_000 {
            let id = sender.choose(at(millis), &mut rng)[0];
            let attempt = sender.begin_chosen(id, None, at(millis)).unwrap();
            if id == gone {
                attempts.push(millis);
            }
            let report = LoadReport { chip: true, queue: Some(5), service: Some(10.0), ..LoadReport::default() };
            sender.answer(&attempt, if id == gone { answer } else { Answer::Served(report) }, at(millis));
            sender.end(&attempt);
        }
        assert!((8..=11).contains(&attempts.len()), "once in a reset interval: {attempts:?}");
    }
}

#[test]
fn a_deadline_rejection_costs_no_chip_if_prompt_and_with_a_queue() {
    for (queue, took, chips) in [(Some(9), 499, 1), (Some(9), 500, 0), (Some(0), 10, 0), (None, 10, 0)] {
        let mut sender = sender(Some(&["1.1.1.1:1", "2.2.2.2:2"]));
        let attempt = sender.begin("1.1.1.1:1", None, Timestamp::ZERO).unwrap();
        let report = LoadReport { queue, service: Some(10.0), ..LoadReport::default() };
        sender.answer(&attempt, Answer::Late(report), at(took));
        let endpoint = sender.endpoints().get(attempt.endpoint).unwrap();
        assert_eq!(endpoint.chips(), chips, "{queue:?} after {took} ms");
    }
}

#[test]
fn with_few_servers_the_list_repeats_only_the_open_ones() {
    let spec = ServiceSpec {
        routing: Some(RoutingKind::Bid),
        endpoints: Some(["1.1.1.1:1", "2.2.2.2:2", "3.3.3.3:3"].map(str::to_owned).to_vec()),
        retries: Some(4),
        ..ServiceSpec::default()
    };
    let mut sender = Sender::new(spec.validate().unwrap(), Timestamp::ZERO);
    let mut rng = fastrand::Rng::with_seed(1);
    // Four retries, two bids, and the first.
    let list = sender.choose(at(1), &mut rng).to_vec();
    assert_eq!(list.len(), 7);
    assert_eq!([&list[3..5], &list[6..]].concat(), [list[1], list[2], list[1]], "the first comes last: {list:?}");
    assert_eq!(list[5], list[0]);
    let refuses = sender.begin("2.2.2.2:2", None, at(1)).unwrap();
    sender.answer(&refuses, Answer::Failed, at(1));
    sender.end(&refuses);
    // Listed once, now and when it is probed.
    for millis in 2..3_000 {
        let list = sender.choose(at(millis), &mut rng).to_vec();
        assert_eq!(list.len(), 7);
        assert_eq!(list.iter().filter(|id| **id == refuses.endpoint).count(), 1, "at {millis} ms: {list:?}");
    }
}

#[test]
fn two_servers_are_listed_again_for_further_retries_and_one_server_is_not() {
    let mut rng = fastrand::Rng::with_seed(1);
    let mut two = sender(Some(&["1.1.1.1:1", "2.2.2.2:2"]));
    let list = two.choose(at(1), &mut rng).to_vec();
    assert_eq!(list, [list[0], list[1], list[1]], "the first attempt and two retries");
    assert_ne!(list[0], list[1]);
    assert!(two.chosen().eq(list.iter().map(|id| two.endpoints().get(*id).unwrap().address())));
    assert_eq!(sender(Some(&["1.1.1.1:1"])).choose(at(1), &mut rng).len(), 1);
    for address in ["1.1.1.1:1", "2.2.2.2:2"] {
        let refused = two.begin(address, None, at(1)).unwrap();
        two.answer(&refused, Answer::Rejected(LoadReport::default()), at(1));
    }
    assert_eq!(two.choose(at(2), &mut rng).len(), 2, "no server is open to be listed again");
}

#[test]
fn a_new_routing_takes_effect_and_the_same_routing_goes_on() {
    let configured = |routing| {
        let endpoints = Some(["1.1.1.1:1", "2.2.2.2:2", "3.3.3.3:3"].map(str::to_owned).to_vec());
        ServiceSpec { routing: Some(routing), endpoints, ..ServiceSpec::default() }.validate().unwrap()
    };
    let mut rng = fastrand::Rng::with_seed(1);
    let mut firsts = |sender: &mut Sender| [1, 2, 3].map(|millis| sender.choose(at(millis), &mut rng)[0]);
    let mut sender = Sender::new(configured(RoutingKind::Bloc), Timestamp::ZERO);
    let attempt = sender.begin("2.2.2.2:2", None, Timestamp::ZERO).unwrap();
    let chip = LoadReport { chip: true, ..LoadReport::default() };
    sender.answer(&attempt, Answer::Served(chip), Timestamp::ZERO);
    for other in ["1.1.1.1:1", "3.3.3.3:3"] {
        let refused = sender.begin(other, None, Timestamp::ZERO).unwrap();
        sender.answer(&refused, Answer::Rejected(LoadReport::default()), Timestamp::ZERO);
    }
    assert_eq!(firsts(&mut sender), [attempt.endpoint; 3], "the only server that does not reject");
    sender.configure(configured(RoutingKind::RoundRobin), Timestamp::ZERO);
    let round = firsts(&mut sender);
    assert_eq!(BTreeSet::from(round).len(), 3);
    let mut rng = fastrand::Rng::with_seed(1);
    assert_eq!(sender.choose(at(4), &mut rng)[0], round[0]);
    sender.configure(configured(RoutingKind::RoundRobin), Timestamp::ZERO);
    assert_eq!(sender.choose(at(5), &mut rng)[0], round[1], "its turns go on");
}

#[test]
fn the_retry_budget_of_a_sender_is_ample_down_to_half_of_its_burst() {
    let mut sender = sender(Some(&["1.1.1.1:1", "2.2.2.2:2"]));
    for (attempts, is_ample) in [(5, true), (1, false)] {
        for _ in 0..attempts {
            sender.begin("1.1.1.1:1", None, Timestamp::ZERO);
        }
        assert_eq!(sender.may_repeat_amply(), is_ample);
        assert!(sender.may_repeat());
    }
}

#[test]
fn an_error_in_the_trailers_costs_the_server_its_chip() {
    let mut sender = sender(Some(&["1.1.1.1:1", "2.2.2.2:2"]));
    let attempt = sender.begin("1.1.1.1:1", None, Timestamp::ZERO).unwrap();
    let report = LoadReport { chip: true, ..LoadReport::default() };
    sender.answer(&attempt, Answer::Served(report), Timestamp::ZERO);
    let chips = |sender: &Sender| sender.endpoints().get(attempt.endpoint).map(Endpoint::chips);
    let before = chips(&sender).unwrap();
    sender.erred(&attempt, Timestamp::ZERO);
    assert_eq!(chips(&sender), Some(before - 1));
}

#[test]
fn an_idle_stream_is_not_pending_until_it_resumes() {
    let mut sender = sender(Some(&["1.1.1.1:1", "2.2.2.2:2"]));
    let attempt = sender.begin("1.1.1.1:1", None, Timestamp::ZERO).unwrap();
    let pending = |sender: &Sender| sender.endpoints().get(attempt.endpoint).map(Endpoint::pending);
    sender.idle(attempt.endpoint);
    assert_eq!(pending(&sender), Some(0));
    sender.resume(attempt.endpoint);
    assert_eq!(pending(&sender), Some(1));
}

#[test]
fn only_mu_bounds_a_reported_service_rate_by_the_pace_of_the_answers() {
    for (routing, rate) in [(RoutingKind::Mu, 40.0), (RoutingKind::Bloc, 992.0)] {
        let endpoints = Some(vec!["1.1.1.1:1".to_owned()]);
        let spec = ServiceSpec { routing: Some(routing), endpoints, ..ServiceSpec::default() };
        let mut sender = Sender::new(spec.validate().unwrap(), Timestamp::ZERO);
        let report = LoadReport { queue: Some(0), service: Some(1_000.0), ..LoadReport::default() };
        let attempt = sender.begin("1.1.1.1:1", None, at(0)).unwrap();
        sender.answer(&attempt, Answer::Served(report), at(100));
        let endpoint = sender.endpoints().get(attempt.endpoint).unwrap();
        assert_eq!(endpoint.estimate().standing(0).service_rate(), rate, "four answers in 100 ms at most");
    }
}
