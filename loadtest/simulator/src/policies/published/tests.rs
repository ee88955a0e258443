use super::*;

const SERVICE: Duration = Duration::from_millis(250);

fn rng() -> fastrand::Rng {
    fastrand::Rng::with_seed(1)
}

/// Records `answers` answers of a server that works on one request at a time and is as full as the
/// estimator allows; returns the limit after each.
fn full(estimator: &mut impl Estimator, answers: usize, rng: &mut fastrand::Rng) -> Vec<f64> {
    let mut limits = Vec::with_capacity(answers);
    for _ in 0..answers {
        let in_flight = estimator.limit() as u32;
        estimator.record(SERVICE * in_flight, in_flight, rng);
        limits.push(estimator.limit());
    }
    limits
}

#[test]
fn aimd_falls_on_delay_and_climbs_otherwise() {
    let mut aimd = Aimd::new(Duration::from_secs(2), 1);
    let mut record = |millis, in_flight| {
        aimd.record(Duration::from_millis(millis), in_flight, &mut rng());
        aimd.limit()
    };
    assert_eq!(record(2000, 20), 21.0);
    assert_eq!(record(2001, 1), 18.0, "a tenth less, whole requests");
    assert_eq!(record(100, 8), 18.0, "ignored: less than half full");
    assert_eq!(record(100, 9), 19.0);
    let limits: Vec<f64> = (0..50).map(|_| record(3000, 20)).collect();
    assert_eq!(limits.last(), Some(&1.0), "never below the least");
    assert_eq!((0..300).map(|_| record(1, 200)).last(), Some(MOST));
    assert_eq!(full(&mut Aimd::new(Duration::from_secs(5), 20), 100, &mut rng()).last(), Some(&20.0), "its default");
}

#[test]
fn aimd_stays_within_one_request_of_what_meets_the_timeout() {
    let limits = full(&mut Aimd::new(Duration::from_secs(2), 1), 200, &mut rng());
    assert!(limits[50..].iter().all(|limit| (8.0..=9.0).contains(limit)), "{limits:?}");
}

#[test]
fn vegas_settles_at_a_short_queue_and_grows_at_later_probes() {
    let (mut vegas, mut rng) = (Vegas::default(), rng());
    vegas.record(SERVICE, 1, &mut rng);
    assert_eq!(vegas.limit(), START, "the first answer is the fastest so far");
    // The limit falls by one with each answer, from 20 to 7. The first probe comes after at least
    // 15 * 7 answers.
    let limits = full(&mut vegas, 100, &mut rng);
    assert!(limits[20..].iter().all(|&limit| limit == 7.0), "{limits:?}");
    // A probe takes the response time of the full server for that of an idle one, so the limit
    // grows by 6 or more each time.
    let limits = full(&mut vegas, 1000, &mut rng);
    assert!(limits.is_sorted() && limits[999] >= 19.0, "{limits:?}");
    // An answer of an idle server corrects this.
    vegas.record(SERVICE, 1, &mut rng);
    assert_eq!(full(&mut vegas, 5, &mut rng)[4], limits[999] - 5.0);
}

#[test]
fn vegas_keeps_its_limit_while_the_server_is_under_half_full() {
    let (mut vegas, mut rng) = (Vegas::default(), rng());
    (0..50).for_each(|_| vegas.record(SERVICE, 9, &mut rng));
    assert_eq!(vegas.limit(), START);
    vegas.record(SERVICE, 10, &mut rng);
    assert_eq!(vegas.limit(), START + 6.0);
}

#[test]
fn gradient2_grows_without_delay_and_shrinks_with_it() {
    let (mut gradient, mut rng) = (Gradient2::new(1), rng());
    gradient.record(SERVICE, 20, &mut rng);
    assert!((gradient.limit() - 20.8).abs() < 1e-9, "0.2 * 4 more");
    gradient.record(SERVICE * 8, 10, &mut rng);
    assert!((gradient.limit() - 20.8).abs() < 1e-9, "ignored: less than half full");
    gradient.record(SERVICE * 100, 20, &mut rng);
    // The gradient is at least 0.5: 20.8 * (0.8 + 0.2 * 0.5) + 0.8.
    assert!((gradient.limit() - 19.52).abs() < 1e-9, "{}", gradient.limit());
    let mut steady = Gradient2::new(20);
    (0..300).for_each(|_| steady.record(SERVICE, 200, &mut rng));
    assert_eq!(steady.limit(), MOST);
}

#[test]
fn gradient2_settles_and_then_drifts_up_on_a_full_server() {
    let (mut gradient, mut rng) = (Gradient2::new(1), rng());
    // Calibrated on an idle server: a baseline of one service time.
    (0..50).for_each(|_| gradient.record(SERVICE, 1, &mut rng));
    let limits = full(&mut gradient, 1200, &mut rng);
    assert!((3.0..=10.0).contains(&limits[50]), "{limits:?}");
    // The baseline comes to include the queue: about 4 requests more in 300 answers, without limit.
    assert!(limits[1199] - limits[599] > 5.0 && limits[1199] < 40.0, "{} to {}", limits[599], limits[1199]);
    let before = gradient.long;
    gradient.record(SERVICE, 1, &mut rng);
    assert!(gradient.long < 0.91 * before, "a fast answer brings it down at once");
}

#[test]
fn admits_and_grants_chips_up_to_the_estimated_limit() {
    let headroom = Ratio::new(0.8).unwrap();
    let mut server = Limited::new(Aimd::new(Duration::from_secs(2), 1), headroom);
    let (mut rng, at) = (rng(), |seconds| Timestamp::ZERO.after(Duration::from_secs(seconds)));
    for request in 0..20 {
        assert_eq!(server.arrive(request, None, at(0), &mut rng), Verdict::Admitted);
    }
    let full = LoadReport { queue: Some(20), capacity: Some(20), ..LoadReport::default() };
    assert_eq!(server.arrive(20, None, at(0), &mut rng), Verdict::Rejected(full));
    let report = server.answer(0, at(3), &mut rng).unwrap();
    assert_eq!((report.chip, report.queue, report.capacity), (false, Some(19), Some(18)), "late: a tenth less");
    for request in 1..20 {
        server.answer(request, at(3), &mut rng);
    }
    assert_eq!(server.in_flight, 0);
    assert_eq!(server.arrive(20, None, at(4), &mut rng), Verdict::Admitted);
    assert!(server.answer(20, at(4), &mut rng).unwrap().chip, "an empty server always grants one");
}
