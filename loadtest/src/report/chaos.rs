//! The table and the page of faults under load.

use super::lines::{Line, Marks, over_time};
use super::other::document;
use crate::chaos::Outcome;
use comfy_table::{Table, presets};
use maud::{Markup, html};

/// Every promise of every case.
pub fn chaos_table(outcomes: &[Outcome]) -> Table {
    let mut table = Table::new();
    table.load_style(presets::ASCII_MARKDOWN);
    table.set_header(["fault", "promise", "promised", "measured", ""]);
    for outcome in outcomes {
        if let Some(why) = &outcome.not_run {
            table.add_row([outcome.name, "", "", why, "NOT RUN"]);
        }
        for promise in &outcome.promises {
            let word = if promise.holds { "ok" } else { "BROKEN" };
            table.add_row([outcome.name, promise.what, &promise.promised, &promise.measured, word]);
        }
    }
    table
}

/// The same with what happened over time.
pub fn chaos_page(outcomes: &[Outcome], command: &str) -> Markup {
    let broken = outcomes.iter().filter(|outcome| !outcome.holds()).count();
    document(
        "Faults under load",
        command,
        &html! {
            p {
                "One thing after the other breaks in a mesh of real Envoys that carries half of what it can. The upright line is the moment; the level one is twice the undisturbed "
                "99th percentile. A request that was not answered counts in it as ten seconds."
            }
            p { (outcomes.len()) " cases, promises broken in " (broken) "." }
            @for outcome in outcomes { (section(outcome)) }
        },
    )
}

fn section(outcome: &Outcome) -> Markup {
    let moment_s = outcome.moments.map(|moments| moments.began_s);
    let limit = (outcome.limit_ms > 0.0).then_some(outcome.limit_ms);
    let p99 = [Line { name: "99th percentile of three seconds".into(), colour: 1, points: &outcome.p99_ms }];
    let names = ["answered", "refused", "lost"];
    let rates: Vec<Line<'_>> = (1..)
        .zip(names)
        .zip(&outcome.per_second)
        .map(|((colour, name), points)| Line { name: name.into(), colour, points })
        .collect();
    html! {
        h2 { (outcome.name) }
        p { (outcome.what) }
        @if let Some(why) = &outcome.not_run {
            p { strong { "Not run: " } (why) }
        } @else {
            table {
                tr { th { "promise" } th { "promised" } th { "measured" } th {} }
                @for promise in &outcome.promises {
                    tr {
                        td { (promise.what) }
                        td { (promise.promised) }
                        td { (promise.measured) }
                        td { @if promise.holds { "ok" } @else { strong { "BROKEN" } } }
                    }
                }
            }
            (over_time(&p99, "milliseconds", 2_000.0, Marks { moment_s, limit }))
            (over_time(&rates, "requests per second", 1_000.0, Marks { moment_s, limit: None }))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chaos::judge::{Moments, Promise};
    use crate::timeline::Point;

    #[test]
    fn what_is_broken_and_what_was_not_run_can_be_seen() {
        let promise = |holds| Promise { what: "w", promised: "p".into(), measured: "m".into(), holds };
        let points = vec![Point { at_s: 1.0, value: 5.0 }];
        let run = |promises, not_run: Option<&str>| Outcome {
            name: "n",
            what: "what".into(),
            moments: Some(Moments { began_s: 4.0, complete_s: 4.0, mended_s: 5.0 }),
            not_run: not_run.map(Into::into),
            promises,
            p99_ms: points.clone(),
            limit_ms: 9.0,
            per_second: [points.clone(), vec![], vec![]],
            counted: None,
        };
        let outcomes = [run(vec![promise(true), promise(false)], None), run(vec![], Some("no root"))];
        let table = chaos_table(&outcomes).to_string();
        assert_eq!((table.matches("BROKEN").count(), table.matches("NOT RUN").count()), (1, 1), "{table}");
        let page = chaos_page(&outcomes, "x").into_string();
        assert_eq!((page.matches("<svg").count(), page.matches("<strong>BROKEN").count()), (2, 1));
        assert!(page.contains("promises broken in 1."));
    }
}
