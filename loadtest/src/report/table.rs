//! The table for the terminal.

use crate::record::Record;
use comfy_table::{Cell, CellAlignment, Table, presets};

/// The records as a table, one line each.
pub fn table(records: &[Record]) -> Table {
    let mut table = Table::new();
    table.load_style(presets::UTF8_HORIZONTAL_ONLY);
    table.set_header([
        "experiment",
        "policy",
        "front",
        "load",
        "ok",
        "shed",
        "errors",
        "p10 ms",
        "p50 ms",
        "p90 ms",
        "p99 ms",
        "ok/s",
        "attempts",
        "mean ms",
        "CPU ms",
    ]);
    for record in records {
        let row = &record.row;
        let time = |ms: Option<f64>| ms.map_or_else(|| "-".to_owned(), |ms| format!("{ms:.0}"));
        let shed = share(row.shed, row.requests);
        let numbers = [
            row.ok.to_string(),
            format!("{} ({shed:.1}%)", row.shed),
            row.errors.to_string(),
            time(row.p10_ms),
            time(row.p50_ms),
            time(row.p90_ms),
            time(row.p99_ms),
            format!("{:.1}", row.throughput_rps),
            format!("{:.2}", row.attempts_per_request),
            time(row.mean_ms),
            row.envoy_cpu_ms_per_request.map_or_else(|| "-".to_owned(), |ms| format!("{ms:.2}")),
        ];
        let names = [row.experiment.clone(), row.title().to_owned(), row.frontends.to_string(), row.load.clone()];
        let numbers = numbers.into_iter().map(|number| Cell::new(number).set_alignment(CellAlignment::Right));
        table.add_row(names.into_iter().map(Cell::new).chain(numbers));
    }
    table
}

/// `part` of `whole`, in percent of it.
pub fn share(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { 100.0 * part as f64 / whole as f64 }
}

/// An empty table with this header.
pub fn plain_table(header: &[&str]) -> Table {
    let mut table = Table::new();
    table.load_style(presets::UTF8_HORIZONTAL_ONLY);
    table.set_header(header);
    table
}

/// A row: names on the left, numbers flush right.
pub fn plain_row(
    names: impl IntoIterator<Item = String>,
    numbers: impl IntoIterator<Item = String>,
) -> impl Iterator<Item = Cell> {
    let right = |text| Cell::new(text).set_alignment(CellAlignment::Right);
    names.into_iter().map(Cell::new).chain(numbers.into_iter().map(right))
}
