//! The tables and the page about quotas and limits of memory.

use super::claims::{Measured, Verdict};
use super::figures::{Figure, spread};
use super::name::Kind;
use super::plan::CONTAINERS;
use super::run::Results;
use crate::experiments::goals::{Bound, Outcome};
use crate::report::{document, line, over_time, plain_row, plain_table};
use crate::timeline::Point;
use bloc_figures::chart::Marks;
use bloc_figures::stats::Spread;
use comfy_table::Table;
use maud::{Markup, html};

/// What charts show of each kind: the unit, and where they are cut off.
const fn chart(kind: Kind) -> (&'static str, f64) {
    match kind {
        // Sidecars that follow have no charts.
        Kind::Quotas | Kind::Nodes | Kind::Follow | Kind::Delays => ("cores", 2.0),
        Kind::Memory => ("MiB", 512.0),
        Kind::Shares => ("shares", 1_024.0),
    }
}
/// Late requests of a second; more are cut off.
const MOST_LATE: f64 = 200.0;

/// The median, and the range if there is one.
fn cell(digits: usize, spread: Option<Spread>) -> String {
    spread.map_or_else(|| "-".to_owned(), |spread| spread.brief(digits))
}

/// The names of those that were measured, and a row for each figure that one of them has.
fn cells(measured: &[Measured]) -> (Vec<&'static str>, Vec<Vec<String>>) {
    let names = measured.iter().map(|one| one.name.name()).collect();
    let row = |(figure, digits): (Figure, usize)| {
        let has = measured.iter().any(|one| one.turns.iter().any(|turn| turn.contains_key(&figure)));
        let values = measured.iter().map(|one| cell(digits, spread(&one.turns, figure)));
        has.then(|| [figure.title().to_owned()].into_iter().chain(values).collect())
    };
    (names, Figure::SHOWN.into_iter().filter_map(row).collect())
}

/// What is about each kind, as far as there is any.
pub fn parts(measured: &[Measured]) -> Vec<Vec<Measured>> {
    let of = |kind| measured.iter().filter(|one| one.name.kind() == kind).cloned().collect::<Vec<_>>();
    Kind::ALL.map(of).into_iter().filter(|part| !part.is_empty()).collect()
}

/// The figures: medians of the rounds, with the range in brackets.
pub fn figure_table(measured: &[Measured]) -> Table {
    let (names, rows) = cells(measured);
    let mut table = plain_table(&[&[""][..], &names].concat());
    for row in rows {
        let mut row = row.into_iter();
        let name = row.next();
        table.add_row(plain_row(name, row));
    }
    table
}

fn claim_cells(verdict: &Verdict) -> [String; 5] {
    let bound = match verdict.bound {
        Bound::AtMost(most) => format!("at most {most}"),
        Bound::AtLeast(least) => format!("at least {least}"),
        Bound::None => "none".to_owned(),
    };
    let outcome = match verdict.outcome {
        Outcome::Kept => "kept",
        Outcome::Missed if verdict.aim => "aim missed",
        Outcome::Missed => "MISSED",
        Outcome::NotMeasured => "NOT MEASURED",
        Outcome::Beside => "",
    };
    let value = cell(3, verdict.median.zip(verdict.range).map(|(median, range)| Spread { median, range }));
    [verdict.id.to_owned(), verdict.what.clone(), bound, value, outcome.to_owned()]
}

const CLAIM_HEADER: [&str; 5] = ["claim", "what", "bound", "median (range)", ""];

/// Each claim with its bound and what was measured.
pub fn claim_table(verdicts: &[Verdict]) -> Table {
    let mut table = plain_table(&CLAIM_HEADER);
    for verdict in verdicts {
        let [id, what, bound, value, outcome] = claim_cells(verdict);
        table.add_row(plain_row([id, what, bound], [value, outcome]));
    }
    table
}

/// The same as a page, with the quotas and limits over time.
pub fn page(results: &Results, verdicts: &[Verdict], command: &str) -> Markup {
    let parts = parts(&results.measured);
    document(
        "CPU quotas, limits of memory, and CPU shares",
        command,
        &html! {
            p {
                "Four containers that burn CPU have a limit of one core together. One after the other has a burst. "
                "Shown are medians of " (results.rounds) " rounds, with the range in brackets. A request that was "
                "not answered counts in the percentiles as the time after which its client gave up. "
                "The control groups are " (results.cgroups) "."
            }
            p {
                "For nodes, two of the containers are on each of two nodes. Their agents have half of the limit each, "
                "or lease parts of it."
            }
            p {
                "For memory, four processes take and give it back, with a limit of 768 MiB together. The kernel kills "
                "one that needs more than its own limit."
            }
            p {
                "For shares, four backends with sidecars and a neighbour that always wants CPU have one core. One "
                "backend after the other is hot. Late is what was answered after 1.2 times the target, or not at all."
            }
            p {
                "For sidecars that follow, a backend behind a sidecar gets 1.5 times the requests that its quota is "
                "enough for. Then the quota is halved. What counts are the 10 s after that."
            }
            @for (names, rows) in parts.iter().map(|part| cells(part)) {
                div.card.table { table {
                    thead { tr { th { "" } @for name in names { th { (name) } } } }
                    tbody { @for row in rows { tr { @for cell in row { td { (cell) } } } } }
                } }
            }
            @if !verdicts.is_empty() {
                h2 { "Claims" }
                div.card.table { table {
                    thead { tr { @for name in CLAIM_HEADER { th { (name) } } } }
                    tbody { @for verdict in verdicts { tr { @for cell in claim_cells(verdict) { td { (cell) } } } } }
                } }
            }
            @for (name, limits) in &results.limits {
                h2 { "Limits or shares in the first round: " (name.name()) }
                (lines(limits, chart(name.kind())))
            }
            @for (name, late) in &results.late {
                h2 { "Late or not answered in the first round: " (name.name()) }
                (lines(late, ("a second", MOST_LATE)))
            }
        },
    )
}

/// A line for each container.
fn lines(containers: &[Vec<Point>], (unit, most): (&str, f64)) -> Markup {
    let all = (1..=CONTAINERS).zip(containers);
    let lines = all.map(|(colour, points)| line(format!("container {colour}"), colour, points));
    over_time(&lines.collect::<Vec<_>>(), unit, most, Marks::default())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiments::follow::case::FollowCase;
    use crate::experiments::quota::allocator::Allocator;
    use crate::experiments::quota::claims::judge;
    use crate::experiments::quota::figures::Turn;
    use crate::experiments::quota::memory::allocator::MemoryAllocator;
    use crate::experiments::quota::name::Name;
    use crate::experiments::quota::qos::case::QosCase;

    fn results() -> Results {
        let turn = |slack: f64| Turn::from([(Figure::SlackP50, slack), (Figure::P999, 9.0)]);
        let of = |allocator, turns: [f64; 2]| Measured { name: Name::Of(allocator), turns: turns.map(turn).into() };
        let mut measured = vec![of(Allocator::Static, [0.5, 1.0]), of(Allocator::Agent, [0.1, 0.5])];
        measured[1].turns[0].insert(Figure::AgentCpu, 0.01);
        let points = vec![vec![Point { at_s: 1.0, value: 0.2 }]; CONTAINERS];
        Results {
            rounds: 2,
            cgroups: "v1",
            peaks: vec![],
            memory_peaks: vec![],
            failed: vec![],
            measured,
            limits: vec![(Name::Of(Allocator::Agent), points)],
            late: vec![],
        }
    }

    #[test]
    fn tables_show_medians_and_ranges_and_mark_claims_that_are_not_kept() {
        let results = results();
        let text = figure_table(&results.measured).to_string();
        assert!(text.contains("0.750 (0.500 to 1.000)") && text.contains(" 9 "), "{text}");
        let row = text.lines().find(|line| line.contains("agent's CPU")).unwrap();
        assert_eq!(row.matches(" - ").count(), 2, "one round of two is no median: {row}");
        assert!(!text.contains("within the SLO"), "nobody has it");
        let text = claim_table(&judge(&results.measured)).to_string();
        let row = |id: &str| text.lines().find(|line| line.contains(id)).unwrap();
        assert!(row("slack-static").contains("0.350 (0.200 to 0.500)") && row("slack-static").contains("MISSED"));
        assert!(row("p999-static").contains("at most 1 ") && row("p999-static").contains("kept"), "{text}");
        assert!(row("new-quota-p90").contains("NOT MEASURED"), "{text}");
    }

    #[test]
    fn the_page_has_a_chart_for_each_allocator() {
        let mut results = results();
        let text = page(&results, &judge(&results.measured), "bloc-lab quota").into_string();
        assert_eq!((text.matches("<svg").count(), text.matches("<polyline").count()), (1, CONTAINERS));
        assert_eq!((text.matches("<thead").count(), text.contains(">MiB<")), (2, false));
        assert!(text.contains("0.750 (0.500 to 1.000)") && text.contains("MISSED") && text.contains("v1"), "{text}");
        let memory = Name::Memory(MemoryAllocator::Equal);
        results.measured.push(Measured { name: memory, turns: vec![Turn::from([(Figure::Kills, 4.0)])] });
        results.limits[0].0 = memory;
        let text = page(&results, &judge(&results.measured), "bloc-lab quota").into_string();
        assert_eq!((text.matches("<thead").count(), text.matches("MiB").count() > 1), (3, true), "{text}");
        let shares = Name::Qos(QosCase::Shares);
        results.measured.insert(0, Measured { name: shares, turns: vec![Turn::from([(Figure::Late, 5.0)])] });
        results.limits[0].0 = shares;
        results.late = vec![(shares, results.limits[0].1.clone())];
        let text = page(&results, &[], "bloc-lab quota").into_string();
        assert_eq!(
            (text.matches("<svg").count(), text.matches(">shares<").count(), text.matches("MiB").count()),
            (2, 1, 1)
        );
        results.measured.remove(0);
        let names = parts(&results.measured).into_iter().map(|part| part.len()).collect::<Vec<_>>();
        assert_eq!((names, parts(&results.measured[2..]).len()), (vec![2, 1], 1));
        let follow = FollowCase::ALL.map(|case| Measured { name: Name::Follow(case), turns: vec![] });
        let answers = follow.iter().filter(|one| one.name.kind() == Kind::Follow).count();
        assert_eq!(parts(&follow).iter().map(Vec::len).collect::<Vec<_>>(), [answers, follow.len() - answers]);
    }
}
