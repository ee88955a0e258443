//! The work of a thread's requests: exact with one thread, approximate with several.

use super::*;
use std::collections::VecDeque;
use std::time::Duration;

fn at(millis: u64) -> Timestamp {
    Timestamp::ZERO.after(Duration::from_millis(millis))
}

fn requests(n: u32) -> Concurrency {
    Concurrency::new(n)
}

fn near(work: f64, seconds: f64) {
    assert!((work - seconds).abs() < 1e-9, "{work}, not {seconds}");
}

#[test]
fn requests_share_the_places_and_have_one_each_where_there_are_enough() {
    let (mut work, places) = (Work::default(), requests(2));
    for others in 0..3 {
        work.arrive(requests(others), true, places, at(1_000));
    }
    let all = work.seconds();
    work.leave(requests(2), places, at(1_300));
    near(work.seconds() - all, 0.2);
    work.leave(requests(1), places, at(1_400));
    near(work.seconds() - all, 0.3);
    work.leave(requests(0), places, at(1_450));
    near(work.seconds() - all, 0.35);
    work.arrive(requests(0), true, places, at(9_000));
    let one = work.seconds();
    work.leave(requests(0), places, at(9_100));
    near(work.seconds() - one, 0.1);
}

#[test]
fn between_two_events_the_number_of_others_is_the_mean_of_both() {
    let (mut work, places) = (Work::default(), requests(1));
    work.arrive(requests(3), true, places, at(0));
    work.leave(requests(0), places, at(1_000));
    near(work.seconds(), f64::midpoint(0.25, 1.0));
    work.arrive(requests(1), true, places, at(1_000));
    let one = work.seconds();
    work.leave(requests(2), places, at(1_600));
    near(work.seconds() - one, 0.6 * f64::midpoint(0.5, 1.0 / 3.0));
}

#[test]
fn a_rejected_request_does_not_count() {
    let (mut work, places) = (Work::default(), requests(1));
    work.arrive(requests(1), true, places, at(0));
    work.arrive(requests(2), false, places, at(100));
    let one = work.seconds();
    work.leave(requests(1), places, at(300));
    near(work.seconds() - one, 0.2 / 2.0);
}

/// What each thread of a server with a queue inside measures, relative to the mean execution time.
/// The threads have these `shares` of the requests, at 90% load.
fn threads(places: u32, shares: &[f64], draw: impl Fn(&mut fastrand::Rng) -> f64) -> Vec<f64> {
    let mut rng = fastrand::Rng::with_seed(7);
    let gap = |rng: &mut fastrand::Rng| -(1.0 - rng.f64()).ln() / (0.9 * f64::from(places));
    let time = |seconds: f64| Timestamp::ZERO.after(Duration::from_secs_f64(seconds));
    let mut works = vec![(Work::default(), 0.0, 0.0); shares.len()];
    let (mut line, mut inside) = (VecDeque::new(), Vec::<(f64, (usize, f64))>::new());
    let (mut next, mut all, mut served) = (gap(&mut rng), 0.0, 0.0);
    let c = requests(places);
    while served < 60_000.0 {
        let first = inside.iter().copied().enumerate().min_by(|a, b| a.1.0.total_cmp(&b.1.0));
        let n = (line.len() + inside.len()) as u32;
        let mut begun = None;
        if let Some((index, (now, (thread, came)))) = first.filter(|first| first.1.0 < next) {
            inside.swap_remove(index);
            served += 1.0;
            let (work, seconds, answers) = &mut works[thread];
            work.leave(requests(n - 1), c, time(now));
            *seconds += work.seconds() - came;
            *answers += 1.0;
            begun = line.pop_front().map(|request| (now, request));
        } else {
            let mut left = rng.f64();
            let thread = shares.iter().position(|share| {
                left -= share;
                left < 0.0
            });
            let thread = thread.unwrap_or(0);
            works[thread].0.arrive(requests(n), true, c, time(next));
            let request = (thread, works[thread].0.seconds());
            if n < places {
                begun = Some((next, request));
            } else {
                line.push_back(request);
            }
            next += gap(&mut rng);
        }
        if let Some((now, request)) = begun {
            let seconds = draw(&mut rng);
            all += seconds;
            inside.push((now + seconds, request));
        }
    }
    works.iter().map(|(_, seconds, answers)| seconds / answers / (all / served)).collect()
}

#[test]
fn one_thread_is_exact_and_four_are_near_for_any_times() {
    let exponential = |rng: &mut fastrand::Rng| -(1.0 - rng.f64()).ln();
    let two_kinds = |rng: &mut fastrand::Rng| (if rng.f64() < 0.05 { 400.0 } else { 10.0 }) / 29.5;
    for places in [1, 4] {
        let times = |shares: &[f64]| {
            [threads(places, shares, |_| 1.0), threads(places, shares, exponential), threads(places, shares, two_kinds)]
        };
        for one in times(&[1.0]).concat() {
            assert!((one - 1.0).abs() < 0.003, "{one}, {places} places");
        }
        for (four, bound) in times(&[0.7, 0.2, 0.08, 0.02]).iter().zip([0.05, 0.01, 0.065]) {
            assert!((four[0] - 1.0).abs() < 0.005, "the thread with most requests: {four:?}");
            assert!(four.iter().all(|of| (of - 1.0).abs() < bound), "{four:?}, {places} places");
        }
    }
}
