//! `bloc-sim run`: one case, its result as JSON.

use super::case::CaseOptions;
use anyhow::Context;
use bloc_sim::policies::PolicyKind;
use bloc_sim::{Outcome, Scenario};
use serde::Serialize;
use std::path::PathBuf;
use std::time::Instant;

/// Simulates one case and prints scenario, outcome and speed as JSON.
#[derive(Debug, clap::Args)]
pub struct Run {
    /// The policy.
    #[arg(long)]
    policy: Option<PolicyKind>,
    #[command(flatten)]
    case: CaseOptions,
    /// Write the JSON here instead of printing it.
    #[arg(long)]
    json: Option<PathBuf>,
}

#[derive(Serialize)]
struct Report {
    scenario: Scenario,
    outcome: Outcome,
    speed: Speed,
}

/// How fast the simulator was; the only part of the output that differs between runs.
#[derive(Serialize)]
struct Speed {
    wall_s: f64,
    events_per_s: u64,
    simulated_s_per_s: f64,
}

impl Run {
    /// Runs the command.
    pub fn run(self) -> anyhow::Result<()> {
        let scenario = self.case.scenario(Scenario::default(), self.policy)?;
        eprintln!("seed {}", scenario.seed);
        let began = Instant::now();
        let outcome = bloc_sim::run(&scenario)?;
        let wall_s = began.elapsed().as_secs_f64();
        let speed = Speed {
            wall_s: (wall_s * 1e3).round() / 1e3,
            events_per_s: (outcome.events as f64 / wall_s) as u64,
            simulated_s_per_s: ((scenario.warm_up + scenario.duration).as_secs_f64() / wall_s * 10.0).round() / 10.0,
        };
        let json = serde_json::to_string_pretty(&Report { scenario, outcome, speed })?;
        match &self.json {
            Some(path) => std::fs::write(path, json + "\n").with_context(|| path.display().to_string()),
            None => {
                println!("{json}");
                Ok(())
            }
        }
    }
}
