//! The rule, step by step.

use super::{App, Interval, Refused, Rule, Start};
use crate::cores::Cores;
use std::collections::BTreeMap;

const RULE: Rule = Rule { grow: 0.5, shrink: 0.75, slack: Cores::new(0.125), window: 2 };

fn cores(cores: f64) -> Cores {
    Cores::new(cores)
}

/// Values are binary fractions, which are exact.
fn start(used: f64) -> Start {
    Start { used: cores(used), least: cores(0.0625), most: cores(2.0) }
}

/// An application with these containers, named by letters, and a limit of one core.
fn app(used: &[f64]) -> App<char> {
    app_of(RULE, 1.0, used)
}

fn app_of(rule: Rule, limit: f64, used: &[f64]) -> App<char> {
    let mut app = App::new(rule, cores(limit));
    app.attach(&newcomers(used)).unwrap();
    app
}

fn newcomers(used: &[f64]) -> Vec<(char, Start)> {
    ('a'..).zip(used).map(|(key, used)| (key, start(*used))).collect()
}

/// A step with this use and this share of throttled periods of each container. Returns the
/// containers whose quotas changed.
fn step(app: &mut App<char>, counted: &[(f64, f64)]) -> String {
    let before = quotas(app);
    let intervals = ('a'..)
        .zip(counted)
        .map(|(key, (used, throttled))| (key, Interval { used: cores(*used), throttled: *throttled }))
        .collect();
    app.step(&intervals);
    let changed = before.iter().zip(quotas(app)).zip('a'..).filter(|((before, after), _)| *before != after);
    changed.map(|(_, key)| key).collect()
}

fn quotas(app: &App<char>) -> Vec<f64> {
    ('a'..='z').map_while(|key| app.quota(&key)).map(Cores::get).collect()
}

/// In thousandths.
fn thousandths(app: &App<char>) -> Vec<i64> {
    quotas(app).iter().map(|quota| (quota * 1_000.0).round() as i64).collect()
}

#[test]
fn containers_start_with_their_use_and_the_slack_or_their_least() {
    let app = app(&[0.25, 0.0]);
    assert_eq!((quotas(&app), app.free()), (vec![0.375, 0.125], cores(0.5)));
    let mut app = App::new(Rule { slack: cores(0.03125), ..RULE }, cores(1.0));
    app.attach(&newcomers(&[0.25, 0.0])).unwrap();
    assert_eq!(quotas(&app), [0.28125, 0.0625]);
    let small_node = Start { most: cores(0.5), ..start(0.5) };
    app.attach(&[('c', small_node)]).unwrap();
    assert_eq!(quotas(&app)[2], 0.5);
}

#[test]
fn a_new_rule_holds_from_the_next_step() {
    let mut app = App::new(Rule { window: 2, ..RULE }, cores(1.0));
    app.attach(&newcomers(&[0.5])).unwrap();
    step(&mut app, &[(0.5, 0.0)]);
    let before = quotas(&app);
    // The slack is 0.125 in all steps: the new rule leaves less of it.
    app.set_rule(Rule { window: 1, slack: cores(0.0625), ..RULE });
    assert_eq!(quotas(&app), before);
    step(&mut app, &[(0.5, 0.0)]);
    assert_eq!(quotas(&app), [0.5625]);
}

#[test]
fn an_application_that_uses_or_keeps_more_than_the_limit_is_refused() {
    let mut app = App::new(RULE, cores(1.0));
    let used = app.attach(&newcomers(&[0.625, 0.5])).unwrap_err();
    assert_eq!(used, Refused::BelowUse { limit: cores(1.0), used: cores(1.125) });
    assert_eq!(used.to_string(), "limit: 1000m is below the use of the containers; allowed: 1125m and more");
    let mut tight = App::new(RULE, cores(1.0));
    tight.attach(&newcomers(&[0.5, 0.375])).unwrap();
    assert_eq!(quotas(&tight), [0.5625, 0.4375], "half of the slack");
    let large = Start { least: cores(0.625), ..start(0.0) };
    let floors = app.attach(&[('a', large), ('b', large)]).unwrap_err();
    assert_eq!(floors, Refused::BelowFloors { limit: cores(1.0), floors: cores(1.25) });
    assert_eq!(
        floors.to_string(),
        "limit: 1000m is below the guaranteed minimum of the containers; allowed: 1250m and more"
    );
    assert_eq!(quotas(&app), [0.0; 0]);
    // A sum equal to the limit fits, even if it rounds to 0.30000000000000004.
    app.attach(&newcomers(&[0.5, 0.25])).unwrap();
    let tenth = Start { least: Cores::milli(100), ..start(0.0) };
    let mut thirds = App::new(Rule { slack: Cores::milli(100), ..RULE }, Cores::milli(300));
    thirds.attach(&[('a', tenth), ('b', tenth), ('c', tenth)]).unwrap();
    assert_eq!(thousandths(&thirds), [100, 100, 100]);
    assert_eq!((thirds.set_limit(Cores::milli(300)), thousandths(&thirds)), (Ok(()), vec![100, 100, 100]));
    let billionth = [('a', Start { least: cores(1e-9), ..start(0.0) })];
    assert!(App::new(Rule { slack: Cores::ZERO, ..RULE }, Cores::ZERO).attach(&billionth).is_ok());
}

#[test]
fn a_newcomer_gets_what_is_free_and_its_least_from_what_others_do_not_use() {
    let mut app = app(&[0.375, 0.25]);
    assert_eq!(quotas(&app), [0.5, 0.375]);
    app.attach(&[('c', start(0.5))]).unwrap();
    assert_eq!(quotas(&app), [0.5, 0.375, 0.125]);
    // Nothing is free: the first two give half of the eighth that they do not use.
    app.attach(&[('d', Start { least: cores(0.125), ..start(0.0) })]).unwrap();
    assert_eq!(quotas(&app), [0.4375, 0.3125, 0.125, 0.125]);
    // More than that is needed: they also give half of what is above their least.
    app.attach(&[('e', Start { least: cores(0.40625), ..start(0.0) })]).unwrap();
    assert_eq!(quotas(&app), [0.21875, 0.15625, 0.09375, 0.125, 0.40625]);
}

#[test]
fn who_comes_again_starts_anew() {
    let mut app = app(&[0.5, 0.125]);
    let again = [('a', Start { least: cores(0.75), ..start(0.0) })];
    app.attach(&again).unwrap();
    assert_eq!(quotas(&app), [0.75, 0.25]);
    let all = Start { least: cores(0.9375), ..start(0.0) };
    assert!(app.attach(&[('a', all)]).is_ok(), "its own former least does not count");
    assert_eq!(quotas(&app), [0.9375, 0.0625]);
    assert!(app.attach(&[('a', Start { least: cores(1.0), ..all })]).is_err(), "that of the other one does");
}

#[test]
fn a_container_gives_a_part_of_its_mean_slack_but_keeps_the_slack() {
    let mut app = app(&[0.5]);
    assert_eq!(step(&mut app, &[(0.5, 0.0)]), "", "an eighth of slack is allowed");
    // Slack of 0.125 and 0.375, mean 0.25: it gives three quarters of that.
    step(&mut app, &[(0.25, 0.0)]);
    assert_eq!(quotas(&app), [0.4375]);
    // Slack of 0.375 and 0.3125: three quarters of the mean would leave less than the slack.
    step(&mut app, &[(0.125, 0.0)]);
    assert_eq!(quotas(&app), [0.25]);
    // It keeps at least its least.
    let mut low = app_of(Rule { slack: cores(0.03125), shrink: 1.0, ..RULE }, 1.0, &[0.25]);
    step(&mut low, &[(0.0, 0.0)]);
    assert_eq!(quotas(&low), [0.0625]);
    step(&mut app, &[(0.0, 0.5)]);
    assert_eq!(quotas(&app), [0.34375], "nothing while it is throttled");
    app.detach(&'a');
    assert_eq!(app.free(), cores(1.0));
}

#[test]
fn a_throttled_container_gets_a_part_of_what_is_free() {
    let mut app = app(&[0.125]);
    // Half of the free 0.75.
    step(&mut app, &[(0.25, 1.0)]);
    assert_eq!(quotas(&app), [0.625]);
    // Its share is 0.5, the mean 0.75, and 0.375 is free.
    let mut other = app.clone();
    step(&mut other, &[(0.625, 0.5)]);
    assert_eq!(quotas(&other), [0.765625]);
    assert_eq!(step(&mut app, &[(0.625, 0.0)]), "");
}

#[test]
fn the_most_throttled_one_grows_first_and_nobody_above_the_level() {
    let mut app = app(&[0.0, 0.0]);
    step(&mut app, &[(0.125, 0.25), (0.125, 0.75)]);
    // b: 0.75 * 0.5 * 0.75; then a: 0.25 * 0.5 * what is left.
    assert_eq!(quotas(&app), [0.18359375, 0.40625]);
    let mut eager = app_of(Rule { grow: 1.0, ..RULE }, 1.0, &[0.0, 0.0, 0.0]);
    // Two may have 0.4375 each.
    step(&mut eager, &[(0.125, 1.0), (0.125, 1.0), (0.0, 0.0)]);
    assert_eq!(quotas(&eager), [0.4375, 0.4375, 0.125]);
}

#[test]
fn what_throttled_ones_lack_comes_from_those_with_most_to_spare() {
    let rule = Rule { grow: 1.0, slack: cores(0.25), window: 1, ..RULE };
    // Nothing is free. a wants half of its 0.25 more; b and c each have 0.1875 to spare.
    let mut app = app_of(rule, 0.75, &[0.0, 0.0, 0.0]);
    let mut half = app.clone();
    step(&mut half, &[(0.25, 0.5), (0.0, 0.0), (0.0, 0.0)]);
    assert_eq!(quotas(&half), [0.3125, 0.125, 0.25], "an eighth is lacked and given; half of it is got");
    step(&mut app, &[(0.25, 1.0), (0.0, 0.0), (0.0625, 0.0)]);
    // They keep their use and a quarter of the slack.
    assert_eq!(quotas(&app), [0.5, 0.0625, 0.1875]);
    let mut other = app_of(rule, 0.75, &[0.0, 0.0, 0.0]);
    step(&mut other, &[(0.25, 1.0), (0.0625, 0.0), (0.0, 0.0)]);
    assert_eq!(quotas(&other), [0.5, 0.1875, 0.0625]);
    // b and c now give all they can spare.
    step(&mut app, &[(0.5, 1.0), (0.0, 0.0), (0.0625, 0.0)]);
    assert_eq!(quotas(&app), [0.5625, 0.0625, 0.125]);
    // Free CPU counts: with 0.25 free, nobody gives.
    let mut free = app_of(rule, 1.0, &[0.0, 0.0, 0.0]);
    step(&mut free, &[(0.25, 1.0), (0.0, 0.0), (0.0, 0.0)]);
    assert_eq!(quotas(&free), [0.5, 0.25, 0.25]);
    // Nor does one without readings, or one that is itself throttled.
    let mut two = app_of(rule, 0.5, &[0.0, 0.0]);
    two.step(&BTreeMap::from([('a', Interval { used: cores(0.25), throttled: 1.0 })]));
    assert_eq!(quotas(&two), [0.25, 0.25]);
    step(&mut two, &[(0.25, 1.0), (0.0, 0.25)]);
    assert_eq!(quotas(&two), [0.25, 0.25]);
    // Its use is the mean, and its least stays.
    let mut mean = app_of(Rule { window: 2, ..rule }, 0.5, &[0.0, 0.0]);
    step(&mut mean, &[(0.25, 0.0), (0.125, 0.0)]);
    step(&mut mean, &[(0.25, 1.0), (0.0, 0.0)]);
    assert_eq!(quotas(&mean), [0.3125, 0.125]);
    let mut least = App::new(rule, cores(0.5));
    least.attach(&[('a', start(0.0)), ('b', Start { least: cores(0.1875), ..start(0.0) })]).unwrap();
    step(&mut least, &[(0.25, 1.0), (0.0, 0.0)]);
    assert_eq!(quotas(&least), [0.3125, 0.1875]);
}

#[test]
fn no_container_gets_more_than_its_node_has() {
    let mut app = app_of(RULE, 8.0, &[1.0]);
    for _ in 0..9 {
        step(&mut app, &[(2.0, 1.0)]);
    }
    assert_eq!(quotas(&app), [2.0]);
}

#[test]
fn containers_that_are_always_throttled_come_to_have_the_same() {
    let mut app = app(&[0.625, 0.0]);
    assert_eq!(quotas(&app), [0.75, 0.125]);
    // 0.125 is free, the level is 0.5; a gives a tenth of 0.25, b grows by half of what is free.
    step(&mut app, &[(0.75, 1.0), (0.125, 1.0)]);
    assert_eq!(thousandths(&app), [725, 213]);
    let mut last = quotas(&app);
    for _ in 0..60 {
        step(&mut app, &[(0.75, 1.0), (0.125, 1.0)]);
        assert!(quotas(&app)[0] <= last[0] && quotas(&app)[1] >= last[1]);
        last = quotas(&app);
    }
    // An excess of a fiftieth of the level is left alone, as is growth by less than a fiftieth.
    assert!((0.5..=0.51).contains(&last[0]) && (0.48..=0.5).contains(&last[1]), "{last:?}");
}

#[test]
fn what_is_evened_out_goes_to_those_below_in_proportion_to_what_they_lack() {
    let mut app = app_of(Rule { window: 1, grow: 0.01, ..RULE }, 1.5, &[0.875, 0.125, 0.0]);
    assert_eq!(quotas(&app), [1.0, 0.25, 0.125]);
    // The level is 0.5: a gives a tenth of its excess, two fifths to b and three to c. 0.01 of the
    // rest is too little to be written.
    step(&mut app, &[(1.0, 1.0), (0.25, 1.0), (0.125, 1.0)]);
    assert_eq!(thousandths(&app), [950, 270, 155]);
    // No more than it lacks: b's node has only 0.26.
    let mut node = App::new(Rule { window: 1, grow: 0.01, ..RULE }, cores(1.25));
    node.attach(&[('a', start(0.875)), ('b', Start { most: cores(0.26), ..start(0.125) })]).unwrap();
    step(&mut node, &[(1.0, 1.0), (0.25, 1.0)]);
    assert_eq!(thousandths(&node), [990, 260]);
    step(&mut node, &[(1.0, 1.0), (0.25, 1.0)]);
    assert_eq!(thousandths(&node), [990, 260], "nobody is below the level");
    // One with a least above the level keeps it.
    let mut least = App::new(Rule { window: 1, grow: 0.01, ..RULE }, cores(1.125));
    least.attach(&[('a', Start { least: cores(0.75), ..start(0.875) }), ('b', start(0.0))]).unwrap();
    step(&mut least, &[(1.0, 1.0), (0.125, 1.0)]);
    assert_eq!(thousandths(&least), [975, 150]);
}

#[test]
fn a_fiftieth_of_the_level_is_left_alone() {
    let rule = Rule { window: 1, grow: 0.01, slack: cores(0.01), ..RULE };
    // The level is 0.5, a fiftieth 0.01.
    let mut near = app_of(rule, 1.0, &[0.499, 0.471]);
    assert_eq!(thousandths(&near), [509, 481]);
    assert_eq!(step(&mut near, &[(0.5, 1.0), (0.5, 1.0)]), "");
    // The excess is exactly that.
    let mut exact = app_of(Rule { slack: cores(0.015625), ..rule }, 0.78125, &[0.3828125, 0.3671875]);
    assert_eq!(step(&mut exact, &[(0.5, 1.0), (0.5, 1.0)]), "");
    let mut far = app_of(rule, 1.0, &[0.501, 0.469]);
    assert_eq!(step(&mut far, &[(0.5, 1.0), (0.5, 1.0)]).len(), 2);
}

#[test]
fn a_busy_container_keeps_what_nobody_else_lacks() {
    let mut app = app(&[0.625, 0.0]);
    for _ in 0..20 {
        step(&mut app, &[(0.75, 1.0), (0.0, 0.0)]);
    }
    let quotas = quotas(&app);
    // The other one keeps its least.
    assert!(quotas[1] == 0.0625 && quotas[0] > 0.9, "{quotas:?}");
}

#[test]
fn a_container_without_figures_keeps_its_quota() {
    let mut app = app(&[0.25, 0.25]);
    for _ in 0..5 {
        assert_eq!(step(&mut app, &[(0.25, 0.0)]), "");
    }
    assert_eq!(quotas(&app), [0.375, 0.375]);
}

#[test]
fn small_changes_are_not_made() {
    let rule = Rule { slack: cores(0.015625), grow: 0.01, shrink: 0.5, window: 1 };
    let mut app = app_of(rule, 1.125, &[0.984375]);
    // Half of 0.0399 or 0.0401, of a quota of 1.
    assert_eq!(step(&mut app, &[(0.9601, 0.0)]), "");
    assert_eq!(step(&mut app.clone(), &[(0.9599, 0.0)]).len(), 1);
    assert_eq!(step(&mut app, &[(1.0, 1.0)]), "", "a hundredth of an eighth");
    // A fiftieth is enough.
    let mut exact = app_of(Rule { shrink: 1.0, ..rule }, 1.0, &[0.375]);
    step(&mut exact, &[(0.3671875, 0.0)]);
    assert_eq!(quotas(&exact), [0.3828125]);
}

#[test]
fn a_new_limit_takes_what_is_not_used_first() {
    let mut app = app(&[0.375, 0.125]);
    assert_eq!(quotas(&app), [0.5, 0.25]);
    assert_eq!((app.set_limit(cores(0.75)), quotas(&app)), (Ok(()), vec![0.5, 0.25]));
    app.set_limit(cores(0.625)).unwrap();
    assert_eq!((quotas(&app), app.limit()), (vec![0.4375, 0.1875], cores(0.625)));
    // First the unused part, then half of what is above the least.
    app.set_limit(cores(0.3125)).unwrap();
    assert_eq!(quotas(&app), [0.21875, 0.09375]);
    let refused = app.set_limit(cores(0.09375)).unwrap_err();
    assert_eq!(refused, Refused::BelowFloors { limit: cores(0.09375), floors: cores(0.125) });
    assert_eq!((quotas(&app), app.limit()), (vec![0.21875, 0.09375], cores(0.3125)));
    app.set_limit(cores(0.125)).unwrap();
    assert_eq!(quotas(&app), [0.0625, 0.0625]);
    app.set_limit(cores(2.0)).unwrap();
    assert_eq!((quotas(&app), app.free()), (vec![0.0625, 0.0625], cores(1.875)));
}

#[test]
fn the_defaults_are_those_of_the_module_text() {
    let Rule { grow, shrink, slack, window } = Rule::default();
    assert_eq!((grow, shrink, slack, window), (1.0, 0.8, Cores::milli(200), 3));
}
