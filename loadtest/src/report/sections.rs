//! The sections of the page.

use super::chart::{self, Series};
use super::findings::{Finding, circling};
use super::paper;
use super::table::share;
use crate::record::{Record, Row};
use bloc_mesh::policy::Policy;
use maud::{Markup, html};

/// The setting of the runs.
pub fn setting(records: &[Record]) -> Markup {
    let Some(row) = records.first().map(|record| &record.row) else { return html! {} };
    let frontends = records.iter().map(|record| record.row.frontends).max().unwrap_or(1);
    html! {
        h2 { "What was run" }
        div.card.path {
            "clients ─► gateway ─► " (frontends) " frontend proxies ─► " (row.backends) " backend proxies ─► " (row.backends) " servers"
        }
        p {
            "Each server takes " (chart::ms(row.service_ms)) " for a request on average and lets the others wait in line. Each frontend proxy chooses a server for "
            "each request, and none of them sees what the others send. So several may send to the same server at once while another "
            "has nothing to do: the more frontends, the less each one knows, and the longer the unlucky requests wait."
        }
        ul {
            li {
                b { "Least request, two choices" } " is what Envoy does out of the box: of two servers at random, take the one to which this proxy has fewer "
                "requests open. With " b { "full scan" } ", an option of Envoy, the proxy compares all servers. With " b { "one frontend" } " and full scan that proxy sees every "
                "request, and thus shows what perfect knowledge would give; in a real mesh nobody has it."
            }
            li {
                b { "BLOC" } " adds a filter to the proxies. A backend's proxy lets only so many requests in (its capacity) and turns the rest away at "
                "once; the frontend's proxy then tries another server, and with every answer learns whether the server has room for more. A request that is turned away "
                "everywhere it was tried is " i { "shed" } ": its client gets an immediate error instead of a long wait."
            }
            @if records.iter().any(|record| record.row.policy == Policy::Bid) {
                li {
                    b { "Bids" } ": each try says how long it is willing to wait, about the usual time at first and then more. A backend's proxy knows exactly how long it would take, and turns a "
                    "try away at once that would wait longer; the frontend's proxy then tries another server. The last try accepts any wait, so nothing is shed for it."
                }
            }
        }
    }
}

/// The findings, one per line.
pub fn verdict(findings: &[Finding]) -> Markup {
    if findings.is_empty() {
        return html! {};
    }
    html! {
        h2 { "In short" }
        p { "BLOC in the closed loop, bids there and at high load, and Mu and bids with servers of different speeds, each against least request (two choices where nothing else is said) with as many frontends:" }
        div.card.table { table.findings {
            thead { tr { th { "" } th { "measured" } th { "aim" } th { "" } } }
            tbody { @for finding in findings { tr {
                td { (finding.what) }
                td { (finding.measured) }
                td { (finding.expected) }
                td { @if finding.reached { span.good { "reached" } } @else { span.bad { "missed" } } }
            } } }
        } }
    }
}

/// One experiment: curves, bars, table.
pub fn experiment(name: &str, series: &[Series<'_>]) -> Markup {
    let load = series.first().map_or("", |s| s.record.row.load.as_str());
    let drawn: Vec<Series<'_>> = series.iter().filter(|s| !s.record.quantiles_ms.is_empty()).cloned().collect();
    html! {
        h2 { (title(name)) }
        (description(load))
        @if name == crate::heterogeneous::EXPERIMENT { (heterogeneous_note(series)) }
        ul.legend { @for s in series { li class=(format!("c{}", s.colour)) { (s.name) } } }
        @if !drawn.is_empty() {
            h3 { "How many requests were answered within a time" }
            figure { (chart::cumulative(&drawn)) }
        }
        h3 { "Where most requests lie" }
        figure {
            (chart::ranges(series))
            figcaption { "Bar: from the 10th to the 90th percentile. Gap in it: the median. Whisker: up to the 99th percentile." }
        }
        @if !drawn.is_empty() {
            h3 { "What became of the requests" }
            figure { (chart::rates(&drawn)) }
        }
        (table(series))
        @for s in series { (circling_note(s)) }
    }
}

/// Compares Mu with both kinds of least request, in three sentences.
fn heterogeneous_note(series: &[Series<'_>]) -> Markup {
    let of = |policy| series.iter().map(|s| &s.record.row).find(|row| row.policy == policy);
    let ratios = |baseline| {
        let (mu, least) = (of(Policy::Mu)?, of(baseline)?);
        let ratio = |value: fn(&Row) -> Option<f64>| Some(format!("{:.0}%", 100.0 * value(mu)? / value(least)?));
        Some((least.title(), ratio(|row| row.mean_ms)?, ratio(|row| row.p99_ms)?))
    };
    html! { p {
        "Two of the four servers are twice as fast as the others, which counting open requests does not show: least request makes as long a queue at a slow server as at a fast "
        "one, and whoever is sent to the slow one waits twice as long. Mu learns from the servers' proxies how many requests each has and how fast it finishes them, and sends a request "
        "where its answer is expected first."
        @for (baseline, mean, p99) in [Policy::LeastRequest, Policy::LeastRequestOfAll].into_iter().filter_map(ratios) {
            " Here its mean response time is " (mean) " of that of " (baseline) ", and its 99th percentile " (p99) "."
        }
        " A gateway with bids that finds out that it is the only caller makes none. It sends a request where the wait is shortest, and goes by speed where nothing waits."
    } }
}

/// How to read the charts.
pub fn reading() -> Markup {
    html! {
        h2 { "How to read this" }
        dl {
            dt { "curve" } dd { "For each time on the horizontal axis, the share of the answered requests that took no longer. A steep curve means that all clients are treated alike; a flat one that it is a matter of luck." }
            dt { "p10, p50, p90, p99" } dd { "The time within which 10, 50, 90, 99 of 100 answered requests were answered. p50 is the median." }
            dt { "ok" } dd { "An application answered." }
            dt { "shed" } dd { "Turned away by the mesh after all retries, with status 429, before any application saw it." }
            dt { "errors" } dd { "Everything else: no connection, no answer in time, another status, a changed body." }
            dt { "attempts" } dd { "How often a request was sent to a server's proxy, on average; above 1 because BLOC and bids try elsewhere when they are turned away." }
        }
    }
}

/// Command, machine, programs.
pub fn origin(records: &[Record], command: &str) -> Markup {
    let Some(first) = records.first() else { return html! {} };
    let here = &first.environment;
    html! {
        h2 { "Where the figures come from" }
        p { "Made by " code { (command) } }
        @if !here.envoy.is_empty() {
            dl {
                dt { "machine" } dd { (here.processor) ", " (here.cores) " cores for everything: clients, proxies and servers" }
                dt { "Envoy" } dd { (here.envoy) }
                dt { "bloc-lab" } dd { (here.lab) }
                dt { "measured" } dd { (format!("{:.0} s", first.measured_s)) " each, after a warm-up that does not count" }
            }
            p { "Each case by itself:" }
            @for record in records { pre { (record.command) } }
        }
    }
}

fn title(experiment: &str) -> &str {
    match experiment {
        "closed-loop" => "Overload: clients that never pause",
        "poisson" => "High load: arrivals at random",
        crate::heterogeneous::EXPERIMENT => "Servers of different speeds",
        other => other,
    }
}

fn description(load: &str) -> Markup {
    match load.split_once(':') {
        Some(("closed", clients)) => html! { p {
            (clients) " clients, each of which sends its next request the moment the last one was answered, so that the servers always have more to do than they "
            "can. On average nobody can be faster than the others here: the work is shared by all. What differs is how evenly."
        } },
        Some(("poisson", rate)) => html! { p {
            "Requests arrive at random, " (rate) " per second on average, whether or not the earlier ones were answered. Times count from the "
            "moment at which a request was meant to be sent."
        } },
        _ => html! {},
    }
}

fn table(series: &[Series<'_>]) -> Markup {
    let papers: Vec<_> = series.iter().filter_map(|s| paper_row(s).map(|row| (s, row))).collect();
    let time = |ms: Option<f64>| ms.map_or_else(|| "–".to_owned(), |ms| format!("{ms:.0}"));
    html! {
        div.card.table { table {
            thead { tr {
                th { "times in milliseconds" }
                @for name in ["p10", "p50", "p90", "p99", "answered/s", "shed", "errors", "attempts"] { th { (name) } }
            } }
            tbody {
                @for s in series {
                    @let row = &s.record.row;
                    tr {
                        td { (s.name) }
                        @for ms in [row.p10_ms, row.p50_ms, row.p90_ms, row.p99_ms] { td { (time(ms)) } }
                        td { (format!("{:.1}", row.throughput_rps)) }
                        td { (format!("{:.1}%", share(row.shed, row.requests))) }
                        td { (row.errors) @for (kind, count) in &s.record.errors_by_kind { br; span.soft { (count) " " (kind) } } }
                        td { (format!("{:.2}", row.attempts_per_request)) }
                    }
                }
                @for (s, row) in &papers {
                    tr.paper {
                        td { "the paper: " (s.name) }
                        @for seconds in row.percentiles_s { td { (time(Some(seconds * 1e3 * s.record.row.service_ms / paper::SERVICE_MS))) } }
                        td { "" }
                        td { @if let Some(percent) = row.failed_percent { (percent) "%" } }
                        td { "" } td { "" }
                    }
                }
            }
        } }
        @if let Some((s, _)) = papers.first() {
            p.soft {
                "In italics what the authors of the paper measured on their cluster with servers that take 250 ms"
                @if s.record.row.service_ms != paper::SERVICE_MS {
                    ", their times multiplied by " (s.record.row.service_ms / paper::SERVICE_MS) " to compare with servers that take " (chart::ms(s.record.row.service_ms))
                }
                "."
            }
        }
    }
}

fn paper_row(s: &Series<'_>) -> Option<&'static paper::PaperRow> {
    let row = &s.record.row;
    paper::row(row.policy, row.frontends).filter(|_| row.load == "closed:100" && row.backends == 10)
}

fn circling_note(s: &Series<'_>) -> Markup {
    let Some((waiting, cycle_ms)) = circling(s.record) else { return html! {} };
    html! { p.soft {
        "About the " (format!("{:.1}%", share(s.record.row.shed, s.record.row.requests))) " that " (s.name) " shed: on average "
        (format!("{waiting:.1}")) " clients were waiting for an answer. Only the rest were being turned away, each after "
        (format!("{cycle_ms:.0} ms")) ", and came back at once. So this share mostly says how quickly a client is told no, and how soon it asks again."
    } }
}
