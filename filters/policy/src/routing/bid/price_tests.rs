//! Bids after a series of reports.

use super::*;

/// The bid after this many bounces, in milliseconds to one decimal; none: no limit.
fn bid(bids: &Bids, number: usize) -> Option<f64> {
    let bid = bids.bid(BidPosition { number, of: MOST_BIDS })?;
    Some((bid.as_secs_f64() * 1e4).round() / 10.0)
}

fn report(expected_ms: u32, execution_ms: u64) -> LoadReport {
    // One request a millisecond: the queue is the expected response time.
    LoadReport {
        queue: Some(expected_ms - 1),
        service: Some(1000.0),
        execution: Some(Duration::from_millis(execution_ms)),
        ..LoadReport::default()
    }
}

fn hearing(price: f64, reports: usize, report: &LoadReport) -> Bids {
    let mut bids = Bids::new(price);
    (0..reports).for_each(|_| bids.observe(report));
    bids
}

#[test]
fn makes_no_bid_before_the_eighth_report() {
    assert_eq!(bid(&hearing(0.1, 0, &report(100, 50)), 0), None);
    let mut bids = hearing(0.1, 7, &report(100, 50));
    bids.observe(&LoadReport { execution: Some(Duration::from_millis(50)), ..LoadReport::default() });
    bids.bounced(Duration::from_millis(20));
    assert_eq!(bid(&bids, 0), None, "a report without an expected response time does not count");
    bids.observe(&report(100, 50));
    assert_eq!(bid(&bids, 0), Some(115.0), "the first bounce counts for 8 ms");
}

#[test]
fn bids_what_the_others_take_the_time_of_a_bounce_and_its_price() {
    let mut bids = hearing(0.1, 16, &report(100, 50));
    // 2.5 ms until a bounce has been measured, and a tenth of 50 ms.
    assert_eq!(
        [0, 1, 3, 4, 5].map(|number| bid(&bids, number)),
        [107.5, 107.5, 107.5, 147.5].map(Some).into_iter().chain([None]).collect::<Vec<_>>()[..]
    );
    bids.bounced(Duration::from_millis(3));
    assert_eq!(bid(&bids, 0), Some(108.8));
    assert_eq!(bid(&hearing(0.0, 8, &report(100, 50)), 0), Some(102.5));
    let unknown = LoadReport { execution: None, ..report(100, 50) };
    assert_eq!(bid(&hearing(0.1, 8, &unknown), 0), Some(102.5));
}

#[test]
fn where_one_server_is_left_its_offer_is_the_price() {
    let price = |bids: &Bids, report| bids.price_of(&report).map(|price| price.as_micros());
    assert_eq!(price(&hearing(0.1, 7, &report(100, 50)), report(60, 50)), None, "there are no prices");
    let mut bids = hearing(0.1, 16, &report(100, 50));
    // 1.4 times 60 ms, 2.5 ms, and a tenth of 50 ms.
    assert_eq!(price(&bids, report(60, 50)), Some(91_500));
    assert_eq!(price(&bids, LoadReport { service: None, ..report(60, 50) }), None);
    let slow = LoadReport { fleet: true, ..report(200, 150) };
    assert_eq!(price(&bids, slow), Some(217_500), "an offer of 150 ms");
    bids.bounced(Duration::from_millis(3));
    assert_eq!(price(&bids, report(60, 50)), Some(92_750));
    let endless = LoadReport { service: Some(f64::MIN_POSITIVE), ..report(60, 50) };
    assert!(bids.price_of(&endless) > Some(Duration::from_hours(24)));
}

#[test]
fn fewer_servers_leave_the_higher_bids() {
    let mut bids = Bids::new(0.1);
    (0..16).for_each(|nth| bids.observe(&report([50, 150][nth % 2], 50)));
    let all: Vec<_> = (0..5).map(|number| bids.bid(BidPosition { number, of: 5 }).unwrap()).collect();
    assert!(all.is_sorted_by(|one, next| one < next));
    for of in 0..=5 {
        let bids: Vec<_> = (0..7).filter_map(|number| bids.bid(BidPosition { number, of })).collect();
        assert_eq!(bids, all[5 - of..], "{of}");
    }
    assert_eq!(bids.bid(BidPosition { number: 0, of: 6 }), None);
}

#[test]
fn makes_new_prices_after_four_reports_or_when_a_bounce_costs_a_tenth_more_or_less() {
    let mut bids = hearing(0.0, 16, &report(100, 50));
    (0..3).for_each(|_| bids.observe(&report(200, 50)));
    assert_eq!(bid(&bids, 0), Some(102.5));
    bids.observe(&report(200, 50));
    assert_eq!(bid(&bids, 0), Some(105.1));

    // From 10/512 of a second to 9/512 and 11/512, and beyond.
    let [less, more] = [9.0 / 512.0, 11.0 / 512.0];
    for (next, moved) in [(less, false), (less - 1e-9, true), (more, false), (more + 1e-9, true)] {
        let mut bids = hearing(0.0, 16, &report(100, 50));
        for (bounce, moved) in [(10.0 / 512.0, true), (next, moved)] {
            bids.bounce = Bounce::of(bounce);
            let before = bids.prices;
            bids.reprice();
            assert_eq!(bids.prices != before, moved, "{bounce}");
        }
    }
}

#[test]
fn a_probe_waits_for_a_report_and_ends_with_the_next_request_served() {
    for unreported in [80, 81, 159] {
        let mut bids = hearing(0.1, 16, &report(100, 50));
        bids.bounced(Duration::from_millis(8));
        (0..unreported).for_each(|_| bids.served(Duration::from_millis(100)));
        assert_eq!(bid(&bids, 0), Some(115.0), "no prices yet");
        for _ in 0..9 {
            bids.observe(&report(100, 50));
            assert_eq!(bid(&bids, 0), Some(107.5), "after {unreported} answers without a report");
        }
        bids.served(Duration::from_millis(100));
        bids.observe(&report(100, 50));
        assert_eq!(bid(&bids, 0), Some(115.0));
    }
}

#[test]
fn a_new_price_holds_from_the_next_prices_on() {
    let mut bids = hearing(0.1, 8, &report(100, 50));
    bids.configure(1.0);
    (0..3).for_each(|_| bids.observe(&report(100, 50)));
    assert_eq!(bid(&bids, 0), Some(107.5));
    bids.observe(&report(100, 50));
    assert_eq!(bid(&bids, 0), Some(152.5));
}

#[test]
fn does_not_bid_while_full_servers_reject_more_than_a_fifth_of_the_attempts() {
    let mut bids = hearing(0.1, 16, &report(100, 50));
    bids.rejected();
    assert!((bids.rejected - 0.03).abs() < 1e-9);
    bids.rejected();
    assert!((bids.rejected - 0.059_1).abs() < 1e-9);
    bids.served(Duration::from_millis(100));
    assert!((bids.rejected - 0.057_327).abs() < 1e-9);
    bids.rejected = MOST_REJECTED;
    assert_eq!(bid(&bids, 0), Some(107.5));
    bids.rejected();
    assert_eq!(bid(&bids, 0), None);
    (0..10).for_each(|_| bids.served(Duration::from_millis(100)));
    assert_eq!(bid(&bids, 0), Some(107.5));
}

#[test]
fn hears_what_a_server_that_reads_the_fleet_would_compare() {
    let slow = LoadReport { fleet: true, ..report(200, 100) };
    let mut bids = hearing(0.0, 52, &LoadReport { fleet: true, ..report(100, 50) });
    assert_eq!((bid(&bids, 0), bids.fleet()), (Some(102.5), Some(Duration::from_millis(50))));
    let mut whole = bids.clone();
    bids.observe(&slow);
    assert_eq!(bids.fleet(), Some(Duration::from_millis(51)), "one of fifty");
    (0..3).for_each(|_| bids.observe(&slow));
    (0..4).for_each(|_| whole.observe(&LoadReport { fleet: false, ..slow }));
    // The power mean of twelve times 100 and four times 200.
    assert_eq!(bid(&whole, 4), Some(209.2));
    // The slow server's offers are 175.5, 176, 176.5 and 176.9.
    assert_eq!(bid(&bids, 4), Some(189.2));
}

/// Nine of ten requests of the service take 10 ms, and this sender sends only such requests.
#[test]
fn says_nothing_of_a_fleet_that_takes_much_longer_than_the_own_requests() {
    let mut bids = hearing(0.1, 16, &LoadReport { fleet: true, ..report(109, 109) });
    assert_eq!(bids.fleet(), Some(Duration::from_millis(109)), "before the first answer");
    for (took, says) in [(37, true), (36, false), (12, false)] {
        bids.took = Some(f64::from(took) / 1e3);
        assert_eq!(bids.fleet().is_some(), says, "{took} ms: three times that");
    }
    bids.observe(&LoadReport { fleet: true, ..report(109, 50) });
    assert_eq!(bids.heard, {
        let mut heard = hearing(0.1, 16, &report(109, 109)).heard;
        heard.observe(0.109);
        heard
    });
}

#[test]
fn the_fleets_execution_time_is_the_mean_of_what_was_reported_first_and_then_of_the_last_fifty() {
    let mut bids = Bids::new(0.0);
    assert_eq!(bids.fleet(), None);
    for (millis, mean) in [(10, 10), (20, 15), (30, 20)] {
        bids.observe(&report(100, millis));
        assert_eq!(bids.fleet(), Some(Duration::from_millis(mean)));
    }
    (0..100).for_each(|_| bids.observe(&report(100, 20)));
    bids.observe(&report(100, 70));
    assert_eq!(bids.fleet(), Some(Duration::from_millis(21)));
}

/// Sends requests one after the other to servers that take `expected` for an attempt, 10 ms of it
/// in the application. Servers that would take longer than the bid bounce the attempt in `bounce`.
/// Returns the number of bounces.
fn exchanges(bids: &mut Bids, requests: usize, bounce: Duration, mut expected: impl FnMut(usize) -> u32) -> usize {
    let mut bounces = 0;
    for _ in 0..requests {
        let mut attempt = 0;
        let took = loop {
            let took = expected(attempt);
            if bid(bids, attempt).is_none_or(|bid| f64::from(took) <= bid) {
                break took;
            }
            bids.bounced(bounce);
            bids.observe(&report(took, 10));
            (attempt, bounces) = (attempt + 1, bounces + 1);
        };
        bids.served(Duration::from_millis(took.into()));
        bids.observe(&report(expected(3), 10));
    }
    bounces
}

/// The first three servers are busy.
fn busy(attempt: usize) -> u32 {
    if attempt < 3 { 60 } else { 40 }
}

#[test]
fn bids_resume_soon_after_a_stall() {
    let fast = Duration::from_micros(500);
    for (slow, stalled) in [(20, 1), (50, 1), (50, 30), (200, 30)] {
        // The slow bounces are the first ones, or come later.
        for before in [0, 1000] {
            let mut bids = hearing(0.1, 16, &report(40, 10));
            exchanges(&mut bids, before, fast, busy);
            (0..stalled).for_each(|_| bids.bounced(Duration::from_millis(slow)));
            // One request in 20 for each 2 ms that a bounce is believed to cost.
            let soon = 20 * usize::try_from(slow).unwrap() / 2;
            exchanges(&mut bids, soon + 10, fast, busy);
            let bounces = exchanges(&mut bids, 10, fast, busy);
            assert!(bounces >= 10, "{stalled} of {slow} ms after {before} requests: {bounces}");
        }
    }
}

#[test]
fn rarely_tries_bounces_that_cost_more_than_they_save() {
    for (millis, most) in [(16, 125), (20, 100), (200, 10), (1000, 2)] {
        let mut rng = fastrand::Rng::with_seed(3);
        let mut bids = hearing(0.1, 16, &report(60, 10));
        let bounce = Duration::from_millis(millis);
        let mut expected = |_| if rng.bool() { 40 } else { 60 };
        // Each of the first bounces raises the mean by at most a third.
        let first = exchanges(&mut bids, 20_000, bounce, &mut expected);
        println!("{millis} ms: {first} of the first 20000");
        assert!(first <= most + 16, "{first} bounces of {millis} ms at first");
        let bounces = exchanges(&mut bids, 20_000, bounce, &mut expected);
        println!("{millis} ms: {bounces} of 20000");
        assert!((1..=most).contains(&bounces), "{bounces} bounces of {millis} ms");
    }
}

/// A bounced HTTP/1.1 upload is answered after its body has arrived, or after a second, whatever a
/// bounce costs.
#[test]
fn a_few_slow_uploads_do_not_stop_bidding_for_other_requests() {
    let (mut bids, mut without) = (hearing(0.1, 16, &report(40, 10)), 0);
    for request in 0..20_000 {
        without += usize::from(request > 5000 && bid(&bids, 0) >= Some(60.0));
        exchanges(&mut bids, 1, Duration::from_micros(500), busy);
        // One in 200, from a slow client.
        if request % 200 == 0 {
            bids.bounced(Duration::from_secs(1));
        }
    }
    assert!(without < 150, "{without} of 15000 requests do not bid");
}

#[test]
fn makes_no_probing_bids_where_bids_save_nothing() {
    let mut bids = hearing(0.1, 16, &report(4, 2));
    bids.bounced(Duration::from_millis(20));
    for _ in 0..10_000 {
        bids.served(Duration::from_millis(4));
        bids.observe(&report(4, 2));
        assert!(bid(&bids, 0) > Some(4.0));
    }
}

#[test]
fn believes_a_report_up_to_four_times_what_own_requests_take() {
    let liar = LoadReport { execution: Some(Duration::from_secs(1 << 30)), ..report(u32::MAX, 50) };
    let mut bids = Bids::new(0.1);
    bids.observe(&liar);
    bids.served(Duration::from_millis(100));
    assert_eq!(bids.execution, Some(0.4), "four times as long");
    (0..7).for_each(|_| bids.observe(&liar));
    assert_eq!(bid(&bids, 0), Some(442.5), "four times as long, 2.5 ms, and a tenth of 400 ms");
}

#[test]
fn one_liar_among_ten_changes_the_first_bids_little() {
    let liar = LoadReport { execution: Some(Duration::from_secs(1 << 30)), ..report(u32::MAX, 50) };
    let mut bids = Bids::new(0.0);
    for _ in 0..100 {
        for _ in 0..9 {
            bids.observe(&report(200, 50));
            if let (Some(first), Some(third)) = (bid(&bids, 0), bid(&bids, 2)) {
                assert!((202.5..220.0).contains(&first) && third < 300.0, "{first}, {third}");
            }
        }
        bids.served(Duration::from_millis(200));
        bids.observe(&liar);
    }
}

#[test]
fn counts_as_a_bounce_only_with_a_bid_of_at_most_twice_the_wait() {
    let bid = |millis| Some(Duration::from_millis(millis).into());
    assert!(is_bounce(bid(100), &report(101, 50)));
    assert!(is_bounce(bid(100), &report(50, 50)), "the queue has moved meanwhile");
    assert!(!is_bounce(bid(101), &report(50, 50)), "it would have been fast enough");
    assert!(!is_bounce(None, &report(101, 50)), "there was no bid");
    let held = LoadReport { held: true, ..report(50, 50) };
    assert!(is_bounce(bid(101), &held), "the request was held for longer than the queue seemed");
    assert!(!is_bounce(None, &held));
    assert!(is_bounce(bid(100), &LoadReport::default()), "the report has no numbers");
    let among = |most, fleet| Some(Bid { fleet: Some(Duration::from_millis(fleet)), ..bid(most).unwrap() });
    let fast = LoadReport { fleet: true, ..report(100, 50) };
    assert!(is_bounce(among(400, 100), &fast), "it may take itself to be like the fleet");
    assert!(!is_bounce(among(401, 100), &fast));
}
