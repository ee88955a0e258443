//! What execution times say about the rest of a request.

use super::*;

const DIFFERENCE: f64 = 1e-9;

fn heard(times: impl IntoIterator<Item = f64>, mean: f64) -> RemainingTime {
    let mut remaining = RemainingTime::default();
    times.into_iter().for_each(|took| remaining.observe(took, mean));
    remaining
}

/// With `v - 1` equal to this.
fn over(over: f64) -> RemainingTime {
    RemainingTime { over, ..RemainingTime::default() }
}

/// For a mean of 1 s, in milliseconds.
fn excess(remaining: RemainingTime, age: u64) -> i64 {
    (remaining.excess(Duration::from_millis(age), 1.0) * 1e3).round() as i64
}

fn near(value: f64, expected: f64) {
    assert!((value - expected).abs() <= DIFFERENCE, "{value}, not {expected}");
}

#[test]
fn no_age_matters_before_a_request_was_measured_nor_where_times_are_exponential() {
    assert_eq!([0, 500, 2_000, 60_000].map(|age| excess(RemainingTime::default(), age)), [0; 4]);
}

#[test]
fn where_times_are_fixed_the_rest_is_longer_at_first_and_shorter_before_half_of_it() {
    let ages = [10, 450, 1_010, 1_783, 1_784, 2_000];
    assert_eq!(ages.map(|age| excess(over(-1.0), age)), [330, 0, -420, -1_000, -1_000, -1_000]);
    assert_eq!(excess(over(-1.2), 1_010), -420, "squares by too large a mean");
    let of_half_a_second = |age| over(-1.0).excess(Duration::from_millis(age), 0.5);
    for (age, excess) in [(500, -0.206_25), (1_000, -0.5), (1_001, 0.0)] {
        near(of_half_a_second(age), excess);
    }
}

#[test]
fn where_times_vary_less_than_exponential_ones_the_age_counts_less() {
    // `v` = 1/2, `k` = -1/3.
    assert_eq!([0, 675, 3_000].map(|age| excess(over(-0.5), age)), [169, 0, -581]);
}

#[test]
fn where_times_vary_much_an_old_request_takes_longer_and_a_new_one_as_long_as_any() {
    // `v` = 3, `k` = 1/2.
    assert_eq!([0, 1_000, 50_000].map(|age| excess(over(2.0), age)), [0, 375, 18_750]);
}

#[test]
fn a_request_of_twice_the_longest_time_or_50_times_the_mean_counts_as_any_other() {
    for (remaining, oldest) in [(over(-1.0), 2_000), (over(-0.5), 6_000), (over(2.0), 50_000)] {
        assert_ne!(excess(remaining, oldest), 0);
        assert_eq!([1, 1 << 40].map(|more| excess(remaining, oldest + more)), [0, 0], "{remaining:?}");
    }
    for remaining in [RemainingTime::default(), over(-1.0), over(2.0)] {
        for age in [Duration::ZERO, Duration::from_secs(1), Duration::MAX] {
            assert_eq!(remaining.excess(age, 0.0), 0.0, "nothing takes any time");
        }
    }
}

#[test]
fn the_first_request_has_a_weight_of_a_tenth_and_the_hundredth_of_a_hundredth() {
    near(heard([200.0], 100.0).over, 0.2);
    near(heard([200.0, 300.0], 100.0).over, 0.2 + (9.0 - 2.0 - 0.2) / 11.0);
    for requests in [91, 400] {
        let before = heard(vec![100.0; requests], 100.0);
        let mut after = before;
        after.observe(200.0, 100.0);
        near(after.over, before.over + (4.0 - 2.0 - before.over) / 100.0);
    }
    let before = heard(vec![100.0; 89], 100.0);
    let mut after = before;
    after.observe(200.0, 100.0);
    near(after.over, before.over + (4.0 - 2.0 - before.over) / 99.0);
}

#[test]
fn follows_the_variation_of_the_times() {
    near(heard(vec![100.0; 4_000], 100.0).over, -1.0);
    // 5% take 400 ms and the rest 10: the mean is 29.5 ms, the mean square 8095.
    let mixed = heard((0..4_000).map(|request| if request % 20 == 0 { 400.0 } else { 10.0 }), 29.5);
    assert!((mixed.over - (8_095.0 / (29.5 * 29.5) - 2.0)).abs() < 1.0, "{mixed:?}");
}

#[test]
fn a_request_counts_for_at_most_20_times_the_mean() {
    for (took, mean) in [(2_000.0, 100.0), (1e300, 100.0), (f64::INFINITY, 100.0), (1.0, 0.0), (0.0, 0.0)] {
        near(heard([took], mean).over, 39.8);
    }
    assert!(heard([1_990.0], 100.0).over < 39.5);
}
