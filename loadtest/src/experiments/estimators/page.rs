//! The table and the page about sources of the capacity.

use super::Estimator;
use crate::report::{document, line, over_time, plain_row, plain_table};
use bloc_figures::chart::{Line, Marks};
use comfy_table::Table;
use maud::{Markup, html};

/// All estimators in all phases.
pub fn estimator_table(runs: &[Estimator]) -> Table {
    let mut table = plain_table(&[
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
            table.add_row(plain_row(names, numbers));
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
                @let lines: Vec<Line> = of_time.iter().zip(1..)
                    .map(|(run, colour)| line(&run.capacity, colour, &run.over_time)).collect();
                (over_time(&lines, "capacity in requests", 60.0, Marks::default()))
            }
            pre { (estimator_table(runs)) }
        },
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiments::estimators::Phase;
    use crate::timeline::Point;

    #[test]
    fn a_page_draws_a_chart_for_each_service_time() {
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
