//! The [`Follower`]s of two threads of one proxy, under every interleaving of what they do to the data that they share: loom runs them all.
//!
//! Both believe to lead, as they may for a moment when a lease ends. The control plane's answers are never older than the questions; which of two answers comes first, and what
//! the other thread does between any two steps, is open.
#![allow(missing_docs, reason = "tests")]

use bloc_policy::follower::{Follower, Shared, Stamp};
use loom::sync::{Arc, Mutex};
use loom::thread;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Shared data as Envoy has it: each call is whole, and between two of them anything may happen.
#[derive(Default)]
struct Data(Mutex<State>);

#[derive(Default)]
struct State {
    values: Vec<(String, Vec<u8>, u32)>,
    /// The versions that were in force, one after the other.
    history: Vec<String>,
}

impl Shared for Data {
    fn get(&self, key: &str) -> Option<(Vec<u8>, u32)> {
        let state = self.0.lock().unwrap();
        state.values.iter().find(|(name, ..)| name == key).map(|(_, value, cas)| (value.clone(), *cas))
    }

    fn set(&self, key: &str, value: &[u8], cas: u32) -> bool {
        let mut state = self.0.lock().unwrap();
        match state.values.iter_mut().find(|(name, ..)| name == key) {
            Some((_, _, there)) if cas != 0 && cas != *there => return false,
            Some((_, old, there)) => (*old, *there) = (value.to_vec(), *there + 1),
            None if cas != 0 => return false,
            None => state.values.push((key.to_owned(), value.to_vec(), 1)),
        }
        let version = value.get(size_of::<Stamp>()..).and_then(version);
        state.history.extend(version);
        true
    }
}

fn answer(version: u8) -> Vec<u8> {
    format!(r#"{{"version":"{version}","services":{{}}}}"#).into_bytes()
}

/// The version in an answer, if it is one.
fn version(body: &[u8]) -> Option<String> {
    (1..=9).find(|version| answer(*version) == body).map(|version| version.to_string())
}

/// A thread that asks `times` times. What the control plane has is newer with each question, whoever asks.
fn ask(vm: u64, times: usize, data: &Data, control_plane: &Mutex<u8>) -> Follower {
    let mut follower = Follower::new(vm);
    follower.join(data);
    for _ in 0..times {
        let stamp = follower.stamp();
        let newest = {
            let mut newest = control_plane.lock().unwrap();
            *newest += 1;
            *newest
        };
        follower.answered(data, stamp, &answer(newest)).unwrap();
    }
    follower
}

#[test]
fn whoever_asks_and_in_whatever_order_versions_never_go_back_and_all_end_at_the_same() {
    // Of std, so that counting is no step.
    static RUNS: AtomicUsize = AtomicUsize::new(0);
    loom::model(|| {
        RUNS.fetch_add(1, Ordering::Relaxed);
        let (data, control_plane) = (Arc::new(Data::default()), Arc::new(Mutex::new(0)));
        let other = {
            let (data, control_plane) = (Arc::clone(&data), Arc::clone(&control_plane));
            thread::spawn(move || ask(2, 2, &data, &control_plane))
        };
        let one = ask(1, 1, &data, &control_plane);
        let other = other.join().unwrap();
        let history = data.0.lock().unwrap().history.clone();
        assert!(history.is_sorted(), "{history:?}");
        // Each looks at its next tick, and so does a third one, which has only just begun.
        for mut follower in [one, other, Follower::new(3)] {
            follower.look(&*data).unwrap();
            assert_eq!(Some(follower.version()), history.last().map(String::as_str));
        }
    });
    println!("{} interleavings", RUNS.load(Ordering::Relaxed));
}
