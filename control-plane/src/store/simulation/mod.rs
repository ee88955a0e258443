//! The sync protocol under network faults, crashes and restarts, with the real code of both ends:
//! [`State`] of two replicas, and [`Follower`] of every thread of some proxies.
//!
//! Only tests use this folder. Tests of single answers are in `store/tests.rs`.
//!
//! [`scenarios`] has the failures of replicas one by one. Here, each seed is one run. The source
//! changes. Replicas read it late, each by its own watches, list again and restart. Polls and
//! answers are lost, duplicated and reordered, and waits end. Threads interrupt each other between
//! any two accesses to shared data, and crash. Proxies restart. Node agents change the cores of the
//! proxies' pods; some agents reach only one replica.
//!
//! Checked: a thread only puts in force a state that the source had at some revision. No replica
//! answers with an older state than the proxy has, except where `adr/0001-versions.md` allows it;
//! apart from these, no state in force in a proxy ever goes back. An answer with only CPU has the
//! version of the question. Soon after the faults end, every thread of every proxy has the state of
//! the source, and every proxy the cores of its pod. These then stay, whichever replica is asked.
//!
//! 10,000 seeds; `BLOC_SEEDS=1000000` for more, `BLOC_SEED=17` for one.

mod proxy;
mod replica;
mod scenarios;
mod world;

use tokio::time::Instant;
use world::World;

const REPLICAS: usize = 2;
const PROXIES: usize = 2;
const THREADS: usize = 3;
/// The source has two kinds of objects: the parameters of service `a`, and those of `b`, which may
/// not exist.
const KINDS: usize = 2;
const NAMES: [&str; KINDS] = ["a", "b"];
const STEPS: usize = 60;
/// Rounds without faults until every thread must have the state.
const ROUNDS: usize = 12;
/// Further rounds in which nothing may change: longer than a pod may be silent.
const REST: usize = 6;

fn setting(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().unwrap())
}

#[test]
fn states_go_back_only_as_documented_and_every_proxy_converges() {
    let seeds = match setting("BLOC_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..setting("BLOC_SEEDS").unwrap_or(10_000),
    };
    let (start, mut rounds, mut versions, mut older) = (Instant::now(), [0; ROUNDS], 0, 0);
    for seed in seeds {
        let world = World::new(seed, start);
        (0..STEPS).for_each(|_| world.step());
        versions += world.source.borrow().revision;
        rounds[world.settle()] += 1;
        older += world.older.get();
        world.rest();
    }
    println!("{versions} versions, {older} older ones; settled after so many rounds: {rounds:?}");
}
