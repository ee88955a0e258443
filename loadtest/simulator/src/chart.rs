//! A line chart as an SVG file, for light and dark backgrounds.

use maud::{Markup, PreEscaped, html};

/// A curve: its name and its points, x rising.
#[derive(Clone, Debug)]
pub struct Curve {
    /// Its name.
    pub name: String,
    /// The points.
    pub points: Vec<(f64, f64)>,
}

const WIDTH: f64 = 760.0;
const HEIGHT: f64 = 420.0;
const LEFT: f64 = 72.0;
const RIGHT: f64 = 170.0;
const TOP: f64 = 48.0;
const BOTTOM: f64 = 56.0;
/// The distance between two lines of text.
const LINE: f64 = 16.0;
/// Blue, orange, green, purple, grey, red: the colour-blind can tell them apart (Okabe and Ito).
const COLOURS: [&str; 6] = ["#0072b2", "#e69f00", "#009e73", "#cc79a7", "#777777", "#d55e00"];
const STYLE: &str = "text{font:13px sans-serif;fill:#444}.title{font-size:16px}.grid{stroke:#999;stroke-opacity:.35}polyline{fill:none;stroke-width:2.5}@media(prefers-color-scheme:dark){text{fill:#ccc}}";

/// Draws the curves over axes that begin at zero.
pub fn lines(title: &str, x_name: &str, y_name: &str, curves: &[Curve]) -> String {
    let most =
        |value: fn(&(f64, f64)) -> f64| curves.iter().flat_map(|c| c.points.iter().map(value)).fold(0.0, f64::max);
    let (x_step, y_step) = (step(most(|p| p.0)), step(most(|p| p.1)));
    let (x_ticks, y_ticks) = (ticks(most(|p| p.0), x_step), ticks(most(|p| p.1), y_step));
    let (x_end, y_end) = (f64::from(x_ticks) * x_step, f64::from(y_ticks) * y_step);
    let x = |value: f64| LEFT + value / x_end * (WIDTH - LEFT - RIGHT);
    let y = |value: f64| HEIGHT - BOTTOM - value / y_end * (HEIGHT - TOP - BOTTOM);
    let last = |curve: &Curve| curve.points.last().map_or(0.0, |last| last.1);
    let names = apart(&curves.iter().map(|curve| y(last(curve)) + 4.0).collect::<Vec<_>>());
    let drawing: Markup = html! {
        svg xmlns="http://www.w3.org/2000/svg" viewBox=(format!("0 0 {WIDTH} {HEIGHT}")) role="img" aria-label=(title) {
            style { (PreEscaped(STYLE)) }
            text.title x=(LEFT) y="26" { (title) }
            @for tick in 0..=y_ticks {
                @let value = f64::from(tick) * y_step;
                line.grid x1=(LEFT) x2=(WIDTH - RIGHT) y1=(y(value)) y2=(y(value)) {}
                text x=(LEFT - 8.0) y=(y(value) + 4.0) text-anchor="end" { (shown(value)) }
            }
            @for tick in 0..=x_ticks {
                @let value = f64::from(tick) * x_step;
                text x=(x(value)) y=(HEIGHT - BOTTOM + 20.0) text-anchor="middle" { (shown(value)) }
            }
            text x=((LEFT + WIDTH - RIGHT) / 2.0) y=(HEIGHT - 14.0) text-anchor="middle" { (x_name) }
            text x="18" y=(TOP - 8.0) { (y_name) }
            @for ((curve, colour), name_y) in curves.iter().zip(COLOURS.iter().cycle()).zip(names) {
                polyline stroke=(colour) points=(curve.points.iter().map(|p| format!("{:.1},{:.1}", x(p.0), y(p.1))).collect::<Vec<_>>().join(" ")) {}
                text x=(WIDTH - RIGHT + 8.0) y=(name_y) style=(format!("fill:{colour}")) { (curve.name) }
            }
        }
    };
    drawing.into_string()
}

/// The heights of the names, moved down where two would overlap.
fn apart(heights: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..heights.len()).collect();
    order.sort_by(|&a, &b| heights[a].total_cmp(&heights[b]));
    let mut moved = heights.to_vec();
    for pair in order.windows(2) {
        moved[pair[1]] = moved[pair[1]].max(moved[pair[0]] + LINE);
    }
    moved
}

/// A round distance between ticks; four to ten of them reach `most`.
fn step(most: f64) -> f64 {
    let power = 10f64.powf((most.max(1e-9) / 4.0).log10().floor());
    let part = most.max(1e-9) / 4.0 / power;
    power
        * if part >= 5.0 {
            5.0
        } else if part >= 2.0 {
            2.0
        } else {
            1.0
        }
}

fn ticks(most: f64, step: f64) -> u32 {
    ((most / step).ceil() as u32).max(1)
}

fn shown(value: f64) -> String {
    let text = format!("{value:.3}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_axis_has_four_to_ten_ticks_at_round_values() {
        for most in [0.07, 1.0, 7.3, 25.0, 40.0, 99.9, 12_345.0] {
            let step = step(most);
            assert!((4..=10).contains(&ticks(most, step)), "{most}: {} ticks of {step}", ticks(most, step));
        }
        assert_eq!(step(100.0), 20.0);
    }

    #[test]
    fn names_do_not_overlap() {
        assert_eq!(apart(&[100.0, 40.0, 41.0, 50.0]), [100.0, 40.0, 56.0, 72.0]);
    }

    #[test]
    fn draws_the_highest_point_at_the_top_and_escapes_names() {
        let curve = Curve { name: "a<b".to_owned(), points: vec![(0.0, 0.0), (10.0, 10.0)] };
        let svg = lines("t", "x", "y", &[curve]);
        assert!(svg.contains(&format!("{:.1},{:.1}", WIDTH - RIGHT, TOP)), "{svg}");
        assert!(svg.contains("a&lt;b") && !svg.contains("a<b"));
    }
}
