//! Pages and tables of the experiments that show more than a row: a new server joins, and capacity
//! estimators.

use super::lines::{Line, Marks, over_time};
use crate::agility::Joining;
use crate::estimators::Estimator;
use comfy_table::{Cell, CellAlignment, Table, presets};
use maud::{DOCTYPE, Markup, PreEscaped, html};

pub(super) fn document(title: &str, command: &str, content: &Markup) -> Markup {
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                title { (title) }
                style { (PreEscaped(super::page::STYLE)) }
            }
            body { main { h1 { (title) } (content) h2 { "Where the figures come from" } p { "Made by " code { (command) } } } }
        }
    }
}

/// The policy. Gateways in this experiment use two choices, Envoy's default, even a single one.
fn title(run: &Joining) -> &'static str {
    run.policy.title(run.policy.choice(run.frontends, true))
}

/// One run in one line.
pub fn joining_line(run: &Joining) -> String {
    let ms = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), |ms| format!("{ms:.0} ms"));
    let recovery = run.recovery_s.map_or_else(|| "not within the run".to_owned(), |s| format!("after {s:.1} s"));
    let most = |points: &[crate::timeline::Point]| {
        points.iter().filter(|point| point.at_s >= run.joined_s).map(|point| point.value).fold(0.0, f64::max)
    };
    let queues = if run.newcomer.is_empty() {
        String::new()
    } else {
        format!("; newcomer held at most {:.0}, the others {:.1} on average", most(&run.newcomer), most(&run.others))
    };
    format!(
        "{} ({} gateways, {:.1}/s): p90 before {}; at most {:.0} ms {recovery}; {} failed{queues}",
        title(run),
        run.frontends,
        run.rate_rps,
        ms(run.before_ms),
        run.limit_ms,
        run.failed,
    )
}

/// A new server joins.
pub fn joining_page(runs: &[Joining], command: &str) -> Markup {
    let p90: Vec<Line<'_>> = (1..)
        .zip(runs)
        .map(|(colour, run)| Line { name: title(run).to_owned(), colour, points: &run.p90_ms })
        .collect();
    let first = runs.first();
    let moment_s = first.map(|run| run.joined_s);
    let limit = first.map(|run| run.limit_ms);
    document(
        "A new server joins",
        command,
        &html! {
            p {
                "Four servers, two of them twice as fast as the others, have nearly as much to do as they can. Then (upright line) a fifth joins, a fast one. Shown is "
                "the time within which 90 of 100 requests of the last two seconds were answered; below the level line it is good again."
            }
            (over_time(&p90, "90th percentile in milliseconds", 5_000.0, Marks { moment_s, limit }))
            @for run in runs {
                p { (joining_line(run)) }
                @if !run.newcomer.is_empty() {
                    (over_time(
                        &[
                            Line { name: "the new one".into(), colour: 1, points: &run.newcomer },
                            Line { name: "the others on average".into(), colour: 2, points: &run.others },
                        ],
                        "requests in a server",
                        200.0,
                        Marks { moment_s, limit: None },
                    ))
                }
            }
        },
    )
}

/// All estimators in all phases.
pub fn estimator_table(runs: &[Estimator]) -> Table {
    let mut table = Table::new();
    table.load_style(presets::UTF8_HORIZONTAL_ONLY);
    table.set_header([
        "service time",
        "capacity",
        "phase",
        "in force",
        "least",
        "most",
        "ok/s",
        "shed",
        "p50 ms",
        "p99 ms",
        "errors",
    ]);
    for run in runs {
        for phase in &run.phases {
            let time = |ms: Option<f64>| ms.map_or_else(|| "-".to_owned(), |ms| format!("{ms:.0}"));
            let [least, mean, most] = phase.capacity;
            let [p50, p99] = phase.p50_p99_ms;
            let numbers = [
                format!("{mean:.1}"),
                format!("{least:.1}"),
                format!("{most:.1}"),
                format!("{:.1}", phase.throughput_rps),
                format!("{:.1}%", 100.0 * phase.shed),
                time(p50),
                time(p99),
                phase.errors.to_string(),
            ];
            let names = [run.service_time.clone(), run.capacity.clone(), phase.name.to_owned()];
            let numbers = numbers.into_iter().map(|number| Cell::new(number).set_alignment(CellAlignment::Right));
            table.add_row(names.into_iter().map(Cell::new).chain(numbers));
        }
    }
    table
}

/// The capacity in force over time, a chart for each service time.
pub fn estimator_page(runs: &[Estimator], command: &str) -> Markup {
    let mut times: Vec<&str> = runs.iter().map(|run| run.service_time.as_str()).collect();
    times.dedup();
    document(
        "Where a server's capacity comes from",
        command,
        &html! {
            p {
                "Four phases of equal length: more load than the servers can take, little load, too much again, and too much for servers that run at half their speed. "
                "Shown is the capacity in force, on average over the servers; zero means that there is no limit (yet)."
            }
            @for time in times {
                h2 { (time) }
                @let of_time: Vec<&Estimator> = runs.iter().filter(|run| run.service_time == time).collect();
                @let lines: Vec<Line<'_>> = of_time.iter().zip(1..)
                    .map(|(run, colour)| Line { name: run.capacity.clone(), colour, points: &run.over_time }).collect();
                (over_time(&lines, "capacity in requests", 60.0, Marks::default()))
            }
            pre { (estimator_table(runs)) }
        },
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::estimators::Phase;
    use crate::policy::Policy;
    use crate::timeline::Point;

    fn joining(recovery_s: Option<f64>, newcomer: &[f64]) -> Joining {
        let points = |values: &[f64]| (0u32..).zip(values).map(|(n, v)| Point { at_s: n.into(), value: *v }).collect();
        Joining {
            policy: Policy::Mu,
            frontends: 1,
            rate_rps: 110.0,
            joined_s: 1.0,
            limit_ms: 400.0,
            before_ms: Some(900.0),
            recovery_s,
            p90_ms: points(&[900.0, 900.0, 300.0]),
            newcomer: points(newcomer),
            others: points(newcomer),
            failed: 0,
        }
    }

    #[test]
    fn a_joining_line_says_when_p90_recovered() {
        let text = joining_line(&joining(Some(1.5), &[50.0, 7.0, 8.0]));
        assert!(text.starts_with("Mu (1 gateways, 110.0/s)"), "{text}");
        assert!(text.contains("p90 before 900 ms; at most 400 ms after 1.5 s"), "{text}");
        assert!(
            text.ends_with("newcomer held at most 8, the others 8.0 on average"),
            "before the join does not count: {text}"
        );
        assert!(joining_line(&joining(None, &[])).ends_with("not within the run; 0 failed"));
    }

    #[test]
    fn pages_draw_charts_only_for_data_that_exists() {
        let page = joining_page(&[joining(None, &[1.0]), joining(None, &[])], "x").into_string();
        assert_eq!(page.matches("<svg").count(), 2, "one for the percentiles, one for the queues of the first");
        let phase = Phase {
            name: "light",
            capacity: [1.0, 2.0, 3.0],
            throughput_rps: 9.0,
            shed: 0.5,
            p50_p99_ms: [None; 2],
            errors: 0,
        };
        let run = |capacity: &str, time: &str| Estimator {
            capacity: capacity.into(),
            service_time: time.into(),
            phases: vec![phase.clone()],
            over_time: vec![Point { at_s: 1.0, value: 2.0 }],
        };
        let runs = [run("static:1", "fixed:1s"), run("slo:1s", "fixed:1s"), run("slo:1s", "fixed:2s")];
        let page = estimator_page(&runs, "x").into_string();
        assert_eq!((page.matches("<svg").count(), page.matches("<polyline").count()), (2, 3));
        assert!(estimator_table(&runs).to_string().contains("50.0%"));
    }
}
