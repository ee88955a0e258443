//! Runs the chapters in meshes of their own, two at a time, and failed ones once more on a fresh
//! mesh.
//!
//! A repetition must not hide a fault in the project. So a scenario that fails twice fails, and so
//! do more than [`MOST_FLAKY`] failures. A scenario in which a request had no answer, or after
//! which a proxy refused its configuration, is not repeated.

use crate::inside;
use crate::scenario::{Failure, chapters};
use anyhow::{Context, Result, bail};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Scenarios that may fail once in a run.
const MOST_FLAKY: usize = 2;
/// Where the program inside writes its failure, below its logs.
pub const FAILURE: &str = "failure.json";
/// Names a file to which flaky scenarios are added, for `.ci/run`.
const FLAKY: &str = "BLOC_FLAKY";
/// The chapters of the first of two meshes, about half of the time. The others run in the second.
const FIRST: [&str; 5] = ["attach", "parameters", "unlabelled", "routes", "failure"];

/// The scenarios that failed once, in all meshes.
#[derive(Default)]
struct Failures(Mutex<Vec<Failure>>);

impl Failures {
    fn all(&self) -> MutexGuard<'_, Vec<Failure>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a failure; returns the reason if it must not be repeated.
    fn add(&self, failure: Failure) -> Option<&'static str> {
        let mut all = self.all();
        let twice = all.iter().any(|other| other.scenario == failure.scenario);
        let reason = match (failure.fault, twice, all.len() >= MOST_FLAKY) {
            (true, ..) => Some("no repetition excuses that"),
            (_, true, _) => Some("it has failed twice"),
            (.., true) => Some("too many have failed"),
            _ => None,
        };
        if reason.is_none() {
            all.push(failure);
        } else {
            all.retain(|other| other.scenario != failure.scenario);
        }
        reason
    }
}

/// Runs these chapters in one mesh or, if none are named, all of them in `meshes` meshes at a time,
/// one or two; called outside of the namespaces. Each try has its own log folder below `logs`.
///
/// # Errors
/// A scenario failed and was not excused, or the namespaces cannot be made.
pub fn run(chosen: &[String], meshes: u8, logs: &Path) -> Result<()> {
    let lanes: Vec<Vec<String>> = match chosen {
        [] if meshes == 1 => vec![chapters().into_iter().map(str::to_owned).collect()],
        [] => {
            let (first, second): (Vec<_>, Vec<_>) = chapters().into_iter().partition(|name| FIRST.contains(name));
            [first, second].map(|lane| lane.into_iter().map(str::to_owned).collect()).into()
        }
        chosen => vec![chosen.to_vec()],
    };
    let failures = Failures::default();
    let outcome = std::thread::scope(|scope| {
        let failures = &failures;
        let lanes: Vec<_> = (1..)
            .zip(lanes)
            .map(|(number, lane)| {
                let logs = logs.join(format!("mesh-{number}"));
                scope.spawn(move || run_lane(lane, &format!("{number}: "), &logs, failures))
            })
            .collect();
        let outcomes: Vec<_> = lanes.into_iter().map(|lane| lane.join()).collect();
        outcomes.into_iter().try_for_each(|outcome| outcome.unwrap_or_else(|_| bail!("a mesh's thread panicked")))
    });
    report(&failures.all())?;
    outcome
}

/// Runs the chapters of one mesh; after a failure repeats the failed chapter and continues from
/// there.
fn run_lane(mut chapters: Vec<String>, prefix: &str, logs: &Path, failures: &Failures) -> Result<()> {
    for number in 1.. {
        let logs = logs.join(format!("try-{number}"));
        let Some(failure) = run_once(&chapters, prefix, &logs)? else { break };
        chapters.drain(..chapters.iter().position(|name| *name == failure.chapter).unwrap_or(0));
        let said = failure.scenario.clone();
        if let Some(reason) = failures.add(failure) {
            bail!("{said}: {reason}");
        }
        println!("{prefix}once more on a fresh mesh: {}", chapters.join(", "));
    }
    Ok(())
}

/// One try, in namespaces of its own.
fn run_once(chapters: &[String], prefix: &str, logs: &PathBuf) -> Result<Option<Failure>> {
    let _ = std::fs::remove_dir_all(logs);
    std::fs::create_dir_all(logs)?;
    let arguments = [&["test".to_owned(), "--logs".to_owned(), logs.display().to_string()], chapters].concat();
    let mut inside = inside::command(&arguments)?.stdout(std::process::Stdio::piped()).spawn()?;
    if let Some(stdout) = inside.stdout.take() {
        for line in BufReader::new(stdout).lines() {
            println!("{prefix}{}", line?);
        }
    }
    if inside.wait()?.success() {
        return Ok(None);
    }
    let failure = std::fs::read(logs.join(FAILURE)).context("the tests ended without saying why")?;
    Ok(Some(serde_json::from_slice(&failure)?))
}

/// Prints the flaky scenarios in the last lines, and writes them for `.ci/run`.
fn report(failures: &[Failure]) -> Result<()> {
    for Failure { scenario, error, .. } in failures {
        println!("FLAKY   {scenario}: {error}");
        if let Some(file) = std::env::var_os(FLAKY) {
            let mut file = std::fs::OpenOptions::new().create(true).append(true).open(file)?;
            writeln!(file, "test-istio {scenario}: {}", error.lines().next().unwrap_or_default())?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failure(scenario: &str, fault: bool) -> Failure {
        Failure { chapter: "gateway".into(), scenario: scenario.into(), error: "why".into(), fault }
    }

    #[test]
    fn excuses_two_failed_scenarios_but_not_a_third() {
        let failures = Failures::default();
        assert_eq!(failures.add(failure("a", false)), None);
        assert_eq!(failures.add(failure("b", false)), None);
        assert_eq!(failures.add(failure("c", false)), Some("too many have failed"));
        assert_eq!(failures.all().len(), 2, "the third is not flaky, but failed");
    }

    #[test]
    fn does_not_excuse_a_second_failure_of_a_scenario() {
        let failures = Failures::default();
        assert_eq!(failures.add(failure("a", false)), None);
        assert_eq!(failures.add(failure("a", false)), Some("it has failed twice"));
        assert_eq!(failures.all().len(), 0);
    }

    #[test]
    fn does_not_excuse_a_failure_that_is_a_fault() {
        assert_eq!(Failures::default().add(failure("a", true)), Some("no repetition excuses that"));
    }
}
