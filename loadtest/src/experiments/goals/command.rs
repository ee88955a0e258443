//! `bloc-lab goals`.

use super::{page, side_by_side};
use crate::console::this_command;
use crate::experiments::goals::{self, CLAIMS, KINDS, Kind, Measured, Outcome, Verdict};
use crate::record::Record;
use crate::report::{self, Part};
use anyhow::{Context, ensure};
use bloc_mesh::quantity::{duration, number};
use bloc_mesh::seeds;
use bloc_mesh::target_directory;
use clap::Args;
use clap::builder::PossibleValuesParser;
use serde::Serialize;
use std::path::PathBuf;
use std::time::Duration;

/// Check the performance claims; fails if one is missed or not measured (about 45 minutes).
#[derive(Debug, Args)]
pub struct Goals {
    /// Rounds, each with its own arrivals and service times; ratios are paired by round, and their
    /// medians count; 1 to 100
    #[arg(long, default_value = "5", value_parser = |text: &str| number::<usize>(text, 1, 100))]
    rounds: usize,
    /// How long each candidate is measured in a round; 1s to 1h
    #[arg(long, default_value = "15s", value_parser = |text: &str| duration(text, Duration::from_secs(1), Duration::from_secs(3600)))]
    duration: Duration,
    /// Only these kinds; the claims of the others are left out
    #[arg(long, value_name = "KIND", value_delimiter = ',', value_parser = PossibleValuesParser::new(KINDS))]
    only: Vec<String>,
    /// Seed of the arrivals and service times; the seeds of further rounds are derived from it
    #[arg(long, default_value = "1")]
    seed: u64,
    /// Write the claims into this document, between the lines `<!-- written by bloc-lab goals -->`
    /// and `<!-- end -->`; takes all kinds and five rounds
    #[arg(long, value_name = "FILE", conflicts_with = "only")]
    record: Option<PathBuf>,
    /// Where goals.json and records.json go; default target/goals
    #[arg(long, value_name = "DIRECTORY")]
    out: Option<PathBuf>,
}

/// Fewer rounds than this prove no claim.
const HEADLINE: usize = 5;

/// The contents of goals.json.
#[derive(Serialize)]
struct Written<'a> {
    seed: u64,
    /// The seed of each round.
    seeds: &'a [u64],
    duration_s: f64,
    kinds: Vec<Described<'a>>,
    claims: &'a [Verdict],
}

#[derive(Serialize)]
struct Described<'a> {
    name: &'a str,
    what: &'a str,
    candidates: Vec<&'a str>,
}

impl Goals {
    /// Runs the kinds, prints candidates and claims, writes both, and fails after that if a claim
    /// is not kept.
    pub async fn run(self) -> anyhow::Result<()> {
        let out = self.out.unwrap_or_else(|| target_directory().join("goals"));
        std::fs::create_dir_all(&out).with_context(|| format!("--out {}", out.display()))?;
        let record = self.record.as_deref().map(|file| {
            ensure!(self.rounds >= HEADLINE, "--record: {} rounds are no headline: that takes {HEADLINE}", self.rounds);
            Part::find(file, "bloc-lab goals").with_context(|| format!("--record {}", file.display()))
        });
        let record = record.transpose()?;
        let mut kinds = goals::kinds(self.duration, self.seed);
        kinds.retain(|kind| self.only.is_empty() || self.only.iter().any(|only| only == kind.name));
        let seeds: Vec<u64> = (0..self.rounds).map(|round| seeds::round(self.seed, round)).collect();
        let mut measured: Vec<Measured> = Vec::new();
        for kind in &kinds {
            let those = side_by_side::measure(kind, self.rounds).await?;
            println!("{}: {}\n{}", kind.name, kind.what, page::candidate_table(&those));
            measured.extend(those);
        }
        let names: Vec<&str> = kinds.iter().map(|kind| kind.name).collect();
        let verdicts = goals::judge(CLAIMS, &names, &measured, self.rounds, self.seed);
        println!(
            "medians of {} rounds, the least and the greatest in brackets; ratios are paired by round",
            self.rounds
        );
        println!("{}", page::claim_table(&verdicts));
        if self.rounds < HEADLINE {
            println!("{} rounds are no headline: that takes {HEADLINE}", self.rounds);
        }
        println!("seeds of the rounds: {}", seeds.iter().map(u64::to_string).collect::<Vec<_>>().join(", "));

        let written = Written {
            seed: self.seed,
            seeds: &seeds,
            duration_s: self.duration.as_secs_f64(),
            kinds: kinds.iter().map(described).collect(),
            claims: &verdicts,
        };
        std::fs::write(out.join("goals.json"), serde_json::to_string_pretty(&written)? + "\n").context("goals.json")?;
        let records: Vec<Record> = measured.into_iter().flat_map(|one| one.runs.records).collect();
        report::write_records(&records, &out.join("records.json")).context("records.json")?;
        if let (Some(part), Some(first)) = (record, records.first()) {
            let origin = report::origin(&first.environment, &this_command());
            part.write(&format!("{origin}\n\n{}", page::claims_text(&kinds, &verdicts))).context("--record")?;
        }
        println!("{}", out.display());
        ensure!(goals::kept(&verdicts), "not kept: {}", not_kept(&verdicts));
        Ok(())
    }
}

fn described(kind: &Kind) -> Described<'_> {
    let candidates = kind.candidates.iter().map(|candidate| candidate.name.title()).collect();
    Described { name: kind.name, what: kind.what, candidates }
}

fn not_kept(verdicts: &[Verdict]) -> String {
    let missed = verdicts.iter().filter_map(|one| match one.outcome {
        Outcome::Missed => Some(one.id.to_owned()),
        Outcome::NotMeasured => Some(format!("{} (not measured)", one.id)),
        Outcome::Kept | Outcome::Beside => None,
    });
    missed.collect::<Vec<_>>().join(", ")
}
