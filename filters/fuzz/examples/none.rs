//! Nothing. `fuzz.sh` builds it beside the fuzzers: cargo compiles dependencies with the features
//! that tests need only where a test or an example is built, too, and what the tests have compiled
//! is then used again.
fn main() {}
