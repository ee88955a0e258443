//! Whole requests over a fake host, many at once, in any order. Each attempt must be counted for
//! its own request and server, whatever happens between the filters of a request.
//!
//! The Wasm module does not run here, but in `filters/testhost/tests/guest`.

mod agent;
mod attempts;
mod bodies;
mod clusters;
mod configurations;
mod cpu;
mod fail_open;
mod host;
mod inbound;
mod latencies;
mod mesh;
mod promises;
mod reports;
mod services;
mod starts;
mod streams;
mod thread;
mod versions;

use mesh::{Books, Case, Mesh};

const REQUESTS: usize = 10;
/// Interleavings of each case.
const SEEDS: u64 = 100;
/// A request has at most some forty steps, and a held one waits for others.
const MOST_STEPS: usize = 20_000;

const CASES: [Case; 5] = [
    Case { routing: "bloc", named: true, missing: false },
    Case { routing: "bloc", named: true, missing: true },
    Case { routing: "bloc", named: false, missing: false },
    Case { routing: "bid", named: true, missing: false },
    Case { routing: "mu", named: false, missing: false },
];

fn run(case: Case, seed: u64) -> Books {
    let mut mesh = Mesh::new(case, REQUESTS, seed);
    for _ in 0..MOST_STEPS {
        if mesh.requests.iter().all(mesh::Request::is_over) {
            mesh.close();
            return mesh.books;
        }
        mesh.step();
    }
    panic!("{case:?}, seed {seed}: a request is never over");
}

#[test]
fn every_attempt_is_counted_for_its_own_request_and_server() {
    let mut all = Books::default();
    for case in CASES {
        for seed in 0..SEEDS {
            println!("{case:?}, seed {seed}");
            let books = run(case, seed);
            all.attempts += books.attempts;
            all.rejected += books.rejected;
            all.failures += books.failures;
            all.exhausted += books.exhausted;
            all.refused += books.refused;
            all.ended += books.ended;
        }
    }
    // Each kind of event occurs in the histories.
    let least = (CASES.len() as u64 * SEEDS) as i64;
    assert!(all.rejected > least && all.failures > least && all.exhausted > least / 20, "{all:?}");
    assert!(all.refused > least / 20 && all.ended > least / 20, "{all:?}");
}
