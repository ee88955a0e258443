//! `bloc-sim regimes`: the map of regimes.

use anyhow::{Context, bail, ensure};
use bloc_sim::regimes::{self, Cell, Figures, Key, POLICIES, Results, Runs, Size, Verdict};
use std::collections::VecDeque;
use std::hash::Hasher;
use std::path::PathBuf;
use std::sync::Mutex;

/// Simulates every cell of the map with every policy, and writes a table (`regimes.md`) and a page
/// (`regimes.html`). Ends with the cells that miss a claim. An interrupted map goes on where it
/// ended, unless the simulator was built anew.
#[derive(Debug, clap::Args)]
pub struct Regimes {
    /// Fewer and shorter simulations: three seeds of 15,000 answers.
    #[arg(long)]
    quick: bool,
    /// The number of seeds, from 1 on; default 5.
    #[arg(long)]
    seeds: Option<u64>,
    /// Answers that count in each simulation, at least, three times as many from 90% load on;
    /// default 50,000.
    #[arg(long)]
    answers: Option<u64>,
    /// Only cells whose name contains this text.
    #[arg(long, default_value = "")]
    only: String,
    /// Only the named corners.
    #[arg(long)]
    corners: bool,
    /// Tell the sidecars nothing of `concurrency`, in every cell: what `checkout: {}` gives.
    #[arg(long)]
    unconfigured: bool,
    /// Print the names of the cells and end.
    #[arg(long)]
    list: bool,
    /// Where to write.
    #[arg(long, default_value = "target/regimes")]
    out: PathBuf,
}

/// Requests that each server gets before anything counts, for each 50,000 answers.
const WARM_UP: u64 = 1_500;

impl Regimes {
    /// Runs the command.
    pub fn run(self) -> anyhow::Result<()> {
        let mut cells = regimes::corners();
        if !self.corners {
            cells.extend(regimes::covering());
        }
        if self.unconfigured {
            cells = regimes::unconfigured(cells);
        }
        cells.retain(|cell| cell.to_string().contains(&self.only));
        ensure!(!cells.is_empty(), "--only: no cell's name contains {:?}; --list prints the names", self.only);
        if self.list {
            cells.iter().for_each(|cell| println!("{cell}"));
            return Ok(());
        }
        let seeds = self.seeds.unwrap_or(if self.quick { 3 } else { 5 });
        let answers = self.answers.unwrap_or(if self.quick { 15_000 } else { 50_000 });
        ensure!(seeds > 0, "--seeds: 0 is not allowed; allowed: 1 and more");
        ensure!(answers >= 1_000, "--answers: {answers} is not allowed; allowed: 1000 and more");
        let size = Size { answers, warm_up: (WARM_UP * answers / 50_000).max(500) };
        std::fs::create_dir_all(&self.out).with_context(|| self.out.display().to_string())?;
        let path = self.out.join("results.jsonl");
        let results = Results::open(&path, &build()?).with_context(|| path.display().to_string())?;
        let results = simulate(&cells, seeds, size, results)?;
        let runs = cells.iter().map(|&cell| results.runs(cell, seeds, size).context("a simulation is missing"));
        let runs = runs.collect::<anyhow::Result<Vec<Runs>>>()?;
        let about = format!("{seeds} seeds, {answers} answers each, three times as many from 90% load on.");
        for (name, text) in
            [("regimes.md", regimes::markdown(&runs, &about)), ("regimes.html", regimes::html(&runs, &about))]
        {
            let path = self.out.join(name);
            std::fs::write(&path, text).with_context(|| path.display().to_string())?;
            eprintln!("{}", path.display());
        }
        report(&runs);
        Ok(())
    }
}

/// Identifies the program: results of another one are not taken over.
fn build() -> anyhow::Result<String> {
    let mut hasher = std::hash::DefaultHasher::new();
    hasher.write(&std::fs::read(std::env::current_exe()?)?);
    Ok(format!("{:016x}", hasher.finish()))
}

/// Runs what is missing, on all processors.
fn simulate(cells: &[Cell], seeds: u64, size: Size, results: Results) -> anyhow::Result<Results> {
    let keys = cells.iter().flat_map(|&cell| {
        let keys = move |policy| (1..=seeds).map(move |seed| Key { cell, policy, seed, size });
        POLICIES.into_iter().flat_map(keys)
    });
    let left: VecDeque<Key> = keys.filter(|key| !results.has(key)).collect();
    let all = left.len();
    let (left, results) = (Mutex::new(left), Mutex::new(results));
    let work = || -> anyhow::Result<()> {
        loop {
            let (key, behind) = {
                let mut left = left.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
                let Some(key) = left.pop_front() else { return Ok(()) };
                (key, left.len())
            };
            let outcome = bloc_sim::run(&key.cell.scenario(key.policy, key.seed, key.size))?;
            let Some(figures) = Figures::of(&outcome) else {
                bail!("{}, {}, seed {}: no request was answered", key.cell, key.policy.name(), key.seed);
            };
            results.lock().unwrap_or_else(std::sync::PoisonError::into_inner).add(key, figures)?;
            if behind % 100 == 0 {
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
    Ok(results.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner))
}

/// Prints the cells that miss a claim.
fn report(all: &[Runs]) {
    let mut missing = 0;
    for runs in all {
        let missed: Vec<Verdict> = regimes::judge(runs).into_iter().filter(Verdict::is_missed).collect();
        missing += usize::from(!missed.is_empty());
        for verdict in missed {
            println!("{}: {}: {:.2} of the bound", runs.cell, verdict.claim, verdict.median());
        }
    }
    println!("{missing} of {} cells miss a claim", all.len());
}
