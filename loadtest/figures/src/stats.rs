//! Quantiles and medians.

/// The nearest-rank quantile: the smallest of the `sorted` values for which at least the `share` (0
/// to 1) of them are not larger. `None` without values.
pub fn quantile<T: Copy>(sorted: &[T], share: f64) -> Option<T> {
    let rank = (share * sorted.len() as f64).ceil() as usize;
    sorted.get(rank.saturating_sub(1)).copied()
}

/// The middle value; of an even number, the mean of the two middle values. `None` without values.
pub fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    let upper = *sorted.get(middle)?;
    Some(if sorted.len() % 2 == 1 { upper } else { f64::midpoint(sorted[middle - 1], upper) })
}

/// `value` rounded to multiples of `1 / steps`.
pub fn rounded(value: f64, steps: f64) -> f64 {
    (value * steps).round() / steps
}

/// A median with its range, such as that of the rounds or seeds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spread {
    /// The median.
    pub median: f64,
    /// The least and the greatest value.
    pub range: [f64; 2],
}

impl Spread {
    /// Of these values; `None` without any.
    pub fn of(values: &[f64]) -> Option<Self> {
        let least = values.iter().copied().min_by(f64::total_cmp)?;
        let most = values.iter().copied().max_by(f64::total_cmp)?;
        Some(Self { median: median(values)?, range: [least, most] })
    }

    /// With so many decimals, such as `0.33 (0.25 to 0.40)`.
    pub fn shown(&self, digits: usize) -> String {
        let Self { median, range: [least, most] } = self;
        format!("{median:.digits$} ({least:.digits$} to {most:.digits$})")
    }

    /// The same, but only the median if with these decimals all values are the same.
    pub fn brief(&self, digits: usize) -> String {
        let [least, most] = self.range.map(|value| format!("{value:.digits$}"));
        if least == most { format!("{:.digits$}", self.median) } else { self.shown(digits) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    /// The definition, taken literally.
    fn oracle(values: &[Duration], share: f64) -> Option<Duration> {
        let covers = |v: &Duration| values.iter().filter(|w| *w <= v).count() as f64 >= share * values.len() as f64;
        values.iter().filter(|v| covers(v)).min().copied()
    }

    #[test]
    fn quantiles_agree_with_their_definition() {
        let mut rng = fastrand::Rng::with_seed(3);
        for size in [0usize, 1, 2, 3, 10, 99, 100, 101] {
            let values: Vec<Duration> = (0..size).map(|_| Duration::from_millis(rng.u64(0..50))).collect();
            let mut sorted = values.clone();
            sorted.sort_unstable();
            for share in [0.0, 0.1, 0.5, 0.9, 0.99, 1.0] {
                assert_eq!(quantile(&sorted, share), oracle(&values, share), "{share} of {size}");
            }
        }
    }

    #[test]
    fn a_quantile_is_the_smallest_value_that_the_share_does_not_exceed() {
        let sorted: Vec<u32> = (1..=10).collect();
        let at = |share| quantile(&sorted, share);
        assert_eq!([at(0.0), at(0.1), at(0.11), at(0.5), at(1.0)], [Some(1), Some(1), Some(2), Some(5), Some(10)]);
        assert_eq!(quantile::<f64>(&[], 0.5), None);
    }

    #[test]
    fn a_median_is_the_middle_or_the_mean_of_the_middle_two() {
        assert_eq!(median(&[5.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(&[5.0, 1.0, 2.0, 4.0]), Some(3.0));
        assert_eq!((median(&[3.0]), median(&[])), (Some(3.0), None));
    }

    #[test]
    fn rounds_to_parts_of_one() {
        assert_eq!([rounded(1.234_56, 1e3), rounded(1.26, 10.0), rounded(-0.5, 1.0)], [1.235, 1.3, -1.0]);
    }

    #[test]
    fn a_spread_is_a_median_with_its_range() {
        let spread = Spread::of(&[0.4, 0.25, 0.33]).unwrap();
        assert_eq!(spread, Spread { median: 0.33, range: [0.25, 0.4] });
        assert_eq!((spread.shown(2), spread.brief(2)), ("0.33 (0.25 to 0.40)".to_owned(), spread.shown(2)));
        assert_eq!((spread.shown(0), spread.brief(0)), ("0 (0 to 0)".to_owned(), "0".to_owned()));
        assert_eq!(Spread::of(&[]), None);
    }
}
