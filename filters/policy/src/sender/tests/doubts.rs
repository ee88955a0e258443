//! A sender doubts that a server is much faster than its peers, and that a slow server is still
//! slow.

use super::*;

const FOUR: [&str; 4] = ["1.1.1.1:1", "1.1.1.2:1", "1.1.1.3:1", "1.1.1.4:1"];
const DRAWS: u32 = 10_000;

/// A sender to four servers, the last of which reports this execution time, and the others 50 ms.
fn of_four(routing: RoutingKind, last: Duration) -> Sender {
    let spec = ServiceSpec { endpoints: Some(FOUR.map(str::to_owned).to_vec()), ..ServiceSpec::default() };
    let spec = ServiceSpec { routing: Some(routing), ..spec };
    let mut sender = Sender::new(spec.validate().unwrap(), Timestamp::ZERO);
    let mut rng = fastrand::Rng::with_seed(1);
    for _ in 0..100 {
        for address in FOUR {
            let execution = if address == FOUR[3] { last } else { Duration::from_millis(50) };
            let report = LoadReport {
                chip: true,
                queue: Some(0),
                execution: Some(execution),
                service: Some(4.0 / execution.as_secs_f64()),
                ..LoadReport::default()
            };
            sender.choose(Timestamp::ZERO, &mut rng);
            let attempt = sender.begin(address, None, Timestamp::ZERO).unwrap();
            sender.answer(&attempt, Answer::Served(report), Timestamp::ZERO.after(execution));
            sender.end(&attempt);
        }
    }
    sender
}

/// The share of lists in which the last server comes first.
fn share(sender: &mut Sender) -> f64 {
    let mut rng = fastrand::Rng::with_seed(2);
    let last = sender.endpoints().find(FOUR[3]);
    let first = (0..DRAWS).filter(|_| sender.choose(at(100), &mut rng).first().copied() == last).count();
    first as f64 / f64::from(DRAWS)
}

#[test]
fn a_server_that_answers_much_faster_than_its_peers_gets_no_more_than_stock_least_request_gives_it() {
    for routing in [RoutingKind::Bloc, RoutingKind::Bid, RoutingKind::Mu] {
        for (busy, stock) in [(false, 0.25), (true, 0.4375)] {
            let mut sender = of_four(routing, Duration::from_micros(500));
            if busy {
                FOUR[..3].iter().for_each(|address| assert!(sender.begin(address, None, at(50)).is_some()));
            }
            let share = share(&mut sender);
            assert!(share < stock + 0.02, "{routing:?}, {busy}: {share}");
            assert!(routing != RoutingKind::Mu || share > stock - 0.02, "{routing:?}, {busy}: {share}");
        }
    }
}

#[test]
fn a_server_that_is_somewhat_faster_is_preferred() {
    let share = share(&mut of_four(RoutingKind::Mu, Duration::from_millis(8)));
    assert!(share > 0.98, "{share}");
}

#[test]
fn of_two_servers_the_slow_one_does_not_make_the_other_look_too_fast() {
    let mut sender = of_four(RoutingKind::Mu, Duration::from_secs(50));
    let addresses = FOUR[2..].iter().map(ToString::to_string).collect();
    let spec = ServiceSpec { endpoints: Some(addresses), routing: Some(RoutingKind::Mu), ..ServiceSpec::default() };
    sender.configure(spec.validate().unwrap(), at(50));
    let share = share(&mut sender);
    assert!(share < 0.01, "{share}");
}

#[test]
fn a_starved_server_gets_half_a_percent_of_the_requests_without_a_bid() {
    for routing in [RoutingKind::Bid, RoutingKind::Mu] {
        let mut sender = of_four(routing, Duration::from_secs(2));
        for pending in 1..=5 {
            // Bids find any idle server.
            sender.begin(FOUR[3], None, at(50)).unwrap();
            let share = share(&mut sender.clone());
            let expected = if pending < 4 { 0.003..0.008 } else { 0.0..0.0001 };
            assert!(expected.contains(&share), "{routing:?}, {pending}: {share}");
        }
    }
    let mut sender = of_four(RoutingKind::Bid, Duration::from_secs(2));
    sender.begin(FOUR[3], None, at(50)).unwrap();
    let (mut rng, last) = (fastrand::Rng::with_seed(2), sender.endpoints().find(FOUR[3]));
    let explores = (0..DRAWS).any(|_| sender.choose(at(100), &mut rng).first().copied() == last);
    let bids = [(); 2].map(|()| sender.begin(FOUR[3], Some(sender.turn(0)), at(100)).unwrap().bid.is_some());
    assert_eq!((explores, bids), (true, [false, true]), "only the attempt that explores");
}

#[test]
fn a_shut_server_is_not_starved() {
    let mut sender = of_four(RoutingKind::Bid, Duration::from_secs(2));
    let attempt = sender.begin(FOUR[3], None, at(50)).unwrap();
    sender.answer(&attempt, Answer::Rejected(LoadReport::default()), at(51));
    sender.end(&attempt);
    assert_eq!(share(&mut sender), 0.0);
}

#[test]
fn answers_are_looked_at_for_marks_now_and_then_and_all_of_a_marked_server() {
    let mut sender = of_four(RoutingKind::Mu, Duration::from_millis(50));
    let attempt = sender.begin(FOUR[3], None, at(50)).unwrap();
    let looks = |sender: &Sender| {
        let mut rng = fastrand::Rng::with_seed(1);
        (0..8_000).filter(|_| sender.looks_for_marks(&attempt, &mut rng)).count()
    };
    assert!((900..1_100).contains(&looks(&sender)), "{}", looks(&sender));
    sender.marked(&attempt, at(60));
    assert_eq!(looks(&sender), 8_000);
    assert_eq!(share(&mut sender), 0.0, "it is left alone");
}
