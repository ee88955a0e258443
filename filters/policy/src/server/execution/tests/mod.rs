//! The execution time: noise, changes, cold starts, idle time.

mod fleet;

use super::*;
use bloc_figures::stats::quantile;

const ONE: Concurrency = Concurrency::new(1);

/// Times in seconds, with a mean of 1.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Times {
    Fixed,
    Exponential,
    /// Sigma 1.5.
    Lognormal,
    /// 95% take a fortieth of the others.
    TwoKinds,
}

impl Times {
    fn draw(self, rng: &mut fastrand::Rng) -> f64 {
        let logarithm = |rng: &mut fastrand::Rng| -(1.0 - rng.f64()).ln();
        match self {
            Self::Fixed => 1.0,
            Self::Exponential => logarithm(rng),
            Self::Lognormal => {
                let normal = (2.0 * logarithm(rng)).sqrt() * (std::f64::consts::TAU * rng.f64()).cos();
                1.5_f64.mul_add(normal, -1.125).exp()
            }
            Self::TwoKinds => (if rng.f64() < 0.05 { 400.0 } else { 10.0 }) / 29.5,
        }
    }
}

fn observe(execution: &mut Execution, times: Times, factor: f64, requests: u32, rng: &mut fastrand::Rng) {
    for _ in 0..requests {
        execution.observe(factor * times.draw(rng), ONE);
    }
}

fn p90(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    quantile(&values, 0.9).unwrap()
}

/// The error within which 90% of 200 probes are, 150 and 400 requests after times change by
/// `factor`.
fn errors_after_change(times: Times, factor: f64) -> (f64, f64) {
    let mut errors = (Vec::new(), Vec::new());
    for seed in 0..200 {
        let (mut execution, mut rng) = (Execution::default(), fastrand::Rng::with_seed(seed));
        observe(&mut execution, times, 1.0, 3_000, &mut rng);
        observe(&mut execution, times, factor, 150, &mut rng);
        errors.0.push((execution.mean().unwrap() / factor - 1.0).abs());
        observe(&mut execution, times, factor, 250, &mut rng);
        errors.1.push((execution.mean().unwrap() / factor - 1.0).abs());
    }
    (p90(errors.0), p90(errors.1))
}

/// How often the mean starts anew per 20,000 requests, in 50 probes.
fn false_alarms(times: Times) -> f64 {
    let mut alarms = 0;
    for seed in 0..50 {
        let (mut execution, mut rng) = (Execution::default(), fastrand::Rng::with_seed(seed));
        observe(&mut execution, times, 1.0, 3_000, &mut rng);
        for _ in 0..20_000 {
            let seen = execution.seen;
            observe(&mut execution, times, 1.0, 1, &mut rng);
            alarms += u32::from(execution.seen < seen / 2.0);
        }
    }
    f64::from(alarms) / 50.0
}

/// The root of the mean squared error after 500 requests, in 200 probes.
fn noise(times: Times) -> f64 {
    let mut squares = 0.0;
    for seed in 0..200 {
        let (mut execution, mut rng) = (Execution::default(), fastrand::Rng::with_seed(seed));
        observe(&mut execution, times, 1.0, 500, &mut rng);
        squares += (execution.mean().unwrap() - 1.0).powi(2);
    }
    (squares / 200.0).sqrt()
}

#[test]
fn five_hundred_exponential_times_give_the_mean_within_five_per_cent() {
    assert!(noise(Times::Exponential) < 0.055, "{}", noise(Times::Exponential));
    assert!(noise(Times::Lognormal) < 0.15, "{}", noise(Times::Lognormal));
    assert!(noise(Times::Fixed) < 1e-12);
}

/// The bounds are a tenth above the table in ADR 18.
#[test]
fn a_change_is_followed_and_steady_times_rarely_look_like_one() {
    for (times, alarms, slower, faster) in [
        (Times::Fixed, 0.0, (1e-9, 1e-9), (1e-9, 1e-9)),
        (Times::Exponential, 0.2, (0.16, 0.09), (0.15, 0.09)),
        (Times::Lognormal, 0.2, (0.5, 0.25), (0.86, 0.24)),
        (Times::TwoKinds, 1.4, (0.51, 0.26), (0.83, 0.26)),
    ] {
        let seen = false_alarms(times);
        assert!(seen <= alarms, "{times:?}: {seen} false alarms");
        for (factor, bounds) in [(2.0, slower), (0.5, faster)] {
            let errors = errors_after_change(times, factor);
            assert!(errors.0 < bounds.0 && errors.1 < bounds.1, "{times:?}, {factor}: {errors:?}");
        }
    }
}

#[test]
fn a_change_is_noticed_within_some_hundred_requests_however_many_places_there_are() {
    for places in [100, 10_000, 1_000_000] {
        let mut execution = Execution::default();
        for (seconds, requests) in [(1.0, 20_000), (2.0, 320), (1.0, 320)] {
            (0..requests).for_each(|_| execution.observe(seconds, Concurrency::new(places)));
            let mean = execution.mean().unwrap();
            assert!((mean - seconds).abs() < 0.1 * seconds, "{places} places, {seconds} s: {mean}");
        }
    }
}

#[test]
fn a_slow_start_is_forgotten_within_forty_requests() {
    for (times, slow, bound) in [
        (Times::Fixed, 1, 1.01),
        (Times::Fixed, 3, 1.01),
        (Times::Fixed, 10, 3.0),
        (Times::Exponential, 3, 1.3),
        (Times::Exponential, 10, 5.0),
        (Times::TwoKinds, 3, 1.8),
    ] {
        let mut means = Vec::new();
        for seed in 0..200 {
            let (mut execution, mut rng) = (Execution::default(), fastrand::Rng::with_seed(seed));
            observe(&mut execution, times, 40.0, slow, &mut rng);
            observe(&mut execution, times, 1.0, 40, &mut rng);
            means.push(execution.mean().unwrap());
        }
        let mean = p90(means);
        assert!(mean < bound, "{times:?}, {slow} slow ones: {mean}");
    }
}

#[test]
fn the_first_requests_count_equally() {
    let mut execution = Execution::default();
    assert_eq!(execution.mean(), None);
    for (seconds, mean) in [(1.0, 1.0), (2.0, 1.5), (6.0, 3.0)] {
        execution.observe(seconds, ONE);
        assert_eq!(execution.mean(), Some(mean));
    }
    assert!((execution.variance - 14.0 / 3.0).abs() < 1e-12, "{execution:?}");
}

#[test]
fn the_memory_is_long_for_many_places_and_for_times_that_vary() {
    for (places, memory) in [(1, 40.0), (3, 120.0), (99, 3_960.0), (101, 4_000.0), (u32::MAX, 4_000.0)] {
        let mut execution = Execution::default();
        (0..5_000).for_each(|_| execution.observe(3.0, Concurrency::new(places)));
        assert_eq!(execution.seen, memory);
        execution.observe(4.0, Concurrency::new(places));
        assert_eq!(execution.mean(), Some(3.0 + 1.0 / memory));
    }
    let mut execution = Execution::default();
    (0..1_000).for_each(|n| execution.observe(if n % 2 == 0 { 1.5 } else { 4.5 }, ONE));
    assert!((execution.seen - 100.0).abs() < 2.0, "400 times 1.5^2 by 3^2: {execution:?}");
}

#[test]
fn two_idle_seconds_halve_the_past_and_short_pauses_do_not_count() {
    for (idle, by) in [(0.0, 1.0), (0.2, 1.0001), (2.0, 2.0), (4.0, 17.0), (20.0, 10_001.0)] {
        let mut execution = Execution { mean: 1.0, seen: 40.0, belief: 0.5, recent: 2.0, ..Execution::default() };
        execution.idle(Duration::from_secs_f64(idle));
        assert!((execution.seen - 40.0 / by).abs() < 1e-9, "{idle} s: {execution:?}");
        near(execution.mean().unwrap(), 1.0 + 0.5 / by);
    }
}

#[test]
fn a_batch_has_four_requests_and_more_where_there_are_many_places() {
    for (places, size) in [(1, 4), (16, 4), (20, 5), (80, 20), (100, 25), (104, 25), (u32::MAX, 25)] {
        let mut execution = Execution::default();
        for n in 1..=size {
            assert_eq!(execution.log, 0.0, "{places} places, request {n}");
            execution.observe(f64::from(n), Concurrency::new(places));
        }
        assert_eq!(execution.log, (f64::from(size + 1) / 2.0).ln());
        assert_eq!(execution.batch, (0.0, 0.0));
    }
}

/// After ten batches of four with means of about 1 s.
fn usual() -> Execution {
    Execution { mean: 1.0, seen: 40.0, log_covariance: 0.1, last: 0.25, ..Execution::default() }
}

fn near(a: f64, b: f64) {
    assert!((a - b).abs() < 1e-12, "{a} is not {b}");
}

#[test]
fn one_request_of_more_than_fifty_means_does_not_count_once_four_are_known() {
    for (seen, seconds, mean) in [
        (3.0, 1_000.0, 1.0 + 999.0 / 4.0),
        (4.0, 1_000.0, 1.0),
        (4.0, 50.001, 1.0),
        (4.0, 50.0, 1.0 + 49.0 / 5.0),
        (30.0, 50.001, 1.0),
    ] {
        let mut execution = Execution { seen, ..usual() };
        execution.observe(seconds, ONE);
        near(execution.mean, mean);
        near(execution.variance, (mean - 1.0) * (execution.seen - 1.0) * (mean - 1.0));
        near(execution.batch.1, seconds);
    }
}

#[test]
fn the_usual_logarithm_is_below_that_of_the_mean_by_at_most_one() {
    for (log, difference) in [(0.0, -0.5), (1.9, -0.5), (2.1, -0.6)] {
        let mut execution = Execution { mean: 3.0_f64.exp(), log, ..usual() };
        execution.test(4.0, 4.0 * 1.5_f64.exp());
        near(execution.last, difference);
        near(execution.log, log.max(2.0) + difference / 10.0);
    }
}

/// All requests in the application are answered late at once, after a common stall of a minute.
#[test]
fn a_stall_is_forgotten_within_some_hundred_requests() {
    for times in [Times::Fixed, Times::Exponential] {
        for (places, late, before) in [
            (1, 1, 10),
            (1, 1, 3_000),
            (1, 10, 3_000),
            (1, 100, 3_000),
            (4, 4, 30),
            (4, 4, 3_000),
            (4, 40, 3_000),
            (20, 5, 3_000),
            (20, 20, 10),
            (20, 20, 30),
            (20, 20, 3_000),
            (20, 40, 3_000),
            (100, 50, 3_000),
            (100, 100, 30),
            (100, 100, 3_000),
        ] {
            let of = Concurrency::new(places);
            let (mut errors, mut memories) = (Vec::new(), Vec::new());
            for seed in 0..40 {
                let (mut execution, mut rng) = (Execution::default(), fastrand::Rng::with_seed(seed));
                (0..before).for_each(|_| execution.observe(0.05 * times.draw(&mut rng), of));
                (0..late).for_each(|_| execution.observe(60.0 * f64::from(places.min(late)) / f64::from(late), of));
                (0..300).for_each(|_| execution.observe(0.05 * times.draw(&mut rng), of));
                errors.push((execution.mean().unwrap() / 0.05 - 1.0).abs());
                (0..300).for_each(|_| execution.observe(0.05 * times.draw(&mut rng), of));
                memories.push(MEMORY * execution.variance / execution.mean.powi(2));
            }
            let (error, memory) = (p90(errors), p90(memories));
            let case = format!("{times:?}, {late} late in {places} places, {before} before");
            assert!(error < 0.12, "{case}: an error of {error}");
            assert!(memory < 500.0, "{case}: a memory of {memory}");
        }
    }
}

#[test]
fn a_batch_scores_by_how_much_its_logarithm_differs() {
    for (difference, sign) in [(0.5_f64, 1.0), (-0.5, -1.0)] {
        let mut execution = usual();
        execution.test(4.0, 4.0 * difference.exp());
        let (run, other) =
            if sign > 0.0 { (execution.slower, execution.faster) } else { (execution.faster, execution.slower) };
        near(run.score, 0.65 / 0.5 * 0.8 / 1.2 * (0.5 - 0.325));
        near(run.shift, 4.0 * difference);
        near(run.seconds, 4.0 * difference.exp());
        assert_eq!((run.requests, other.score, other.requests), (4.0, 0.0, 0.0));
        near(execution.log, sign * 0.05);
        near(execution.log_variance, 0.5 + (0.25 - 0.5) / 18.0);
        near(execution.log_covariance, 0.1 + (sign * 0.125 - 0.1) / 18.0);
        near(execution.last, difference);
    }
}

#[test]
fn one_batch_counts_for_two_standard_deviations_at_most() {
    for difference in [3.0_f64, -3.0] {
        let mut execution = usual();
        execution.test(4.0, 4.0 * difference.exp());
        near(execution.last, difference.signum() * 2.0 * 0.5_f64.sqrt());
        let mut execution = Execution { log_variance: 0.1, ..usual() };
        execution.test(4.0, 4.0 * difference.exp());
        near(execution.last, difference.signum() * 0.8);
        near(execution.slower.shift + execution.faster.shift, 4.0 * difference);
    }
}

#[test]
fn variance_and_correlation_of_batches_have_bounds() {
    for (log_variance, log_covariance, unit) in
        [(0.01, 0.0, 6.5), (0.5, -0.1, 1.3), (0.5, 0.6, 1.3 * 0.1 / 1.9), (0.01, 0.05, 6.5 * 0.5 / 1.5)]
    {
        let mut execution = Execution { log_variance, log_covariance, ..usual() };
        execution.test(4.0, 4.0 * 0.5_f64.exp());
        near(execution.slower.score, unit * 0.175);
    }
}

#[test]
fn the_mean_starts_anew_from_the_batches_of_an_alarm() {
    let run = |score| Run { score, unit: 1.0, requests: 8.0, seconds: 10.0, shift: 4.0 };
    let of = |slower, faster, seconds: f64| {
        // A mean of 1 s is 0.325 above the usual logarithm.
        let mut execution = Execution { seen: 400.0, log: -0.325, slower, faster, ..usual() };
        execution.test(4.0, seconds);
        execution
    };
    let steady = of(run(10.0), Run::default(), 4.0);
    assert_eq!((steady.mean, steady.slower.score, steady.slower.requests), (1.0, 10.0, 12.0), "not above the bar");
    assert_eq!(steady.mean(), Some(14.0 / 12.0), "but believed already");
    near(of(run(5.0), Run::default(), 4.0).mean().unwrap(), 1.0 + 0.125 * (14.0 / 12.0 - 1.0));
    assert_eq!(of(Run::default(), Run::default(), 3.9).mean(), Some(1.0));
    let alarm = of(run(10.001), run(1.0), 4.0);
    assert_eq!(alarm.mean(), Some(14.0 / 12.0));
    assert_eq!((alarm.mean, alarm.seen), (14.0 / 12.0, 12.0));
    near(alarm.variance, alarm.mean * alarm.mean);
    near(alarm.log, -0.325 + (4.0 + 4.0 * 0.325) / 12.0);
    assert_eq!((alarm.slower.requests, alarm.faster.requests), (0.0, 0.0));
    let faster = of(Run::default(), run(20.0), 4.0);
    assert_eq!((faster.mean, faster.seen), (14.0 / 12.0, 12.0));
}

#[test]
fn of_two_sums_the_higher_one_is_believed() {
    let run = |score, seconds| Run { score, unit: 1.0, requests: 4.0, seconds, shift: 0.0 };
    for (slower, faster, recent) in [(4.0, 3.0, 3.0), (3.0, 4.0, 2.0), (3.0, 3.0, 2.0)] {
        // A usual batch lowers both a little.
        let mut execution = Execution { slower: run(slower, 20.0), faster: run(faster, 12.0), ..usual() };
        execution.test(4.0, 4.0);
        assert_eq!(execution.recent, recent, "{execution:?}");
    }
}

#[test]
fn a_sum_of_scores_below_zero_begins_anew() {
    let mut run = Run::default();
    run.add(2.0, 0.325, (4.0, 3.0, 0.5));
    assert_eq!((run.score, run.requests), (0.0, 4.0));
    run.add(8.0, 1.325, (4.0, 3.0, 0.25));
    assert_eq!((run.score, run.requests, run.seconds, run.shift), (2.0, 8.0, 6.0, 3.0), "by the first unit");
    run.add(8.0, -1.0, (4.0, 3.0, 0.5));
    assert_eq!((run.score, run.requests, run.seconds, run.shift), (0.0, 0.0, 0.0, 0.0));
    run.add(8.0, 1.325, (4.0, 3.0, 0.5));
    assert_eq!(run.score, 8.0);
}

#[test]
fn the_bar_rises_from_two_to_ten() {
    for (batches, score) in [(0.0, 2.0), (10.0, 4.0), (40.0, 10.0), (1_000.0, 10.0)] {
        near(bar(batches), score);
    }
}

#[test]
fn after_a_long_pause_the_usual_logarithm_is_learnt_anew() {
    let slower = Run { score: 1.0, requests: 4.0, ..Run::default() };
    let mut execution = Execution { seen: 4.0, variance: 2.0, slower, recent: 9.0, belief: 0.5, ..usual() };
    execution.test(4.0, 400.0);
    assert_eq!((execution.log, execution.slower.requests), (100.0_f64.ln(), 0.0));
    assert_eq!((execution.mean(), execution.variance, execution.seen), (Some(1.0), 2.0, 4.0));
    assert_eq!((execution.log_covariance, execution.last), (0.0, 0.0));
}

#[test]
fn no_time_makes_the_mean_infinite_or_the_logarithm_undefined() {
    let mut execution = Execution::default();
    for seconds in [0.0, f64::INFINITY, f64::NAN, 0.0, f64::MAX, 0.0, 0.0, 0.0, 1e-300, 0.05] {
        execution.observe(seconds, ONE);
        execution.idle(Duration::MAX);
        assert!(execution.mean().is_some_and(|mean| (0.0..=LONGEST).contains(&mean)), "{execution:?}");
        assert!(execution.log.is_finite() && execution.log_variance.is_finite(), "{execution:?}");
    }
    let mut execution = Execution::default();
    (0..8).for_each(|_| execution.observe(0.0, ONE));
    assert_eq!((execution.mean(), execution.log), (Some(0.0), 1e-9_f64.ln()));
}
