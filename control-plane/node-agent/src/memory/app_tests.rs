//! The rule, step by step, and what always holds.

use super::{App, Refused, Rule, Start};
use crate::bytes::Bytes;
use proptest::prelude::*;
use std::collections::BTreeMap;

const RULE: Rule = Rule { reserve: 0.2, margin: Bytes::mebi(50), step: Bytes::mebi(16) };

fn start(used: u64) -> Start {
    Start { used: Bytes::mebi(used), least: Bytes::mebi(20), most: Bytes::mebi(4_096) }
}

/// An application with these containers, named by letters, and a limit of 1000 MiB.
fn app(used: &[u64]) -> App<char> {
    let mut app = App::new(RULE, Bytes::mebi(1_000));
    let newcomers: Vec<_> = ('a'..).zip(used).map(|(key, used)| (key, start(*used))).collect();
    app.attach(&newcomers).unwrap();
    app
}

/// In MiB.
fn limits(app: &App<char>) -> Vec<u64> {
    ('a'..='z').map_while(|key| app.of(&key)).map(|limit| limit.get() >> 20).collect()
}

fn reclaim(app: &mut App<char>, used: &[u64]) {
    app.reclaim(&('a'..).zip(used).map(|(key, used)| (key, Bytes::mebi(*used))).collect());
}

#[test]
fn containers_start_with_their_part_or_their_use_and_the_margin() {
    let app = app(&[100, 500]);
    assert_eq!((limits(&app), app.pool()), (vec![400, 550], Bytes::mebi(50)));
}

#[test]
fn an_application_that_uses_more_than_the_limit_is_refused() {
    let mut app = App::new(RULE, Bytes::mebi(1_000));
    let refused = app.attach(&[('a', start(600)), ('b', start(320))]).unwrap_err();
    assert_eq!(refused, Refused { limit: Bytes::mebi(1_000), needed: Bytes::mebi(1_020) });
    assert_eq!(
        refused.to_string(),
        "limit: 1000Mi is below the use or the requests of the containers; allowed: 1020Mi and more"
    );
    assert_eq!(limits(&app), [0_u64; 0]);
    app.attach(&[('a', start(600)), ('b', start(300))]).unwrap();
    assert_eq!((limits(&app), app.pool()), (vec![650, 350], Bytes::ZERO));
}

#[test]
fn what_is_not_used_returns_to_the_pool_but_neither_margin_nor_least() {
    let mut app = app(&[100, 500]);
    reclaim(&mut app, &[100, 500]);
    assert_eq!((limits(&app), app.pool()), (vec![150, 550], Bytes::mebi(300)));
    reclaim(&mut app, &[120, 0]);
    assert_eq!(limits(&app), [150, 50], "nothing is given without being asked for");
    app.reclaim(&BTreeMap::new());
    assert_eq!(limits(&app), [150, 50], "nothing is taken if the use is unknown");
    app.detach(&'a');
    assert_eq!(app.pool(), Bytes::mebi(950));
}

#[test]
fn a_grant_comes_from_the_pool_then_from_those_with_most_to_spare() {
    let mut app = app(&[100, 500]);
    app.grant(&'b', Bytes::mebi(545));
    assert_eq!(limits(&app), [400, 566]);
    app.grant(&'b', Bytes::mebi(560));
    app.grant(&'b', Bytes::mebi(576));
    assert_eq!((limits(&app), app.pool()), (vec![400, 598], Bytes::mebi(2)));
    app.grant(&'b', Bytes::mebi(590));
    assert_eq!((limits(&app), app.pool()), (vec![386, 614], Bytes::ZERO));
    for _ in 0..100 {
        app.grant(&'b', Bytes::mebi(840));
    }
    assert_eq!(limits(&app), [150, 850], "the other one keeps its use and the margin");
    app.grant(&'b', Bytes::mebi(849));
    app.grant(&'x', Bytes::mebi(1));
    assert_eq!(limits(&app), [150, 850]);
}

#[test]
fn no_container_gets_more_than_its_node_has() {
    let mut app = App::new(RULE, Bytes::mebi(1_000));
    app.attach(&[('a', Start { most: Bytes::mebi(110), ..start(50) })]).unwrap();
    assert_eq!(limits(&app), [110]);
    let mut small = App::new(RULE, Bytes::mebi(1_000));
    small.attach(&[('a', Start { most: Bytes::mebi(110), ..start(10) }), ('b', start(0))]).unwrap();
    reclaim(&mut small, &[45, 0]);
    assert_eq!(limits(&small)[0], 95);
    small.grant(&'a', Bytes::mebi(94));
    assert_eq!(limits(&small)[0], 110);
}

#[test]
fn containers_of_an_earlier_agent_come_with_less_of_a_margin_if_there_is_no_room_for_it() {
    let mut app = App::new(RULE, Bytes::mebi(1_000));
    let newcomers = [('a', start(600)), ('b', start(360))];
    assert!(app.attach(&newcomers).is_err());
    app.take_over(&newcomers).unwrap();
    assert_eq!((limits(&app), app.pool()), (vec![620, 380], Bytes::ZERO));
    let refused = app.take_over(&[('c', start(10))]).unwrap_err();
    assert_eq!(refused.needed, Bytes::mebi(1_020), "who is there keeps what it has");
    let mut app = App::new(RULE, Bytes::mebi(1_000));
    app.take_over(&[('a', start(100)), ('b', start(500))]).unwrap();
    assert_eq!(limits(&app), [400, 550], "as anybody, if there is room");
    app.take_over(&[]).unwrap();
    assert_eq!(limits(&app), [400, 550]);
}

#[test]
fn a_newcomer_gets_what_the_others_do_not_use_but_they_keep_what_they_have() {
    let mut app = app(&[100, 500]);
    app.attach(&[('c', start(250))]).unwrap();
    assert_eq!((limits(&app), app.pool()), (vec![150, 550, 300], Bytes::ZERO));
    for _ in 0..10 {
        app.grant(&'b', Bytes::mebi(549));
    }
    assert_eq!(limits(&app), [150, 550, 300]);
    app.observe(&BTreeMap::from([('a', Bytes::mebi(149)), ('b', Bytes::mebi(549))]));
    app.detach(&'c');
    app.attach(&[('c', start(250))]).unwrap();
    assert_eq!(limits(&app), [150, 550, 300], "there is no more of the margin than there was");
    app.attach(&[('c', start(200))]).unwrap();
    assert_eq!(limits(&app), [150, 550, 266], "its part, for one that comes anew");
}

#[test]
fn a_new_limit_takes_from_those_with_most_to_spare() {
    let mut app = app(&[100, 300]);
    assert_eq!(limits(&app), [400, 400]);
    app.set_limit(Bytes::mebi(700)).unwrap();
    assert_eq!((limits(&app), app.limit()), (vec![300, 400], Bytes::mebi(700)));
    let refused = app.set_limit(Bytes::mebi(499)).unwrap_err();
    assert_eq!((refused.needed, app.limit()), (Bytes::mebi(500), Bytes::mebi(700)));
    app.set_limit(Bytes::mebi(500)).unwrap();
    assert_eq!((limits(&app), app.pool()), (vec![150, 350], Bytes::ZERO));
    app.set_limit(Bytes::mebi(900)).unwrap();
    assert_eq!((limits(&app), app.pool()), (vec![150, 350], Bytes::mebi(400)), "nobody has asked");
}

#[test]
fn a_new_rule_holds_from_then_on() {
    let mut app = app(&[100, 300]);
    app.set_rule(Rule { margin: Bytes::mebi(10), step: Bytes::mebi(100), ..RULE });
    reclaim(&mut app, &[100, 300]);
    assert_eq!(limits(&app), [110, 310]);
    app.grant(&'a', Bytes::mebi(109));
    assert_eq!(limits(&app), [210, 310]);
}

proptest! {
    /// Holds whatever they use, and whichever join, leave and ask.
    #[test]
    fn the_sum_is_never_above_the_limit_and_nobody_is_taken_below_what_it_keeps(
        steps in prop::collection::vec((0_usize..4, 0_u64..400, 0_u8..7), 1..80),
    ) {
        let mut app = App::new(RULE, Bytes::mebi(1_000));
        for (key, used, what) in steps {
            let (used, before) = (Bytes::mebi(used), app.of(&key).unwrap_or_default());
            match what {
                0 => _ = app.attach(&[(key, Start { used, ..start(0) })]),
                1 => app.detach(&key),
                2 => app.reclaim(&BTreeMap::from([(key, used)])),
                3 => _ = app.take_over(&[(key, Start { used, ..start(0) })]),
                4 => _ = app.set_limit(Bytes::mebi(200) + used + used),
                _ => app.grant(&key, used),
            }
            if let (2, Some(limit)) = (what, app.of(&key)) {
                prop_assert!(limit >= before.min((used + RULE.margin).max(Bytes::mebi(20))), "{limit}");
            }
            let sum: Bytes = (0..4).filter_map(|key| app.of(&key)).sum();
            prop_assert!(sum <= app.limit(), "{sum}");
            prop_assert_eq!(app.pool(), app.limit() - sum);
        }
    }
}
