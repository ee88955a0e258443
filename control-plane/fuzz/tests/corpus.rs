//! Runs each committed input through its fuzz target, so that a fixed bug does not come back.

use bloc_control_plane_fuzz::TARGETS;
use bloc_fuzz::corpus;
use std::path::Path;

const PACKAGE: &str = env!("CARGO_MANIFEST_DIR");

#[test]
fn no_corpus_input_makes_its_target_panic() {
    corpus::replay(Path::new(PACKAGE), &TARGETS);
}

#[test]
fn every_target_has_its_fuzzer() {
    assert_eq!(corpus::fuzzers(Path::new(PACKAGE)), TARGETS.map(|(name, _)| name));
}
