//! How fast a quantity grows.
//!
//! *The floor.* Memory and connections of a process follow the load: each burst opens connections
//! and fills buffers. A leak raises the lowest values too, so each window contributes only its
//! lowest value. A window is as long as the time from one burst to the next, so each contains time
//! in which the connections of a burst are closed again.
//!
//! *The slope.* Theil-Sen: the median of the slopes between every two floors. An allocator that
//! takes one more block and keeps it makes a step. A step changes few of these slopes, but would
//! tilt the line of least squares. A leak is in all of them.

use crate::timeline::Point;
use bloc_figures::stats::median;
use std::collections::BTreeMap;

/// The lowest value of each whole window of `window_s` seconds, from `from_s` on, at the start of
/// the window. A window that the series does not cover to its end is left out.
pub fn floors(points: &[Point], from_s: f64, window_s: f64) -> Vec<Point> {
    let end_s = points.iter().map(|point| point.at_s).fold(f64::NEG_INFINITY, f64::max);
    let whole = ((end_s - from_s) / window_s).max(0.0) as u64;
    let mut lowest = BTreeMap::<u64, f64>::new();
    for point in points.iter().filter(|point| point.at_s >= from_s) {
        let window = ((point.at_s - from_s) / window_s) as u64;
        if window < whole {
            lowest.entry(window).and_modify(|value| *value = value.min(point.value)).or_insert(point.value);
        }
    }
    lowest.into_iter().map(|(n, value)| Point { at_s: from_s + n as f64 * window_s, value }).collect()
}

/// The median of the slopes between every two points, per second; `None` for fewer than two points.
pub fn theil_sen(points: &[Point]) -> Option<f64> {
    let pairs = (1..points.len()).flat_map(|later| (0..later).map(move |earlier| (earlier, later)));
    let slopes: Vec<f64> = pairs
        .map(|(earlier, later)| (points[earlier], points[later]))
        .map(|(earlier, later)| (later.value - earlier.value) / (later.at_s - earlier.at_s))
        .collect();
    median(&slopes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn points(values: impl IntoIterator<Item = f64>) -> Vec<Point> {
        values.into_iter().enumerate().map(|(n, value)| Point { at_s: n as f64, value }).collect()
    }

    #[test]
    fn a_floor_is_the_lowest_of_a_whole_window() {
        let series = points([9.0, 9.0, 5.0, 7.0, 6.0, 8.0, 3.0, 4.0, 9.0, 1.0]);
        let floors: Vec<(f64, f64)> = floors(&series, 2.0, 3.0).iter().map(|floor| (floor.at_s, floor.value)).collect();
        assert_eq!(floors, [(2.0, 5.0), (5.0, 3.0)], "the last two seconds are no window");
        assert!(super::floors(&[], 0.0, 3.0).is_empty());
    }

    #[test]
    fn finds_the_slope_of_a_straight_line() {
        let slope = theil_sen(&points((0..50).map(|n| 100.0 + 0.25 * f64::from(n)))).unwrap();
        assert!((slope - 0.25).abs() < 1e-9, "{slope}");
        assert_eq!((theil_sen(&points([3.0])), theil_sen(&[])), (None, None));
    }

    #[test]
    fn a_step_or_a_few_outliers_do_not_change_the_slope() {
        let late = |n: u32| if n < 40 { 100.0 } else { 130.0 };
        assert_eq!(theil_sen(&points((0..50).map(late))), Some(0.0));
        let strays = |n: u32| if n % 9 == 5 { 400.0 } else { 100.0 };
        assert_eq!(theil_sen(&points((0..50).map(strays))), Some(0.0));
    }
}
