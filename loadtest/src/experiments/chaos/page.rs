//! The table and the page of faults under load.

use crate::experiments::chaos::{Claim, Figure, Row, SIDES, Side, Verdict};
use crate::report::{document, line, over_time};
use crate::timeline::Point;
use bloc_figures::chart::{Line, Marks};
use comfy_table::{Table, presets};
use maud::{Markup, html};

/// The verdict on a row, in words.
pub fn verdict(row: &Row) -> String {
    match row.verdict() {
        Verdict::Holds => match row.claim {
            Claim::Ours => "ours alone".to_owned(),
            Claim::Untuned => "as tuned Envoy does, and stock does not".to_owned(),
            Claim::NoHarm => "no harm".to_owned(),
        },
        Verdict::Broken(figures) => format!("BROKEN: {}", figures.join(", ")),
        Verdict::Worse(figures) => format!("WORSE THAN TUNED: {}", figures.join(", ")),
        Verdict::Shared(sides) => {
            let sides: Vec<&str> = sides.into_iter().map(Side::title).collect();
            format!("NO PROMISE: {} does it too", sides.join(", "))
        }
        Verdict::NotRun => {
            format!("NOT RUN: {}", row.not_run.as_deref().unwrap_or("no baseline"))
        }
    }
}

/// The figures of a row: name, bound, and the value of each side.
fn figures(row: &Row) -> Vec<[String; 6]> {
    let ours = row.column(Side::Ours).or_else(|| row.columns.last());
    let all = ours.into_iter().flat_map(|column| &column.figures);
    let cell = |side: Side, what: &str| {
        let column = row.column(side)?;
        let figure = column.figures.iter().find(|figure| figure.what == what)?;
        // A baseline is not held to bounds relative to stock Envoy.
        let is_missed = match side {
            Side::OursTuned => !row.is_no_worse(figure),
            Side::Ours => !row.holds(figure),
            Side::Stock | Side::Tuned => figure.bound.is_absolute() && !row.holds(figure),
        };
        let mark = if is_missed { " (no)" } else { "" };
        Some(format!("{}{mark}", figure.shown))
    };
    let line = |figure: &Figure| {
        let cells = SIDES.map(|side| cell(side, figure.what).unwrap_or_else(|| "-".to_owned()));
        let [stock, tuned, ours, ours_tuned] = cells;
        [figure.what.to_owned(), figure.bound.shown(), stock, tuned, ours, ours_tuned]
    };
    all.map(line).collect()
}

/// Every figure of every row, in a column for each side.
pub fn chaos_table(rows: &[Row]) -> Table {
    let mut table = Table::new();
    table.load_style(presets::ASCII_MARKDOWN);
    let titles = SIDES.map(Side::title);
    table.set_header([&["row", "figure", "ours has to be"][..], &titles, &["verdict"]].concat());
    for row in rows {
        let lines = figures(row);
        if lines.is_empty() {
            table.add_row([row.name, "", "", "", "", "", "", &verdict(row)]);
        }
        for (number, line) in lines.iter().enumerate() {
            let first = number == 0;
            let name = if first { row.name } else { "" };
            let verdict = if first { verdict(row) } else { String::new() };
            let [what, bound, stock, tuned, ours, ours_tuned] = line;
            table.add_row([name, what, bound, stock, tuned, ours, ours_tuned, &verdict]);
        }
    }
    table
}

/// The same, with the values over time.
pub fn chaos_page(rows: &[Row], command: &str) -> Markup {
    let wrong = rows.iter().filter(|row| row.verdict() != Verdict::Holds).count();
    document(
        "Faults under load",
        command,
        &html! {
            p {
                "One thing after the other breaks in meshes of real Envoys that carry half of what they can, or "
                "less: stock Envoy, stock Envoy with circuit breakers and outlier detection, ours, and ours with "
                "these settings, which must be no worse than stock Envoy with them. The upright "
                "line is the moment; the level one is twice the undisturbed 99th percentile. A request that "
                "was not answered counts in it as two seconds."
            }
            p { (rows.len()) " rows, " (wrong) " of them not as claimed." }
            @for row in rows { (section(row)) }
        },
    )
}

fn section(row: &Row) -> Markup {
    let marks = Marks { moment: row.moments.map(|moments| moments.began_s), limit: row.limit_ms };
    let lines = |points: fn(&crate::experiments::chaos::Column) -> &[Point]| -> Vec<Line> {
        let columns = (1..).zip(&row.columns);
        columns.map(|(colour, column)| line(column.side.title(), colour, points(column))).collect()
    };
    let verdict = verdict(row);
    html! {
        h2 { (row.name) }
        p { (row.what) }
        p { @if row.verdict() == Verdict::Holds { (verdict) } @else { strong { (verdict) } } }
        @if !row.columns.is_empty() {
            table {
                tr { th { "figure" } th { "ours has to be" } @for side in SIDES { th { (side.title()) } } }
                @for line in figures(row) { tr { @for cell in line { td { (cell) } } } }
            }
            (over_time(&lines(|column| &column.p99_ms), "milliseconds", 2_000.0, marks))
            (over_time(
                &lines(|column| &column.per_second[0]),
                "answered requests per second",
                1_000.0,
                Marks { limit: None, ..marks },
            ))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiments::chaos::{Bound, Column};

    fn row(values: [f64; 4]) -> Row {
        let columns = SIDES.into_iter().zip(values).map(|(side, value)| {
            let bound = Bound::AtMost(5.0);
            let shown = format!("{value}!");
            let figures = vec![Figure { what: "f", value: Some(value), shown, bound }];
            Column::new(side, figures, &[])
        });
        Row::new("n", "what".into(), Claim::Ours, columns.collect())
    }

    #[test]
    fn each_row_shows_its_columns_and_its_verdict() {
        let not_run = Row::not_run("m", "what".into(), Claim::NoHarm, "no root".into());
        let [good, shared] = [row([9.0, 8.0, 5.0, 7.0]), row([9.0, 5.0, 5.0, 5.0])];
        let rows = [good, shared, row([9.0, 9.0, 6.0, 6.0]), row([9.0, 8.0, 5.0, 8.9]), not_run];
        let table = chaos_table(&rows).to_string();
        for text in
            ["9! (no)", "8! (no)", "ours alone", "BROKEN: f", "8.9! (no)", "WORSE THAN TUNED: f", "NOT RUN: no root"]
        {
            assert!(table.contains(text), "{text}\n{table}");
        }
        let shared = "NO PROMISE: stock Envoy, breakers and outlier detection does it too";
        assert!(table.contains(shared), "{table}");
        let page = chaos_page(&rows, "x").into_string();
        assert_eq!((page.matches("<svg").count(), page.matches("<strong>").count()), (8, 4));
        assert!(page.contains("5 rows, 4 of them not as claimed."));
    }
}
