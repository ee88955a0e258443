//! Tables of the claims, a candidate per line and a claim per line; medians with their ranges.

use super::{Bound, Figure, Kind, Measured, Outcome, Verdict};
use crate::report::{plain_row, plain_table};
use bloc_figures::stats::Spread;
use comfy_table::{Table, presets};

fn shown(spread: Option<Spread>, digits: usize) -> String {
    spread.map_or_else(|| "-".to_owned(), |spread| spread.shown(digits))
}

/// The claims as a part of a document, a table for each kind.
pub fn claims_text(kinds: &[Kind], verdicts: &[Verdict]) -> String {
    let mut text = String::new();
    for kind in kinds {
        let mut table = Table::new();
        table.load_style(presets::ASCII_MARKDOWN);
        table.set_header(["id", "what", "bound", "value", "compared with", "ratio, or the value itself"]);
        for one in verdicts.iter().filter(|one| one.kind == kind.name) {
            let [of, over] = one.figures.map(|figure| figure.map_or_else(|| "-".to_owned(), short));
            let value = shown(one.spread(), 2);
            table.add_row([format!("`{}`", one.id), one.what.clone(), bound(one), of, over, value]);
        }
        text += &format!("### {}\n\n{}.\n\n{table}\n\n", kind.name, kind.what);
    }
    text
}

/// Milliseconds without fractions where there are many of them.
fn short(value: f64) -> String {
    if value < 100.0 { format!("{value:.2}") } else { format!("{value:.0}") }
}

fn bound(verdict: &Verdict) -> String {
    match verdict.bound {
        Some(Bound::AtMost(most)) => format!("at most {most:.2}"),
        Some(Bound::AtLeast(least)) => format!("at least {least:.2}"),
        Some(Bound::None) => "none".to_owned(),
        None => "-".to_owned(),
    }
}

/// The candidates of a kind: medians of the rounds, with the range in brackets.
pub fn candidate_table(measured: &[Measured]) -> Table {
    let mut table = plain_table(&["kind", "candidate", "p50 ms", "p99 ms", "mean ms", "goodput", "lost", "CPU ms"]);
    for one in measured {
        let numbers = [
            (Figure::P50, 1),
            (Figure::P99, 0),
            (Figure::Mean, 1),
            (Figure::Goodput, 2),
            (Figure::Lost, 0),
            (Figure::Cpu, 2),
        ];
        let numbers = numbers.map(|(figure, digits)| shown(one.spread(figure), digits));
        table.add_row(plain_row([one.kind.to_owned(), one.candidate.title().to_owned()], numbers));
    }
    table
}

/// Each claim with its bound and its measurements, and values without a bound for comparison.
pub fn claim_table(verdicts: &[Verdict]) -> Table {
    let mut table = plain_table(&["claim", "what", "bound", "of", "over", "median (range)", ""]);
    for one in verdicts {
        let word = match one.outcome {
            Outcome::Kept => "kept",
            Outcome::Missed => "MISSED",
            Outcome::NotMeasured => "NOT MEASURED",
            Outcome::Beside => "",
        };
        let [of, over] = one.figures.map(|figure| figure.map_or_else(|| "-".to_owned(), |ms| format!("{ms:.2}")));
        let value = shown(one.spread(), 2);
        table.add_row(plain_row(
            vec![one.id.to_owned(), one.what.clone(), bound(one)],
            vec![of, over, value, word.to_owned()],
        ));
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiments::goals::{CLAIMS, Name, judge, kinds};
    use crate::report::example::record;
    use crate::rounds::Runs;
    use bloc_mesh::policy::Policy;
    use std::time::Duration;

    #[test]
    fn tables_show_medians_and_ranges_and_mark_claims_not_kept() {
        let kind = kinds(Duration::from_secs(1), 1).remove(0);
        let run = |p99| record(Policy::Bid, 40, [1.0, 2.0, 3.0, p99], 180.0);
        let measure = |name: Name, p99s: [f64; 2]| {
            let case = kind.candidates.iter().find(|one| one.name == name).unwrap().case.clone();
            Measured { kind: kind.name, candidate: name, runs: Runs { case, records: p99s.map(run).into() } }
        };
        let measured = [
            measure(Name::Bids, [160.0, 200.0]),
            measure(Name::TwoChoices, [640.0, 500.0]),
            measure(Name::Central, [80.0, 100.0]),
        ];
        let text = candidate_table(&measured).to_string();
        assert!(text.contains("180 (160 to 200)") && text.contains("0.90 (0.90 to 0.90)"), "{text}");
        let text = claim_table(&judge(CLAIMS, &["one-place"], &measured, 2, 1)).to_string();
        // The candidate with full scan did not run.
        let count = |word: &str| text.lines().filter(|line| line.trim_end().ends_with(word)).count();
        assert_eq!((count(" kept"), count(" MISSED"), count(" NOT MEASURED")), (5, 1, 1), "{text}");
        assert!(text.contains("one-place/p99-two-choices") && text.contains("0.33 (0.25 to 0.40)"), "{text}");
        assert!(text.contains("at most 0.40") && text.contains("570.00"), "{text}");
        let text = claims_text(&[kind], &judge(CLAIMS, &["one-place"], &measured, 2, 1));
        let row = text.lines().find(|line| line.contains("`one-place/p99-two-choices`")).unwrap();
        let cells: Vec<&str> = row.split('|').map(str::trim).collect();
        assert_eq!(cells[3..7], ["at most 0.40", "180", "570", "0.33 (0.25 to 0.40)"]);
        assert!(text.starts_with("### one-place\n\n10 servers"), "{text}");
    }
}
