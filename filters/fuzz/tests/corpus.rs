//! Runs each committed input through its fuzz target, so that a fixed fault does not come back.

use bloc_fuzz::TARGETS;
use std::fs;
use std::panic::catch_unwind;
use std::path::{Path, PathBuf};

fn inputs(target: &str) -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(target);
    let entries = fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    entries.map(|entry| entry.unwrap().path()).collect()
}

#[test]
fn no_corpus_input_makes_its_target_panic() {
    for (name, target) in TARGETS {
        let inputs = inputs(name);
        assert!(inputs.len() >= 3, "{name}: {} inputs", inputs.len());
        for input in inputs {
            let data = fs::read(&input).unwrap();
            assert!(catch_unwind(|| target(&data)).is_ok(), "{name}: {}", input.display());
        }
    }
}

#[test]
fn every_target_has_its_fuzzer() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz_targets");
    let mut fuzzers: Vec<String> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path().file_stem().unwrap().to_string_lossy().into_owned())
        .collect();
    fuzzers.sort();
    assert_eq!(fuzzers, TARGETS.map(|(name, _)| name));
}
