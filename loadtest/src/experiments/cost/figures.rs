//! The results: medians over the rounds, and the additional cost of a variant over the first one in
//! the same round.

use super::load::Seen;
use super::variant::Variant;
use bloc_figures::stats::median;
use comfy_table::{Cell, CellAlignment, Table, presets};
use serde::Serialize;
use std::time::Duration;

/// A start: from the call to the first answer.
#[derive(Clone, Copy, Debug)]
pub struct Start {
    /// How long it took.
    pub time: Duration,
    /// CPU time of all threads until then.
    pub cpu: Duration,
    /// Physical memory then, in bytes.
    pub resident: u64,
}

/// One variant, as written to the file.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Row {
    /// Its name.
    pub variant: &'static str,
    /// CPU time of the whole process per request at saturation, in microseconds, round by round.
    pub cpu_us: Vec<f64>,
    /// The share of the time at saturation that the process was on a core. If it is well below 1,
    /// something else was the bottleneck.
    pub busy: Vec<f64>,
    /// Requests per second at saturation.
    pub throughput_rps: Vec<f64>,
    /// Requests per second at about half of that.
    pub half_rps: Vec<f64>,
    /// CPU time per request at that load, in microseconds.
    pub half_cpu_us: Vec<f64>,
    /// The median response time at that load.
    pub half_p50_ms: Vec<f64>,
    /// The 99th percentile at that load.
    pub half_p99_ms: Vec<f64>,
    /// From the start to the first answer.
    pub start_ms: Vec<f64>,
    /// CPU time of the start.
    pub start_cpu_ms: Vec<f64>,
    /// Physical memory at the first answer, in MiB.
    pub start_mib: Vec<f64>,
    /// Physical memory after all rounds.
    pub after_mib: Option<f64>,
    /// The memory that each further worker thread adds.
    pub worker_mib: Option<f64>,
}

/// The medians over the rounds and starts of a [`Row`], in its units.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[allow(missing_docs, reason = "the fields are those of the row")]
pub struct Medians {
    pub variant: &'static str,
    pub cpu_us: Option<f64>,
    /// The additional cost of a request over the first variant in the same round.
    pub added_us: Option<f64>,
    pub busy: Option<f64>,
    pub throughput_rps: Option<f64>,
    pub half_cpu_us: Option<f64>,
    pub half_p50_ms: Option<f64>,
    pub half_p99_ms: Option<f64>,
    pub start_ms: Option<f64>,
    pub start_cpu_ms: Option<f64>,
    pub start_mib: Option<f64>,
    pub after_mib: Option<f64>,
    pub worker_mib: Option<f64>,
}

/// All variants; the others are compared with the first.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Figures {
    /// One row per variant.
    pub rows: Vec<Row>,
}

const MIB: f64 = (1 << 20) as f64;

impl Figures {
    /// No measurements yet.
    pub fn new(variants: &[Variant]) -> Self {
        Self { rows: variants.iter().map(|variant| Row { variant: variant.name(), ..Row::default() }).collect() }
    }

    /// Adds a start of a variant.
    pub fn started(&mut self, variant: Variant, start: Start) {
        if let Some(row) = self.row_mut(variant) {
            row.start_ms.push(milliseconds(start.time));
            row.start_cpu_ms.push(milliseconds(start.cpu));
            row.start_mib.push(start.resident as f64 / MIB);
        }
    }

    /// Adds a load at saturation; `cpu` was used in the time `elapsed`.
    pub fn saturated(&mut self, variant: Variant, seen: Seen, cpu: Duration, elapsed: Duration) {
        if let Some(row) = self.row_mut(variant) {
            row.cpu_us.push(milliseconds(cpu) * 1e3 / seen.requests as f64);
            row.busy.push(cpu.as_secs_f64() / elapsed.as_secs_f64());
            row.throughput_rps.push(seen.rate());
        }
    }

    /// Adds a load at about half of that.
    pub fn half_loaded(&mut self, variant: Variant, seen: Seen, cpu: Duration) {
        if let Some(row) = self.row_mut(variant) {
            row.half_cpu_us.push(milliseconds(cpu) * 1e3 / seen.requests as f64);
            row.half_rps.push(seen.rate());
            row.half_p50_ms.push(seen.p50_ms());
            row.half_p99_ms.push(seen.p99_ms());
        }
    }

    /// Sets its physical memory after all rounds, in bytes.
    pub fn memory(&mut self, variant: Variant, resident: u64) {
        if let Some(row) = self.row_mut(variant) {
            row.after_mib = Some(resident as f64 / MIB);
        }
    }

    /// Sets the same for a process with this number of workers, which has been loaded too.
    pub fn memory_of_workers(&mut self, variant: Variant, resident: u64, workers: usize) {
        if let Some(row) = self.row_mut(variant) {
            row.worker_mib = row.after_mib.map(|one| (resident as f64 / MIB - one) / (workers - 1) as f64);
        }
    }

    /// The median throughput at saturation so far.
    pub fn saturation(&self, variant: Variant) -> Option<f64> {
        median(&self.row(variant)?.throughput_rps)
    }

    /// The additional CPU time of a request over the first variant in the same round: the median,
    /// in microseconds.
    pub fn added_us(&self, variant: Variant) -> Option<f64> {
        self.added(self.row(variant)?)
    }

    /// CPU time of a request at saturation in the round in which it was lowest, in microseconds.
    pub fn least_cpu_us(&self, variant: Variant) -> Option<f64> {
        self.row(variant)?.cpu_us.iter().copied().reduce(f64::min)
    }

    /// The medians of each variant.
    pub fn medians(&self) -> Vec<Medians> {
        let of = |row: &Row| Medians {
            variant: row.variant,
            cpu_us: median(&row.cpu_us),
            added_us: self.added(row),
            busy: median(&row.busy),
            throughput_rps: median(&row.throughput_rps),
            half_cpu_us: median(&row.half_cpu_us),
            half_p50_ms: median(&row.half_p50_ms),
            half_p99_ms: median(&row.half_p99_ms),
            start_ms: median(&row.start_ms),
            start_cpu_ms: median(&row.start_cpu_ms),
            start_mib: median(&row.start_mib),
            after_mib: row.after_mib,
            worker_mib: row.worker_mib,
        };
        self.rows.iter().map(of).collect()
    }

    /// The table for the terminal.
    pub fn table(&self) -> Table {
        let mut table = Table::new();
        table.load_style(presets::UTF8_HORIZONTAL_ONLY);
        table.set_header([
            "",
            "CPU us",
            "more us",
            "busy",
            "requests/s",
            "half: CPU us",
            "p50 ms",
            "p99 ms",
            "start ms",
            "CPU ms",
            "MiB",
            "after",
            "per worker",
        ]);
        for row in self.medians() {
            let cells = [
                show(row.cpu_us, 1),
                show(row.added_us, 1),
                show(row.busy, 2),
                show(row.throughput_rps, 0),
                show(row.half_cpu_us, 1),
                show(row.half_p50_ms, 3),
                show(row.half_p99_ms, 3),
                show(row.start_ms, 0),
                show(row.start_cpu_ms, 0),
                show(row.start_mib, 1),
                show(row.after_mib, 1),
                show(row.worker_mib, 1),
            ];
            let numbers = cells.into_iter().map(|text| Cell::new(text).set_alignment(CellAlignment::Right));
            table.add_row([Cell::new(row.variant)].into_iter().chain(numbers));
        }
        table
    }

    fn added(&self, row: &Row) -> Option<f64> {
        let base = self.rows.first()?;
        median(&row.cpu_us.iter().zip(&base.cpu_us).map(|(cost, base)| cost - base).collect::<Vec<_>>())
    }

    fn row(&self, variant: Variant) -> Option<&Row> {
        self.rows.iter().find(|row| row.variant == variant.name())
    }

    fn row_mut(&mut self, variant: Variant) -> Option<&mut Row> {
        self.rows.iter_mut().find(|row| row.variant == variant.name())
    }
}

fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

fn show(value: Option<f64>, decimals: usize) -> String {
    value.map_or_else(|| "-".into(), |value| format!("{value:.decimals$}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figures(costs: [(Variant, [f64; 3]); 5]) -> Figures {
        let variants: Vec<Variant> = costs.iter().map(|cost| cost.0).collect();
        let mut figures = Figures::new(&variants);
        for (variant, cpu_us) in costs {
            figures.row_mut(variant).unwrap().cpu_us = cpu_us.into();
        }
        figures
    }

    #[test]
    fn computes_the_added_cost_within_each_round() {
        // The machine slows down by a factor of three; what the filters add does not change.
        let figures = figures([
            (Variant::Plain, [50.0, 150.0, 60.0]),
            (Variant::SetRequest, [60.0, 160.0, 70.0]),
            (Variant::SetResponse, [58.0, 158.0, 68.0]),
            (Variant::Inbound, [64.0, 164.0, 74.0]),
            (Variant::Outbound, [90.0, 190.0, 100.0]),
        ]);
        assert_eq!(figures.added_us(Variant::Inbound), Some(14.0));
        assert_eq!(
            (figures.added_us(Variant::SetResponse), figures.added_us(Variant::Outbound)),
            (Some(8.0), Some(40.0))
        );
    }

    #[test]
    fn divides_the_memory_of_further_workers_by_their_number() {
        let mut figures = Figures::new(&[Variant::Plain]);
        figures.memory(Variant::Plain, 40 << 20);
        figures.memory_of_workers(Variant::Plain, 70 << 20, 4);
        assert_eq!(figures.rows[0].worker_mib, Some(10.0));
    }
}
