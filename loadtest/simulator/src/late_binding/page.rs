//! The tables, in Markdown and as an HTML page.

use super::design::{Row, Section};
use super::figures::{Costs, Figures};
use crate::policies::PolicyKind::{self, BestOf, Reserve};
use crate::regimes::STYLE;
use crate::scenario::Scenario;
use bloc_figures::stats::{Spread, median};
use maud::{DOCTYPE, PreEscaped, html as markup};
use std::fmt::Write;

const TITLE: &str = "Late binding";
const OF_A_CELL: [&str; 12] = [
    "what differs",
    "routing",
    "p50",
    "p99",
    "mean",
    "p99 / all-seeing",
    "mean / all-seeing",
    "attempts",
    "calls",
    "grants refused",
    "places kept for nobody",
    "CPU",
];
const OF_THE_MAP: [&str; 6] =
    ["cell", "all-seeing least request: p50 / p99 / mean", "central queue", "reserve", "bids", "best of 3"];
const OF_THE_MODEL: [&str; 4] = ["cell", "reserve: here, model", "all-seeing: here, model", "best of 2: here, model"];

/// What the columns mean.
const LEGEND: &str = "Times are in mean service times, medians of the seeds; ratios are medians of the seeds' own \
ratios, with their range. All-seeing: least request that sees every request in every server or on its way there. \
Attempts, calls (reservations, questions and looks), grants refused and places kept for nobody: for each request. \
Lost: the share of requests that was not answered well. CPU: of caller and server, as a multiple of that of a request \
that is served at once. Looks of \"best of\" take no time here.";
/// What an entry of the map means.
const LEGEND_OF_THE_MAP: &str = "An entry: p50 / p99 / mean as multiples of all-seeing least request's, the range of the \
p99 in brackets; then attempts, calls and CPU.";

/// The simulations of a case, in the order of the seeds.
pub trait Runs {
    /// Of this case; empty if it was not run.
    fn of(&self, scenario: &Scenario) -> Vec<Figures>;
}

impl<F: Fn(&Scenario) -> Vec<Figures>> Runs for F {
    fn of(&self, scenario: &Scenario) -> Vec<Figures> {
        self(scenario)
    }
}

struct Table {
    title: String,
    about: String,
    headings: &'static [&'static str],
    lines: Vec<Vec<String>>,
}

fn median_of(runs: &[Figures], number: fn(&Figures) -> f64) -> f64 {
    median(&runs.iter().map(number).collect::<Vec<_>>()).unwrap_or(f64::NAN)
}

/// The ratios with the same seeds.
fn ratios(own: &[Figures], baseline: &[Figures], number: fn(&Figures) -> f64) -> Spread {
    let ratios: Vec<f64> = own.iter().zip(baseline).map(|(own, baseline)| number(own) / number(baseline)).collect();
    Spread::of(&ratios).unwrap_or(Spread { median: f64::NAN, range: [f64::NAN; 2] })
}

fn cpu(costs: &Costs, policy: PolicyKind, runs: &[Figures]) -> String {
    let each: Vec<f64> = runs.iter().filter_map(|run| costs.of(policy, run)).collect();
    median(&each).map_or_else(|| "-".to_owned(), |cpu| format!("{cpu:.2}"))
}

/// A small share or number; nothing for none.
fn small(value: f64) -> String {
    if value == 0.0 { "-".to_owned() } else { format!("{value:.3}") }
}

fn table_of(section: &Section, runs: &impl Runs, costs: &Costs) -> Table {
    let mut lines = Vec::new();
    for row in &section.rows {
        let baseline = runs.of(&row.baseline);
        for compared in &row.compared {
            let own = runs.of(&compared.scenario);
            let lost = median_of(&own, |run| run.lost);
            let name = if lost < 0.000_5 {
                compared.name.clone()
            } else {
                format!("{}; lost {:.1}%", compared.name, lost * 100.0)
            };
            lines.push(vec![
                row.name.clone(),
                name,
                format!("{:.2}", median_of(&own, |run| run.p50)),
                format!("{:.1}", median_of(&own, |run| run.p99)),
                format!("{:.2}", median_of(&own, |run| run.mean)),
                ratios(&own, &baseline, |run| run.p99).shown(2),
                ratios(&own, &baseline, |run| run.mean).shown(2),
                format!("{:.2}", median_of(&own, |run| run.attempts)),
                format!("{:.2}", median_of(&own, |run| run.calls)),
                small(median_of(&own, |run| run.refused)),
                small(median_of(&own, |run| run.expired)),
                cpu(costs, compared.scenario.policy, &own),
            ]);
        }
    }
    Table { title: section.name.clone(), about: String::new(), headings: &OF_A_CELL, lines }
}

fn map_of(rows: &[Row], runs: &impl Runs, costs: &Costs) -> Table {
    let line = |row: &Row| {
        let baseline = runs.of(&row.baseline);
        let [p50, p99, mean]: [fn(&Figures) -> f64; 3] = [|run| run.p50, |run| run.p99, |run| run.mean];
        let own = [p50, p99, mean].map(|number| format!("{:.2}", median_of(&baseline, number)));
        let entry = |compared: &super::design::Compared| {
            let own = runs.of(&compared.scenario);
            let [least, most] = ratios(&own, &baseline, p99).range;
            let [p50, p99, mean] = [p50, p99, mean].map(|number| ratios(&own, &baseline, number).median);
            let mut text = format!("{p50:.2} / {p99:.2} / {mean:.2} ({least:.2} to {most:.2})");
            let cpu = cpu(costs, compared.scenario.policy, &own);
            if cpu != "-" {
                let (attempts, calls) = (median_of(&own, |run| run.attempts), median_of(&own, |run| run.calls));
                let _ = write!(text, ", {attempts:.2}, {calls:.2}, {cpu}");
            }
            let lost = median_of(&own, |run| run.lost);
            if lost >= 0.000_5 {
                let _ = write!(text, ", lost {:.1}%", lost * 100.0);
            }
            text
        };
        [row.name.clone(), own.join(" / ")].into_iter().chain(row.compared.iter().map(entry)).collect()
    };
    Table {
        title: "The map of regimes, 0.25 ms one way, d = 3".to_owned(),
        about: format!("{LEGEND_OF_THE_MAP} {}", counts(rows, runs)),
        headings: &OF_THE_MAP,
        lines: rows.iter().map(line).collect(),
    }
}

/// In how many cells of the map the p99 of `reserve` is lower, and in how many it is higher.
fn counts(rows: &[Row], runs: &impl Runs) -> String {
    let p99 = |scenario: &Scenario| median_of(&runs.of(scenario), |run| run.p99);
    let of =
        |row: &Row, policy| row.compared.iter().find(|case| case.scenario.policy == policy).map(|c| p99(&c.scenario));
    let count = |other: &dyn Fn(&Row) -> Option<f64>| {
        let ratios: Vec<f64> = rows.iter().filter_map(|row| Some(of(row, Reserve)? / other(row)?)).collect();
        let lower = ratios.iter().filter(|ratio| **ratio < 0.95).count();
        let higher = ratios.iter().filter(|ratio| **ratio > 1.05).count();
        format!("below 0.95 of it in {lower} and above 1.05 in {higher} of {} cells", ratios.len())
    };
    format!(
        "The p99 of reserve beside all-seeing least request's: {}; beside that of bids: {}; beside that of best of 3: {}.",
        count(&|row| Some(p99(&row.baseline))),
        count(&|row| of(row, PolicyKind::Bid)),
        count(&|row| of(row, BestOf))
    )
}

/// The 99th percentiles beside those of another model.
fn model_of(sections: &[Section], runs: &impl Runs) -> Table {
    let line = |section: &Section| {
        let (row, expected) = section.expected?;
        let p99 = |wanted: PolicyKind, servers: u32| {
            let mut cases = section.rows.iter().filter(|other| other.name == row).flat_map(|row| &row.compared);
            let found = cases
                .find(|case| case.scenario.policy == wanted && case.scenario.reserve.servers == servers)
                .map(|case| runs.of(&case.scenario));
            found.map_or(f64::NAN, |runs| median_of(&runs, |run| run.p99))
        };
        let all_seeing = section.rows.iter().find(|other| other.name == row).map(|row| runs.of(&row.baseline));
        let all_seeing = all_seeing.map_or(f64::NAN, |runs| median_of(&runs, |run| run.p99));
        let here = [p99(Reserve, 3), all_seeing, p99(BestOf, 2)];
        let name = if row.is_empty() { section.name.clone() } else { format!("{}, {row}", section.name) };
        let pairs = here.iter().zip(expected).map(|(here, model)| format!("{here:.1}, {model:.1}"));
        Some(std::iter::once(name).chain(pairs).collect())
    };
    Table {
        title: "The 99th percentiles beside another model's".to_owned(),
        about: String::new(),
        headings: &OF_THE_MODEL,
        lines: sections.iter().filter_map(line).collect(),
    }
}

fn tables(map: &[Row], sections: &[Section], runs: &impl Runs, costs: &Costs) -> Vec<Table> {
    let mut tables = vec![model_of(sections, runs)];
    tables.extend(sections.iter().map(|section| table_of(section, runs, costs)));
    if !map.is_empty() {
        tables.push(map_of(map, runs, costs));
    }
    tables
}

/// The tables in Markdown. `about` says how they were made.
pub fn markdown(map: &[Row], sections: &[Section], runs: &impl Runs, costs: &Costs, about: &str) -> String {
    let mut text = format!("# {TITLE}\n\n{about}\n\n{LEGEND}\n");
    for Table { title, about, headings, lines } in tables(map, sections, runs, costs) {
        let _ = write!(text, "\n## {title}\n\n");
        if !about.is_empty() {
            let _ = write!(text, "{about}\n\n");
        }
        let _ = write!(text, "| {} |\n|{}\n", headings.join(" | "), "---|".repeat(headings.len()));
        for line in lines {
            let _ = writeln!(text, "| {} |", line.join(" | "));
        }
    }
    text
}

/// The tables as a page.
pub fn html(map: &[Row], sections: &[Section], runs: &impl Runs, costs: &Costs, about: &str) -> String {
    let page = markup! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                title { (TITLE) }
                style { (PreEscaped(STYLE)) }
            }
            body {
                h1 { (TITLE) }
                p { (about) }
                p { (LEGEND) }
                @for Table { title, about, headings, lines } in tables(map, sections, runs, costs) {
                    h2 { (title) }
                    @if !about.is_empty() { p { (about) } }
                    table {
                        thead { tr { @for heading in headings { th scope="col" { (heading) } } } }
                        tbody { @for line in lines { tr { @for cell in line { td { (cell) } } } } }
                    }
                }
            }
        }
    };
    page.into_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::late_binding::sections;

    /// All-seeing least request takes twice as long with each seed as late binding.
    fn runs(scenario: &Scenario) -> Vec<Figures> {
        let factor = if scenario.policy == PolicyKind::Jsq { 2.0 } else { 1.0 };
        let lost = if scenario.policy == PolicyKind::Bid { 0.25 } else { 0.0 };
        let of_seed = |p99: f64| Figures {
            p50: 1.0,
            p99: p99 * factor,
            mean: 1.5 * factor,
            attempts: 1.5,
            calls: 3.0,
            refused: 0.125,
            expired: 0.0,
            lost,
        };
        vec![of_seed(4.0), of_seed(6.0), of_seed(5.0)]
    }

    #[test]
    fn a_line_has_medians_ratios_messages_and_cost() {
        let costs = Costs { request: 100.0, bounce: 40.0, call: 60.0 };
        let text = markdown(&[], &sections(1_000), &runs, &costs, "Three seeds.");
        let line = "|  | reserve | 1.00 | 5.0 | 1.50 | 0.50 (0.50 to 0.50) | 0.50 (0.50 to 0.50) | 1.50 | 3.00 | 0.125 | - | 3.00 |";
        assert!(text.contains(line), "{text}");
        assert!(text.contains("| bids; lost 25.0% | "), "{text}");
        assert!(text.contains("| 10 x 1, fixed, 90% | 5.0, 3.7 | 10.0, 3.0 | 5.0, 4.2 |"), "{text}");
        let page = html(&[], &sections(1_000), &runs, &costs, "Three seeds.");
        assert_eq!(page.matches("<h2>").count(), 5, "the model and four cells");
    }
}
