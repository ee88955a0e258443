//! The file of results: one JSON object a line. An interrupted map goes on where it ended.
//!
//! The first line names the build of the simulator. Results of another build are not taken over.

use super::cell::{Cell, Size};
use super::figures::{Figures, POLICIES, Runs};
use crate::policies::PolicyKind;
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Write};
use std::path::Path;

/// What one simulation is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Key {
    /// The cell.
    pub cell: Cell,
    /// The policy.
    pub policy: PolicyKind,
    /// The seed.
    pub seed: u64,
    /// How long it lasts.
    pub size: Size,
}

#[derive(Serialize, Deserialize)]
struct Header {
    build: String,
}

#[derive(Serialize, Deserialize)]
struct Line {
    #[serde(flatten)]
    key: Key,
    #[serde(flatten)]
    figures: Figures,
}

/// The results so far, and the file that they are in.
#[derive(Debug)]
pub struct Results {
    known: HashMap<Key, Figures>,
    file: File,
}

impl Results {
    /// Opens the file of a map, and reads what this `build` has written there before.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn open(path: &Path, build: &str) -> io::Result<Self> {
        let text = std::fs::read_to_string(path).unwrap_or_default();
        let mut lines = text.lines();
        let header = lines.next().and_then(|line| serde_json::from_str::<Header>(line).ok());
        let lines: Vec<&str> = match header {
            // The last line may have been cut off.
            Some(header) if header.build == build => lines.collect(),
            _ => Vec::new(),
        };
        let lines: Vec<Line> = lines.into_iter().filter_map(|line| serde_json::from_str(line).ok()).collect();
        let mut results = Self { known: HashMap::new(), file: File::create(path)? };
        writeln!(results.file, "{}", serde_json::to_string(&Header { build: build.to_owned() })?)?;
        for Line { key, figures } in lines {
            results.add(key, figures)?;
        }
        Ok(results)
    }

    /// Whether this simulation has been run.
    pub fn has(&self, key: &Key) -> bool {
        self.known.contains_key(key)
    }

    /// Adds the result of a simulation.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn add(&mut self, key: Key, figures: Figures) -> io::Result<()> {
        writeln!(self.file, "{}", serde_json::to_string(&Line { key, figures })?)?;
        self.known.insert(key, figures);
        Ok(())
    }

    /// The results of a cell; none if one is missing.
    pub fn runs(&self, cell: Cell, seeds: u64, size: Size) -> Option<Runs> {
        let of_policy = |policy: PolicyKind| {
            let of_seed = |seed| self.known.get(&Key { cell, policy, seed, size }).copied();
            Some((policy.name(), (1..=seeds).map(of_seed).collect::<Option<Vec<_>>>()?))
        };
        Some(Runs { cell, of: POLICIES.into_iter().map(of_policy).collect::<Option<_>>()? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZE: Size = Size { answers: 10, warm_up: 1 };

    fn figures(p99_ms: f64) -> Figures {
        Figures { p50_ms: 1.0, p99_ms, mean_ms: 1.5, attempts: 1.25, shed: 0.0, goodput: 99.5, share: 1.0 }
    }

    #[test]
    fn goes_on_where_it_was_cut_off_unless_the_build_differs() {
        let path = std::env::temp_dir().join(format!("bloc-sim-results-{}", std::process::id()));
        let cell = super::super::corners()[0];
        let key = |policy, seed| Key { cell, policy, seed, size: SIZE };
        let mut results = Results::open(&path, "one").unwrap();
        for policy in POLICIES {
            assert!(results.runs(cell, 2, SIZE).is_none());
            for seed in 1..=2 {
                results.add(key(policy, seed), figures(seed as f64)).unwrap();
            }
        }
        drop(results);
        let mut text = std::fs::read_to_string(&path).unwrap();
        text.push_str("{\"cell\":{\"servers\":3,");
        std::fs::write(&path, text).unwrap();
        let results = Results::open(&path, "one").unwrap();
        assert!(results.has(&key(PolicyKind::Bid, 2)) && !results.has(&key(PolicyKind::Bid, 3)));
        let runs = results.runs(cell, 2, SIZE).unwrap();
        assert_eq!(runs.of["bid"], [figures(1.0), figures(2.0)]);
        assert!(results.runs(cell, 3, SIZE).is_none());
        drop(results);
        assert!(!Results::open(&path, "another").unwrap().has(&key(PolicyKind::Bid, 1)));
        std::fs::remove_file(&path).unwrap();
    }
}
