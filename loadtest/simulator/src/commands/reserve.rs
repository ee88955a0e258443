//! `bloc-sim reserve`: late binding beside bids and balancers that see everything.

use anyhow::{Context, bail, ensure};
use bloc_sim::Scenario;
use bloc_sim::late_binding::{self, Costs, Figures, Row};
use bloc_sim::regimes::Size;
use std::collections::{BTreeMap, VecDeque};
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

/// Simulates late binding and its rivals in the map of regimes and in four cells with all that may
/// go wrong, and writes a table (`reserve.md`) and a page (`reserve.html`).
#[derive(Debug, clap::Args)]
pub struct Reserve {
    /// Fewer and shorter simulations: two seeds of 4,000 answers, and the map's of 1,000.
    #[arg(long)]
    quick: bool,
    /// The number of seeds, from 1 on; default 5.
    #[arg(long)]
    seeds: Option<u64>,
    /// Answers that count in each simulation of a cell, at least, three times as many from 90% load
    /// on; the map's have a third of it. Default 45,000.
    #[arg(long)]
    answers: Option<u64>,
    /// Leave the map out.
    #[arg(long)]
    no_map: bool,
    /// CPU time of caller and server for a request, a bounce and a held call, in microseconds; the
    /// default is filters/adr/0029's measurement.
    #[arg(long, value_delimiter = ',', default_values_t = MEASURED)]
    cpu: Vec<f64>,
    /// Where to write.
    #[arg(long, default_value = "target/reserve")]
    out: PathBuf,
}

/// See filters/adr/0029-late-binding.md. Only the ratios matter.
const MEASURED: [f64; 3] = [1600.0, 496.0, 560.0];
/// Requests that each server of the map gets before anything counts, for each 50,000 answers.
const WARM_UP: u64 = 1_500;

impl Reserve {
    /// Runs the command.
    pub fn run(self) -> anyhow::Result<()> {
        let seeds = self.seeds.unwrap_or(if self.quick { 2 } else { 5 });
        let answers = self.answers.unwrap_or(if self.quick { 4_000 } else { 45_000 });
        ensure!(seeds > 0, "--seeds: 0 is not allowed; allowed: 1 and more");
        ensure!(answers >= 1_000, "--answers: {answers} is not allowed; allowed: 1000 and more");
        let &[request, bounce, call] = self.cpu.as_slice() else { bail!("--cpu: three numbers") };
        ensure!(request > 0.0 && bounce >= 0.0 && call >= 0.0, "--cpu: allowed: 0 and more, a request more than 0");
        let of_the_map = if self.quick { answers / 4 } else { answers / 3 };
        let size = Size { answers: of_the_map, warm_up: (WARM_UP * of_the_map / 50_000).max(300) };
        let map = if self.no_map { Vec::new() } else { late_binding::map(size) };
        let sections = late_binding::sections(answers);
        let rows = sections.iter().flat_map(|section| &section.rows).chain(&map);
        let results = simulate(cases(rows, seeds)?)?;
        let runs = |scenario: &Scenario| -> Vec<Figures> {
            let figures = |seed| results.get(&key(scenario, seed).ok()?).copied();
            (1..=seeds).filter_map(figures).collect()
        };
        let about = format!(
            "{seeds} seeds, {answers} answers each in the cells and {of_the_map} in the map, three times as many from \
             90% load on. CPU: a request {request} us, a bounce {bounce} us, a held call {call} us at caller and server \
             together (filters/adr/0029)."
        );
        let costs = Costs { request, bounce, call };
        std::fs::create_dir_all(&self.out).with_context(|| self.out.display().to_string())?;
        for (name, text) in [
            ("reserve.md", late_binding::markdown(&map, &sections, &runs, &costs, &about)),
            ("reserve.html", late_binding::html(&map, &sections, &runs, &costs, &about)),
        ] {
            let path = self.out.join(name);
            std::fs::write(&path, text).with_context(|| path.display().to_string())?;
            eprintln!("{}", path.display());
        }
        Ok(())
    }
}

/// What tells a simulation from others: the whole case.
fn key(scenario: &Scenario, seed: u64) -> serde_json::Result<String> {
    serde_json::to_string(&Scenario { seed, ..scenario.clone() })
}

/// Each simulation once, also if several rows need it.
fn cases<'a>(rows: impl Iterator<Item = &'a Row>, seeds: u64) -> anyhow::Result<BTreeMap<String, Scenario>> {
    let mut cases = BTreeMap::new();
    for row in rows {
        for scenario in std::iter::once(&row.baseline).chain(row.compared.iter().map(|compared| &compared.scenario)) {
            for seed in 1..=seeds {
                cases.insert(key(scenario, seed)?, Scenario { seed, ..scenario.clone() });
            }
        }
    }
    Ok(cases)
}

/// Runs all on all processors.
fn simulate(cases: BTreeMap<String, Scenario>) -> anyhow::Result<BTreeMap<String, Figures>> {
    let all = cases.len();
    let (left, results) = (Mutex::new(VecDeque::from_iter(cases)), Mutex::new(BTreeMap::new()));
    let work = || -> anyhow::Result<()> {
        loop {
            let (key, scenario, behind) = {
                let mut left = left.lock().unwrap_or_else(PoisonError::into_inner);
                let Some((key, scenario)) = left.pop_front() else { return Ok(()) };
                (key, scenario, left.len())
            };
            let outcome = bloc_sim::run(&scenario)?;
            let figures = Figures::of(&scenario, &outcome).with_context(|| format!("nothing was answered: {key}"))?;
            results.lock().unwrap_or_else(PoisonError::into_inner).insert(key, figures);
            if behind % 200 == 0 {
                eprintln!("{} of {all} simulations", all - behind);
            }
        }
    };
    let workers = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        let running: Vec<_> = (0..workers).map(|_| scope.spawn(work)).collect();
        running
            .into_iter()
            .try_for_each(|worker| worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
    })?;
    Ok(results.into_inner().unwrap_or_else(PoisonError::into_inner))
}
