//! Adds up counts until their time span is long enough for a rate.
//!
//! A proxy that reports the time in which it counted needs no clock of ours, and this replica need
//! not know its reports to other replicas: `rate = sum of counts / sum of spans` over the reports
//! that came here. A report that came twice, because its answer was lost, is in both sums twice.

use std::time::Duration;

/// The most requests per second that one Envoy can take in: fifty times what the fastest machines
/// do.
pub const MAX_RATE: f64 = 1e7;

/// The sums since the last rate.
#[derive(Debug)]
pub struct Growth<const N: usize> {
    counts: [u64; N],
    span: Duration,
}

impl<const N: usize> Default for Growth<N> {
    fn default() -> Self {
        Self { counts: [0; N], span: Duration::ZERO }
    }
}

impl<const N: usize> Growth<N> {
    /// Adds what was counted in `span`. Once the spans add up to `least`, returns events per
    /// second, finite and at least 0, and starts anew. `None` before that, and for a rate above
    /// [`MAX_RATE`].
    pub fn add(&mut self, counts: [u64; N], span: Duration, least: Duration) -> Option<[f64; N]> {
        for (sum, count) in self.counts.iter_mut().zip(counts) {
            *sum = sum.saturating_add(count);
        }
        self.span = self.span.saturating_add(span);
        if self.span < least || self.span.is_zero() {
            return None;
        }
        let Self { counts, span } = std::mem::take(self);
        let rates = counts.map(|count| count as f64 / span.as_secs_f64());
        rates.iter().all(|rate| *rate <= MAX_RATE).then_some(rates)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn adds_up_short_spans_until_they_are_enough_for_a_rate() {
        let (mut growth, second) = (Growth::default(), Duration::from_secs(1));
        assert_eq!(growth.add([10, 1], second, 2 * second), None);
        assert_eq!(growth.add([30, 0], second, 2 * second), Some([20.0, 0.5]));
        assert_eq!(growth.add([30, 3], 3 * second, 2 * second), Some([10.0, 1.0]), "one long span is enough");
        assert_eq!(growth.add([5, 5], Duration::ZERO, Duration::ZERO), None, "a span of zero");
        assert_eq!(growth.add([0, 0], 5 * second, second), Some([1.0, 1.0]));
        assert_eq!(growth.add([1 << 53, 0], second, second), None, "an impossible jump");
        assert_eq!(growth.add([7, 0], second, second), Some([7.0, 0.0]));
    }
}
