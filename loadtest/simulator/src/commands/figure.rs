//! `bloc-sim figure-5-6`: the paper's figure as table, SVG and JSON.

use super::case::CaseOptions;
use anyhow::Context;
use bloc_figures::chart::{Line, Lines, Marks};
use bloc_sim::figure::{self, BALANCERS, Figure};
use bloc_sim::policies::PolicyKind;
use comfy_table::Table;
use std::path::{Path, PathBuf};

/// Simulates figure 5.6 of the paper: the 99th percentile of the wait against the number of load
/// balancers.
#[derive(Debug, clap::Args)]
pub struct FigureCommand {
    /// The policies to compare.
    #[arg(long, value_delimiter = ',', default_values = ["jsq", "least_request_full"])]
    policies: Vec<PolicyKind>,
    /// The numbers of load balancers; default 1 to 100.
    #[arg(long, value_delimiter = ',')]
    balancers: Vec<u32>,
    #[command(flatten)]
    case: CaseOptions,
    /// The directory for figure-5-6.svg and figure-5-6.json.
    #[arg(long, default_value = "target/simulator")]
    out: PathBuf,
}

impl FigureCommand {
    /// Runs the command.
    pub fn run(self) -> anyhow::Result<()> {
        let scenario = self.case.scenario(figure::scenario(), None)?;
        let balancers = if self.balancers.is_empty() { &BALANCERS[..] } else { &self.balancers };
        eprintln!("seed {}", scenario.seed);
        let figure = figure::simulate(&scenario, &self.policies, balancers, |point| {
            eprintln!("{} balancers done", point.balancers);
        })?;
        let mut table = Table::new();
        let names = figure.policies.iter().map(|policy| format!("{} p99 wait, ms", policy.name()));
        table.set_header(std::iter::once("balancers".to_owned()).chain(names));
        for point in &figure.points {
            let waits = point.wait_p99_ms.iter().map(|wait| wait.map_or_else(String::new, |ms| format!("{ms:.0}")));
            table.add_row(std::iter::once(point.balancers.to_string()).chain(waits));
        }
        println!("{table}");
        write(&self.out, &figure)
    }
}

fn write(directory: &Path, figure: &Figure) -> anyhow::Result<()> {
    std::fs::create_dir_all(directory).with_context(|| directory.display().to_string())?;
    let line = |(place, policy): (usize, &PolicyKind)| Line {
        name: policy.name().replace('_', " "),
        colour: place + 1,
        points: figure
            .points
            .iter()
            .filter_map(|point| Some((f64::from(point.balancers), point.wait_p99_ms[place]? / 1e3)))
            .collect(),
    };
    let lines: Vec<Line> = figure.policies.iter().enumerate().map(line).collect();
    let title = "Waiting time rises with the number of load balancers";
    let (across, up, most) = ("load balancers", "p99 wait, seconds", f64::INFINITY);
    let svg = Lines { lines: &lines, across, up, most, marks: Marks::default() }.picture(title);
    for (name, text) in [("figure-5-6.svg", svg), ("figure-5-6.json", serde_json::to_string_pretty(figure)? + "\n")] {
        let path = directory.join(name);
        std::fs::write(&path, text).with_context(|| path.display().to_string())?;
        println!("{}", path.display());
    }
    Ok(())
}
