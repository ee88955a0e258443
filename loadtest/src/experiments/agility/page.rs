//! The line and the page about a new server.

use super::Joining;
use crate::report::{document, line, over_time};
use crate::timeline::Point;
use bloc_figures::chart::{Line, Marks};
use maud::{Markup, html};

/// The policy. Gateways in this experiment use two choices, Envoy's default, even a single one.
fn title(run: &Joining) -> &'static str {
    run.policy.title(run.policy.choice(run.frontends, true))
}

/// One run in one line.
pub fn joining_line(run: &Joining) -> String {
    let ms = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), |ms| format!("{ms:.0} ms"));
    let recovery = run.recovery_s.map_or_else(|| "not within the run".to_owned(), |s| format!("after {s:.1} s"));
    let most = |points: &[Point]| {
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
    let p90: Vec<Line> = (1..).zip(runs).map(|(colour, run)| line(title(run), colour, &run.p90_ms)).collect();
    let first = runs.first();
    let moment = first.map(|run| run.joined_s);
    let limit = first.map(|run| run.limit_ms);
    document(
        "A new server joins",
        command,
        &html! {
            p {
                "Four servers, two of them twice as fast as the others, have nearly as much to do as they can. Then (upright line) a fifth joins, a fast one. Shown is "
                "the time within which 90 of 100 requests of the last two seconds were answered; below the level line it is good again."
            }
            (over_time(&p90, "90th percentile in milliseconds", 5_000.0, Marks { moment, limit }))
            @for run in runs {
                p { (joining_line(run)) }
                @if !run.newcomer.is_empty() {
                    (over_time(
                        &[
                            line("the new one", 1, &run.newcomer),
                            line("the others on average", 2, &run.others),
                        ],
                        "requests in a server",
                        200.0,
                        Marks { moment, limit: None },
                    ))
                }
            }
        },
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use bloc_mesh::policy::Policy;

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
    fn a_page_draws_charts_only_for_data_that_exists() {
        let page = joining_page(&[joining(None, &[1.0]), joining(None, &[])], "x").into_string();
        assert_eq!(page.matches("<svg").count(), 2, "one for the percentiles, one for the queues of the first");
    }
}
