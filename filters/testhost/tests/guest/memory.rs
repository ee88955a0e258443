//! The guests' memory over many requests; `cargo run --release -p bloc-testhost --example soak` is
//! the long version.

use crate::support::module;
use bloc_testhost::soak::{Servers, Soak};

#[test]
fn memory_stays_flat_while_servers_come_and_go() {
    for from in [Servers::Learned, Servers::Announced] {
        let seen = Soak { requests: 10_000, servers: 500, from }.run(module());
        println!("{from:?}: {seen:?}");
        assert_eq!(seen.end, seen.warm);
        assert_eq!(seen.contexts, 0, "every stream was forgotten");
        assert!(seen.served > 5_000 && seen.retried > 500, "the mix is what it ought to be: {seen:?}");
    }
}
