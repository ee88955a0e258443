//! The cost of a bounce: the running mean of measured times; 2 ms until the first one.
//!
//! Bids rise with the cost until nothing bounces and nothing is measured. So `20 * mean / 2 ms`
//! served requests after the last bounce or probe, a probe is due: the next prices assume 2 ms,
//! until a request is served. If the next bounce takes at most half of the mean, its time replaces
//! the mean. This costs a request at most 0.1 ms on average.

use std::time::Duration;

/// The weight of the newest value in the running means.
pub(super) const WEIGHT: f64 = 0.1;
/// The assumed cost of a bounce before the first measurement, in seconds.
const BOUNCE: f64 = 0.002;
/// A probe is due after this many served requests without a bounce, per [`BOUNCE`] of its cost.
const PROBE: f64 = 20.0;
/// A bounce counts for at most this many times the mean, or [`BOUNCE`] if that is more.
const OUTLIER: f64 = 4.0;

/// The time that bounces take.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Bounce {
    /// In seconds; none: not measured yet.
    mean: Option<f64>,
    /// Requests served since the last measurement or probe prices.
    served: u32,
    /// Whether probe prices were made since the last measurement.
    probed: bool,
}

impl Bounce {
    /// The assumed cost of a bounce now, in seconds.
    pub fn cost(&self) -> f64 {
        let mean = self.known();
        if self.is_probe_due() { mean.min(BOUNCE) } else { mean }
    }

    /// Prices were computed for [`cost`](Self::cost).
    pub fn priced(&mut self) {
        if self.is_probe_due() {
            (self.served, self.probed) = (0, true);
        }
    }

    /// A request was served.
    pub fn served(&mut self) {
        self.served = self.served.saturating_add(1);
    }

    /// A bounce took this long, from sending the attempt to its answer.
    pub fn measure(&mut self, took: Duration) {
        // An upload is bounced only after its body has arrived, so limit the weight of one bounce.
        let took = took.as_secs_f64().min(self.known().max(BOUNCE) * OUTLIER);
        // A fast bounce after a probe shows that the mean was wrong: restart from it.
        let mean = self.mean.filter(|mean| !self.probed || took > mean / 2.0);
        let mean = mean.map_or(took, |mean| mean + WEIGHT * (took - mean));
        *self = Self { mean: Some(mean), ..Self::default() };
    }

    /// A known mean in seconds.
    #[cfg(test)]
    pub(super) fn of(mean: f64) -> Self {
        Self { mean: Some(mean), ..Self::default() }
    }

    fn known(&self) -> f64 {
        self.mean.unwrap_or(BOUNCE)
    }

    /// Whether enough requests were served, or none since probe prices were made.
    fn is_probe_due(&self) -> bool {
        f64::from(self.served) >= PROBE / BOUNCE * self.known().max(BOUNCE) || self.probed && self.served == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(bounces_us: &[u64], served: u32) -> Bounce {
        let mut bounce = Bounce::default();
        bounces_us.iter().for_each(|us| bounce.measure(Duration::from_micros(*us)));
        (0..served).for_each(|_| bounce.served());
        bounce
    }

    fn micros(bounce: &Bounce) -> u64 {
        (bounce.cost() * 1e6).round() as u64
    }

    #[test]
    fn costs_two_milliseconds_until_measured_and_then_the_running_mean() {
        for (bounces, cost) in [(&[][..], 2_000), (&[300], 300), (&[1_000, 2_000], 1_100)] {
            assert_eq!(micros(&after(bounces, 0)), cost, "{bounces:?}");
        }
    }

    #[test]
    fn a_slow_bounce_counts_for_at_most_four_times_the_mean_or_8_ms() {
        for (mean, cost) in [(1_000, 1_700), (2_000, 2_600), (3_000, 3_900)] {
            assert_eq!(micros(&after(&[mean, 1_000_000], 0)), cost, "{mean}");
        }
        for (first, cost) in [(7_999, 7_999), (8_001, 8_000), (1_000_000, 8_000), (u64::MAX, 8_000)] {
            assert_eq!(micros(&after(&[first], 0)), cost, "the first one takes {first}");
        }
    }

    #[test]
    fn costs_two_milliseconds_after_twenty_requests_for_each_two_that_it_costs() {
        for (served, cost) in [(0, 8), (79, 8), (80, 2), (81, 2), (1_000, 2)] {
            assert_eq!(micros(&after(&[8_000], served)), cost * 1000, "after {served}");
        }
        assert_eq!([19, 20, 40].map(|served| micros(&after(&[500], served))), [500; 3], "cheaper anyway");
        assert_eq!([19, 20].map(|served| micros(&after(&[], served))), [2_000; 2]);
        let mut always = after(&[8_000], 0);
        always.served = u32::MAX;
        always.served();
        assert_eq!((always.served, micros(&always)), (u32::MAX, 2_000));
        assert_eq!(Bounce { mean: Some(1e9), ..after(&[], 1_000) }.cost(), 1e9, "no end");
    }

    #[test]
    fn a_probe_ends_with_the_first_request_served_after_its_prices_were_made() {
        let mut bounce = after(&[8_000], 79);
        bounce.priced();
        bounce.served();
        assert_eq!(micros(&bounce), 2_000, "due");
        for probe in 1..4 {
            bounce.priced();
            assert_eq!(micros(&bounce), 2_000);
            bounce.priced();
            assert_eq!(micros(&bounce), 2_000, "until one is served");
            for served in 1..80 {
                bounce.served();
                bounce.priced();
                assert_eq!(micros(&bounce), 8_000, "{served} after probe {probe}");
            }
            bounce.served();
            assert_eq!(micros(&bounce), 2_000, "the next one is due");
        }
    }

    #[test]
    fn a_much_cheaper_bounce_replaces_the_mean_only_after_a_probe() {
        let next = |mean, served, later, took| {
            let mut bounce = Bounce::of(f64::from(mean) / 1e6);
            (0..served).for_each(|_| bounce.served());
            bounce.priced();
            (0..later).for_each(|_| bounce.served());
            bounce.measure(Duration::from_micros(took));
            micros(&bounce)
        };
        assert_eq!(next(10_000, 100, 0, 5_000), 5_000);
        assert_eq!(next(10_000, 100, 1, 400), 400, "it may come back late");
        assert_eq!(next(10_000, 100, 0, 5_010), 9_501, "not much cheaper");
        assert_eq!(next(10_000, 99, 0, 5_000), 9_500, "not rare");
        assert_eq!(next(10_000, 99, 1, 5_000), 9_500, "due, but no prices were made for it");
        assert_eq!(next(500, 19, 0, 200), 470);
        assert_eq!(next(500, 20, 0, 200), 200);
        assert_eq!(next(200_000, 2_000, 0, 90_000), 90_000, "more than a first one counts for");
    }

    #[test]
    fn a_measured_bounce_begins_the_pause_anew() {
        let mut bounce = after(&[8_000], 79);
        bounce.measure(Duration::from_millis(8));
        bounce.served();
        assert_eq!(micros(&bounce), 8_000);
        (0..79).for_each(|_| bounce.served());
        bounce.priced();
        assert_eq!(micros(&bounce), 2_000);
        bounce.measure(Duration::from_millis(8));
        assert_eq!(micros(&bounce), 8_000, "the probe is over");
        bounce.measure(Duration::from_millis(2));
        assert_eq!(micros(&bounce), 7_400, "and bounces are not rare");
    }
}
