//! `bloc-lab agree`.

use super::page;
use crate::case::Case;
use crate::console::{bar, run_directory, tools};
use crate::experiments::agree::{self, Agreement, Simulated, TOLERANCE, Timing};
use crate::experiments::bounce::{Figures, Kind, Plan, Stand};
use crate::record::Record;
use crate::report;
use crate::rounds::{Runs, in_round};
use crate::series;
use anyhow::{Context, ensure};
use bloc_figures::stats::median;
use bloc_mesh::quantity::{duration, number};
use bloc_mesh::target_directory;
use clap::Args;
use std::path::PathBuf;
use std::time::Duration;

/// Check that simulator and real mesh agree; fails if a median, a 99th percentile or the attempts
/// per request differ by more than 15%.
#[derive(Debug, Args)]
pub struct Agree {
    /// Rounds; medians count; 1 to 100
    #[arg(long, default_value = "3", value_parser = |text: &str| number::<usize>(text, 1, 100))]
    rounds: usize,
    /// How long each case is measured; 1s to 1h
    #[arg(long, default_value = "20s", value_parser = |text: &str| duration(text, Duration::from_secs(1), Duration::from_secs(3600)))]
    duration: Duration,
    /// Load of the open cases as a share of the servers' total rate; 0.1 to 0.98
    #[arg(long, default_value = "0.9", value_parser = |text: &str| number(text, 0.1, 0.98))]
    share: f64,
    /// Seed of the arrivals and service times; the seeds of further rounds are derived from it
    #[arg(long, default_value = "1")]
    seed: u64,
    /// Where agree.json and records.json go; default target/agree
    #[arg(long, value_name = "DIRECTORY")]
    out: Option<PathBuf>,
}

/// Enough for a median; the pause leaves caches as cold as between the requests of a case.
const BOUNCES: Plan = Plan { rounds: 2, block: 200, pause: Duration::from_millis(5) };

impl Agree {
    /// Measures, simulates, compares.
    pub async fn run(self) -> anyhow::Result<()> {
        let out = self.out.clone().unwrap_or_else(|| target_directory().join("agree"));
        std::fs::create_dir_all(&out).with_context(|| format!("--out {}", out.display()))?;
        let bounce = bounce().await?;
        let cases = agree::cases(self.share, self.duration, self.seed);
        let calm: Vec<Case> = cases.iter().filter_map(agree::calibration).collect();
        let calm: Vec<Case> = calm
            .iter()
            .enumerate()
            .filter(|(n, case)| !calm[..*n].contains(case))
            .map(|(_, case)| case.clone())
            .collect();
        let mut runs = series::measure(&[calm.clone(), cases].concat(), self.rounds).await?;
        let cases = runs.split_off(calm.len());

        let mut agreements = Vec::new();
        for run in &cases {
            let overhead = overhead(&runs, &run.case).context("no calibration for this policy")?;
            agreements.push(compare(run, Timing::new(overhead, bounce))?);
        }
        for run in &runs {
            if let Some(overhead) = overhead(&runs, &run.case) {
                let mesh = &run.case.mesh;
                let (policy, frontends) = (mesh.policy.title(mesh.choice()), mesh.frontends);
                println!("on the way, {policy}, with {frontends}: {:.2} ms", overhead.as_secs_f64() * 1e3);
            }
        }
        println!("a bounce: {:.2} ms", bounce.as_secs_f64() * 1e3);
        println!("{}", page::agreement_table(&agreements));
        std::fs::write(out.join("agree.json"), serde_json::to_string_pretty(&agreements)? + "\n")
            .context("agree.json")?;
        let records: Vec<Record> = runs.into_iter().chain(cases).flat_map(|run| run.records).collect();
        report::write_records(&records, &out.join("records.json")).context("records.json")?;
        let off: Vec<&str> = agreements.iter().filter(|one| !one.holds()).map(|one| one.name.as_str()).collect();
        ensure!(off.is_empty(), "off by more than {:.0}%: {}", TOLERANCE * 100.0, off.join(", "));
        println!("all within {:.0}%; {}", TOLERANCE * 100.0, out.display());
        Ok(())
    }
}

/// The time of a bounce: what the first one adds to the median.
async fn bounce() -> anyhow::Result<Duration> {
    let bar = bar("bounce".into());
    let mut stand = Stand::start(&tools()?, &run_directory("agree-bounce"), Kind::PLAIN).await?;
    let bounces = stand.measure(BOUNCES, |_| bar.inc(1)).await?;
    stand.end().await;
    bar.finish_and_clear();
    let figures = Figures::new(&bounces).context("no request was bounced")?;
    Ok(Duration::from_secs_f64(figures.first_p50_us.max(0.0) / 1e6))
}

/// How much longer than its service time a request takes that does not wait. It is taken from the
/// calibration with the same policy and number of frontends.
fn overhead(calibrations: &[Runs], case: &Case) -> Option<Duration> {
    let same = |run: &&Runs| run.case.mesh.policy == case.mesh.policy && run.case.mesh.frontends == case.mesh.frontends;
    let calm = calibrations.iter().find(same)?;
    let p50 = calm.median(|record| record.row.p50_ms)?;
    Some(Duration::from_secs_f64(p50 / 1e3).saturating_sub(calm.case.mesh.service_time.mean()))
}

fn compare(run: &Runs, timing: Timing) -> anyhow::Result<Agreement> {
    let mut simulated: Vec<Simulated> = Vec::new();
    for (round, record) in run.records.iter().enumerate() {
        let case = in_round(&run.case, round);
        let timing = match record.shed_p50_ms {
            Some(ms) => timing.where_shed(&case, Duration::from_secs_f64(ms / 1e3))?,
            None => timing,
        };
        simulated.push(agree::simulate(&case, timing)?.context("nothing was answered in the simulator")?);
    }
    let mesh = |value: fn(&Record) -> Option<f64>| run.median(value).context("nothing was answered on the mesh");
    let of =
        |value: fn(&Simulated) -> f64| median(&simulated.iter().map(value).collect::<Vec<_>>()).context("no rounds");
    let scatter = |one: &Simulated| one.p99_range_ms[1] / one.p99_range_ms[0];
    let widest = simulated.iter().max_by(|a, b| scatter(a).total_cmp(&scatter(b))).context("no rounds")?;
    Ok(Agreement {
        name: run.case.name(),
        mesh_ms: [mesh(|record| record.row.p50_ms)?, mesh(|record| record.row.p99_ms)?],
        simulated_ms: [of(|one| one.p50_ms)?, of(|one| one.p99_ms)?],
        scatter_ms: widest.p99_range_ms,
        attempts: [mesh(|record| Some(record.row.attempts_per_request))?, of(|one| one.attempts)?],
    })
}
