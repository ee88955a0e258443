//! How many places an application has: the levels, the likelihood, and simulated servers.

use super::*;
use bloc_figures::service_time::{self, ServiceTime};
use std::collections::VecDeque;

fn met(n: u32) -> Concurrency {
    Concurrency::new(n)
}

/// A thread has heard of this many requests that met this many others and took this many
/// milliseconds.
fn heard(requests: &[(u32, u32, u64)]) -> Places {
    let mut places = Places::default();
    observe(&mut places, requests);
    places
}

fn observe(places: &mut Places, requests: &[(u32, u32, u64)]) {
    for &(number, others, millis) in requests {
        for _ in 0..number {
            places.arrived(met(others));
            places.observe(met(others), Duration::from_millis(millis));
        }
    }
}

/// Least, in force, and sure.
fn all(places: &Places) -> (u32, u32, Option<u32>) {
    (places.least().get(), places.in_force().get(), places.sure().map(Concurrency::get))
}

#[test]
fn up_to_seven_requests_have_a_level_each_and_then_four_an_octave() {
    for (n, of) in [(0, 0), (1, 0), (2, 1), (3, 2), (4, 3), (5, 4), (6, 5), (7, 6), (8, 7), (9, 7), (10, 8), (15, 10)] {
        assert_eq!(level(n), of, "{n}");
    }
    for (n, of) in [(16, 11), (19, 11), (20, 12), (31, 14), (32, 15), (2_047, 38), (2_048, 39), (u32::MAX, 39)] {
        assert_eq!(level(n), of, "{n}");
    }
    let values = (0..15).map(requests).collect::<Vec<_>>();
    assert_eq!(values, [1, 2, 3, 4, 5, 6, 7, 9, 11, 13, 15, 18, 22, 26, 30]);
    assert!((0..LEVELS).all(|of| level(requests(of)) == of));
}

#[test]
fn cold_it_is_one_place_and_then_as_many_as_were_met() {
    let mut places = Places::default();
    assert_eq!(all(&places), (1, 1, None));
    places.arrived(met(5));
    assert_eq!(all(&places), (1, 6, None));
    places.arrived(met(2));
    assert_eq!(all(&places), (1, 6, None));
}

#[test]
fn the_likelihood_is_compared_with_bars_of_three() {
    // With the noise of 0.3, each pair of requests makes two places more likely than one by 0.118.
    let two = |number| {
        let mut places = heard(&[(number, 0, 100), (number, 1, 100)]);
        assert_eq!(places.measure(0.0), 1.0);
        all(&places)
    };
    assert_eq!(two(7), (1, 2, None));
    assert_eq!(two(8), (2, 2, None), "at least two, and as many as were met");
    let one = |number, noise| {
        let mut places = heard(&[(number, 0, 100), (number, 1, 200)]);
        ((12.0 * places.measure(noise)).round(), all(&places))
    };
    assert_eq!(one(7, 0.3), (12.0, (1, 2, None)));
    // With one place, each took 100 ms of it; with two, 150 ms.
    assert_eq!(one(8, 0.3), (8.0, (1, 1, Some(1))));
    assert_eq!(one(25, 1.0), (12.0, (1, 2, None)));
    assert_eq!(one(26, 1.0), (8.0, (1, 1, Some(1))));
}

#[test]
fn the_best_is_sure_when_half_and_twice_as_many_are_less_likely() {
    // Response times of two places.
    let line = |number| [(number, 0, 100), (number, 1, 100), (number, 2, 150), (number, 3, 200)];
    for (number, expected) in [(17, (2, 4, None)), (18, (2, 3, Some(2))), (36, (2, 3, Some(2))), (37, (2, 2, Some(2)))]
    {
        let mut places = heard(&line(number));
        places.measure(1.0);
        assert_eq!(all(&places), expected, "{number}");
    }
    // Nothing contradicts more places if they were never all taken.
    let mut places = heard(&[(100, 0, 100), (100, 1, 100), (100, 2, 100)]);
    places.measure(1.0);
    assert_eq!(all(&places), (3, 3, None));
    // If there was always a queue, nothing contradicts any number.
    let mut places = heard(&[(100, 6, 700), (100, 10, 1_100)]);
    places.measure(1.0);
    assert_eq!(all(&places), (1, 9, None));
}

#[test]
fn a_batch_has_1000_requests_and_counts_for_a_tenth_less_after_each_other() {
    let mut places = heard(&[(999, 0, 100)]);
    places.measure(1.0);
    assert_eq!(places.batch[0].0, 999.0);
    observe(&mut places, &[(1, 3, 100)]);
    places.measure(1.0);
    assert_eq!(places.batch[0], (0.0, 0.0));
    assert_eq!(all(&places), (1, 4, None), "the highest level of the last batch");
    let first = places.past[0] - places.past[1];
    // The request that met three others took 25 ms of one place, or 50 ms of two.
    let likelihood = |places: f64| places.ln() - 1000.0 * (99.9 + 0.025 * places).ln();
    assert!((first - 0.9 * (likelihood(1.0) - likelihood(2.0))).abs() < 1e-9, "{first}");
    observe(&mut places, &[(1000, 0, 100)]);
    places.measure(1.0);
    let second = places.past[0] - places.past[1];
    assert!((second - 0.9 * first).abs() < 1e-9, "{second}: requests that meet none tell nothing");
    assert_eq!(all(&places), (1, 1, None), "nobody has met three others for a batch");
}

#[test]
fn a_batch_that_contradicts_the_past_replaces_it() {
    let of = |places: u64| {
        [0_u32, 1, 2, 3, 4, 5, 6].map(|others| (150, others, 100 * u64::from(others + 1).max(places) / places))
    };
    let mut places = heard(&of(1));
    for _ in 0..5 {
        places.measure(1.0);
        observe(&mut places, &of(1));
    }
    places.measure(1.0);
    assert_eq!(all(&places), (1, 1, Some(1)));
    observe(&mut places, &of(4));
    let by = places.measure(0.3);
    assert_eq!(all(&places), (4, 4, Some(4)));
    // Each took 100 ms of a place. With one place that would have been 100, 50, 33, 25, 25, 25, 25.
    let one: f64 = 100.0 + 50.0 + 100.0 / 3.0 + 4.0 * 25.0;
    assert!((by - 700.0 / one).abs() < 1e-9, "{by}");
}

#[test]
fn is_harmless_with_any_input() {
    let mut places = Places::default();
    assert_eq!(places.measure(f64::NAN), 1.0);
    for took in [Duration::ZERO, Duration::MAX, Duration::ZERO] {
        for others in [0, 1, u32::MAX] {
            for noise in [f64::NAN, f64::INFINITY, -1.0, 0.0, f64::MAX] {
                for _ in 0..200 {
                    places.arrived(met(others));
                    places.observe(met(others), took);
                }
                let by = places.measure(noise);
                assert!(by.is_finite() && by > 0.0, "{by}, {others}, {took:?}, {noise}");
                assert!((1..=2_304).contains(&places.in_force().get()), "{places:?}");
            }
        }
    }
    let mut standing = heard(&[(1_000, 5, 0)]);
    assert_eq!(standing.measure(1.0), 1.0, "a clock that stands still");
    assert_eq!(all(&standing), (1, 6, None));
}

/// A simulated server: `places`, load in percent, and what its requests take.
#[derive(Clone, Copy)]
struct Application {
    places: u32,
    load: f64,
    draw: fn(&mut fastrand::Rng) -> f64,
    /// The squared coefficient of variation.
    noise: f64,
}

/// One thread's `places` after `answers` of its own requests, which are a `share` of all.
fn serve(places: &mut Places, of: Application, answers: u32, share: f64, seed: u64) {
    let mut rng = fastrand::Rng::with_seed(seed);
    let gap = |rng: &mut fastrand::Rng| -(1.0 - rng.f64()).ln() / (of.load * f64::from(of.places));
    let (mut line, mut inside) = (VecDeque::new(), Vec::<(f64, (f64, u32, bool))>::new());
    let (mut next, mut heard) = (gap(&mut rng), 0);
    while heard < answers {
        let first = inside.iter().copied().enumerate().min_by(|a, b| a.1.0.total_cmp(&b.1.0));
        let n = (line.len() + inside.len()) as u32;
        let mut begun = None;
        if let Some((index, (now, (came, others, own)))) = first.filter(|first| first.1.0 < next) {
            inside.swap_remove(index);
            if own {
                places.observe(met(others), Duration::from_secs_f64(now - came));
                heard += 1;
                if heard % 40 == 0 {
                    places.measure(of.noise);
                }
            }
            begun = line.pop_front().map(|request| (now, request));
        } else {
            let request = (next, n, rng.f64() < share);
            if request.2 {
                places.arrived(met(n));
            }
            if n < of.places {
                begun = Some((next, request));
            } else {
                line.push_back(request);
            }
            next += gap(&mut rng);
        }
        if let Some((now, request)) = begun {
            inside.push((now + (of.draw)(&mut rng), request));
        }
    }
}

fn exponential(rng: &mut fastrand::Rng) -> f64 {
    service_time::exponential(Duration::from_secs(1), || rng.f64()).as_secs_f64()
}

/// Lognormal with sigma 1.5.
fn lognormal(rng: &mut fastrand::Rng) -> f64 {
    ServiceTime::Lognormal(Duration::from_secs(1), 1.5).draw(|| rng.f64()).as_secs_f64()
}

const FIXED: (fn(&mut fastrand::Rng) -> f64, f64) = (|_| 1.0, 0.0);
const EXPONENTIAL: (fn(&mut fastrand::Rng) -> f64, f64) = (exponential, 1.0);
const LOGNORMAL: (fn(&mut fastrand::Rng) -> f64, f64) = (lognormal, 8.5);

fn application(places: u32, load: f64, (draw, noise): (fn(&mut fastrand::Rng) -> f64, f64)) -> Application {
    Application { places, load, draw, noise }
}

/// Whether it is sure, and right within a factor of 1.4.
fn is_right(places: &Places, truth: u32) -> bool {
    places.sure().is_some_and(|sure| {
        let of = f64::from(sure.get()) / f64::from(truth);
        (1.0 / 1.4..=1.4).contains(&of)
    })
}

#[test]
fn finds_the_places_for_any_times_at_medium_and_high_load() {
    for (times, least) in [(FIXED, 9), (EXPONENTIAL, 8), (LOGNORMAL, 6)] {
        for truth in [1, 4, 20] {
            for load in [0.7, 0.95] {
                let found = (1..=9).map(|seed| {
                    let mut places = Places::default();
                    serve(&mut places, application(truth, load, times), 20_000, 1.0, seed);
                    places
                });
                let found = found.collect::<Vec<_>>();
                let right = found.iter().filter(|places| is_right(places, truth)).count();
                let sure = found.iter().filter(|places| places.sure().is_some()).count();
                assert!(right >= least, "{right} of 9: {truth} places, {load}, {times:?}");
                assert_eq!(right, sure, "none is sure of a wrong number: {truth} places, {load}, {times:?}");
            }
        }
    }
}

#[test]
fn a_thread_with_few_of_the_requests_finds_the_places_from_its_own() {
    for share in [0.5, 0.02] {
        for truth in [1, 4, 20] {
            let mut places = Places::default();
            serve(&mut places, application(truth, 0.9, EXPONENTIAL), 4_000, share, 3);
            assert!(is_right(&places, truth), "{share} of the requests, {truth} places: {:?}", all(&places));
        }
    }
}

#[test]
fn is_never_sure_where_the_places_are_never_all_taken() {
    for times in [FIXED, EXPONENTIAL, LOGNORMAL] {
        for truth in [20, 100] {
            for seed in 1..=5 {
                let mut places = Places::default();
                for round in 0..10 {
                    serve(&mut places, application(truth, 0.1, times), 1_000, 1.0, 10 * seed + round);
                    assert_eq!(places.sure(), None, "{truth} places, {times:?}");
                }
            }
        }
    }
}

#[test]
fn follows_an_application_that_changes_its_number_of_workers() {
    for times in [FIXED, EXPONENTIAL, LOGNORMAL] {
        for (before, after) in [(4, 8), (8, 4), (4, 1), (20, 4)] {
            let mut places = Places::default();
            serve(&mut places, application(before, 0.9, times), 5_000, 1.0, 1);
            serve(&mut places, application(after, 0.9, times), 6_000, 1.0, 2);
            let noisy = times.1 > 1.0 && places.sure().is_none();
            assert!(noisy || is_right(&places, after), "{before} to {after} places: {:?}, {times:?}", all(&places));
        }
    }
}
