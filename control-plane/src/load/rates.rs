//! Rates at one server, from the counts of its reports.
//!
//! A proxy reports what has happened since its last report that a replica counted, and over what
//! time. It needs no clock of ours, and this replica need not know its reports to other replicas:
//!
//! ```text
//! rate = sum of counts / sum of spans        events/s, over the reports that came here
//! ```
//!
//! The sums grow until the spans are long enough: half a report interval, or a tenth for the first
//! rate. The first report can thus give a rate. A report that came twice, because its answer was
//! lost, is in both sums twice. A report without a span, such as a proxy's first, gives no rate. A
//! rate above [`MAX_RATE`] is not believed: the last rates stay, and counting restarts.

use std::time::Duration;

/// The most requests per second that one Envoy can take in: fifty times the rate of the fastest
/// machines.
const MAX_RATE: f64 = 1e7;

/// The rates of `N` kinds of events.
#[derive(Debug)]
pub struct Rates<const N: usize> {
    counts: [u64; N],
    span: Duration,
    last: Option<[f64; N]>,
}

impl<const N: usize> Default for Rates<N> {
    fn default() -> Self {
        Self { counts: [0; N], span: Duration::ZERO, last: None }
    }
}

impl<const N: usize> Rates<N> {
    /// Adds what was counted in `span`. A rate needs at least `least`, the first one only a fifth
    /// of it.
    pub fn receive(&mut self, counts: [u64; N], span: Option<Duration>, least: Duration) {
        let Some(span) = span else { return };
        for (sum, count) in self.counts.iter_mut().zip(counts) {
            *sum = sum.saturating_add(count);
        }
        self.span = self.span.saturating_add(span);
        if self.span < least / if self.last.is_none() { 5 } else { 1 } || self.span.is_zero() {
            return;
        }
        let Self { counts, span, last } = std::mem::take(self);
        let rates = counts.map(|count| count as f64 / span.as_secs_f64());
        self.last = if rates.iter().all(|rate| *rate <= MAX_RATE) { Some(rates) } else { last };
    }

    /// Events per second, finite and at least 0; `None` before the first span.
    pub fn get(&self) -> Option<[f64; N]> {
        self.last
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn adds_up_short_spans_until_they_are_enough_for_a_rate() {
        let (mut rates, second) = (Rates::default(), Duration::from_secs(1));
        let mut receive = |counts, span| {
            rates.receive(counts, span, 2 * second);
            rates.get()
        };
        assert_eq!(receive([9_000, 9], None), None, "the time is unknown");
        assert_eq!(receive([4, 0], Some(second / 4)), None, "too short for the first rate");
        assert_eq!(receive([6, 1], Some(second / 4)), Some([20.0, 2.0]));
        assert_eq!(receive([10, 1], Some(second)), Some([20.0, 2.0]), "too short for another one");
        assert_eq!(receive([30, 0], Some(second)), Some([20.0, 0.5]));
        assert_eq!(receive([30, 3], Some(3 * second)), Some([10.0, 1.0]), "one long span is enough");
        assert_eq!(receive([1 << 53, 0], Some(2 * second)), Some([10.0, 1.0]), "an impossible jump");
        assert_eq!(receive([14, 0], Some(2 * second)), Some([7.0, 0.0]));
        let mut rates = Rates::default();
        rates.receive([5], Some(Duration::ZERO), Duration::ZERO);
        assert_eq!(rates.get(), None, "a span of zero");
    }
}
