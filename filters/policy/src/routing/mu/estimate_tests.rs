//! What a sender believes about one server, report by report.

use super::*;
use crate::units::Ratio;

const NO_LIMIT: Limit = Limit(f64::INFINITY);

fn at(millis: u64) -> Timestamp {
    Timestamp::ZERO.after(Duration::from_millis(millis))
}

/// A service whose servers have this mean queue and serve one request a second.
fn fleet(wait: f64, senders: f64) -> Fleet {
    Fleet { wait, senders, ..Fleet::new(Duration::from_millis(200)) }
}

fn heard(queue: u32, pending: u32) -> Estimate {
    let mut estimate = Estimate::default();
    estimate.observe(&LoadReport { queue: Some(queue), ..LoadReport::default() }, pending, NO_LIMIT, at(0));
    estimate
}

#[test]
fn the_queue_estimate_adds_own_requests_and_those_of_other_senders() {
    // Seven besides the answered one, two of them this sender's: five are other senders'.
    let mut estimate = heard(7, 3);
    assert_eq!(estimate.standing(2).known_queue(&fleet(9.0, 1.0), 1.0, at(0)), 7.0);
    estimate.sent(3, at(0));
    assert_eq!(estimate.standing(3).known_queue(&fleet(9.0, 1.0), 1.0, at(0)), 8.0);
    assert_eq!(estimate.standing(0).unknown_queue(&fleet(9.0, 1.0), at(0)), 0.0);
    assert_eq!(estimate.standing(0).unknown_queue(&fleet(9.0, 10.0), at(0)), 9.0, "each own request stands for ten");
    estimate.observe(&LoadReport { queue: Some(0), ..LoadReport::default() }, 3, NO_LIMIT, at(1));
    assert_eq!(estimate.standing(0).unknown_queue(&fleet(9.0, 10.0), at(0)), 0.0, "a report covers all requests");
}

#[test]
fn an_old_queue_report_decays_to_the_other_senders_mean_queue() {
    for said in [0u32, 20] {
        // Ten on average, nine tenths of them from others.
        let (estimate, fleet) = (heard(said, 1), fleet(10.0, 10.0));
        let queues: Vec<f64> =
            [0, 1000, 2000, 9000].iter().map(|&ms| estimate.standing(0).known_queue(&fleet, 1.0, at(ms))).collect();
        let halfway = (f64::from(said) + 9.0) / 2.0;
        for (queue, expected) in queues.iter().zip([f64::from(said), halfway, 9.0, 9.0]) {
            assert!((queue - expected).abs() < 1e-9, "{queues:?}");
        }
    }
}

#[test]
fn a_lone_gateway_knows_its_queues_exactly() {
    let estimate = heard(4, 5);
    assert_eq!(estimate.standing(4).known_queue(&fleet(10.0, 1.0), 1.0, at(60_000)), 4.0);
    assert_eq!(Estimate::default().standing(0).known_queue(&fleet(10.0, 1.0), 1.0, at(0)), 0.0);
}

#[test]
fn assumes_the_other_senders_mean_queue_at_a_new_server() {
    assert_eq!(Estimate::default().standing(0).known_queue(&fleet(4.0, 2.0), 2.0, at(0)), 4.0, "half of 4 s at 2/s");
}

#[test]
fn a_reported_service_rate_overrides_the_derived_one() {
    let mut estimate = Estimate::default();
    assert_eq!(estimate.standing(0).service_rate(), 0.0);
    let report = LoadReport { queue: Some(0), rate: Some(10.0), confidence: Ratio::new(0.5), ..LoadReport::default() };
    estimate.observe(&report, 1, NO_LIMIT, at(0));
    assert_eq!(estimate.standing(0).service_rate(), 20.0);
    estimate.observe(&LoadReport { service: Some(34.0), ..report }, 1, NO_LIMIT, at(0));
    assert_eq!(estimate.standing(0).service_rate(), 34.0);
}

fn says(queue: u32, service: f64) -> LoadReport {
    LoadReport { queue: Some(queue), service: Some(service), ..LoadReport::default() }
}

/// The believed response time of the next request, in seconds, at a server with this report,
/// whose first answer took 100 ms.
fn believed(report: &LoadReport, limit: Limit) -> f64 {
    let mut estimate = Estimate::default();
    estimate.sent(1, at(0));
    estimate.answered(at(100));
    estimate.observe(report, 1, limit, at(100));
    let (standing, fleet) = (estimate.standing(0), fleet(0.0, 1.0));
    (standing.known_queue(&fleet, standing.service_rate(), at(100)) + 1.0) / standing.service_rate()
}

#[test]
fn keeps_the_expected_response_time_within_four_times_the_observed() {
    let honest = believed(&says(1, 20.0), NO_LIMIT);
    assert!((honest - 0.1).abs() < 1e-9, "{honest}");
    for (report, expected) in
        [(says(0, 1e15), 0.025), (says(9, 1e15), 0.025), (says(0, 1e-3), 0.4), (says(9, 1e-3), 0.4)]
    {
        let believed = believed(&report, NO_LIMIT);
        assert!((believed - expected).abs() < 1e-9, "{report:?}: {believed}");
    }
}

#[test]
fn believes_a_huge_queue_only_up_to_a_few_times_the_mean() {
    let limited = |servers, mean| {
        let mut estimate = Estimate::default();
        estimate.observe(&says(u32::MAX, 20.0), 1, Limit::new(servers, mean), at(0));
        estimate.standing(0).known_queue(&fleet(0.0, 1.0), 1.0, at(0))
    };
    assert_eq!([limited(100, 2.0), limited(4, 2.0), limited(1, 2.0)], [72.0, 36.0, 18.0]);
}

#[test]
fn forgets_a_server_after_ten_reset_intervals_without_a_report() {
    let (mut estimate, reset) = (Estimate::default(), Duration::from_millis(200));
    estimate.observe(&says(9, 1.0), 1, NO_LIMIT, at(0));
    assert!(!estimate.forget(reset, at(2000)));
    assert_eq!(estimate.standing(0).service_rate(), 1.0);
    assert!(estimate.forget(reset, at(2001)));
    assert_eq!(estimate, Estimate::default());
    assert!(!estimate.forget(reset, at(9000)), "there is nothing to forget");
}

/// What a sender believes about a server after this report in answer to one of `pending` requests,
/// with an answer every 250 ms: the service rate, and the requests of others.
fn taken_for(report: &LoadReport, pending: u32) -> [f64; 2] {
    let mut estimate = Estimate::default();
    estimate.sent(1, at(0));
    estimate.answered(at(250));
    estimate.observe(report, pending, NO_LIMIT, at(250));
    let standing = estimate.standing(0);
    [standing.service_rate(), standing.known_queue(&fleet(0.0, 1.0), 1.0, at(250))]
}

#[test]
fn believes_a_rate_of_four_times_the_observed_pace_and_no_more() {
    // One request of another sender before this sender's: two requests in 250 ms are eight a
    // second.
    assert_eq!(taken_for(&says(1, 32.0), 1), [32.0, 1.0]);
    assert_eq!(taken_for(&says(1, 34.0), 1), [16.0, 0.0], "beyond that none of its numbers is believed");
    // Two more requests of this sender, one answered every 250 ms: six requests in 750 ms.
    assert_eq!(taken_for(&says(5, 32.0), 3), [32.0, 3.0]);
    assert_eq!(taken_for(&says(5, 34.0), 3), [16.0, 0.0]);
    assert_eq!(taken_for(&says(5, 0.1), 3), [2.0, 3.0], "six in no more than four times 750 ms");
}

#[test]
fn an_answer_in_zero_time_does_not_limit_the_believed_rate() {
    let mut estimate = Estimate::default();
    estimate.sent(1, at(100));
    estimate.answered(at(100));
    estimate.observe(&says(0, 20.0), 1, NO_LIMIT, at(100));
    assert_eq!(estimate.standing(0).service_rate(), 20.0);
}

#[test]
fn the_pace_averages_gaps_only_while_a_request_is_pending() {
    let mut estimate = Estimate::default();
    estimate.sent(1, at(1_000));
    estimate.sent(2, at(1_050));
    estimate.answered(at(1_100));
    assert_eq!(estimate.gap, Some(0.1), "from the first of them on");
    estimate.answered(at(1_300));
    assert!((estimate.gap.unwrap() - 0.15).abs() < 1e-12, "the first two count equally");
    (0..9).for_each(|n| estimate.answered(at(1_300 + 150 * (n + 1))));
    estimate.answered(at(2_850));
    assert!((estimate.gap.unwrap() - 0.165).abs() < 1e-12, "0.15 and 0.3 of what 0.2 exceeds it by");
    // A pause is no gap, and a short one changes nothing.
    estimate.sent(1, at(2_900));
    estimate.answered(at(3_065));
    assert!((estimate.gap.unwrap() - 0.165).abs() < 1e-6);
}

#[test]
fn the_pace_before_a_pause_counts_for_little() {
    let mut estimate = Estimate::default();
    for now in (0..20_000).step_by(2_000) {
        estimate.sent(1, at(now));
        estimate.answered(at(now + 2_000));
    }
    assert!((estimate.gap.unwrap() - 2.0).abs() < 1e-9);
    let after = |pause: u64| {
        let mut estimate = estimate;
        estimate.sent(1, at(20_000 + pause));
        estimate.answered(at(20_050 + pause));
        estimate.gap.unwrap()
    };
    assert!((after(0) - 1.415).abs() < 1e-9, "0.3 of what 50 ms are less");
    assert!(after(2_000) < 1.3 && after(5_000) < 0.25 && after(10_000) < 0.07);
}

#[test]
fn requests_assumed_of_other_senders_age_from_the_first_own_request() {
    let fleet = fleet(0.0, 3.0);
    let others = |estimate: &Estimate, ms| estimate.standing(0).unknown_queue(&fleet, at(ms));
    let mut estimate = Estimate::default();
    estimate.sent(1, at(0));
    estimate.sent(2, at(500));
    // Two own requests, two other senders; half is forgotten after a second.
    assert_eq!([others(&estimate, 0), others(&estimate, 1_000), others(&estimate, 9_000)], [4.0, 2.0, 0.0]);
    estimate.ended(1);
    assert_eq!(others(&estimate, 1_000), 1.0, "one own request has ended");
    estimate.served_without_report(at(1_000));
    assert_eq!(others(&estimate, 1_000), 2.0, "it has been answered, so the others are served, too");
}

#[test]
fn a_forgotten_server_keeps_the_requests_sent_to_it() {
    let mut estimate = Estimate::default();
    estimate.observe(&says(9, 1.0), 1, NO_LIMIT, at(0));
    estimate.sent(1, at(1_000));
    assert!(estimate.forget(Duration::from_millis(200), at(2_001)));
    assert_eq!(estimate.standing(1).unknown_queue(&fleet(0.0, 3.0), at(2_000)), 1.0);
    estimate.answered(at(2_500));
    assert_eq!(estimate.gap, Some(1.5), "from when it was sent");
}

#[test]
fn a_server_of_unknown_speed_is_assumed_as_fast_as_the_fastest() {
    let fleet = Fleet { most: 8.0, ..fleet(0.0, 1.0) };
    assert_eq!(Estimate::default().standing(1).expected(&fleet, at(0)), 0.25);
    let mut slow = Estimate::default();
    slow.observe(&says(0, 2.0), 1, NO_LIMIT, at(0));
    assert_eq!(slow.standing(1).expected(&fleet, at(0)), 1.0);
}

#[test]
fn an_avoided_server_may_be_probed_once_its_time_has_come() {
    let open = Estimate::default().standing(3);
    assert!(!open.is_shut() && !open.may_be_probed(at(9)));
    let shut = open.shut(Some(at(5)));
    assert_eq!((shut.is_shut(), shut.shut_until(), shut.pending()), (true, at(5), 3));
    assert_eq!([4, 5, 6].map(|ms| shut.may_be_probed(at(ms))), [false, true, true]);
    assert!(!shut.shut(None).is_shut());
}

#[test]
fn rates_are_rounded_to_sixteenths_of_a_power_of_two() {
    for (rate, step) in [(1.0, 1.0), (1.03, 1.0), (1.04, 1.0625), (1.96, 1.9375), (1.97, 2.0), (34.9, 34.0)] {
        assert_eq!(rounded(rate), step, "{rate}");
    }
}
