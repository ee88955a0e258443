//! The environment of a measurement.

use serde::{Deserialize, Serialize};
use std::process::Command;

/// What a figure depends on, apart from the code.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Environment {
    /// The day, as `2026-01-31`.
    pub date: String,
    /// The commit, with `-dirty` if files differ from it.
    pub commit: String,
    /// The output of `rustc --version`.
    pub rustc: String,
    /// The processor, as the system calls it.
    pub processor: String,
    /// How many cores.
    pub cores: usize,
}

impl Environment {
    /// This machine and this working tree, now; what cannot be determined is `unknown`.
    pub fn here() -> Self {
        let cpuinfo = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let model = cpuinfo.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
        Self {
            date: said("date", &["-u", "+%Y-%m-%d"]),
            commit: said("git", &["describe", "--always", "--dirty", "--exclude", "*"]),
            rustc: said("rustc", &["--version"]),
            processor: model.map_or_else(|| std::env::consts::ARCH.to_owned(), |(_, name)| name.to_owned()),
            cores: std::thread::available_parallelism().map_or(1, usize::from),
        }
    }

    /// The names of [`Self::values`].
    pub const NAMES: [&str; 5] = ["date", "commit", "rustc", "processor", "cores"];

    /// The values of a table's line.
    pub fn values(&self) -> [String; 5] {
        let Self { date, commit, rustc, processor, cores } = self.clone();
        [date, commit, rustc, processor, cores.to_string()]
    }
}

fn said(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).output().ok().filter(|output| output.status.success());
    let text = output.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned());
    text.filter(|text| !text.is_empty()).unwrap_or_else(|| "unknown".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_the_compiler_the_date_and_the_processor() {
        let here = Environment::here();
        assert!(here.rustc.starts_with("rustc 1."), "{here:?}");
        assert_eq!((here.date.len(), here.cores > 0, here.processor.is_empty()), (10, true, false), "{here:?}");
        assert_eq!(said("no-such-program", &[]), "unknown");
    }
}
