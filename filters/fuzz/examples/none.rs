//! An empty program, which `fuzz.sh` builds beside the fuzzers. Only when a test or an example is
//! built, too, does cargo compile dependencies with the features that tests need. So what the tests
//! have compiled is used again.
fn main() {}
