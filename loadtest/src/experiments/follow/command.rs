//! `bloc-lab follow`.

use super::claims::{Measured, judge};
use super::plan::{AIM, CORES, OVERLOAD, SLO, Variant};
use super::stand::Programs;
use super::turn::{Delay, Turn, delays, turn};
use crate::console::{bar, run_directory, this_command, tools};
use crate::experiments::quota::claims::{Verdict, kept};
use crate::experiments::quota::page::claim_table;
use crate::record::Environment;
use crate::report::{plain_row, plain_table};
use crate::rounds::{median, range};
use anyhow::{Context, bail, ensure};
use bloc_mesh::policy::Policy;
use bloc_mesh::quantity::number;
use bloc_mesh::{ToolsMissing, seeds, target_directory};
use clap::Args;
use serde::Serialize;
use std::path::PathBuf;
use std::time::Duration;

/// Halve the CPU quota of a server under overload, with a sidecar that follows and one that does
/// not, and measure how soon a sidecar follows (15 minutes). Needs root and cgroups.
///
/// Fails if a claim is missed or was not measured.
#[derive(Debug, Args)]
pub struct Follow {
    /// Rounds, each with its own arrivals; medians count; 1 to 100
    #[arg(long, default_value = "5", value_parser = |text: &str| number::<usize>(text, 1, 100))]
    rounds: usize,
    /// Changes of the quota in each round whose delay is measured; 1 to 1000
    #[arg(long, default_value = "8", value_parser = |text: &str| number::<usize>(text, 1, 1_000))]
    changes: usize,
    /// Seed of arrivals and service times; the seeds of further rounds are derived from it
    #[arg(long, default_value = "1")]
    seed: u64,
    /// The node agent; default: bloc-node-agent beside this program
    #[arg(long, value_name = "FILE")]
    agent: Option<PathBuf>,
    /// Where follow.json goes; default target/follow
    #[arg(long, value_name = "DIRECTORY")]
    out: Option<PathBuf>,
}

/// The file.
#[derive(Serialize)]
struct Document<'a> {
    environment: Environment,
    command: String,
    seed: u64,
    limit_cores: f64,
    overload: f64,
    slo: Duration,
    capacity_for: Duration,
    measured: &'a [Measured],
    delays: &'a [Delay],
    failed: &'a [String],
    claims: &'a [Verdict],
}

impl Follow {
    /// Measures, prints, writes, and fails after that if a claim is not kept.
    pub async fn run(self) -> anyhow::Result<()> {
        let tools = tools()?;
        tools.need(Policy::Bloc, true)?;
        let agent = self.agent.unwrap_or_else(|| tools.lab.with_file_name("bloc-node-agent"));
        if !agent.is_file() {
            return Err(ToolsMissing::Unbuilt { path: agent.display().to_string(), command: "make release" }.into());
        }
        let out = self.out.unwrap_or_else(|| target_directory().join("follow"));
        std::fs::create_dir_all(&out).with_context(|| format!("--out {}", out.display()))?;
        let (programs, directory) = (Programs { tools: &tools, agent: &agent }, run_directory("follow"));
        let bar = bar("follow".into());
        bar.set_length((self.rounds * (Variant::ALL.len() + 1)) as u64);
        let mut measured = Variant::ALL.map(|variant| Measured { variant, turns: Vec::new() });
        let (mut waits, mut failed) = (Vec::new(), Vec::new());
        for round in 0..self.rounds {
            let seed = seeds::round(self.seed, round);
            let mut order: Vec<&mut Measured> = measured.iter_mut().collect();
            if round % 2 != 0 {
                order.reverse();
            }
            for one in order {
                let name = one.variant.name();
                bar.set_message(name);
                let place = directory.join(format!("{}-{}", name.replace([' ', ','], ""), round + 1));
                let result = turn(programs, &place, one.variant, seed).await;
                let line = match &result {
                    Ok(turn) => shown(turn),
                    Err(error) => format!("{error:#}"),
                };
                let line = format!("{name}, round {}: {line}", round + 1);
                bar.inc(1);
                bar.suspend(|| eprintln!("{line}"));
                if result.is_err() {
                    failed.push(line);
                }
                one.turns.push(result.ok());
            }
            bar.set_message("delays");
            match delays(programs, &directory.join(format!("delays-{}", round + 1)), self.changes, seed).await {
                Ok(more) => waits.extend(more),
                Err(error) => failed.push(format!("delays, round {}: {error:#}", round + 1)),
            }
            bar.inc(1);
        }
        bar.finish_and_clear();
        let verdicts = judge(&measured);
        println!("medians of {} rounds, the least and the greatest in brackets", self.rounds);
        println!("{}", figure_table(&measured));
        println!("{}", claim_table(&verdicts));
        for (halved, name) in [(true, "halved"), (false, "doubled")] {
            println!("{}", delay_line(name, waits.iter().filter(|one| one.halved == halved)));
        }
        let document = Document {
            environment: Environment::here(String::new()),
            command: this_command(),
            seed: self.seed,
            limit_cores: CORES,
            overload: OVERLOAD,
            slo: SLO,
            capacity_for: AIM,
            measured: &measured,
            delays: &waits,
            failed: &failed,
            claims: &verdicts,
        };
        let file = out.join("follow.json");
        std::fs::write(&file, serde_json::to_string_pretty(&document)? + "\n").context("follow.json")?;
        println!("{}", file.display());
        ensure!(failed.is_empty(), "{}", failed.join("; "));
        if !kept(&verdicts) {
            let missed = verdicts.iter().filter(|one| one.fails());
            bail!("not kept: {}", missed.map(|one| one.id).collect::<Vec<_>>().join(", "));
        }
        Ok(())
    }
}

/// A turn in a line.
fn shown(turn: &Turn) -> String {
    let Turn { admitted, in_time, first_in_time, p50_ms, p99_ms, rejected, capacity: [before, after] } = turn;
    let [share, first, p50, p99] = [in_time, first_in_time, p50_ms, p99_ms].map(|value| value.unwrap_or_default());
    format!(
        "within the SLO {share:.3} of {admitted}, at first {first:.3}; p50 {p50:.0} ms, p99 {p99:.0} ms; rejected {rejected}; \
         capacity {before} to {after}"
    )
}

/// A row for each figure: medians of the rounds, with the range in brackets.
fn figure_table(measured: &[Measured]) -> comfy_table::Table {
    let names: Vec<&str> = measured.iter().map(|one| one.variant.name()).collect();
    let mut table = plain_table(&[&[""][..], &names].concat());
    let mut row = |title: &str, digits: usize, value: &dyn Fn(&Turn) -> Option<f64>| {
        let cell = |one: &Measured| {
            let values: Option<Vec<f64>> = one.turns.iter().map(|turn| value(turn.as_ref()?)).collect();
            let values = values.unwrap_or_default();
            median(&values).zip(range(&values)).map_or_else(
                || "-".to_owned(),
                |(median, [least, most])| format!("{median:.digits$} ({least:.digits$} to {most:.digits$})"),
            )
        };
        table.add_row(plain_row([title.to_owned()], measured.iter().map(cell)));
    };
    row("within the SLO, share", 3, &|turn| turn.in_time);
    row("the same in the first 2 s", 3, &|turn| turn.first_in_time);
    row("admitted", 0, &|turn| Some(turn.admitted as f64));
    row("rejected", 0, &|turn| Some(turn.rejected as f64));
    row("p50 ms", 0, &|turn| turn.p50_ms);
    row("p99 ms", 0, &|turn| turn.p99_ms);
    row("capacity before", 0, &|turn| Some(turn.capacity[0] as f64));
    row("capacity at the end", 0, &|turn| Some(turn.capacity[1] as f64));
    table
}

/// From the quota in the file to the capacity in force.
fn delay_line<'a>(name: &str, waits: impl Iterator<Item = &'a Delay>) -> String {
    let mut all: Vec<f64> = waits.map(|one| one.ms).collect();
    all.sort_unstable_by(f64::total_cmp);
    let at = |share: f64| {
        let rank = (share * all.len() as f64).ceil() as usize;
        all.get(rank.saturating_sub(1)).copied().unwrap_or_default()
    };
    let (count, p50, p90, most) = (all.len(), at(0.5), at(0.9), at(1.0));
    format!("quota {name}: {count} times, in force after p50 {p50:.0} ms, p90 {p90:.0} ms, at most {most:.0} ms")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shows_medians_ranges_and_delays() {
        let turn = |in_time| Turn {
            admitted: 400,
            in_time: Some(in_time),
            first_in_time: Some(0.25),
            p50_ms: Some(250.4),
            p99_ms: None,
            rejected: 800,
            capacity: [20, 10],
        };
        let turns: Vec<Option<Turn>> = [0.5, 1.0, 0.75].map(|share| Some(turn(share))).into();
        let measured = [Measured { variant: Variant::ALL[1], turns }];
        let text = figure_table(&measured).to_string();
        assert!(text.contains("0.750 (0.500 to 1.000)") && text.contains("250 (250 to 250)"), "{text}");
        assert!(text.lines().any(|line| line.contains("p99 ms") && line.contains(" - ")), "{text}");
        assert_eq!(
            shown(&turn(0.5)),
            "within the SLO 0.500 of 400, at first 0.250; p50 250 ms, p99 0 ms; rejected 800; capacity 20 to 10"
        );
        let waits: Vec<Delay> = (1..=10).map(|n| Delay { halved: true, ms: f64::from(n) }).collect();
        assert_eq!(
            delay_line("halved", waits.iter()),
            "quota halved: 10 times, in force after p50 5 ms, p90 9 ms, at most 10 ms"
        );
    }
}
