//! Tests of [`App`].

use super::{Answers, App, LEAST, LEAST_ANSWERS, MOST, Rule, Start};
use proptest::prelude::*;
use std::time::Duration;

const TARGET: Duration = Duration::from_millis(100);

fn rule() -> Rule {
    Rule { target: TARGET, threshold: 1.2, step: 10.0 }
}

fn app(own: &[(f64, f64)]) -> App<usize> {
    let mut app = App::new(rule());
    for (key, (own, least)) in own.iter().enumerate() {
        app.attach(key, Start { own: *own, least: *least });
    }
    app
}

fn answers(count: u64, mean_us: u64) -> Answers {
    Answers { count, time: Duration::from_micros(count * mean_us) }
}

/// Rounded to a millionth.
fn shares(app: &App<usize>) -> Vec<f64> {
    (0..4).filter_map(|key| app.shares(&key)).map(|shares| (shares * 1e6).round() / 1e6).collect()
}

/// A step after each container has given 20 answers of this mean; none: no answer.
fn step(app: &mut App<usize>, means: &[Option<u64>]) -> Vec<f64> {
    for (key, mean) in means.iter().enumerate() {
        if let Some(mean) = mean {
            app.count(&key, answers(20, *mean));
        }
    }
    app.step();
    shares(app)
}

#[test]
fn the_usual_rule_is_that_of_the_module_text() {
    assert_eq!(Rule::new(TARGET), rule());
    assert_eq!((LEAST, MOST, LEAST_ANSWERS), (2.0, 10_240.0, 20));
}

#[test]
fn a_late_one_gets_from_those_in_time_what_they_have_to_spare() {
    let three = [(1_000.0, 500.0), (1_000.0, 500.0), (500.0, 100.0)];
    let mut app = self::app(&three);
    // It asks for twice 100: its mean is twice the threshold.
    assert_eq!(step(&mut app, &[Some(240_000), Some(50_000), None]), [1_050.0, 950.0, 500.0]);
    assert_eq!(step(&mut app, &[Some(240_000), Some(75_000), Some(20_000)]), [1_115.0, 925.0, 460.0]);
    // It asks for 120, and 150 are offered.
    assert_eq!(step(&mut app, &[Some(144_000), Some(0), Some(0)]), [1_235.0, 845.0, 420.0]);
    // Two late ones ask for 200 and 600, and one offers 25.
    assert_eq!(
        step(&mut self::app(&three), &[Some(240_000), Some(720_000), Some(50_000)]),
        [1_006.25, 1_018.75, 475.0]
    );
}

#[test]
fn it_is_late_above_the_threshold_and_offers_nothing_from_the_target_on() {
    let mut app = app(&[(1_000.0, 500.0), (1_000.0, 500.0)]);
    assert_eq!(step(&mut app, &[Some(120_000), Some(50_000)]), [1_000.0, 1_000.0]);
    assert_eq!(step(&mut app, &[Some(240_000), Some(100_000)]), [1_000.0, 1_000.0]);
    assert_eq!(step(&mut app, &[Some(240_000), Some(110_000)]), [1_000.0, 1_000.0]);
    assert_eq!(step(&mut app, &[Some(240_000), Some(120_000)]), [1_000.0, 1_000.0]);
    assert_eq!(step(&mut app, &[Some(120_012), Some(50_000)]), [1_050.0, 950.0]);
}

#[test]
fn who_is_very_late_asks_as_for_ten_targets() {
    for (first, second) in [(1_000_000, 1_000_000), (1_000_000, 60_000_000), (u64::MAX / 100, 1_000_000)] {
        let mut app = app(&[(1_000.0, 500.0), (1_000.0, 500.0), (1_000.0, 500.0)]);
        assert_eq!(step(&mut app, &[Some(first), Some(second), Some(0)]), [1_050.0, 1_050.0, 900.0]);
    }
    let mut app = app(&[(1_000.0, 500.0), (1_000.0, 500.0), (1_000.0, 500.0)]);
    assert_eq!(step(&mut app, &[Some(1_000_000), Some(250_000), Some(0)]), [1_080.0, 1_020.0, 900.0]);
}

#[test]
fn one_that_has_given_and_is_late_gets_half_of_it_back_at_once() {
    let mut app = app(&[(1_000.0, 500.0), (1_000.0, 500.0), (1_000.0, 500.0)]);
    assert_eq!(step(&mut app, &[Some(240_000), Some(50_000), Some(50_000)]), [1_100.0, 950.0, 950.0]);
    assert_eq!(step(&mut app, &[Some(240_000), Some(150_000), None]), [1_075.0, 975.0, 950.0], "late itself");
    assert_eq!(step(&mut app, &[None, Some(150_000), Some(150_000)]), [1_037.5, 987.5, 975.0], "not judged");
    // 6.25 go back, and the first one offers 50.
    assert_eq!(step(&mut app, &[Some(50_000), Some(150_000), None]), [981.25, 1_043.75, 975.0]);
    // Only the second one gives back: 9.375 and 12.5.
    assert_eq!(step(&mut app, &[Some(150_000), None, Some(150_000)]), [990.625, 1_021.875, 987.5]);
}

#[test]
fn where_all_are_late_shares_go_back() {
    let mut app = app(&[(1_000.0, 500.0), (500.0, 100.0)]);
    assert_eq!(step(&mut app, &[Some(240_000), Some(0)]), [1_050.0, 450.0]);
    for _ in 0..30 {
        step(&mut app, &[Some(900_000), Some(200_000)]);
    }
    assert_eq!(shares(&app), [1_000.0, 500.0]);
}

#[test]
fn all_late_or_all_in_time_changes_nothing() {
    let mut app = app(&[(1_000.0, 500.0), (1_000.0, 500.0)]);
    assert_eq!(step(&mut app, &[Some(200_000), Some(200_000)]), [1_000.0, 1_000.0]);
    assert_eq!(step(&mut app, &[Some(50_000), Some(50_000)]), [1_000.0, 1_000.0]);
    assert_eq!(step(&mut app, &[Some(200_000), None]), [1_000.0, 1_000.0]);
    step(&mut app, &[Some(200_000), Some(50_000)]);
    assert_eq!(step(&mut app, &[Some(50_000), Some(50_000)]), [1_050.0, 950.0], "they keep what they have");
}

#[test]
fn nobody_falls_below_what_it_keeps_or_rises_above_the_most() {
    let mut at_least = app(&[(1_000.0, 500.0), (100.0, 96.0)]);
    assert_eq!(step(&mut at_least, &[Some(240_000), Some(50_000)]), [1_004.0, 96.0]);
    assert_eq!(step(&mut at_least, &[Some(240_000), Some(50_000)]), [1_004.0, 96.0]);
    let mut at_most = app(&[(10_237.0, 2.0), (1_000.0, 500.0)]);
    assert_eq!(step(&mut at_most, &[Some(240_000), Some(50_000)]), [10_240.0, 997.0]);
    let mut above = app(&[(12_000.0, 2.0), (1_000.0, 500.0)]);
    assert_eq!(step(&mut above, &[Some(240_000), Some(50_000)]), [12_000.0, 1_000.0], "its requests give more");
}

#[test]
fn answers_count_until_there_are_twenty_and_then_anew() {
    let mut app = app(&[(1_000.0, 500.0), (1_000.0, 500.0)]);
    for (late, expected) in [(19, 1_000.0), (1, 1_050.0), (19, 1_050.0), (0, 1_050.0)] {
        app.count(&0, answers(late, 200_000));
        app.count(&1, answers(20, 50_000));
        app.step();
        assert_eq!(app.shares(&0), Some(expected));
    }
    assert_eq!([0, 1, 7].map(|key| app.response(&key)), [Some(0.2), Some(0.05), None]);
    app.count(&7, answers(20, 1));
    assert_eq!(app.shares(&7), None);
}

#[test]
fn what_one_that_leaves_had_of_others_goes_back() {
    let mut app = app(&[(1_000.0, 500.0), (1_000.0, 500.0), (500.0, 100.0)]);
    assert_eq!(step(&mut app, &[Some(240_000), Some(50_000), Some(50_000)]), [1_075.0, 950.0, 475.0]);
    let mut without_late = app.clone();
    without_late.detach(&0);
    assert_eq!(shares(&without_late), [1_000.0, 500.0]);
    app.detach(&1);
    assert_eq!(shares(&app), [1_025.0, 475.0]);
    app.detach(&2);
    app.detach(&0);
    assert!(without_late.shares(&0).is_none());
}

#[test]
fn a_container_keeps_more_at_once() {
    let mut app = app(&[(1_000.0, 500.0), (1_000.0, 500.0)]);
    step(&mut app, &[Some(200_000), Some(50_000)]);
    app.set_least(&1, 980.0);
    assert_eq!(shares(&app), [1_020.0, 980.0]);
    app.set_least(&1, 2_000.0);
    assert_eq!(shares(&app), [1_000.0, 1_000.0], "at most its own");
    app.set_least(&1, 0.0);
    app.set_least(&7, 1.0);
    assert_eq!(step(&mut app, &[Some(200_000), Some(50_000)]), [1_050.0, 950.0]);
    app.attach(0, Start { own: 700.0, least: 500.0 });
    assert_eq!(shares(&app), [700.0, 1_000.0], "comes anew");
}

#[test]
fn another_rule_holds_from_the_next_step_on() {
    let mut app = app(&[(1_000.0, 500.0), (1_000.0, 500.0)]);
    app.set_rule(Rule { threshold: 1.8, step: 50.0, ..rule() });
    assert_eq!(step(&mut app, &[Some(180_000), Some(50_000)]), [1_000.0, 1_000.0]);
    assert_eq!(step(&mut app, &[Some(180_018), Some(50_000)]), [1_250.0, 750.0]);
}

proptest! {
    /// Holds whatever joins, leaves and answers.
    #[test]
    fn the_sum_is_that_of_the_requests_and_each_keeps_its_least(
        events in prop::collection::vec((0_usize..4, 0_u8..5, 2.0..9_000.0_f64, 0.0..1.0_f64), 1..60),
    ) {
        let mut app = App::new(rule());
        let mut starts = std::collections::BTreeMap::new();
        for (key, what, own, part) in events {
            match what {
                0 => {
                    app.attach(key, Start { own, least: own * part });
                    starts.insert(key, (own, own * part));
                }
                1 => {
                    app.detach(&key);
                    starts.remove(&key);
                }
                2 => {
                    if let Some((own, least)) = starts.get_mut(&key) {
                        *least = *own * part;
                        app.set_least(&key, *least);
                    }
                }
                _ => {
                    app.count(&key, answers(20, if part > 0.5 { 200_000 } else { 10 }));
                    app.step();
                }
            }
            let (all, own): (f64, f64) = starts
                .iter()
                .map(|(key, (own, _))| (app.shares(key).unwrap(), *own))
                .fold((0.0, 0.0), |(a, b), (c, d)| (a + c, b + d));
            prop_assert!((all - own).abs() < 1e-6 * own.max(1.0), "{} and {}", all, own);
            for (key, (_, least)) in &starts {
                let has = app.shares(key).unwrap();
                prop_assert!(has >= least.max(LEAST) - 1e-6 && has <= MOST + 1e-6, "{} has {}", key, has);
            }
        }
    }
}
