//! Values over time as lines in one chart.

use crate::timeline::Point;
use bloc_figures::chart::{Line, Lines, Marks};
use maud::{Markup, html};

/// The line of this `colour` in the style sheet, 1 to 6.
pub fn line(name: impl Into<String>, colour: usize, points: &[Point]) -> Line {
    Line { name: name.into(), colour, points: points.iter().map(|point| (point.at_s, point.value)).collect() }
}

/// A chart of the lines over seconds (to the right) with their values (up) in `unit`. Values above
/// `most` are cut off there.
pub fn over_time(lines: &[Line], unit: &str, most: f64, marks: Marks) -> Markup {
    html! {
        ul.legend { @for line in lines { li class=(format!("c{}", line.colour)) { (line.name) } } }
        figure { (Lines { lines, across: "seconds", up: unit, most, marks }.inline()) }
    }
}
