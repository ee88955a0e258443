//! Random histories: listeners, services and requests come and go in a proxy of several threads.
//! [`Play`] checks what must hold at every moment.

use crate::play::Play;
use crate::proxy::CLUSTER;
use bloc_testhost::history::{Configuration, History, Shape, Step, services_json};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Plays a history; an error says when and what went wrong.
fn play(history: &History) -> Result<(), String> {
    let steps = history.steps.clone();
    let played = catch_unwind(AssertUnwindSafe(|| {
        let mut play = Play::new(history);
        let start = play.now();
        play.run(&steps).map_err(|what| {
            let at = play.now() - start;
            // If dropped, its streams would make calls.
            std::mem::forget(play);
            format!("at {at:?}: {what}")
        })
    }));
    played.unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        Err(text.or_else(|| panic.downcast_ref::<&str>().map(ToString::to_string)).unwrap_or_default())
    })
}

/// Removes steps that the failure does not need.
fn smallest(mut history: History, mut why: String) -> (History, String) {
    let mut place = history.steps.len();
    while place > 0 {
        place -= 1;
        let mut less = history.clone();
        less.steps.remove(place);
        if let Err(reason) = play(&less) {
            (history, why) = (less, reason);
        }
    }
    (history, why)
}

fn told(history: &History) -> String {
    let step = |step: &Step| match step {
        Step::Set { slot, configuration } => {
            let json = Configuration::of(slot.direction, *configuration).json(CLUSTER);
            format!("set {} to {configuration}: {json}", slot.name)
        }
        Step::Remove { slot } => format!("remove {}", slot.name),
        Step::Announce(services) => format!("announce {}", services_json(services)),
        Step::Requests { slot, count, takes } => format!("{count} requests to {} that take {takes:?}", slot.name),
    };
    let steps: Vec<String> =
        history.steps.iter().map(|timed| format!("  {:?}: {}", timed.at, step(&timed.step))).collect();
    format!("seed {}, drain {:?}\n{}", history.seed, history.drain, steps.join("\n"))
}

/// Plays all these histories. Reports the first that fails, without the steps that it does not
/// need.
fn all_are_right(seeds: impl Iterator<Item = u64>, shape: Shape) {
    let (mut wrong, mut first) = (Vec::new(), None);
    for seed in seeds {
        let history = History::new(seed, shape);
        if let Err(why) = play(&history) {
            wrong.push(format!("{seed}: {why}"));
            first = first.or(Some((history, why)));
        }
    }
    if let Some((history, why)) = first {
        let (history, why) = smallest(history, why);
        panic!("{} are wrong: {wrong:#?}\n{}\n{why}", wrong.len(), told(&history));
    }
}

/// How many histories each of the tests plays, unless `HISTORIES` says otherwise.
const COUNT: u64 = 50;

fn histories(from: u64) -> impl Iterator<Item = u64> {
    let count = std::env::var("HISTORIES").ok().and_then(|count| count.parse().ok()).unwrap_or(COUNT);
    from..from + count
}

#[test]
fn random_histories_of_one_listener_keep_all_invariants() {
    all_are_right(histories(0), Shape { listeners: 1, ..Shape::default() });
}

#[test]
fn random_histories_of_both_directions_keep_all_invariants() {
    all_are_right(histories(1 << 32), Shape { listeners: 2, ..Shape::default() });
}

#[test]
fn random_histories_of_many_listeners_keep_all_invariants() {
    all_are_right(histories(2 << 32), Shape::default());
}

#[test]
fn random_histories_with_long_drains_keep_all_invariants() {
    all_are_right(histories(3 << 32), Shape { longest_drain: 60, scale: 0.5, ..Shape::default() });
}
