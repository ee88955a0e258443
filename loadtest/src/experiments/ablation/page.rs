//! The section about the parts: chips, bids, both, neither.

use super::{PREFIX, bounces};
use crate::record::Record;
use crate::report::{Section, plain_row, plain_table, share};
use comfy_table::Table;
use maud::{Markup, html};

const HEADER: [&str; 9] =
    ["service time", "load", "on", "p50 ms", "p99 ms", "bounced: bid", "at capacity", "shed", "CPU ms"];

/// The cells of a record, in the order of [`HEADER`].
fn cells(record: &Record) -> [String; 9] {
    let row = &record.row;
    let time = |ms: Option<f64>| ms.map_or_else(|| "-".to_owned(), |ms| format!("{ms:.1}"));
    let [bid, capacity] = bounces(record);
    [
        format!("{} ms", row.service_ms),
        row.load.replace("poisson:", "") + "/s",
        row.experiment.trim_start_matches(PREFIX).to_owned(),
        time(row.p50_ms),
        time(row.p99_ms),
        format!("{bid:.2}"),
        format!("{capacity:.2}"),
        format!("{:.1}%", share(row.shed, row.requests)),
        row.envoy_cpu_ms_per_request.map_or_else(|| "-".to_owned(), |ms| format!("{ms:.2}")),
    ]
}

/// The table for the terminal.
pub fn ablation_table(records: &[Record]) -> Table {
    let mut table = plain_table(&HEADER);
    for record in records {
        let [time, load, part, numbers @ ..] = cells(record);
        table.add_row(plain_row([time, load, part], numbers));
    }
    table
}

/// The part of the page of records that is about this experiment.
pub const SECTION: Section = Section { prefix: PREFIX, show: section };

fn section(records: &[&Record]) -> Markup {
    html! {
        h2 { "What each part does" }
        p {
            "Bids and chips can be had one without the other. " b { "Chips" } ": a server turns away what exceeds its capacity, and callers leave it alone for a while. "
            b { "Bids" } ": each try says how long it is willing to wait, and a server that would take longer turns it away. " b { "Neither" }
            ": Envoy's own least request with two choices, without any filter. Each time a request is turned away it goes elsewhere, which costs a bounce: how many there were for each request, and "
            "what all proxies together spent on it, is in the columns on the right. The faster the servers, the less there is to gain and the more a bounce weighs."
        }
        div.card.table { table {
            thead { tr { @for name in HEADER { th { (name) } } } }
            tbody { @for record in records { tr { @for cell in cells(record) { td { (cell) } } } } }
        } }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::example::record;
    use bloc_mesh::policy::Policy;

    #[test]
    fn a_row_shows_the_variant_and_its_bounces() {
        let mut record = record(Policy::Bid, 40, [50.0, 91.0, 136.0, 164.0], 180.0);
        (record.row.experiment, record.row.load) = ("ablation-both".into(), "poisson:180".into());
        record.counters.insert("bloc.inbound.backend.rejected_bid".into(), 2_400);
        let text = ablation_table(std::slice::from_ref(&record)).to_string();
        for cell in ["50 ms", "180/s", "both", "91.0", "164.0", "1.20", "0.00", "0.0%", "1.00"] {
            assert!(text.contains(cell), "{cell} in {text}");
        }
        let page = crate::report::page(&[record], "x", &[SECTION]).into_string();
        assert!(
            page.contains("What each part does") && page.contains("<td>1.20</td><td>0.00</td>"),
            "bids before capacity"
        );
        assert!(!page.contains("Where most requests lie"), "a table, no curves");
    }
}
