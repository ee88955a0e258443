//! The map as a table, in Markdown and as an HTML page.

use super::cell::Trouble;
use super::figures::{Figures, Runs};
use super::judge::{Verdict, judge};
use crate::policies::PolicyKind::{self, Bid, Bloc, LeastRequestFull, Mu};
use bloc_figures::stats::{Spread, median};
use maud::{DOCTYPE, PreEscaped, html as markup};
use std::fmt::Write;

const HEADINGS: [&str; 7] = [
    "cell",
    "least request: p50, p99, mean, ms",
    "BLOC",
    "Mu",
    "bids",
    "omniscient",
    "claims missed (median of value / bound)",
];
/// The style of a page of tables.
pub(crate) const STYLE: &str = "body{font:14px sans-serif;margin:2em}table{border-collapse:collapse}\
td,th{border:1px solid #8888;padding:.3em .6em;text-align:left;vertical-align:top}\
tr.missed td:first-child{border-left:4px solid #d55e00}@media(prefers-color-scheme:dark){body{background:#111;color:#ddd}}";

/// What the cells of the table mean.
const LEGEND: &str = "An entry is p50 / p99 / mean as multiples of least request's (full scan), medians of paired \
seeds, the range of the p99 in brackets; then attempts for each request, and the share of shed requests if there are any. \
Share: that of the server in trouble, as a multiple of a fair one. \
Omniscient is, of queue length, expected response and wait plus half of the execution time, the one with the lowest p99.";

/// One line of the table.
struct Line {
    cells: [String; 7],
    missed: bool,
}

fn line(runs: &Runs) -> Line {
    let verdicts: Vec<Verdict> = judge(runs).into_iter().filter(Verdict::is_missed).collect();
    let missed: Vec<String> =
        verdicts.iter().map(|verdict| format!("{} ({:.2})", verdict.claim, verdict.median())).collect();
    let ms = |number| short(runs.median(LeastRequestFull, number));
    let best = runs.omniscient();
    Line {
        cells: [
            runs.cell.to_string(),
            format!("{} / {} / {}", ms(|f| f.p50_ms), ms(|f| f.p99_ms), ms(|f| f.mean_ms)),
            entry(runs, Bloc),
            entry(runs, Mu),
            entry(runs, Bid),
            format!("{}, {}", entry(runs, best), best.name()),
            missed.join("; "),
        ],
        missed: !verdicts.is_empty(),
    }
}

fn entry(runs: &Runs, policy: PolicyKind) -> String {
    let ratio = |number: fn(&Figures) -> f64| median(&runs.ratios(policy, number)).unwrap_or(f64::NAN);
    let [least, most] = Spread::of(&runs.ratios(policy, |f| f.p99_ms)).map_or([f64::NAN; 2], |p99| p99.range);
    let mut text = format!(
        "{:.2} / {:.2} / {:.2} ({least:.2} to {most:.2}), {:.2}",
        ratio(|f| f.p50_ms),
        ratio(|f| f.p99_ms),
        ratio(|f| f.mean_ms),
        runs.median(policy, |f| f.attempts)
    );
    let shed = runs.median(policy, |f| f.shed);
    if shed >= 0.0005 {
        let _ = write!(text, ", {:.1}% shed", shed * 100.0);
    }
    if runs.cell.trouble != Trouble::None {
        let _ = write!(text, ", share {:.2}", runs.median(policy, |f| f.share));
    }
    text
}

/// Three digits.
fn short(value: f64) -> String {
    if value >= 100.0 {
        format!("{value:.0}")
    } else if value >= 10.0 {
        format!("{value:.1}")
    } else {
        format!("{value:.2}")
    }
}

/// One sentence: how many cells, and how many of them miss a claim.
fn summary(lines: &[Line], about: &str) -> String {
    let missed = lines.iter().filter(|line| line.missed).count();
    format!("{missed} of {} cells miss a claim. {about}", lines.len())
}

/// The map in Markdown: the cells that miss a claim, then all.
pub fn markdown(all: &[Runs], about: &str) -> String {
    let lines: Vec<Line> = all.iter().map(line).collect();
    let mut text = format!("# The map of regimes\n\n{}\n\n{LEGEND}\n", summary(&lines, about));
    let mut table = |title: &str, lines: &mut dyn Iterator<Item = &Line>| {
        let _ = write!(text, "\n## {title}\n\n| {} |\n|{}\n", HEADINGS.join(" | "), "---|".repeat(HEADINGS.len()));
        for line in lines {
            let _ = writeln!(text, "| {} |", line.cells.join(" | "));
        }
    };
    table("Cells that miss a claim", &mut lines.iter().filter(|line| line.missed));
    table("All cells", &mut lines.iter());
    text
}

/// The map as a page.
pub fn html(all: &[Runs], about: &str) -> String {
    let lines: Vec<Line> = all.iter().map(line).collect();
    let page = markup! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                title { "The map of regimes" }
                style { (PreEscaped(STYLE)) }
            }
            body {
                h1 { "The map of regimes" }
                p { (summary(&lines, about)) }
                p { (LEGEND) }
                table {
                    thead { tr { @for heading in HEADINGS { th scope="col" { (heading) } } } }
                    tbody {
                        @for line in &lines {
                            tr.missed[line.missed] { @for cell in &line.cells { td { (cell) } } }
                        }
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
    use crate::regimes::{POLICIES, corners};
    use std::collections::BTreeMap;

    fn runs(attempts: f64) -> Runs {
        let of = POLICIES.map(|policy| {
            let (factor, attempts) = match policy {
                LeastRequestFull => (1.0, 1.0),
                Bid => (0.5, attempts),
                _ => (0.25, 1.0),
            };
            let of_seed = |seed: f64| Figures {
                p50_ms: 80.0 * factor,
                p99_ms: 400.0 * factor * seed,
                mean_ms: 100.0 * factor,
                attempts,
                shed: if policy == Bid { 0.125 } else { 0.0 },
                goodput: 1.0,
                share: 1.0,
            };
            (policy.name(), [1.0, 1.25, if policy == Bid { 2.0 } else { 1.0 }].map(of_seed).to_vec())
        });
        Runs { cell: corners()[0], of: BTreeMap::from(of) }
    }

    #[test]
    fn a_line_has_ratios_with_their_range_and_the_claims_that_are_missed() {
        let cells = line(&runs(1.7)).cells;
        assert_eq!(cells[1], "80.0 / 400 / 100");
        assert_eq!(cells[4], "0.50 / 0.50 / 0.50 (0.50 to 1.00), 1.70, 12.5% shed");
        assert_eq!(cells[5], "0.25 / 0.25 / 0.25 (0.25 to 0.25), 1.00, jsq");
        assert_eq!(cells[6], "p99 takes 0.8 of the gap (1.12); 1 place: attempts at most 1.6 (2.2) (1.06)");
    }

    #[test]
    fn the_page_counts_and_marks_the_cells_that_miss_a_claim() {
        let mut kept = runs(1.0);
        for figures in kept.of.get_mut("bid").into_iter().flatten() {
            figures.p99_ms = 100.0;
        }
        let all = [runs(1.7), kept];
        let text = markdown(&all, "Five seeds.");
        assert!(text.contains("\n1 of 2 cells miss a claim. Five seeds.\n"), "{text}");
        let name = corners()[0].to_string();
        assert_eq!(text.matches(&name).count(), 3, "once among the missed, twice among all");
        let page = html(&all, "Five seeds.");
        assert_eq!((page.matches("class=\"missed\"").count(), page.matches(&name).count()), (1, 2));
    }
}
