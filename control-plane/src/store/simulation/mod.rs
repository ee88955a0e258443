//! The sync protocol under everything that a network and its ends can do, with the code of both: [`State`] of two replicas, and [`Follower`] of every thread of some proxies.
//!
//! Each seed is one run: changes of the source, replicas that read them late and each watch for itself, list anew and restart; polls and answers that are lost, doubled and overtaken; waits that are over;
//! threads that come in between any two accesses of another one to their shared data, that crash, and proxies that restart. Whatever a thread puts in force is what the source said at that version's revisions, and no
//! version in force in a proxy ever goes back. When all that ends, every thread of every proxy soon has the state of the source.
//!
//! 10,000 seeds; `BLOC_SEEDS=1000000` for more, `BLOC_SEED=17` for one.

mod proxy;
mod replica;
mod world;

use tokio::time::Instant;
use world::World;

const REPLICAS: usize = 2;
const PROXIES: usize = 2;
const THREADS: usize = 3;
/// What the source is watched for: the parameters of the service `a`, and of `b`, which may not exist.
const KINDS: usize = 2;
const NAMES: [&str; KINDS] = ["a", "b"];
const STEPS: usize = 60;
/// Rounds in which everything works, until everybody must have the state.
const ROUNDS: usize = 12;

fn setting(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().unwrap())
}

#[test]
fn versions_never_go_back_and_every_proxy_converges() {
    let seeds = match setting("BLOC_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..setting("BLOC_SEEDS").unwrap_or(10_000),
    };
    let (start, mut rounds, mut versions) = (Instant::now(), [0; ROUNDS], 0);
    for seed in seeds {
        let world = World::new(seed, start);
        (0..STEPS).for_each(|_| world.step());
        versions += world.source.borrow().revision;
        rounds[world.settle()] += 1;
    }
    println!("{versions} versions; settled after so many rounds: {rounds:?}");
}
