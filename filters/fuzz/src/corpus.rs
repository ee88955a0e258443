//! The committed inputs of the targets, for the tests that replay them without a fuzzer.

use crate::Target;
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

fn inputs(package: &Path, target: &str) -> Vec<Vec<u8>> {
    let file = package.join("corpus").join(target).with_extension("txt");
    let text = fs::read_to_string(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    text.lines().map(bytes).collect()
}

/// Runs each input in the folder `corpus` of the package through its target.
///
/// # Panics
/// A target panics, has fewer than three inputs, or a file cannot be read.
pub fn replay(package: &Path, targets: &[(&str, Target)]) {
    for (name, target) in targets {
        let inputs = inputs(package, name);
        assert!(inputs.len() >= 3, "{name}: {} inputs", inputs.len());
        for (line, data) in (1..).zip(inputs) {
            assert!(catch_unwind(|| target(&data)).is_ok(), "corpus/{name}.txt:{line}");
        }
    }
}

/// The fuzzers in the folder `fuzz_targets` of the package, in order.
///
/// # Panics
/// The folder cannot be read.
pub fn fuzzers(package: &Path) -> Vec<String> {
    let mut fuzzers: Vec<String> = fs::read_dir(package.join("fuzz_targets"))
        .expect("a folder of fuzzers")
        .map(|entry| entry.expect("an entry").path().with_extension(""))
        .filter_map(|path| Some(path.file_name()?.to_string_lossy().into_owned()))
        .collect();
    fuzzers.sort();
    fuzzers
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_an_input_byte_by_byte() {
        assert_eq!(bytes("seed-0\ta\\x5cx41\\x00\\xff b"), b"a\\x41\0\xff b");
        assert_eq!(bytes("\t"), b"");
    }
}
