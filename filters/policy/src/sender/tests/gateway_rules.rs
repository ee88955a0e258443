//! A gateway with few servers, and what a sender makes of their answers.

use super::*;

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
    for answer in [Some(Answer::Failed), Some(Answer::Unreported), None] {
        let (mut sender, mut rng) = (gateway(), fastrand::Rng::with_seed(1));
        let gone = sender.endpoints().find("1.1.1.1:1").unwrap();
        let report =
            |queue| LoadReport { chip: true, queue: Some(queue), service: Some(10.0), ..LoadReport::default() };
        // Nine tenths of the requests in each server are from other senders.
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
fn mu_probes_a_rejecting_server_once_per_reset_interval_and_a_failing_one_eight_times_as_rarely() {
    let rejected = Answer::Rejected(LoadReport { queue: Some(0), ..LoadReport::default() });
    for (answer, expected) in [(Answer::Failed, 3..=4), (rejected, 8..=11)] {
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
        assert!(expected.contains(&attempts.len()), "{answer:?}: {attempts:?}");
    }
}

#[test]
fn a_deadline_rejection_costs_no_chip_if_prompt_and_with_a_queue() {
    for (queue, took, chips) in [(Some(9), 499, 1), (Some(9), 500, 0), (Some(0), 10, 0), (None, 10, 0)] {
        let mut sender = sender(Some(&["1.1.1.1:1", "2.2.2.2:2"]));
        let attempt = sender.begin("1.1.1.1:1", None, Timestamp::ZERO).unwrap();
        let report = LoadReport { queue, service: Some(10.0), ..LoadReport::default() };
        sender.answer(&attempt, Answer::RejectedForDeadline(report), at(took));
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
        // One bid less.
        assert_eq!(list.len(), 6);
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
        let spec = ServiceSpec { routing: Some(routing), endpoints, ..ServiceSpec::default() };
        spec.validate().unwrap().with_baseline(routing)
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
fn mu_bounds_a_reported_service_rate_by_the_pace_of_the_answers() {
    let endpoints = Some(vec!["1.1.1.1:1".to_owned()]);
    let spec = ServiceSpec { routing: Some(RoutingKind::Mu), endpoints, ..ServiceSpec::default() };
    let mut sender = Sender::new(spec.validate().unwrap(), Timestamp::ZERO);
    let report = LoadReport { queue: Some(0), service: Some(1_000.0), ..LoadReport::default() };
    let attempt = sender.begin("1.1.1.1:1", None, at(0)).unwrap();
    sender.answer(&attempt, Answer::Served(report), at(100));
    sender.end(&attempt);
    sender.choose(at(100), &mut fastrand::Rng::with_seed(1));
    assert_eq!(sender.router.expected(), Some(Duration::from_millis(25)), "four answers in 100 ms at most");
}

#[test]
fn a_bounce_after_a_hold_costs_no_chip_and_says_nothing_about_what_a_bounce_costs() {
    let idle = LoadReport { queue: Some(0), service: Some(20.0), ..LoadReport::default() };
    // The server reports 50 ms, which is half of a bid of 100 ms.
    // It took 160 ms.
    for (held, most, chips, is_dearer) in [
        (true, 101, 1, false),
        (true, 160, 1, false),
        (true, 161, 0, false),
        (false, 101, 0, false),
        (false, 100, 1, true),
    ] {
        let mut sender = bidders(9);
        let first = sender.begin("1.1.1.1:1", None, at(0)).unwrap();
        (0..8).for_each(|_| sender.answer(&first, Answer::Served(idle), at(50)));
        let before = sender.bid(sender.turn(0));
        let attempt = sender.begin("1.1.1.2:1", None, at(50)).unwrap();
        let attempt = Attempt { bid: Some(Duration::from_millis(most).into()), ..attempt };
        sender.answer(&attempt, Answer::Bounced(LoadReport { held, ..idle }), at(210));
        let chips_left = sender.endpoints().get(attempt.endpoint).map(Endpoint::chips);
        assert_eq!((chips_left, sender.bid(sender.turn(0)) > before), (Some(chips), is_dearer), "{held}, {most}");
    }
}

#[test]
fn a_server_that_holds_two_requests_for_more_than_twice_their_bids_is_not_trusted() {
    let idle = LoadReport { queue: Some(0), service: Some(20.0), ..LoadReport::default() };
    for (held, took, is_trusted) in [(true, 201, false), (true, 200, true), (false, 201, true)] {
        let mut sender = bidders(9);
        for _ in 0..2 {
            let attempt = sender.begin("1.1.1.2:1", None, at(50)).unwrap();
            let attempt = Attempt { bid: Some(Duration::from_millis(100).into()), ..attempt };
            sender.answer(&attempt, Answer::Bounced(LoadReport { held, ..idle }), at(50 + took));
        }
        let server = sender.endpoints().find("1.1.1.2:1").unwrap();
        let Router::Bid(bidder) = &sender.router else { panic!("{:?}", sender.router) };
        assert_eq!(bidder.distrusts(server), !is_trusted, "{held}, {took}");
    }
}
