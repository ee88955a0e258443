//! Runs each committed input through its fuzz target, so that a fixed bug does not come back.

use bloc_fuzz::TARGETS;
use std::fs;
use std::panic::catch_unwind;
use std::path::Path;

/// The bytes of a line; `corpus.py` says how they are written.
fn bytes(line: &str) -> Vec<u8> {
    let (_, text) = line.split_once('\t').expect("a name, which may be empty, and a tab");
    let mut parts = text.split("\\x");
    let mut bytes = parts.next().unwrap_or_default().as_bytes().to_vec();
    for part in parts {
        let (digits, rest) = part.split_at(2);
        bytes.push(u8::from_str_radix(digits, 16).expect("two digits"));
        bytes.extend(rest.as_bytes());
    }
    bytes
}

fn inputs(target: &str) -> Vec<Vec<u8>> {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(target).with_extension("txt");
    let text = fs::read_to_string(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    text.lines().map(bytes).collect()
}

#[test]
fn reads_an_input_byte_by_byte() {
    assert_eq!(bytes("seed-0\ta\\x5cx41\\x00\\xff b"), b"a\\x41\0\xff b");
    assert_eq!(bytes("\t"), b"");
}

#[test]
fn no_corpus_input_makes_its_target_panic() {
    for (name, target) in TARGETS {
        let inputs = inputs(name);
        assert!(inputs.len() >= 3, "{name}: {} inputs", inputs.len());
        for (line, data) in (1..).zip(inputs) {
            assert!(catch_unwind(|| target(&data)).is_ok(), "corpus/{name}.txt:{line}");
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
