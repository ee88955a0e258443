//! `bloc-bench`: criterion's results in one file, and the record of measurements.

use anyhow::Context;
use bloc_benches::bounds::{self, Aim, Bound};
use bloc_benches::environment::Environment;
use bloc_benches::record;
use bloc_benches::summary::{self, Bench};
use bloc_testhost::gates::Measured;
use bloc_testhost::steady::REQUESTS;
use clap::{Parser, Subcommand};
use comfy_table::{Cell, CellAlignment, Table, presets};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::path::{Path, PathBuf};

#[derive(Debug, Parser)]
#[command(name = "bloc-bench", version, about = "Criterion's results in one file, and the record of what was measured")]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Print criterion's results and write them to one file; exit code 1 if a bound is exceeded
    Summary {
        /// Criterion's directory
        criterion: PathBuf,
        /// Where the summary goes
        out: PathBuf,
    },
    /// Count what a request costs with each of two modules, and add both results to changes.csv of
    /// a directory
    Change {
        /// What was changed, in a few words
        #[arg(long)]
        what: String,
        /// The commit that changed it
        #[arg(long)]
        change: String,
        /// The module before the change
        before: PathBuf,
        /// The module after the change
        after: PathBuf,
        /// The directory
        directory: PathBuf,
    },
    /// Add the results to the tables of a directory: policy.csv and guest.csv from a summary,
    /// envoy.csv from the output of `bloc-lab cost`
    Record {
        /// summary.json
        #[arg(long)]
        summary: Option<PathBuf>,
        /// envoy.json
        #[arg(long)]
        envoy: Option<PathBuf>,
        /// The directory
        directory: PathBuf,
    },
}

/// summary.json.
#[derive(Debug, Serialize, Deserialize)]
struct Summary {
    environment: Environment,
    bounds: Vec<Bound>,
    aims: Vec<Aim>,
    benches: Vec<Bench>,
    module_bytes: usize,
    per_request: Vec<PerRequest>,
}

/// What a filter does for a request, on any machine.
#[derive(Debug, Serialize, Deserialize)]
struct PerRequest {
    routing: String,
    filter: String,
    /// Instructions in the guest, as wasmtime's fuel.
    instructions: f64,
    /// Calls out of the guest.
    host_calls: f64,
}

fn per_request(measured: &Measured) -> Vec<PerRequest> {
    let each = |sum: u64| sum as f64 / REQUESTS as f64;
    let rows = measured.costs.iter().flat_map(|(routing, steady)| {
        steady.parts().map(|(filter, cost)| PerRequest {
            routing: routing.clone(),
            filter: filter.to_owned(),
            instructions: each(cost.fuel()),
            host_calls: each(cost.calls()),
        })
    });
    rows.collect()
}

fn main() -> anyhow::Result<()> {
    match Arguments::parse().command {
        Command::Summary { criterion, out } => summarise(&criterion, &out),
        Command::Change { what, change, before, after, directory } => {
            record_change([change, what], [&before, &after], &directory)
        }
        Command::Record { summary, envoy, directory } => {
            if let Some(file) = summary {
                record_summary(&file, &directory)?;
            }
            envoy.map_or(Ok(()), |file| record_envoy(&file, &directory))
        }
    }
}

fn summarise(criterion: &Path, out: &Path) -> anyhow::Result<()> {
    let benches = summary::read(criterion)?;
    let mut table = Table::new();
    table.load_style(presets::UTF8_HORIZONTAL_ONLY).set_header(["", "median", "95% confidence", "fastest"]);
    for Bench { name, median_ns, low_ns, high_ns, least_ns } in &benches {
        let interval = format!("{} to {}", time(*low_ns), time(*high_ns));
        let numbers = [time(*median_ns), interval, time(*least_ns)]
            .map(|text| Cell::new(text).set_alignment(CellAlignment::Right));
        table.add_row([Cell::new(name)].into_iter().chain(numbers));
    }
    println!("{table}");
    let (bounds, aims) = (bounds::bounds(&benches), bounds::aims(&benches));
    bounds.iter().for_each(|bound| println!("{bound}"));
    aims.iter().for_each(|aim| println!("{aim}"));
    if let Some(directory) = out.parent() {
        std::fs::create_dir_all(directory).with_context(|| out.display().to_string())?;
    }
    let measured = Measured::just_built()?;
    let per_request = per_request(&measured);
    for PerRequest { routing, filter, instructions, host_calls } in &per_request {
        println!("{routing} {filter}: {instructions:.0} instructions and {host_calls:.2} host calls a request");
    }
    let (environment, module_bytes) = (Environment::here(), measured.bytes);
    let summary = Summary { environment, bounds, aims, benches, module_bytes, per_request };
    std::fs::write(out, serde_json::to_string_pretty(&summary)?).with_context(|| out.display().to_string())?;
    println!("{}", out.display());
    // Last, so that an exceeded bound does not prevent the output.
    Ok(bounds::verdict(&summary.bounds)?)
}

fn time(nanos: f64) -> String {
    match nanos {
        ..1e3 => format!("{nanos:.1} ns"),
        ..1e6 => format!("{:.2} us", nanos / 1e3),
        _ => format!("{:.2} ms", nanos / 1e6),
    }
}

fn record_summary(file: &Path, directory: &Path) -> anyhow::Result<()> {
    let text = std::fs::read(file).with_context(|| file.display().to_string())?;
    let Summary { environment, benches, module_bytes, per_request, .. } =
        serde_json::from_slice(&text).with_context(|| file.display().to_string())?;
    let rows: Vec<Vec<String>> = benches
        .into_iter()
        .map(|bench| {
            let numbers = [bench.median_ns, bench.low_ns, bench.high_ns].map(|nanos| format!("{nanos:.1}"));
            [bench.name].into_iter().chain(numbers).collect()
        })
        .collect();
    record::append(&directory.join("policy.csv"), &environment, &["bench", "median_ns", "low_ns", "high_ns"], &rows)?;
    let rows: Vec<Vec<String>> = per_request
        .into_iter()
        .map(|PerRequest { routing, filter, instructions, host_calls }| {
            vec![routing, filter, format!("{instructions:.0}"), format!("{host_calls:.2}"), module_bytes.to_string()]
        })
        .collect();
    let columns = ["routing", "filter", "instructions", "host_calls", "module_bytes"];
    record::append(&directory.join("guest.csv"), &environment, &columns, &rows)?;
    Ok(())
}

/// Runs the same requests with both modules, on today's host, so that only the modules differ.
fn record_change(change: [String; 2], modules: [&Path; 2], directory: &Path) -> anyhow::Result<()> {
    const COLUMNS: [&str; 10] = [
        "change",
        "what",
        "routing",
        "filter",
        "instructions_before",
        "instructions_after",
        "host_calls_before",
        "host_calls_after",
        "module_bytes_before",
        "module_bytes_after",
    ];
    let [before, after] = modules.map(|file| Measured::from_file(file).with_context(|| file.display().to_string()));
    let (before, after) = (before?, after?);
    let bytes = [before.bytes, after.bytes].map(|bytes| bytes.to_string());
    let rows: Vec<Vec<String>> = per_request(&before)
        .into_iter()
        .zip(per_request(&after))
        .map(|(one, other)| {
            let counts = [
                format!("{:.0}", one.instructions),
                format!("{:.0}", other.instructions),
                format!("{:.2}", one.host_calls),
                format!("{:.2}", other.host_calls),
            ];
            change.iter().cloned().chain([one.routing, one.filter]).chain(counts).chain(bytes.clone()).collect()
        })
        .collect();
    let mut table = Table::new();
    table.load_style(presets::UTF8_HORIZONTAL_ONLY).set_header(&COLUMNS[2..]);
    for row in &rows {
        table.add_row(&row[2..]);
    }
    println!("{}: {}\n{table}", change[0], change[1]);
    record::append(&directory.join("changes.csv"), &Environment::here(), &COLUMNS, &rows)?;
    Ok(())
}

/// The medians from `bloc-lab cost`. Its file does not name the commit, so the present one is
/// recorded: record at once.
fn record_envoy(file: &Path, directory: &Path) -> anyhow::Result<()> {
    const COLUMNS: [&str; 15] = [
        "envoy",
        "policy",
        "variant",
        "cpu_us",
        "added_us",
        "busy",
        "throughput_rps",
        "half_cpu_us",
        "half_p50_ms",
        "half_p99_ms",
        "start_ms",
        "start_cpu_ms",
        "start_mib",
        "after_mib",
        "worker_mib",
    ];
    let text = std::fs::read(file).with_context(|| file.display().to_string())?;
    let document: Value = serde_json::from_slice(&text).with_context(|| file.display().to_string())?;
    let shown = |value: &Value| match value {
        Value::String(text) => text.clone(),
        Value::Number(number) => number.as_f64().map_or_else(String::new, |number| format!("{number:.3}")),
        _ => String::new(),
    };
    let common = [&document["environment"]["envoy"], &document["policy"]].map(shown);
    let rows = document["medians"]
        .as_array()
        .context("no medians")?
        .iter()
        .map(|row| common.iter().cloned().chain(COLUMNS[2..].iter().map(|column| shown(&row[column]))).collect());
    record::append(&directory.join("envoy.csv"), &Environment::here(), &COLUMNS, &rows.collect::<Vec<_>>())?;
    Ok(())
}
