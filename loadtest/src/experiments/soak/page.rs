//! The table and the page of a soak run.

use crate::experiments::soak::Lived;
use crate::experiments::soak::watch::{Series, Unit};
use crate::report::{document, line, over_time};
use bloc_figures::chart::{Line, Marks};
use comfy_table::{Table, presets};
use maud::{Markup, html};

/// Every promise.
pub fn soak_table(lived: &Lived) -> Table {
    let mut table = Table::new();
    table.load_style(presets::ASCII_MARKDOWN);
    table.set_header(["what", "promised", "measured", ""]);
    for promise in &lived.promises {
        let word = if promise.holds { "ok" } else { "BROKEN" };
        table.add_row([promise.what, &promise.promised, &promise.measured, word]);
    }
    table
}

/// The same, with the quantities over time.
pub fn soak_page(lived: &Lived, command: &str) -> Markup {
    let charts = [
        (Unit::Mib, "MiB"),
        (Unit::ResidentMib, "resident MiB"),
        (Unit::Pages, "pages of 64 KiB"),
        (Unit::Connections, "file descriptors, most of them connections"),
        (Unit::Descriptors, "file descriptors"),
    ];
    document(
        "A long life",
        command,
        &html! {
            p {
                (lived.books.sent) " requests, in " (lived.books.bursts) " bursts more than the servers could take, while "
                (lived.changes) " times servers came or went and the capacity changed."
            }
            table {
                tr { th { "what" } th { "promised" } th { "measured" } th {} }
                @for promise in &lived.promises {
                    tr {
                        td { (promise.what) }
                        td { (promise.promised) }
                        td { (promise.measured) }
                        td { @if promise.holds { "ok" } @else { strong { "BROKEN" } } }
                    }
                }
            }
            @for (unit, label) in charts { (chart(&lived.series, unit, label)) }
        },
    )
}

fn chart(series: &[Series], unit: Unit, label: &str) -> Markup {
    let of_unit = series.iter().filter(|one| one.unit == unit);
    let lines: Vec<Line> = (1..).zip(of_unit).map(|(colour, one)| line(one.name, colour, &one.points)).collect();
    over_time(&lines, label, f64::INFINITY, Marks::default())
}
