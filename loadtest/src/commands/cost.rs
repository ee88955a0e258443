//! `bloc-lab cost`.

use super::console::{bar, run_directory};
use super::mesh_options::tools;
use anyhow::{Context, ensure};
use bloc_lab::cost::figures::{Bound, Figures, Medians};
use bloc_lab::cost::variant::Modules;
use bloc_lab::cost::{Bench, Options, Variant};
use bloc_lab::envoy;
use bloc_lab::mesh::{ToolsMissing, target_directory};
use bloc_lab::policy::Policy;
use bloc_lab::quantity::number;
use bloc_lab::record::Environment;
use clap::Args;
use serde::Serialize;
use std::path::PathBuf;

/// Measure what a request pays in a real Envoy: CPU, throughput, latency, memory, start; with and without filters.
#[derive(Debug, Args)]
pub struct CostCommand {
    /// Rounds; each loads every variant; 1 to 1000
    #[arg(long, default_value = "3", value_parser = |text: &str| number::<usize>(text, 1, 1_000))]
    rounds: usize,
    /// How long each load lasts, in seconds; there are two a round and variant; 1 to 3600
    #[arg(long, default_value = "2", value_parser = |text: &str| number::<u64>(text, 1, 3_600))]
    seconds: u64,
    /// Connections at saturation; 1 to 10000
    #[arg(long, default_value = "32", value_parser = |text: &str| number::<usize>(text, 1, 10_000))]
    connections: usize,
    /// How often each variant is started; 1 to 1000
    #[arg(long, default_value = "3", value_parser = |text: &str| number::<usize>(text, 1, 1_000))]
    starts: usize,
    /// What bloc.outbound routes by: bloc, mu or bid
    #[arg(long, value_enum, default_value = "bloc")]
    policy: Policy,
    /// Only the variants whose names contain this, and the one without a filter
    #[arg(long)]
    only: Option<String>,
    /// The reference filters; default target/reference.wasm
    #[arg(long, value_name = "FILE")]
    reference: Option<PathBuf>,
    /// Where the figures go; default target/bench/envoy.json
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

/// The file.
#[derive(Serialize)]
struct Document {
    environment: Environment,
    options: Options,
    policy: Policy,
    bounds: Vec<Bound>,
    medians: Vec<Medians>,
    #[serde(flatten)]
    figures: Figures,
}

impl CostCommand {
    /// Measures, prints, writes.
    pub async fn run(self) -> anyhow::Result<()> {
        ensure!(
            self.policy.routing().is_some(),
            "--policy {}: it has no filters; take bloc, mu or bid",
            self.policy.name()
        );
        let tools = tools()?;
        tools.need(self.policy, false)?;
        let reference = self.reference.unwrap_or_else(|| target_directory().join("reference.wasm"));
        if !reference.is_file() {
            let path = reference.display().to_string();
            return Err(ToolsMissing::Unbuilt { path, command: "make reference" }.into());
        }
        let absolute = |path: PathBuf| path.canonicalize().with_context(|| path.display().to_string());
        let modules = Modules { bloc: absolute(tools.module)?, reference: absolute(reference)?, policy: self.policy };
        let options =
            Options { rounds: self.rounds, seconds: self.seconds, connections: self.connections, starts: self.starts };
        let only = self.only.unwrap_or_default();
        let wanted = |variant: &Variant| *variant == Variant::Plain || variant.name().contains(&only);
        let variants: Vec<Variant> = Variant::ALL.into_iter().filter(wanted).collect();

        let bar = bar("cost".into());
        let environment = Environment::here(envoy::version(&tools.envoy));
        let bench = Bench { envoy: tools.envoy, modules, directory: run_directory("cost"), options };
        let figures = bench.run(&variants, &bar).await?;
        bar.finish_and_clear();
        println!("{}", figures.table());
        let bounds = figures.bounds();
        for Bound { what, value, most } in &bounds {
            println!("{what}: {value:.2}, at most {most}: {}", if value <= most { "kept" } else { "EXCEEDED" });
        }
        let out = self.out.unwrap_or_else(|| target_directory().join("bench/envoy.json"));
        if let Some(directory) = out.parent() {
            std::fs::create_dir_all(directory).with_context(|| format!("--out {}", out.display()))?;
        }
        let document =
            Document { environment, options, policy: self.policy, bounds, medians: figures.medians(), figures };
        std::fs::write(&out, serde_json::to_string_pretty(&document)?)
            .with_context(|| format!("--out {}", out.display()))?;
        println!("{}", out.display());
        Ok(())
    }
}
