//! Charts as inline SVG. The page's style sheet sets colours and fonts, so one drawing serves light
//! and dark mode.

use crate::record::Record;
use bloc_figures::chart::{Axis, BELOW, LEFT, RIGHT, WIDTH, curve};
use maud::{Markup, html};

/// A record with its name and colour (1, 2, ...), the same everywhere on the page.
#[derive(Clone, Debug)]
pub struct Series<'a> {
    /// The record.
    pub record: &'a Record,
    /// Its name.
    pub name: String,
    /// Its colour in the style sheet.
    pub colour: usize,
}

/// The width for names to the left of bars.
const NAMES: f64 = 296.0;
const ROW: f64 = 34.0;

/// The share of requests (up) answered within a time (to the right).
pub fn cumulative(series: &[Series<'_>]) -> Markup {
    let (top, height) = (16.0, 300.0);
    let most = series.iter().filter_map(|s| s.record.quantiles_ms.last()).fold(0.0, |a: f64, b| a.max(*b));
    let axis = Axis::new(most, LEFT, WIDTH - RIGHT);
    let y = |share: f64| top + height * (1.0 - share);
    html! {
        svg viewBox=(format!("0 0 {WIDTH} {}", top + height + BELOW)) role="img" aria-label="Share of requests answered within a time" {
            @for percent in [0, 10, 50, 90, 99] {
                @let at = y(f64::from(percent) / 100.0);
                line.grid x1=(LEFT) x2=(WIDTH - RIGHT) y1=(at) y2=(at) {}
                text.tick x=(LEFT - 10.0) y=(at + 4.0) text-anchor="end" { (percent) "%" }
            }
            (axis.draw(top, top + height, "response time in milliseconds"))
            @for s in series {
                @let place = |(step, ms): (usize, &f64)| (axis.at(*ms), y(Record::share(step)));
                (curve(s.colour, &s.name, s.record.quantiles_ms.iter().enumerate().map(place)))
            }
        }
    }
}

/// For each record, a bar from the 10th to the 90th percentile, a mark at the median and a whisker
/// to the 99th percentile.
pub fn ranges(series: &[Series<'_>]) -> Markup {
    let most = series.iter().filter_map(|s| s.record.row.p99_ms).fold(0.0, f64::max);
    rows(series, most, "response time in milliseconds", |s, axis, middle| {
        let row = &s.record.row;
        let (Some(p10), Some(p50), Some(p90), Some(p99)) = (row.p10_ms, row.p50_ms, row.p90_ms, row.p99_ms) else {
            return html! { text.tick x=(NAMES) y=(middle + 4.0) { "nothing was answered" } };
        };
        // A range too narrow to see is still drawn, without the gap.
        let width = (axis.at(p90) - axis.at(p10)).max(5.0);
        html! {
            line class=(format!("whisker c{}", s.colour)) x1=(axis.at(p90)) x2=(axis.at(p99)) y1=(middle) y2=(middle) {}
            line class=(format!("whisker c{}", s.colour)) x1=(axis.at(p99)) x2=(axis.at(p99)) y1=(middle - 6.0) y2=(middle + 6.0) {}
            rect class=(format!("bar c{}", s.colour)) x=(axis.at(p10)) y=(middle - 9.0) width=(width) height="18" rx="3" {
                title { (s.name) ": p10 " (ms(p10)) ", median " (ms(p50)) ", p90 " (ms(p90)) ", p99 " (ms(p99)) }
            }
            @if width > 12.0 { line.median x1=(axis.at(p50)) x2=(axis.at(p50)) y1=(middle - 9.0) y2=(middle + 9.0) {} }
        }
    })
}

/// For each record, its requests per second by outcome: answered, then shed, then errors.
pub fn rates(series: &[Series<'_>]) -> Markup {
    let per_second = |s: &Series<'_>, count: u64| count as f64 / s.record.measured_s.max(1e-9);
    let most = series.iter().map(|s| per_second(s, s.record.row.requests)).fold(0.0, f64::max);
    rows(series, most, "requests per second", |s, axis, middle| {
        let row = &s.record.row;
        let parts = [("answered", "bar", row.ok), ("shed", "bar shed", row.shed), ("errors", "bar errors", row.errors)];
        let mut from = 0.0;
        html! {
            @for (what, class, count) in parts {
                @if count > 0 {
                    @let rate = per_second(s, count);
                    @let start = axis.at(from);
                    @let width = (axis.at(from + rate) - start - 2.0).max(1.0);
                    rect class=(format!("{class} c{}", s.colour)) x=(start) y=(middle - 9.0) width=(width) height="18" rx="3" {
                        title { (s.name) ": " (format!("{rate:.1}")) " " (what) " per second" }
                    }
                    @if width > 60.0 {
                        text.inside x=(start + 8.0) y=(middle + 4.0) { (format!("{rate:.0} {what}")) }
                    }
                    ({ from += rate; "" })
                }
            }
        }
    })
}

fn rows(series: &[Series<'_>], most: f64, unit: &str, draw: impl Fn(&Series<'_>, &Axis, f64) -> Markup) -> Markup {
    let (top, bottom) = (8.0, 8.0 + ROW * series.len() as f64);
    let axis = Axis::new(most, NAMES, WIDTH - RIGHT);
    html! {
        svg viewBox=(format!("0 0 {WIDTH} {}", bottom + BELOW)) role="img" aria-label=(unit) {
            (axis.draw(top, bottom, unit))
            @for (n, s) in series.iter().enumerate() {
                @let middle = top + ROW * (n as f64 + 0.5);
                text.name x=(NAMES - 14.0) y=(middle + 4.0) text-anchor="end" { (s.name) }
                (draw(s, &axis, middle))
            }
        }
    }
}

/// Milliseconds, rounded for a reader.
pub fn ms(value: f64) -> String {
    if value >= 10.0 { format!("{value:.0} ms") } else { format!("{value:.1} ms") }
}
