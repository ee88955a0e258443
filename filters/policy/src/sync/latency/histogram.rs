//! The buckets, and counts by bucket.

use serde::{Deserialize, Serialize};
/// Buckets per octave.
const PER_OCTAVE: i32 = 8;
/// The first bucket ends at 2 to this power, in seconds.
const FIRST: i32 = -12;
const OCTAVES: i32 = 18;
/// The number of buckets; the last one has no upper bound.
pub const BUCKETS: usize = (PER_OCTAVE * OCTAVES + 2) as usize;

/// `2^(j/8)` for `j` from 1 to 8: the bounds within an octave. The `j`-th bound is in the `j`-th
/// eighth of 1 to 2.
const BOUNDS: [f64; 8] = [
    1.090_507_732_665_257_7,
    1.189_207_115_002_721,
    1.296_839_554_651_009_6,
    std::f64::consts::SQRT_2,
    1.542_210_825_407_940_8,
    1.681_792_830_507_429,
    1.834_008_086_409_342_4,
    2.0,
];

/// The bucket of a time in nanoseconds. (A [`Duration`](std::time::Duration) would need a slow
/// conversion from 128 bits to floating point.)
pub fn bucket(nanos: u64) -> u8 {
    let units = nanos as f64 * f64::from(1 << -FIRST) / 1e9;
    if units <= 1.0 {
        return 0;
    }
    // Exponent and mantissa (1 to below 2) are much cheaper than a logarithm.
    const MANTISSA: u64 = (1 << 52) - 1;
    let bits = units.to_bits();
    let octave = (bits >> 52) as i32 - 1023;
    let within = f64::from_bits(bits & MANTISSA | 1.0_f64.to_bits());
    let eighth = (bits >> 49 & 7) as usize;
    let steps = eighth as i32 + i32::from(BOUNDS.get(eighth).is_some_and(|bound| *bound < within));
    // A time at a bound belongs to the bucket below.
    let above = i32::from(within > 1.0);
    (octave * PER_OCTAVE + steps + above).min(BUCKETS as i32 - 1) as u8
}

/// A bucket's upper bound in seconds; infinite for the last one.
pub fn upper_bound(bucket: u8) -> f64 {
    if usize::from(bucket) + 1 >= BUCKETS {
        return f64::INFINITY;
    }
    (f64::from(bucket) / f64::from(PER_OCTAVE) + f64::from(FIRST)).exp2()
}

/// A bucket's geometric middle in seconds; the bound for the first and the last one.
pub fn middle(bucket: u8) -> f64 {
    match bucket {
        0 => upper_bound(0),
        last if usize::from(last) + 1 >= BUCKETS => upper_bound(last.saturating_sub(1)),
        _ => (upper_bound(bucket - 1) * upper_bound(bucket)).sqrt(),
    }
}

/// How many requests took how long.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Histogram {
    /// In microseconds.
    pub sum_us: u64,
    /// Buckets and counts, ascending, without empty ones.
    pub counts: Vec<(u8, u64)>,
}

impl Histogram {
    /// The number of requests.
    pub fn count(&self) -> u64 {
        self.counts.iter().fold(0, |sum, (_, count)| sum.saturating_add(*count))
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.counts.is_empty()
    }

    /// Adds another histogram.
    pub fn add(&mut self, other: &Self) {
        self.sum_us = self.sum_us.saturating_add(other.sum_us);
        for &(bucket, count) in &other.counts {
            match self.counts.binary_search_by_key(&bucket, |(own, _)| *own) {
                Ok(at) => {
                    if let Some((_, own)) = self.counts.get_mut(at) {
                        *own = own.saturating_add(count);
                    }
                }
                Err(at) => self.counts.insert(at, (bucket, count)),
            }
        }
    }

    /// The time in seconds within which this share (0 to 1) of the requests finished; none without
    /// requests.
    pub fn quantile(&self, share: f64) -> Option<f64> {
        let rank = (self.count() as f64 * share).ceil().max(1.0);
        let mut below = 0.0;
        let found = self.counts.iter().find(|(_, count)| {
            below += *count as f64;
            below >= rank
        });
        found.map(|(bucket, _)| middle(*bucket))
    }

    /// How many requests took at most the bucket's upper bound.
    pub fn within(&self, bucket: u8) -> u64 {
        self.counts.iter().take_while(|(own, _)| *own <= bucket).fold(0, |sum, (_, count)| sum.saturating_add(*count))
    }

    /// Whether all buckets exist, each once and in order.
    pub fn is_valid(&self) -> bool {
        self.counts.is_sorted_by(|one, next| one.0 < next.0)
            && self.counts.last().is_none_or(|(bucket, _)| usize::from(*bucket) < BUCKETS)
    }
}

/// One thread's measurements since its last handover. Allocates memory with the first request.
#[derive(Clone, Debug, Default)]
pub struct Recorder {
    counts: Option<Box<[u32; BUCKETS]>>,
    sum_nanos: u64,
    any: bool,
}

impl Recorder {
    /// Records a request's time in nanoseconds.
    pub fn record(&mut self, nanos: u64) {
        self.record_in(bucket(nanos), nanos);
    }

    /// The same with a known bucket.
    pub fn record_in(&mut self, bucket: u8, nanos: u64) {
        let counts = self.counts.get_or_insert_with(|| Box::new([0; BUCKETS]));
        if let Some(count) = counts.get_mut(usize::from(bucket)) {
            *count = count.saturating_add(1);
        }
        self.sum_nanos = self.sum_nanos.saturating_add(nanos);
        self.any = true;
    }

    /// Whether something was recorded since the last [`take`](Self::take).
    pub fn any(&self) -> bool {
        self.any
    }

    /// Takes all measurements.
    pub fn take(&mut self) -> Histogram {
        let Some(counts) = self.counts.as_mut().filter(|_| std::mem::take(&mut self.any)) else {
            return Histogram::default();
        };
        let filled = counts.iter_mut().enumerate().filter(|(_, count)| **count > 0);
        let counts = filled.map(|(bucket, count)| (bucket as u8, std::mem::take(count).into())).collect();
        Histogram { sum_us: std::mem::take(&mut self.sum_nanos) / 1_000, counts }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::time::Duration;

    fn nanos(seconds: f64) -> u64 {
        Duration::from_secs_f64(seconds).as_nanos() as u64
    }

    fn histogram(times: &[f64]) -> Histogram {
        let mut recorder = Recorder::default();
        times.iter().for_each(|time| recorder.record(nanos(*time)));
        recorder.take()
    }

    #[test]
    fn a_time_is_in_the_bucket_whose_bounds_are_around_it() {
        for bucket_of in 0..BUCKETS as u8 - 1 {
            let bound = upper_bound(bucket_of);
            assert_eq!(bucket(nanos(bound * 0.999)), bucket_of, "below {bound}");
            assert_eq!(bucket(nanos(bound * 1.001)), bucket_of + 1, "above {bound}");
        }
        assert_eq!((bucket(0), bucket(u64::MAX)), (0, BUCKETS as u8 - 1));
        // Bounds that are whole nanoseconds.
        for (millis, octaves) in [(125, 9), (250, 10), (1_000, 12), (64_000, 18)] {
            assert_eq!(i32::from(bucket(millis * 1_000_000)), octaves * PER_OCTAVE, "{millis} ms");
        }
    }

    #[test]
    fn the_bounds_are_eight_to_an_octave_from_a_quarter_of_a_millisecond() {
        assert_eq!((upper_bound(0), upper_bound(96), upper_bound(144)), (1.0 / 4096.0, 1.0, 64.0));
        assert_eq!((upper_bound(145), upper_bound(255)), (f64::INFINITY, f64::INFINITY));
        assert!((upper_bound(97) - BOUNDS[0]).abs() < 1e-12);
        assert_eq!((middle(0), middle(145)), (upper_bound(0), 64.0));
        assert!((middle(96) / upper_bound(96) - 0.957_603).abs() < 1e-5);
    }

    #[test]
    fn quantiles_are_the_middle_of_the_bucket_with_that_rank() {
        let times = histogram(&[0.1, 0.1, 0.1, 2.0]);
        assert_eq!((times.count(), times.sum_us), (4, 2_300_000));
        let at = |share: f64| times.quantile(share).unwrap();
        assert_eq!([at(0.0), at(0.5), at(0.75)], [middle(bucket(100_000_000)); 3]);
        assert_eq!([at(0.76), at(1.0)], [middle(bucket(2_000_000_000)); 2]);
        assert_eq!(Histogram::default().quantile(0.5), None);
        assert_eq!((times.within(70), times.within(103), times.within(145)), (3, 3, 4));
    }

    #[test]
    fn what_is_taken_is_recorded_no_more() {
        let mut recorder = Recorder::default();
        assert!(recorder.take().is_empty() && !recorder.any());
        recorder.record(1_000_000_000);
        assert!(recorder.any());
        assert_eq!(recorder.take(), Histogram { sum_us: 1_000_000, counts: vec![(96, 1)] });
        assert!(!recorder.any());
        assert_eq!(recorder.take(), Histogram::default());
    }

    #[test]
    fn only_ordered_buckets_that_exist_are_valid() {
        let valid = |counts: &[(u8, u64)]| Histogram { sum_us: 0, counts: counts.to_vec() }.is_valid();
        assert!(valid(&[]) && valid(&[(0, 1)]) && valid(&[(3, 1), (145, 2)]));
        assert!(!valid(&[(146, 1)]) && !valid(&[(3, 1), (3, 1)]) && !valid(&[(4, 1), (3, 1)]));
    }

    proptest! {
        #[test]
        fn a_quantile_is_within_a_tenth_of_the_exact_one(
            times in prop::collection::vec(0.000_3_f64..60.0, 1..200),
            share in 0.0_f64..=1.0,
        ) {
            let mut exact = times.clone();
            exact.sort_by(f64::total_cmp);
            let rank = ((times.len() as f64 * share).ceil() as usize).clamp(1, times.len());
            let ratio = histogram(&times).quantile(share).unwrap() / exact[rank - 1];
            prop_assert!((0.955..1.045).contains(&ratio), "{ratio}");
        }

        #[test]
        fn adding_histograms_is_recording_both(
            one in prop::collection::vec(0.0_f64..70.0, 0..50),
            other in prop::collection::vec(0.0_f64..70.0, 0..50),
        ) {
            let mut sum = histogram(&one);
            sum.add(&histogram(&other));
            let both = histogram(&[one, other].concat());
            prop_assert_eq!(&sum.counts, &both.counts);
            prop_assert!(sum.is_valid() && sum.sum_us.abs_diff(both.sum_us) <= 1);
        }
    }
}
