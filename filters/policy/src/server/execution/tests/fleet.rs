//! A server compared with its fleet, and a change of the number of places.

use super::*;

/// After 400 execution times of 100 ms, or of alternating 50 and 150 ms if they `vary`.
fn of_100_ms(vary: bool) -> Execution {
    let mut execution = Execution::default();
    let times = if vary { [0.05, 0.15] } else { [0.1; 2] };
    (0..400).for_each(|nth| execution.observe(times[nth % 2], ONE));
    execution
}

fn millis(time: Option<f64>) -> f64 {
    (time.unwrap() * 1e5).round() / 100.0
}

#[test]
fn differs_from_the_fleet_by_what_is_beyond_three_standard_errors() {
    let among =
        |execution: &Execution, fleet: f64, idle| millis(execution.among(fleet / 1e3, Duration::from_secs(idle)));
    assert_eq!(Execution::default().among(0.05, Duration::ZERO), None);
    // The standard deviation is 50 ms, `cv^2` a quarter, so the memory is a hundred requests.
    let varies = of_100_ms(true);
    let error = (0.0025_f64 / varies.seen).sqrt() * 1e3;
    assert!((4.9..5.1).contains(&error), "{error}");
    assert_eq!(among(&varies, 90.0, 0), 90.0);
    assert!((among(&varies, 50.0, 0) - (100.0 - 3.0 * error)).abs() < 1.0);
    assert!((among(&varies, 200.0, 0) - (100.0 + 3.0 * error)).abs() < 1.0);
    // The standard deviation counts as a tenth of the mean at least.
    let fixed = of_100_ms(false);
    assert_eq!((fixed.seen, among(&fixed, 50.0, 0)), (40.0, 95.26));
    // The past counts half after 2 s, and a seventeenth after 4 s.
    assert_eq!(among(&fixed, 50.0, 2), 93.29);
    assert_eq!(among(&fixed, 50.0, 4), 80.44);
    assert_eq!(among(&fixed, 50.0, 20), 50.0, "it is not sure any more");
}

#[test]
fn a_new_scale_changes_mean_and_noise_as_if_all_requests_had_taken_so_long() {
    let times = [10.0, 30.0, 20.0, 80.0, 40.0, 25.0, 35.0, 90.0, 15.0, 300.0, 280.0, 250.0, 310.0, 20.0];
    let (mut scaled, mut plain) = (Execution::default(), Execution::default());
    for (number, seconds) in (0..).zip(times) {
        let by = if number < 13 { 1.0 } else { 4.0 };
        if number == 13 {
            scaled.scale(4.0);
        }
        scaled.observe(by * seconds, Concurrency::new(1));
        plain.observe(4.0 * seconds, Concurrency::new(1));
    }
    assert!((scaled.noise() - plain.noise()).abs() < 1e-9);
    let again = [300.0; 60];
    for seconds in again {
        let (one, other) = (scaled.mean().unwrap(), plain.mean().unwrap());
        assert!((one - other).abs() < 1e-9, "{one} {other}");
        scaled.observe(4.0 * seconds, Concurrency::new(1));
        plain.observe(4.0 * seconds, Concurrency::new(1));
    }
}

#[test]
fn after_an_alarm_the_mean_is_as_sure_as_the_times_before_allow() {
    let execution = Execution { mean: 1.0, variance: 1.0, seen: 90.0, ..Execution::default() };
    let error = (0.1_f64).sqrt();
    assert!((execution.among(0.5, Duration::ZERO).unwrap() - (1.0 - error)).abs() < 1e-9);
    let varied = Execution { noise_before: 4.0, ..execution.clone() };
    assert_eq!(varied.among(0.5, Duration::ZERO), Some(0.5));
    let quiet = Execution { noise_before: 0.5, ..execution };
    assert!((quiet.among(0.5, Duration::ZERO).unwrap() - (1.0 - error)).abs() < 1e-9);
    let mut changed = of_100_ms(true);
    let noise = changed.noise();
    while changed.seen > 50.0 {
        changed.observe(0.8, ONE);
    }
    assert!(changed.noise_before > noise / 2.0 && changed.noise_before < 10.0, "{}", changed.noise_before);
    assert_eq!(changed.noise(), 1.0);
    let mut stalled = Execution { variance: 1e9, ..of_100_ms(false) };
    while stalled.noise() > 1.0 {
        stalled.observe(10.0, ONE);
    }
    assert_eq!(stalled.noise_before, 10.0);
}
