//! A sender that bids, with two servers: a bounce always leads to the other one.

use super::*;
use crate::server::Server;
use crate::server::steps::OneThread;
use crate::units::Concurrency;
use crate::wire::bid::Bid;
use crate::wire::reason::Reason;

/// The report of such a server that reads the fleet's execution time.
fn report(millis: u64, queue: u32) -> LoadReport {
    LoadReport { fleet: true, ..super::report(millis, queue) }
}

/// One request to this server, with this answer.
fn exchange(sender: &mut Sender, address: &str, answer: Answer, now: u64) {
    let attempt = sender.begin(address, Some(sender.turn(0)), at(now)).unwrap();
    sender.answer(&attempt, answer, at(now + 20));
    sender.end(&attempt);
}

/// A sender that has sent ten requests to each of two servers, of 20 and 200 ms.
fn informed(servers: usize) -> Sender {
    let mut sender = bidders(servers);
    for request in 0..10 {
        for (address, millis) in [(SLOW, 200), (FAST, 20)] {
            let attempt = sender.begin(address, Some(sender.turn(0)), at(1000 * request)).unwrap();
            sender.answer(&attempt, Answer::Served(report(millis, 0)), at(1000 * request + millis));
            sender.end(&attempt);
        }
    }
    sender
}

/// Rounded up to tens of microseconds.
fn tens(bid: Duration) -> u128 {
    bid.as_micros().div_ceil(10)
}

/// The bid of the next request there, in tens of microseconds.
fn bid(sender: &Sender, address: &str) -> Option<u128> {
    let mut sender = sender.clone();
    let attempt = sender.begin(address, Some(sender.turn(0)), at(10_000)).unwrap();
    attempt.bid.map(|bid| tens(bid.most))
}

/// The bid by what all servers have offered.
fn usual(sender: &Sender) -> Option<u128> {
    sender.bid(sender.turn(0)).map(tens)
}

#[test]
fn a_bid_is_at_most_the_price_of_the_other_server() {
    let sender = informed(2);
    // The fleet takes 110 ms: the fast server offers 65 ms, and looking further costs 24.5 ms.
    assert_eq!(bid(&sender, SLOW), Some(11_550));
    // The slow one offers 155 ms, which is more than the mean of both.
    assert_eq!((bid(&sender, FAST), usual(&sender).map(|usual| usual / 100)), (usual(&sender), Some(213)));
}

#[test]
fn among_three_servers_nobody_knows_which_one_is_next() {
    let sender = informed(3);
    for address in [FAST, SLOW] {
        assert_eq!(bid(&sender, address), usual(&sender), "{address}");
    }
}

#[test]
fn what_this_sender_has_at_the_other_server_counts_though_it_was_not_reported() {
    let mut sender = informed(2);
    for (pending, most) in [(1, 11_550), (2, 12_950), (3, 14_350)] {
        sender.begin(FAST, Some(sender.turn(0)), at(10_000)).unwrap();
        // From the second place on, each request takes another 10 ms.
        assert_eq!(bid(&sender, SLOW), Some(most), "{pending}");
    }
}

#[test]
fn a_server_that_is_shut_or_breaks_its_promises_is_no_alternative() {
    let mut sender = informed(2);
    exchange(&mut sender, FAST, Answer::Rejected(report(20, 0)), 10_000);
    assert_eq!(bid(&sender, SLOW), usual(&sender));
    let mut sender = informed(2);
    exchange(&mut sender, FAST, Answer::Unreported, 10_000);
    assert_eq!(bid(&sender, SLOW), usual(&sender), "it does not read bids any more");
}

#[test]
fn a_server_that_has_failed_lately_is_no_alternative() {
    let mut sender = informed(2);
    // What both servers do counts against neither.
    exchange(&mut sender, SLOW, Answer::Failed, 10_000);
    exchange(&mut sender, FAST, Answer::Failed, 10_000);
    exchange(&mut sender, SLOW, Answer::Served(report(200, 0)), 10_000);
    for answered in 0..7 {
        assert_eq!(bid(&sender, SLOW), usual(&sender), "{answered}");
        exchange(&mut sender, FAST, Answer::Served(report(20, 0)), 10_000);
    }
    assert!(bid(&sender, SLOW) < usual(&sender));
}

#[test]
fn a_server_that_owes_an_answer_for_longer_than_the_price_is_no_alternative() {
    let mut sender = informed(2);
    sender.begin(FAST, Some(sender.turn(0)), at(9_884)).unwrap();
    assert_eq!(bid(&sender, SLOW), usual(&sender), "116 ms");
    let mut sender = informed(2);
    sender.begin(FAST, Some(sender.turn(0)), at(9_885)).unwrap();
    assert_eq!(bid(&sender, SLOW), Some(11_550), "115 ms");
    let mut sender = informed(2);
    let waits = sender.begin(FAST, Some(sender.turn(0)), at(9_884)).unwrap();
    sender.answer(&waits, Answer::Served(report(20, 0)), at(10_000));
    assert!(bid(&sender, SLOW) < usual(&sender), "it has answered");
}

#[test]
fn a_server_that_has_said_nothing_for_long_is_no_alternative() {
    let sender = informed(2);
    let bid = |now| {
        let mut sender = sender.clone();
        sender.begin(SLOW, Some(sender.turn(0)), at(now)).unwrap().bid.map(|bid| tens(bid.most))
    };
    // It answered last after 9,020 ms.
    assert_eq!((bid(19_019), bid(19_020)), (Some(11_550), usual(&sender)));
}

#[test]
fn a_slow_server_of_two_bounces_although_it_is_free() {
    let spec = ServiceSpec { concurrency: Some(2), hold: Some(false), ..ServiceSpec::default() };
    let mut server = Server::new(&spec.validate().unwrap());
    let (none, mut threads) = (Concurrency::new(0), OneThread::default());
    for request in 0..10 {
        let arrived = server.arrive(none, None, None, &threads, at(1000 * request)).unwrap();
        let inside = server.hand_over(arrived, false, &mut threads, at(1000 * request));
        server.answer(inside, true, none, &mut threads, at(1000 * request + 200));
    }
    let mut sender = informed(2);
    let attempt = sender.begin(SLOW, Some(sender.turn(0)), at(10_000)).unwrap();
    assert_eq!(server.arrive(none, attempt.bid, None, &threads, at(9_300)), Err(Reason::Bid));
    let by_the_mean = sender.bid(sender.turn(0)).map(|most| Bid { most, ..attempt.bid.unwrap() });
    assert!(server.arrive(none, by_the_mean, None, &threads, at(9_300)).is_ok(), "213 ms");
}
