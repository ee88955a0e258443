//! Charts as SVG: axes, and lines over them.
//!
//! In a page, its style sheet sets colours and fonts, so one drawing serves light and dark mode. A
//! picture of its own brings its own style.

use crate::stats::rounded;
use maud::{Markup, PreEscaped, html};

/// The width of a drawing.
pub const WIDTH: f64 = 860.0;
/// The width to the left of a vertical axis.
pub const LEFT: f64 = 64.0;
/// The width to the right of a drawing.
pub const RIGHT: f64 = 24.0;
/// The height below a horizontal axis.
pub const BELOW: f64 = 52.0;
const TOP: f64 = 28.0;
const BOTTOM: f64 = TOP + 260.0;
/// The height for the title of a picture.
const TITLE: f64 = 36.0;
/// The width for the names of its lines.
const NAMES: f64 = 150.0;
/// The distance between two lines of text.
const TEXT: f64 = 16.0;
/// Blue, orange, green, purple, grey, red: the colour-blind can tell them apart (Okabe and Ito).
const COLOURS: [&str; 6] = ["#0072b2", "#e69f00", "#009e73", "#cc79a7", "#777777", "#d55e00"];
const STYLE: &str = "text{font:13px sans-serif;fill:#444}.title{font-size:16px}.grid,.mark{stroke:#999;stroke-opacity:.35}polyline{fill:none;stroke-width:2.5}@media(prefers-color-scheme:dark){text{fill:#ccc}}";

/// One line.
#[derive(Clone, Debug, PartialEq)]
pub struct Line {
    /// Its name.
    pub name: String,
    /// Its colour in the style sheet, 1 to 6; a picture begins anew after 6.
    pub colour: usize,
    /// Its points: to the right and up.
    pub points: Vec<(f64, f64)>,
}

/// Marks in a chart: upright and level lines.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Marks {
    /// A place on the horizontal axis, in its unit.
    pub moment: Option<f64>,
    /// A value that matters, in the unit of the values.
    pub limit: Option<f64>,
}

/// Lines over axes that begin at zero.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Lines<'a> {
    /// The lines.
    pub lines: &'a [Line],
    /// The unit to the right.
    pub across: &'a str,
    /// The unit of the values.
    pub up: &'a str,
    /// Values above are cut off there.
    pub most: f64,
    /// The marks.
    pub marks: Marks,
}

impl Lines<'_> {
    /// The drawing for a page, which has a legend and a style sheet.
    pub fn inline(&self) -> Markup {
        let label = format!("{} over time", self.up);
        html! {
            svg viewBox=(format!("0 0 {WIDTH} {}", BOTTOM + BELOW)) role="img" aria-label=(label) { (self.draw()) }
        }
    }

    /// The drawing as a file, for light and dark backgrounds. The name of a line is at its end.
    pub fn picture(&self, title: &str) -> String {
        let view = format!("0 {} {} {}", -TITLE, WIDTH + NAMES, BOTTOM + BELOW + TITLE);
        let (_, values) = self.axes();
        let ends = self.lines.iter().map(|line| line.points.last().map_or(0.0, |last| last.1));
        let names = apart(&ends.map(|end| values.at(end).max(TOP) + 4.0).collect::<Vec<_>>());
        let colour = |line: &Line| COLOURS[line.colour.saturating_sub(1) % COLOURS.len()];
        let colours: String = self
            .lines
            .iter()
            .map(|line| format!(".c{}{{stroke:{colour}}}", line.colour, colour = colour(line)))
            .collect();
        let drawing = html! {
            svg xmlns="http://www.w3.org/2000/svg" viewBox=(view) role="img" aria-label=(title) {
                style { (PreEscaped(STYLE)) (PreEscaped(colours)) }
                text.title x=(LEFT) y=(20.0 - TITLE) { (title) }
                (self.draw())
                @for (line, y) in self.lines.iter().zip(names) {
                    text x=(WIDTH - RIGHT + 8.0) y=(y) style=(format!("fill:{}", colour(line))) { (line.name) }
                }
            }
        };
        drawing.into_string()
    }

    fn axes(&self) -> (Axis, Axis) {
        let points = || self.lines.iter().flat_map(|line| &line.points);
        let highest = points().map(|point| point.1).chain(self.marks.limit).fold(0.0, f64::max).min(self.most);
        let furthest = points().map(|point| point.0).fold(0.0, f64::max);
        (Axis::new(furthest, LEFT, WIDTH - RIGHT), Axis::new(highest, BOTTOM, TOP))
    }

    fn draw(&self) -> Markup {
        let (across, values) = self.axes();
        let place = |point: &(f64, f64)| (across.at(point.0), values.at(point.1).max(TOP));
        html! {
            @for tick in values.ticks() {
                line.grid x1=(LEFT) x2=(WIDTH - RIGHT) y1=(values.at(tick)) y2=(values.at(tick)) {}
                text.tick x=(LEFT - 10.0) y=(values.at(tick) + 4.0) text-anchor="end" { (rounded(tick, 1e3)) }
            }
            text.tick x=(LEFT) y=(TOP / 2.0) { (self.up) }
            (across.draw(TOP, BOTTOM, self.across))
            @if let Some(at) = self.marks.moment.map(|at| across.at(at)) {
                line.mark x1=(at) x2=(at) y1=(TOP) y2=(BOTTOM) {}
            }
            @if let Some(at) = self.marks.limit.map(|at| values.at(at)) {
                line.mark x1=(LEFT) x2=(WIDTH - RIGHT) y1=(at) y2=(at) {}
            }
            @for line in self.lines { (curve(line.colour, &line.name, line.points.iter().map(place))) }
        }
    }
}

/// A curve through these places of the drawing.
pub fn curve(colour: usize, name: &str, places: impl Iterator<Item = (f64, f64)>) -> Markup {
    let points: Vec<String> = places.map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
    html! { polyline class=(format!("curve c{colour}")) points=(points.join(" ")) { title { (name) } } }
}

/// The heights of the names, moved down where two would overlap.
fn apart(heights: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..heights.len()).collect();
    order.sort_by(|&a, &b| heights[a].total_cmp(&heights[b]));
    let mut moved = heights.to_vec();
    for pair in order.windows(2) {
        moved[pair[1]] = moved[pair[1]].max(moved[pair[0]] + TEXT);
    }
    moved
}

/// An axis from zero on.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Axis {
    end: f64,
    step: f64,
    from: f64,
    to: f64,
}

impl Axis {
    /// An axis that reaches at least `most`, in round steps; zero is at the place `from` of the
    /// drawing, and its end at `to`.
    pub fn new(most: f64, from: f64, to: f64) -> Self {
        let most = if most > 0.0 { most } else { 1.0 };
        let power = 10f64.powf((most / 6.0).log10().floor());
        let step =
            [1.0, 2.0, 2.5, 5.0, 10.0].map(|n| n * power).into_iter().find(|step| most / step <= 7.0).unwrap_or(most);
        Self { end: (most / step).ceil() * step, step, from, to }
    }

    /// The place of a value in the drawing.
    pub fn at(&self, value: f64) -> f64 {
        self.from + (self.to - self.from) * value / self.end
    }

    /// The values of its ticks.
    pub fn ticks(&self) -> impl Iterator<Item = f64> {
        let (step, count) = (self.step, (self.end / self.step).round() as u32);
        (0..=count).map(move |n| f64::from(n) * step)
    }

    /// As a horizontal axis, with upright lines from `top` to `bottom`.
    pub fn draw(&self, top: f64, bottom: f64, label: &str) -> Markup {
        html! {
            @for tick in self.ticks() {
                line.grid x1=(self.at(tick)) x2=(self.at(tick)) y1=(top) y2=(bottom) {}
                text.tick x=(self.at(tick)) y=(bottom + 18.0) text-anchor="middle" { (rounded(tick, 1e3)) }
            }
            text.tick x=(self.to) y=(bottom + 40.0) text-anchor="end" { (label) }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(name: &str, colour: usize, end: (f64, f64)) -> Line {
        Line { name: name.to_owned(), colour, points: vec![(0.0, 1.0), end] }
    }

    #[test]
    fn an_axis_covers_its_values_in_few_round_steps() {
        for most in [0.07, 0.3, 1.0, 7.0, 7.3, 25.0, 40.0, 99.0, 99.9, 512.0, 1096.0, 5170.0, 12_345.0] {
            let axis = Axis::new(most, 0.0, 100.0);
            let ticks = axis.ticks().count();
            assert!(axis.end >= most && axis.end < 1.6 * most && (3..=9).contains(&ticks), "{most}: {axis:?}");
            assert_eq!((axis.at(0.0), axis.at(axis.end)), (0.0, 100.0));
        }
        assert_eq!(Axis::new(0.0, 0.0, 1.0), Axis::new(1.0, 0.0, 1.0));
    }

    #[test]
    fn draws_one_line_per_series_and_cuts_values_at_the_top() {
        let lines = [line("a", 1, (10.0, 50.0)), line("b", 2, (10.0, 5_000.0))];
        let marks = Marks { moment: Some(4.0), limit: None };
        let chart = Lines { lines: &lines, across: "seconds", up: "ms", most: 100.0, marks };
        let text = chart.inline().into_string();
        assert_eq!((text.matches("<polyline").count(), text.matches("line class=\"mark\"").count()), (2, 1));
        // The end of the axis is at the right edge, the cut value at the upper edge.
        assert!(text.contains("836.0,28.0\""), "{text}");
        assert!(text.contains("aria-label=\"ms over time\"") && text.contains(">seconds<"), "{text}");
        // The name of the cut line is at the upper edge, too.
        assert!(chart.picture("t").contains(r#"y="32" style="fill:#e69f00">b<"#), "{}", chart.picture("t"));
    }

    #[test]
    fn a_picture_stands_alone_and_escapes_names() {
        let lines = [line("a<b", 1, (10.0, 10.0)), line("c", 7, (10.0, 5.0))];
        let marks = Marks { limit: Some(8.0), ..Marks::default() };
        let picture = Lines { lines: &lines, across: "x", up: "y", most: f64::INFINITY, marks }.picture("t");
        assert!(
            picture.starts_with(r#"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 -36 1010 376""#),
            "{picture}"
        );
        assert!(picture.contains("836.0,28.0\"") && picture.contains(".c7{stroke:#0072b2}"), "{picture}");
        assert!(picture.contains("a&lt;b") && !picture.contains("a<b"), "{picture}");
    }

    #[test]
    fn names_do_not_overlap() {
        assert_eq!(apart(&[100.0, 40.0, 41.0, 50.0]), [100.0, 40.0, 56.0, 72.0]);
    }
}
