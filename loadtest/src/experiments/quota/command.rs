//! `bloc-lab quota`.

use super::claims::{self, Verdict};
use super::name::Name;
use super::plan::{LIMIT, Plan, SLO, TIMEOUT};
use super::run::{Order, Results};
use super::{memory, page, qos};
use crate::console::{bar, run_directory, this_command};
use crate::experiments::follow;
use crate::record::Environment;
use anyhow::{Context, bail, ensure};
use bloc_mesh::quantity::{NotAllowed, duration, number};
use bloc_mesh::target_directory;
use clap::Args;
use clap::builder::PossibleValuesParser;
use serde::Serialize;
use std::path::PathBuf;
use std::time::Duration;

/// Compare who sets CPU quotas, limits of memory, and CPU shares: four containers that burn CPU or
/// take memory, and a sidecar that follows, in turns (two and a half hours). Needs root and
/// cgroups.
///
/// Fails if a claim about the node agent is missed or was not measured.
#[derive(Debug, Args)]
pub struct QuotaCommand {
    #[command(flatten)]
    options: Options,
    #[command(flatten)]
    load: Load,
    /// Only these; claims about others are left out
    #[arg(long, value_name = "NAME", value_delimiter = ',', value_parser = PossibleValuesParser::new(Name::all().map(Name::name)))]
    only: Vec<String>,
}

/// What all turns have.
#[derive(Debug, Args)]
pub struct Options {
    /// Rounds, each with its own arrivals; medians count; 1 to 100
    #[arg(long, default_value = "5", value_parser = |text: &str| number::<usize>(text, 1, 100))]
    rounds: usize,
    /// Changes of the quota in each round whose delay is measured; 2 to 1000
    #[arg(long, default_value = "20", value_parser = |text: &str| number::<usize>(text, 2, 1_000))]
    changes: usize,
    /// Seed of arrivals and service times; the seeds of further rounds are derived from it
    #[arg(long, default_value = "1")]
    seed: u64,
    /// The node agent; default: bloc-node-agent beside this program
    #[arg(long, value_name = "FILE")]
    agent: Option<PathBuf>,
    /// Where figures and report.html go; default: below target/, named after the command
    #[arg(long, value_name = "DIRECTORY")]
    out: Option<PathBuf>,
}

/// The load of the four containers, and the parameters of the agent's rules for them.
#[derive(Debug, PartialEq, Eq, Args)]
pub struct Load {
    /// How long a burst lasts; 100ms to 10m
    #[arg(long, default_value = "10s", value_parser = moments)]
    burst: Duration,
    /// From one burst to the next one, which another container has; 100ms to 10m
    #[arg(long, default_value = "20s", value_parser = moments)]
    every: Duration,
    /// Parameters of the agent's rule, as in its configuration, such as "slack: 100m, window: 5"
    #[arg(long, value_name = "YAML", default_value = "")]
    rule: String,
    /// The same for memory, such as "margin: 50Mi"; its step stays 16Mi
    #[arg(long, value_name = "YAML", default_value = "")]
    memory_rule: String,
    /// Per cent of the requests that the agent moves in a second in QoS mode; 10 to 50
    #[arg(long, default_value = "10", value_parser = |text: &str| number::<u32>(text, 10, 50))]
    qos_step: u32,
}

impl Default for Load {
    fn default() -> Self {
        let [burst, every] = [10, 20].map(Duration::from_secs);
        Self { burst, every, rule: String::new(), memory_rule: String::new(), qos_step: 10 }
    }
}

/// The file.
#[derive(Serialize)]
struct Document<'a> {
    environment: Environment,
    command: String,
    seed: u64,
    plan: Plan,
    limit_cores: f64,
    slo: Duration,
    timeout: Duration,
    rule: &'a str,
    memory_rule: &'a str,
    memory_limit_bytes: u64,
    qos_plan: Plan,
    qos_target: Duration,
    qos_threshold: f64,
    qos_step: u32,
    follow_cores: f64,
    follow_overload: f64,
    follow_slo: Duration,
    follow_capacity_for: Duration,
    follow_changes: usize,
    #[serde(flatten)]
    results: &'a Results,
    claims: &'a [Verdict],
}

impl QuotaCommand {
    /// Measures, prints, writes, and fails after that if a claim is not kept.
    pub async fn run(self) -> anyhow::Result<()> {
        ensure!(self.load.burst <= self.load.every, "--burst: allowed is only up to --every, so that no two overlap");
        self.options.measure("quota", self.load, wanted(&self.only)).await
    }
}

impl Options {
    /// Measures these for the command of this name.
    ///
    /// # Errors
    /// A turn cannot be measured, or a claim is not kept.
    pub async fn measure(self, command: &str, load: Load, names: Vec<Name>) -> anyhow::Result<()> {
        let lab = std::env::current_exe().context("where this program is")?;
        let out = self.out.unwrap_or_else(|| target_directory().join(command));
        std::fs::create_dir_all(&out).with_context(|| format!("--out {}", out.display()))?;
        let order = Order {
            plan: Plan { burst: load.burst, every: load.every },
            rounds: self.rounds,
            seed: self.seed,
            names,
            agent: self.agent.unwrap_or_else(|| lab.with_file_name("bloc-node-agent")),
            control_plane: lab.with_file_name("bloc-control-plane"),
            lab,
            rule: load.rule,
            memory_rule: load.memory_rule,
            qos_step: load.qos_step,
            changes: self.changes,
            directory: run_directory(command),
        };
        let bar = bar(command.to_owned());
        let results = order.run(&bar).await?;
        bar.finish_and_clear();
        let verdicts = claims::judge(&results.measured);
        let (rounds, cgroups) = (results.rounds, results.cgroups);
        println!("medians of {rounds} rounds, the least and the greatest in brackets; cgroups {cgroups}");
        for part in page::parts(&results.measured) {
            println!("{}", page::figure_table(&part));
        }
        if !verdicts.is_empty() {
            println!("{}", page::claim_table(&verdicts));
        }
        let document = Document {
            environment: Environment::here(String::new()),
            command: this_command(),
            seed: self.seed,
            plan: order.plan,
            limit_cores: LIMIT,
            slo: SLO,
            timeout: TIMEOUT,
            rule: &order.rule,
            memory_rule: &order.memory_rule,
            memory_limit_bytes: memory::plan::LIMIT,
            qos_plan: qos::plan::plan(order.plan),
            qos_target: qos::plan::TARGET,
            qos_threshold: qos::plan::THRESHOLD,
            qos_step: order.qos_step,
            follow_cores: follow::plan::CORES,
            follow_overload: follow::plan::OVERLOAD,
            follow_slo: follow::plan::SLO,
            follow_capacity_for: follow::plan::AIM,
            follow_changes: order.changes,
            results: &results,
            claims: &verdicts,
        };
        let file = format!("{command}.json");
        std::fs::write(out.join(&file), serde_json::to_string_pretty(&document)? + "\n").context(file)?;
        let page = page::page(&results, &verdicts, &this_command()).into_string();
        std::fs::write(out.join("report.html"), page).context("report.html")?;
        println!("{}", out.join("report.html").display());
        ensure!(results.failed.is_empty(), "{}", results.failed.join("; "));
        if !claims::kept(&verdicts) {
            let missed = verdicts.iter().filter(|one| one.fails());
            bail!("not kept: {}", missed.map(|one| one.id).collect::<Vec<_>>().join(", "));
        }
        Ok(())
    }
}

fn wanted(only: &[String]) -> Vec<Name> {
    Name::all().filter(|name| only.is_empty() || only.iter().any(|only| only == name.name())).collect()
}

fn moments(text: &str) -> Result<Duration, NotAllowed> {
    duration(text, Duration::from_millis(100), Duration::from_secs(600))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiments::follow::case::FollowCase;
    use clap::Parser;

    #[test]
    fn only_selects_and_keeps_the_order_of_tables() {
        let names = |only: &[&str]| {
            let only: Vec<String> = only.iter().map(|name| (*name).to_owned()).collect();
            wanted(&only).into_iter().map(Name::name).collect::<Vec<_>>()
        };
        assert_eq!(names(&["cost", "static"]), ["static", "cost"]);
        let cpu = ["static", "equal", "burst", "autoscaler", "koordinator", "agent", "cost"];
        let nodes = ["nodes-equal", "nodes-leases"];
        let memory = ["memory-static", "memory-equal", "memory-agent"];
        let (shares, follow) = (["qos-shares", "qos-agent"], FollowCase::ALL.map(FollowCase::name));
        assert_eq!(names(&[]), [&cpu[..], &nodes, &memory, &shares, &follow].concat());
        assert_eq!(names(&["follow-delay-told", "follow-slo-told"]), ["follow-slo-told", "follow-delay-told"]);
    }

    #[test]
    fn other_commands_have_the_load_of_this_one() {
        #[derive(Debug, Parser)]
        struct Arguments {
            #[command(flatten)]
            load: Load,
        }
        assert_eq!(Arguments::parse_from(["quota"]).load, Load::default());
    }
}
