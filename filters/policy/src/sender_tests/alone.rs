//! A sender with bids that has the servers to itself, and how it notices that it has not.

use super::*;

/// One request more at this server.
fn begin(sender: &mut Sender, address: &str, now: u64) -> Attempt {
    sender.begin(address, Some(sender.turn(0)), at(now)).unwrap()
}

/// For so many tenths of a second a server that takes 100 ms and one that takes 200 answer at their
/// pace, while this sender has another request at each. They report `others` more than it has.
fn hear(sender: &mut Sender, tenths: u64, others: u32, from: u64) {
    for now in (0..tenths).map(|tenth| from + 100 * tenth) {
        for (address, millis, began) in [(FAST, 100, 0), (FAST, 100, 50), (SLOW, 200, 0)] {
            let attempt = begin(sender, address, now + began);
            let own = sender.endpoints().get(attempt.endpoint).unwrap().pending() - 1;
            let answered = at(now + began + millis / 2);
            sender.answer(&attempt, Answer::Served(report(millis, own + others)), answered);
            sender.end(&attempt);
        }
    }
}

/// A sender to two servers that has found out within 10 s that it is alone, with a request at each.
fn alone() -> Sender {
    let mut sender = bidders(2);
    for address in [FAST, SLOW] {
        begin(&mut sender, address, 0);
    }
    hear(&mut sender, 100, 0, 0);
    sender
}

fn first(sender: &mut Sender, now: u64) -> String {
    let id = sender.choose(at(now), &mut fastrand::Rng::with_seed(1))[0];
    sender.endpoints().get(id).unwrap().address().to_owned()
}

#[test]
fn makes_no_bids_while_it_is_alone_and_bids_at_once_when_it_is_not() {
    let mut sender = bidders(2);
    assert_eq!(sender.retries(0, true), Retries::new(0, 1, 2), "nothing is known");
    hear(&mut sender, 100, 0, 0);
    assert_eq!(sender.retries(0, true), Retries::new(0, 1, 2), "one request at a time says nothing");
    let mut sender = alone();
    assert_eq!(sender.retries(0, true), Retries::new(0, 0, 2));
    assert_eq!(begin(&mut sender, FAST, 10_000).bid, None);
    assert_eq!(sender.choose(at(10_000), &mut fastrand::Rng::with_seed(1)).len(), 3);
    hear(&mut sender, 2, 2, 10_000);
    assert_eq!(sender.retries(0, true), Retries::new(0, 1, 2));
    assert!(begin(&mut sender, FAST, 10_200).bid.is_some());
    hear(&mut sender, 100, 0, 10_200);
    assert_eq!(sender.retries(0, true), Retries::new(0, 0, 2));
}

#[test]
fn hears_of_others_in_rejections_too_and_not_from_a_server_that_has_left() {
    let rejected = [
        Answer::Bounced(report(100, 40)),
        Answer::Rejected(report(100, 40)),
        Answer::RejectedForDeadline(report(100, 40)),
    ];
    for answer in rejected {
        let mut sender = alone();
        let attempt = begin(&mut sender, FAST, 10_000);
        sender.answer(&attempt, answer, at(10_000));
        assert!(!sender.company.is_none(), "{answer:?}");
    }
    let mut sender = alone();
    let attempt = begin(&mut sender, FAST, 10_000);
    sender.endpoints.remove(attempt.endpoint);
    sender.answer(&attempt, Answer::Served(report(100, 40)), at(10_000));
    assert!(sender.company.is_none());
}

#[test]
fn goes_where_the_answer_is_due_first_and_by_pending_requests_where_that_is_not_known() {
    let mut sender = alone();
    assert_eq!(first(&mut sender, 10_000), FAST, "one request each, and this one is faster");
    begin(&mut sender, FAST, 10_000);
    assert_eq!(first(&mut sender, 10_000), SLOW, "the fast one is full");
    begin(&mut sender, SLOW, 10_000);
    assert_eq!(first(&mut sender, 10_000), FAST, "both are full");
    begin(&mut sender, FAST, 10_000);
    begin(&mut sender, SLOW, 10_000);
    begin(&mut sender, FAST, 10_000);
    assert_eq!(first(&mut sender, 10_000), FAST, "four and three, and a shorter wait");
    // One request at the fast server, and none at the other one.
    let mut sender = alone();
    let slow = sender.endpoints().find(SLOW).unwrap();
    sender.endpoints.end(slow);
    assert_eq!(first(&mut sender, 10_000), FAST);
    for report in [LoadReport { execution: None, ..report(100, 2) }, LoadReport { chip: true, ..LoadReport::default() }]
    {
        let mut sender = sender.clone();
        let attempt = begin(&mut sender, FAST, 10_000);
        sender.answer(&attempt, Answer::Served(report), at(10_000));
        sender.end(&attempt);
        assert_eq!(first(&mut sender, 10_000), SLOW, "{report:?}");
    }
    let spec = ServiceSpec { routing: Some(RoutingKind::Bloc), ..ServiceSpec::default() };
    let addresses = [FAST, SLOW].map(str::to_owned).to_vec();
    sender.configure(ServiceSpec { endpoints: Some(addresses), ..spec }.validate().unwrap(), at(10_000));
    assert_eq!(first(&mut sender, 10_000), SLOW, "BLOC looks at pending requests only");
}

#[test]
fn lists_each_server_once_with_or_without_chips_and_a_shut_one_last() {
    let mut sender = alone();
    let list = |sender: &mut Sender, now| -> Vec<String> {
        let list = sender.choose(at(now), &mut fastrand::Rng::with_seed(1)).to_vec();
        list.iter().map(|id| sender.endpoints().get(*id).unwrap().address().to_owned()).collect()
    };
    let chips = |sender: &Sender| sender.endpoints().iter().map(|(_, endpoint)| endpoint.chips()).sum::<u32>();
    assert_eq!((chips(&sender), list(&mut sender, 10_000)), (2, [FAST, SLOW, SLOW].map(str::to_owned).to_vec()));
    begin(&mut sender, SLOW, 10_000);
    assert_eq!((chips(&sender), list(&mut sender, 10_000)), (1, [FAST, SLOW, SLOW].map(str::to_owned).to_vec()));
    let attempt = begin(&mut sender, FAST, 10_000);
    assert_eq!((chips(&sender), list(&mut sender, 10_000)), (0, [FAST, SLOW, SLOW].map(str::to_owned).to_vec()));
    sender.answer(&attempt, Answer::Rejected(report(100, 1)), at(10_000));
    sender.end(&attempt);
    assert_eq!([10_000, 10_999, 11_000].map(|now| list(&mut sender, now)[0].clone()), [SLOW, SLOW, FAST]);
}

#[test]
fn a_server_without_an_answer_for_ten_seconds_is_tried_anew() {
    let cost = |idle: bool, now| {
        let mut sender = alone();
        let slow = sender.endpoints().find(SLOW).unwrap();
        if idle {
            sender.endpoints.end(slow);
        }
        sender.endpoints().get(slow).unwrap().cost(at(now))
    };
    assert_eq!([19_999, 20_000].map(|now| cost(true, now).is_some()), [true, false]);
    assert!(cost(false, 1_000_000).is_some(), "it has a request already");
    let first = |idle: bool, now| {
        let mut sender = alone();
        let slow = sender.endpoints().find(SLOW).unwrap();
        if idle {
            sender.endpoints.end(slow);
        }
        first(&mut sender, now)
    };
    assert_eq!([19_999, 20_000].map(|now| first(true, now)), [FAST, SLOW]);
    assert_eq!(first(false, 20_000), FAST);
}

#[test]
fn a_server_whose_cost_is_not_known_has_as_many_requests_as_the_others() {
    let mut sender = alone();
    let unknown = LoadReport { chip: true, ..LoadReport::default() };
    let attempt = begin(&mut sender, SLOW, 10_000);
    sender.answer(&attempt, Answer::Served(unknown), at(10_000));
    sender.end(&attempt);
    assert_eq!(first(&mut sender, 10_000), FAST, "each has the request that it had before");
    let second = begin(&mut sender, FAST, 10_000);
    assert_eq!(first(&mut sender, 10_000), SLOW, "the other one has two");
    sender.end(&second);
    sender.endpoints.end(attempt.endpoint);
    assert_eq!(first(&mut sender, 10_000), SLOW);
    let attempt = begin(&mut sender, FAST, 10_000);
    sender.answer(&attempt, Answer::Served(unknown), at(10_000));
    sender.end(&attempt);
    begin(&mut sender, SLOW, 10_000);
    begin(&mut sender, SLOW, 10_000);
    assert_eq!(first(&mut sender, 10_000), FAST, "no cost is known, and it has fewer requests");
}

#[test]
fn answers_that_come_at_once_make_a_server_no_faster_and_late_ones_slower() {
    let cost = |gap: u64| {
        let mut sender = alone();
        for now in (0..12).map(|answer| 10_000 + answer * gap) {
            let attempt = begin(&mut sender, FAST, now);
            sender.answer(&attempt, Answer::Served(report(100, 1)), at(now));
            sender.end(&attempt);
        }
        let fast = sender.endpoints().find(FAST).unwrap();
        sender.endpoints().get(fast).unwrap().cost(at(10_000 + 11 * gap)).unwrap()
    };
    assert_eq!([0, 10, 50].map(|gap| (cost(gap) * 1e6).round()), [11_250.0; 3]);
    assert!(cost(10_000) > 0.02, "{}", cost(10_000));
}
