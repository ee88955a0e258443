//! `bloc-lab cost`.

use crate::console::{bar, run_directory, tools};
use crate::experiments::cost::bounced::{AtOnce, Bounced};
use crate::experiments::cost::bounds::{self, Aim, Bound};
use crate::experiments::cost::figures::{Figures, Medians};
use crate::experiments::cost::variant::Modules;
use crate::experiments::cost::{Bench, Options, Variant};
use crate::record::Environment;
use anyhow::{Context, ensure};
use bloc_mesh::envoy;
use bloc_mesh::policy::Policy;
use bloc_mesh::quantity::number;
use bloc_mesh::{ToolsMissing, target_directory};
use clap::Args;
use serde::Serialize;
use std::path::PathBuf;

/// Measure the cost of a request in a real Envoy, with and without filters: CPU, throughput,
/// latency, memory, start; the cost of a bounced POST of 100 kB; and of a bounced GET with and
/// without a back-off. Exit code 1 if a bound is exceeded.
#[derive(Debug, Args)]
pub struct CostCommand {
    /// Rounds; each loads every variant; 1 to 1000
    #[arg(long, default_value = "3", value_parser = |text: &str| number::<usize>(text, 1, 1_000))]
    rounds: usize,
    /// How long each load lasts, in seconds; two loads per round and variant; 1 to 3600
    #[arg(long, default_value = "2", value_parser = |text: &str| number::<u64>(text, 1, 3_600))]
    seconds: u64,
    /// Connections at saturation; 1 to 10000
    #[arg(long, default_value = "32", value_parser = |text: &str| number::<usize>(text, 1, 10_000))]
    connections: usize,
    /// How often each variant is started; 1 to 1000
    #[arg(long, default_value = "3", value_parser = |text: &str| number::<usize>(text, 1, 1_000))]
    starts: usize,
    /// Routing of bloc.outbound: bloc, mu or bid
    #[arg(long, value_enum, default_value = "bloc")]
    policy: Policy,
    /// Only variants whose names contain this, and the one without a filter; no bounces
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
    aims: Vec<Aim>,
    medians: Vec<Medians>,
    bounces: Vec<Bounced>,
    at_once: Option<AtOnce>,
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
            return Err(ToolsMissing::Unbuilt { path, command: "make wasm" }.into());
        }
        let absolute = |path: PathBuf| path.canonicalize().with_context(|| path.display().to_string());
        let modules =
            Modules { bloc: absolute(tools.module.clone())?, reference: absolute(reference)?, policy: self.policy };
        let options =
            Options { rounds: self.rounds, seconds: self.seconds, connections: self.connections, starts: self.starts };
        let (mut bounces, mut at_once) = (Vec::new(), None);
        if self.only.is_none() {
            bounces = Bounced::measure(&tools, self.rounds).await?;
            at_once = Some(AtOnce::measure(&tools).await?);
        }
        let only = self.only.unwrap_or_default();
        let wanted = |variant: &Variant| *variant == Variant::Plain || variant.name().contains(&only);
        let variants: Vec<Variant> = Variant::ALL.into_iter().filter(wanted).collect();

        let bar = bar("cost".into());
        let environment = Environment::here(envoy::version(&tools.envoy));
        let bench = Bench { envoy: tools.envoy, modules, directory: run_directory("cost"), options };
        let figures = bench.run(&variants, &bar).await?;
        bar.finish_and_clear();
        println!("{}", figures.table());
        bounces.iter().for_each(|bounced| println!("{bounced}"));
        let (mut bounds, aims) = (bounds::bounds(&figures), bounds::aims(&figures));
        bounds.extend(at_once.as_ref().and_then(AtOnce::bound));
        bounds.iter().for_each(|bound| println!("{bound}"));
        aims.iter().for_each(|aim| println!("{aim}"));
        let out = self.out.unwrap_or_else(|| target_directory().join("bench/envoy.json"));
        if let Some(directory) = out.parent() {
            std::fs::create_dir_all(directory).with_context(|| format!("--out {}", out.display()))?;
        }
        let document = Document {
            environment,
            options,
            policy: self.policy,
            bounds,
            aims,
            medians: figures.medians(),
            bounces,
            at_once,
            figures,
        };
        std::fs::write(&out, serde_json::to_string_pretty(&document)?)
            .with_context(|| format!("--out {}", out.display()))?;
        println!("{}", out.display());
        // Last, so that all results are shown even if a bound is exceeded.
        Ok(bounds::verdict(&document.bounds)?)
    }
}
