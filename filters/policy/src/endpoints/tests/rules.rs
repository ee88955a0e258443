//! The rules for chips and intervals, one by one.

use super::*;

#[test]
fn probes_a_rejecting_server_once_per_reset_interval() {
    let mut rng = fastrand::Rng::with_seed(11);
    let mut endpoints = Endpoints::new(RESET);
    let rejecting = endpoints.add("rejecting", at(0));
    endpoints.add("open", at(0));
    endpoints.begin(rejecting, at(0));
    endpoints.answer(rejecting, Permit::Chip, Answer::Rejected(report(false)), at(0));
    endpoints.end(rejecting);
    let mut list = Vec::new();
    let mut probes = Vec::new();
    for millis in 1..1000 {
        Bloc::default().choose(&mut endpoints, 1, at(millis), &mut rng, &mut list);
        let id = list[0];
        let permit = endpoints.begin(id, at(millis)).unwrap();
        if id == rejecting {
            assert_eq!(permit, Permit::Probe);
            endpoints.answer(id, permit, Answer::Rejected(report(false)), at(millis));
            probes.push(millis);
        } else {
            endpoints.answer(id, Permit::Chip, Answer::Served(report(true)), at(millis));
        }
        endpoints.end(id);
    }
    assert!(probes[0] >= 200, "probed within the interval: {probes:?}");
    assert!(probes.windows(2).all(|pair| pair[1] - pair[0] >= 200), "{probes:?}");
    // Each probe goes out soon after its interval has passed: four in a second.
    assert_eq!(probes.len(), 4, "{probes:?}");
}

#[test]
fn forced_attempts_take_turns_when_no_server_qualifies() {
    let mut endpoints = Endpoints::new(RESET);
    let ids: Vec<EndpointId> = (0u64..3).map(|i| endpoints.add(&format!("s{i}"), at(i))).collect();
    for (millis, &id) in (3..).zip(&ids) {
        endpoints.begin(id, at(millis));
        endpoints.answer(id, Permit::Chip, Answer::Rejected(report(false)), at(millis));
    }
    let mut list = Vec::new();
    let mut turns = Vec::new();
    for millis in 10..16 {
        Bloc::default().choose(&mut endpoints, 1, at(millis), &mut fastrand::Rng::with_seed(1), &mut list);
        assert_eq!(endpoints.begin(list[0], at(millis)), Some(Permit::Forced));
        turns.push(ids.iter().position(|&id| id == list[0]).unwrap());
    }
    assert_eq!(turns, [0, 1, 2, 0, 1, 2]);
}

#[test]
fn a_forced_attempt_goes_to_a_shut_server_only_if_all_are_shut() {
    let mut endpoints = Endpoints::new(RESET);
    let ids = ["shut", "busy"].map(|name| endpoints.add(name, at(0)));
    let mut list = Vec::new();
    let mut first = |endpoints: &mut Endpoints, millis| {
        Bloc::default().choose(endpoints, 2, at(millis), &mut fastrand::Rng::with_seed(1), &mut list);
        list.clone()
    };
    endpoints.begin(ids[0], at(1));
    endpoints.answer(ids[0], Permit::Chip, Answer::Rejected(report(false)), at(1));
    endpoints.begin(ids[1], at(2));
    endpoints.begin(ids[1], at(3));
    assert_eq!(first(&mut endpoints, 4), [ids[1], ids[0]], "although its interval ends later");
    endpoints.answer(ids[1], Permit::Forced, Answer::Rejected(report(false)), at(5));
    assert_eq!(first(&mut endpoints, 6), ids);
}

#[test]
fn chips_stay_between_zero_and_the_maximum() {
    let mut endpoints = Endpoints::new(RESET);
    let id = endpoints.add("s", at(0));
    for millis in 0..20 {
        endpoints.answer(id, Permit::Chip, Answer::Served(report(true)), at(millis));
    }
    assert_eq!(endpoints.get(id).map(Endpoint::chips), Some(MAX_CHIPS));
    for millis in 20..40 {
        endpoints.begin(id, at(millis));
    }
    assert_eq!(endpoints.get(id).map(Endpoint::chips), Some(0));
    assert_eq!(endpoints.get(id).map(Endpoint::pending), Some(20));
}

#[test]
fn replacing_the_list_keeps_the_state_of_servers_that_stay() {
    let mut endpoints = Endpoints::new(RESET);
    let stays = endpoints.add("stays", at(0));
    let goes = endpoints.add("goes", at(0));
    endpoints.begin(stays, at(1));
    endpoints.replace(["comes", "stays"], at(2));
    assert_eq!(endpoints.len(), 2);
    assert_eq!(endpoints.find("stays"), Some(stays));
    assert_eq!(endpoints.get(stays).map(Endpoint::pending), Some(1));
    assert!(endpoints.get(goes).is_none() && endpoints.find("goes").is_none());
    // An attempt still under way to the server that left changes nothing.
    endpoints.answer(goes, Permit::Chip, Answer::Served(report(true)), at(3));
    endpoints.end(goes);
    assert_eq!(endpoints.len(), 2);
}

#[test]
fn a_bounce_gives_the_chip_back() {
    let mut endpoints = Endpoints::new(RESET);
    let id = endpoints.add("s", at(0));
    assert_eq!(endpoints.begin(id, at(1)), Some(Permit::Chip));
    endpoints.answer(id, Permit::Chip, Answer::Bounced(report(false)), at(1));
    endpoints.end(id);
    assert_eq!(
        endpoints.begin(id, at(2)),
        Some(Permit::Chip),
        "else servers that bounce would look worse than those that take everything"
    );
}

#[test]
fn a_bounced_attempt_that_spent_no_chip_earns_none() {
    let mut endpoints = Endpoints::new(RESET);
    let id = endpoints.add("s", at(0));
    endpoints.begin(id, at(0));
    for millis in 1..6 {
        let permit = endpoints.begin(id, at(millis)).unwrap();
        assert_eq!(permit, Permit::Forced, "at {millis} ms");
        endpoints.answer(id, permit, Answer::Bounced(report(false)), at(millis));
        endpoints.end(id);
    }
    assert_eq!(endpoints.get(id).map(Endpoint::chips), Some(0));
}

#[test]
fn a_server_that_rejects_for_a_deadline_keeps_its_chips() {
    let mut endpoints = Endpoints::new(RESET);
    let id = endpoints.add("s", at(0));
    endpoints.answer(id, Permit::Probe, Answer::Served(report(true)), at(0));
    let permit = endpoints.begin(id, at(1)).unwrap();
    endpoints.answer(id, permit, Answer::RejectedForDeadline(report(false)), at(1));
    assert_eq!(endpoints.get(id).map(Endpoint::chips), Some(2));
    assert!(!is_any_shut(&endpoints));
}

/// How many attempts one of four servers gets that hangs from 3 s until `well`: while it hangs, and
/// in the last five of twenty seconds. The sender has twenty requests a second, and its callers
/// wait for two seconds. The other servers answer after 100 ms, and bounce every other first
/// attempt.
fn drawn_by_one_that_hangs(routing: &mut impl Routing, well: u64) -> [usize; 2] {
    let mut endpoints = Endpoints::new(RESET);
    let ids = ["s", "t", "u", "v"].map(|name| endpoints.add(name, at(0)));
    let (mut rng, mut list) = (fastrand::Rng::with_seed(7), Vec::new());
    let (mut waiting, mut drawn) = (Vec::new(), [0, 0]);
    let served = Answer::Served(LoadReport { queue: Some(0), ..report(true) });
    for now in (0..20_000).step_by(10) {
        waiting.retain(|&(ends, id, permit, answer)| {
            if now >= ends {
                endpoints.answer(id, permit, answer, at(now));
                endpoints.end(id);
            }
            now < ends
        });
        if now % 50 > 0 {
            continue;
        }
        routing.choose(&mut endpoints, 4, at(now), &mut rng, &mut list);
        let bounces = now % 100 == 0;
        for (place, &id) in list.iter().enumerate() {
            let permit = endpoints.begin(id, at(now)).unwrap();
            let (chosen, hangs) = (id == ids[0], (3_000..well).contains(&now));
            drawn[0] += usize::from(chosen && hangs);
            drawn[1] += usize::from(chosen && now >= 15_000);
            if bounces && place == 0 && !(chosen && hangs) {
                endpoints.answer(id, permit, Answer::Bounced(report(true)), at(now));
                endpoints.end(id);
                continue;
            }
            let (after, answer) = if chosen && hangs { (2_000, Answer::GivenUp) } else { (100, served) };
            waiting.push((now + after, id, permit, answer));
            break;
        }
    }
    drawn
}

#[test]
fn a_hanging_server_gets_few_attempts_until_it_recovers() {
    for well in [9_000, 20_000] {
        let bloc = drawn_by_one_that_hangs(&mut Bloc::default(), well);
        let mu = drawn_by_one_that_hangs(&mut crate::routing::Mu::with_interval(RESET), well);
        println!("{well}: bloc {bloc:?}, mu {mu:?}");
        for [meanwhile, last] in [bloc, mu] {
            if well == 9_000 {
                assert!(meanwhile <= 12, "{meanwhile} of 120");
                assert!(last >= 15, "{last} of 100 after it has recovered");
            } else {
                assert!(last <= 4, "{last} of 100");
            }
        }
    }
}

#[test]
fn an_attempt_given_up_by_its_caller_costs_the_server_nothing() {
    let mut endpoints = Endpoints::new(RESET);
    let ids = ["s", "t"].map(|name| endpoints.add(name, at(0)));
    for millis in 1..100 {
        let permit = endpoints.begin(ids[0], at(millis)).unwrap();
        assert_eq!(permit, Permit::Chip, "at {millis} ms");
        endpoints.answer(ids[0], permit, Answer::GivenUp, at(millis));
        endpoints.end(ids[0]);
    }
    assert!(!is_any_shut(&endpoints));
}

#[test]
fn a_failure_counts_against_a_server_unless_all_servers_fail() {
    let mut endpoints = Endpoints::new(RESET);
    let ids = ["s", "t", "u"].map(|name| endpoints.add(name, at(0)));
    let chips = |endpoints: &Endpoints, id| endpoints.get(id).map(Endpoint::chips);
    let permit = endpoints.begin(ids[0], at(1)).unwrap();
    endpoints.answer(ids[0], permit, Answer::Failed, at(1));
    assert_eq!((chips(&endpoints, ids[0]), is_any_shut(&endpoints)), (Some(0), true));
    // A server that fails fast collects no chips either.
    let mut fresh = Endpoints::new(RESET);
    let [fast, _] = ["s", "t"].map(|name| fresh.add(name, at(0)));
    fresh.answer(fast, Permit::Probe, Answer::Erred(Some(report(true))), at(1));
    assert_eq!(chips(&fresh, fast), Some(1), "one earned and one lost");
    for round in 0..100 {
        for id in ids {
            let permit = endpoints.begin(id, at(1000 * round)).unwrap();
            endpoints.answer(id, permit, Answer::Failed, at(1000 * round));
            endpoints.end(id);
        }
    }
    endpoints.answer(ids[0], Permit::Probe, Answer::Served(report(true)), at(100_000));
    let permit = endpoints.begin(ids[0], at(100_001)).unwrap();
    endpoints.answer(ids[0], permit, Answer::Failed, at(100_001));
    assert_eq!(chips(&endpoints, ids[0]), Some(2), "all of them fail");
}

#[test]
fn an_error_in_the_trailers_revokes_the_chip() {
    let mut endpoints = Endpoints::new(RESET);
    let ids = ["s", "t"].map(|name| endpoints.add(name, at(0)));
    let permit = endpoints.begin(ids[0], at(1)).unwrap();
    endpoints.answer(ids[0], permit, Answer::Served(report(true)), at(1));
    endpoints.erred(ids[0], true, at(2));
    assert_eq!((endpoints.get(ids[0]).map(Endpoint::chips), is_any_shut(&endpoints)), (Some(0), true));
}

#[test]
fn an_orca_report_returns_the_chip() {
    let mut endpoints = Endpoints::new(RESET);
    let id = endpoints.add("s", at(0));
    endpoints.begin(id, at(1));
    endpoints.answer(
        id,
        Permit::Chip,
        Answer::Orca(crate::wire::orca::decode(b"TEXT cpu_utilization=0.5,rps=20").unwrap()),
        at(1),
    );
    let endpoint = endpoints.get(id).unwrap();
    assert_eq!(endpoint.chips(), 1);
}

#[test]
fn a_server_keeps_its_chip_without_a_report_and_loses_it_when_missing() {
    let mut endpoints = Endpoints::new(RESET);
    let id = endpoints.add("s", at(0));
    endpoints.begin(id, at(1));
    endpoints.answer(id, Permit::Chip, Answer::Unreported, at(1));
    assert_eq!(endpoints.get(id).map(Endpoint::chips), Some(1));
    endpoints.leave_alone(id, at(2));
    assert_eq!(endpoints.get(id).map(Endpoint::chips), Some(0));
    assert_eq!(endpoints.begin(id, at(3)), Some(Permit::Forced));
}

#[test]
fn an_endpoint_keeps_the_last_report_of_its_server() {
    let mut endpoints = Endpoints::new(Duration::from_secs(1));
    let id = endpoints.add("a", at(0));
    assert_eq!(endpoints.get(id).map(Endpoint::report), Some(&LoadReport::default()));
    let report = LoadReport { queue: Some(7), ..report(false) };
    endpoints.answer(id, Permit::Chip, Answer::Rejected(report), at(0));
    endpoints.answer(id, Permit::Chip, Answer::Failed, at(1));
    assert_eq!(endpoints.get(id).map(Endpoint::report), Some(&report));
}

#[test]
fn new_parameters_apply_to_known_servers() {
    let mut endpoints = Endpoints::new(RESET);
    let id = endpoints.add("s", at(0));
    endpoints.configure(Duration::from_secs(1));
    endpoints.answer(id, Permit::Probe, Answer::Rejected(report(false)), at(10));
    assert_eq!(endpoints.begin(id, at(1_009)), Some(Permit::Forced), "the interval is a second now");
    endpoints.answer(id, Permit::Forced, Answer::Rejected(report(false)), at(1_010));
    assert_eq!(endpoints.begin(id, at(2_010)), Some(Permit::Probe));
}

#[test]
fn lists_every_known_server() {
    let mut endpoints = Endpoints::new(RESET);
    assert!(endpoints.is_empty() && endpoints.iter().next().is_none());
    let id = endpoints.add("s", at(0));
    assert!(!endpoints.is_empty());
    assert_eq!(endpoints.iter().map(|(id, endpoint)| (id, endpoint.address())).collect::<Vec<_>>(), [(id, "s")]);
}

#[test]
fn a_resumed_attempt_is_pending_again() {
    let mut endpoints = Endpoints::new(RESET);
    let id = endpoints.add("s", at(0));
    endpoints.begin(id, at(0));
    endpoints.end(id);
    endpoints.resume(id);
    assert_eq!(endpoints.get(id).map(Endpoint::pending), Some(1));
}
