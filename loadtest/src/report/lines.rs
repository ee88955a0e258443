//! Values over time as lines in one chart.

use super::chart::{Axis, LEFT, RIGHT, WIDTH};
use crate::timeline::Point;
use maud::{Markup, html};

/// One line.
#[derive(Clone, Debug)]
pub struct Line<'a> {
    /// Its name.
    pub name: String,
    /// Its colour in the style sheet, 1 to 6.
    pub colour: usize,
    /// Its points.
    pub points: &'a [Point],
}

/// Marks in a chart: a moment, and a value that matters.
#[derive(Clone, Copy, Debug, Default)]
pub struct Marks {
    /// Seconds.
    pub moment_s: Option<f64>,
    /// In the unit of the values.
    pub limit: Option<f64>,
}

/// A chart of the lines over seconds (to the right) with their values (up) in `unit`. Values above
/// `most` are cut off there.
pub fn over_time(lines: &[Line<'_>], unit: &str, most: f64, marks: Marks) -> Markup {
    let (top, height) = (28.0, 260.0);
    let bottom = top + height;
    let all = || lines.iter().flat_map(|line| line.points);
    let seconds = Axis::new(all().map(|point| point.at_s).fold(0.0, f64::max), LEFT, WIDTH - RIGHT);
    let highest = all().map(|point| point.value).chain(marks.limit).fold(0.0, f64::max).min(most);
    let values = Axis::new(highest, bottom, top);
    let path = |points: &[Point]| {
        let place = |p: &Point| format!("{:.1},{:.1}", seconds.at(p.at_s), values.at(p.value).max(top));
        points.iter().map(place).collect::<Vec<_>>().join(" ")
    };
    html! {
        ul.legend { @for line in lines { li class=(format!("c{}", line.colour)) { (line.name) } } }
        figure { svg viewBox=(format!("0 0 {WIDTH} {}", bottom + 52.0)) role="img" aria-label=(format!("{unit} over time")) {
            @for tick in values.ticks() {
                line.grid x1=(LEFT) x2=(WIDTH - RIGHT) y1=(values.at(tick)) y2=(values.at(tick)) {}
                text.tick x=(LEFT - 10.0) y=(values.at(tick) + 4.0) text-anchor="end" { (crate::record::rounded(tick, 1e3)) }
            }
            text.tick x=(LEFT) y="14" { (unit) }
            (seconds.draw(top, bottom, "seconds"))
            @if let Some(at) = marks.moment_s.map(|at| seconds.at(at)) { line.mark x1=(at) x2=(at) y1=(top) y2=(bottom) {} }
            @if let Some(at) = marks.limit.map(|at| values.at(at)) { line.mark x1=(LEFT) x2=(WIDTH - RIGHT) y1=(at) y2=(at) {} }
            @for line in lines {
                polyline class=(format!("curve c{}", line.colour)) points=(path(line.points)) { title { (line.name) } }
            }
        } }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn draws_one_line_per_series_and_cuts_values_at_the_top() {
        let points = |value| [Point { at_s: 0.0, value: 1.0 }, Point { at_s: 10.0, value }];
        let (low, high) = (points(50.0), points(5_000.0));
        let line = |name: &str, colour, points| Line { name: name.into(), colour, points };
        let lines = [line("a", 1, &low[..]), line("b", 2, &high[..])];
        let text = over_time(&lines, "ms", 100.0, Marks { moment_s: Some(4.0), limit: None }).into_string();
        assert_eq!((text.matches("<polyline").count(), text.matches("line class=\"mark\"").count()), (2, 1));
        // The end of the axis is at the right edge, the cut value at the upper edge.
        assert!(text.contains("836.0,28.0\""), "{text}");
    }
}
