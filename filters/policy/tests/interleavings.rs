//! Two threads of one proxy under every interleaving of their steps on shared data: loom runs them
//! all.
//!
//! Both [`Follower`]s believe that they lead, as they may for a moment when a lease ends. The
//! control plane's answers are never older than the questions. Which of two answers comes first,
//! and what the other thread does between any two steps, is open.
#![allow(missing_docs, reason = "tests")]

use bloc_policy::proxy::roster::{self, Added};
use bloc_policy::proxy::shared::{Cas, Shared};
use bloc_policy::sync::follower::{Follower, Stamp};
use bloc_policy::units::Timestamp;
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

impl Data {
    fn store(&self, key: &str, value: &[u8], cas: Option<Cas>) -> bool {
        let mut state = self.0.lock().unwrap();
        match state.values.iter_mut().find(|(name, ..)| name == key) {
            Some((_, _, there)) if cas.is_some_and(|cas| cas.get() != 0 && cas.get() != *there) => return false,
            Some((_, old, there)) => (*old, *there) = (value.to_vec(), *there + 1),
            // Envoy takes any number for a key without a value.
            None => state.values.push((key.to_owned(), value.to_vec(), 1)),
        }
        let version = value.get(size_of::<Stamp>()..).and_then(version);
        state.history.extend(version);
        true
    }
}

impl Shared for Data {
    fn get(&self, key: &str) -> (Option<Vec<u8>>, Cas) {
        let state = self.0.lock().unwrap();
        let found = state.values.iter().find(|(name, ..)| name == key);
        found.map_or((None, Cas::ABSENT), |(_, value, cas)| (Some(value.clone()), Cas::new(*cas)))
    }

    fn set(&self, key: &str, value: &[u8], cas: Cas) -> bool {
        self.store(key, value, Some(cas))
    }

    fn overwrite(&self, key: &str, value: &[u8]) {
        self.store(key, value, None);
    }
}

fn answer(version: u8) -> Vec<u8> {
    format!(r#"{{"version":"{version}","services":{{}}}}"#).into_bytes()
}

/// The version in an answer, if it is one.
fn version(body: &[u8]) -> Option<String> {
    (1..=9).find(|version| answer(*version) == body).map(|version| version.to_string())
}

/// A thread that asks `times` times. What the control plane has is newer with each question,
/// whoever asks.
fn ask(vm: u64, times: usize, data: &Data, control_plane: &Mutex<u8>) -> Follower {
    let mut follower = Follower::new(vm);
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
fn versions_never_go_back_and_all_followers_end_at_the_newest() {
    // From std, so that counting is not a step for loom.
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

/// Until it succeeds, as the agent does on its ticks.
fn insist(mut step: impl FnMut() -> bool) {
    assert!((0..10).any(|_| step()));
}

#[test]
fn two_threads_that_add_the_first_entries_lose_neither() {
    loom::model(|| {
        let data = Arc::new(Data::default());
        let add = |vm: u64, data: &Data| {
            insist(|| roster::list(data, vm));
            insist(|| roster::announce(data, &[format!("service {vm}")].into()) != Added::NotYet);
        };
        let other = {
            let data = Arc::clone(&data);
            thread::spawn(move || add(2, &data))
        };
        add(1, &data);
        other.join().unwrap();
        let mut vms = roster::vms(&*data);
        vms.sort_unstable();
        assert_eq!(vms, [1, 2]);
        assert_eq!(roster::seen(&*data).into_iter().collect::<Vec<_>>(), ["service 1", "service 2"]);
    });
}

/// One thread ends, while another one begins.
#[test]
fn a_thread_that_leaves_is_neither_leader_nor_listed() {
    loom::model(|| {
        let data = Arc::new(Data::default());
        let (gone, now) = (Follower::new(1), Timestamp::ZERO);
        insist(|| roster::list(&*data, 1));
        assert!(gone.try_lead(&*data, now));
        let other = {
            let data = Arc::clone(&data);
            thread::spawn(move || {
                insist(|| roster::list(&*data, 2));
                Follower::new(2).try_lead(&*data, now)
            })
        };
        roster::unlist(&*data, 1);
        gone.resign(&*data);
        let leads = other.join().unwrap();
        assert_eq!(roster::vms(&*data), [2]);
        assert!(leads || Follower::new(2).try_lead(&*data, now), "at once, or as soon as it looks again");
        assert!(!gone.try_lead(&*data, now));
    });
}
