//! What always holds.

use super::{App, Interval, LEAST_CHANGE, Rule, Start};
use crate::cores::Cores;
use proptest::prelude::*;
use std::collections::BTreeMap;

const LEAST: Cores = Cores::new(0.0625);

fn idle() -> Start {
    Start { used: Cores::ZERO, least: LEAST, most: Cores::new(2.0) }
}

proptest! {
    /// Holds whatever is counted and whichever containers join.
    #[test]
    fn the_sum_is_never_above_the_limit_nor_a_quota_outside_its_bounds(
        steps in prop::collection::vec(prop::collection::vec((0u32..1_500, 0u32..=4), 6), 1..40),
        limits in prop::collection::vec(300u32..2_000, 1..5),
        slack in 10u32..400, grow in 1u32..=100, shrink in 1u32..=100, window in 1usize..8,
    ) {
        let rule = Rule {
            grow: f64::from(grow) / 100.0,
            shrink: f64::from(shrink) / 100.0,
            slack: Cores::milli(slack),
            window,
        };
        let mut app = App::new(rule, Cores::milli(limits[0]));
        for (at, counted) in steps.iter().enumerate() {
            if at % 7 == 3 {
                app.set_limit(Cores::milli(limits[at % limits.len()])).unwrap();
            }
            if at < 6 {
                let key = char::from(b'a' + at as u8);
                let used = Cores::milli(counted[0].0);
                let newcomer = Start { used, least: Cores::milli(50), most: Cores::new(1.2) };
                let _ = app.attach(&[(key, newcomer)]);
            }
            let intervals = ('a'..).zip(counted).filter(|(_, counted)| counted.1 < 4).map(|(key, (used, throttled))| {
                (key, Interval { used: Cores::milli(*used), throttled: f64::from(*throttled) / 3.0 })
            });
            app.step(&intervals.collect());
            let quotas: Vec<Cores> = ('a'..='f').filter_map(|key| app.quota(&key)).collect();
            let sum: Cores = quotas.iter().copied().sum();
            prop_assert!(sum.get() <= app.limit().get() + 1e-9, "{} of {}", sum, app.limit());
            for quota in quotas {
                prop_assert!(quota.get() >= 0.05 - 1e-9 && quota.get() <= 1.2 + 1e-9, "{}", quota);
            }
        }
    }

    /// Containers that are always throttled end up with equal quotas, whatever they had at first.
    /// Idle ones keep a slack.
    #[test]
    fn nobody_starves(
        before in prop::collection::vec(0u32..150, 2..7), throttled in prop::collection::vec(any::<bool>(), 6),
        slack in 10u32..200, grow in 20u32..=100, shrink in 20u32..=100, window in 1usize..8,
    ) {
        let rule = Rule {
            grow: f64::from(grow) / 100.0,
            shrink: f64::from(shrink) / 100.0,
            slack: Cores::milli(slack),
            window,
        };
        let mut app = App::new(rule, Cores::new(1.0));
        let newcomers: Vec<_> =
            ('a'..).zip(&before).map(|(key, used)| (key, Start { used: Cores::milli(*used), ..idle() })).collect();
        app.attach(&newcomers).unwrap();
        let is_throttled: BTreeMap<char, bool> = ('a'..).zip(throttled).take(before.len()).collect();
        for _ in 0..300 {
            let intervals = is_throttled.iter().map(|(key, throttled)| {
                let used = if *throttled { app.quota(key).unwrap() } else { Cores::ZERO };
                (*key, Interval { used, throttled: f64::from(u8::from(*throttled)) })
            });
            app.step(&intervals.collect());
        }
        let sum = |of: bool| -> f64 {
            is_throttled.iter().filter(|(_, is)| **is == of).map(|(key, _)| app.quota(key).unwrap().get()).sum()
        };
        let hot = is_throttled.values().filter(|is| **is).count() as f64;
        let cold = is_throttled.len() as f64 - hot;
        // A slack, plus a change that is too small to be made.
        let most = cold * LEAST.get().max(f64::from(slack) / 1_000.0) * 1.1;
        prop_assert!(hot == 0.0 || sum(false) <= most, "idle: {} of {}", sum(false), most);
        // Others may keep an excess of LEAST_CHANGE of the level, which is not evened out. CPU also
        // stays free if `grow` of it is less than LEAST_CHANGE of the quota.
        let lacks = LEAST_CHANGE * (1.0 + 1.0 / rule.grow);
        for key in is_throttled.iter().filter(|(_, is)| **is).map(|(key, _)| key) {
            let (has, part) = (app.quota(key).unwrap().get(), (1.0 - sum(false)) / hot);
            prop_assert!(has >= (1.0 - lacks) * part - 1e-9, "{} has {} of {}", key, has, part);
        }
    }
}
