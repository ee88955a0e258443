//! What a bounce costs, as far as a sender knows: the running mean of the measured times, 2 ms
//! until one has been measured.
//!
//! A single bounce counts for at most four times the mean (or 8 ms): one that waits for the body of
//! an upload takes up to a second, and says nothing about the others.
//!
//! Where bounces seem to cost much, bids are so high that nobody bounces them, and nothing is
//! measured any more. One that was slow by chance, as on a new connection, would end bidding for
//! good. So after each `20 * mean / 2 ms` requests served without a bounce, attempts bid as if a
//! bounce cost 2 ms, until the next request is served. If one is bounced then, in half of the mean
//! time or less, its time replaces the mean. Probing costs a request at most 0.1 ms on average,
//! however slow bounces are.

use std::time::Duration;

/// The weight of the newest value in the running means.
pub(super) const WEIGHT: f64 = 0.1;
/// The cost of a bounce until one has been measured, in seconds.
const BOUNCE: f64 = 0.002;
/// After this many served requests without a bounce, for each [`BOUNCE`] that one costs, a request
/// probes.
const PROBE: f64 = 20.0;
/// A bounce counts for at most this many times the mean bounce, or [`BOUNCE`] if that is more.
const OUTLIER: f64 = 4.0;

/// How long bounces take.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Bounce {
    /// In seconds; none: not measured yet.
    mean: Option<f64>,
    /// Requests served since a bounce was measured.
    served: u32,
}

impl Bounce {
    /// What a bounce is taken to cost now, in seconds.
    pub fn cost(&self) -> f64 {
        let mean = self.mean.unwrap_or(BOUNCE);
        if self.served > 0 && self.served.is_multiple_of(Self::pause(mean)) { mean.min(BOUNCE) } else { mean }
    }

    /// A request was served.
    pub fn served(&mut self) {
        self.served = self.served.saturating_add(1);
    }

    /// A bounce took this long, from sending the attempt to its answer.
    pub fn measure(&mut self, took: Duration) {
        let took = took.as_secs_f64();
        // Bounces have become rare, and this one shows that they need not be.
        let mean = self.mean.filter(|mean| self.served < Self::pause(*mean) || took > mean / 2.0);
        self.mean = Some(mean.map_or(took, |mean| {
            // An upload is bounced when its body has come. One such bounce must move the mean only
            // a little.
            mean + WEIGHT * (took.min(mean.max(BOUNCE) * OUTLIER) - mean)
        }));
        self.served = 0;
    }

    /// How many served requests are between two probes, if a bounce costs this much.
    fn pause(mean: f64) -> u32 {
        (PROBE * mean.max(BOUNCE) / BOUNCE) as u32
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
        for (bounces, cost) in [(&[][..], 2_000), (&[300], 300), (&[50_000], 50_000), (&[1_000, 2_000], 1_100)] {
            assert_eq!(micros(&after(bounces, 0)), cost, "{bounces:?}");
        }
    }

    #[test]
    fn a_slow_bounce_counts_for_at_most_four_times_the_mean_or_8_ms() {
        for (mean, cost) in [(1_000, 1_700), (2_000, 2_600), (3_000, 3_900)] {
            assert_eq!(micros(&after(&[mean, 1_000_000], 0)), cost, "{mean}");
        }
    }

    #[test]
    fn costs_two_milliseconds_for_one_request_in_twenty_for_each_two_that_it_costs() {
        for (served, cost) in [(0, 10), (99, 10), (100, 2), (101, 10), (199, 10), (200, 2)] {
            assert_eq!(micros(&after(&[10_000], served)), cost * 1000, "after {served}");
        }
        assert_eq!([19, 20, 40].map(|served| micros(&after(&[500], served))), [500; 3], "cheaper anyway");
        assert_eq!([19, 20].map(|served| micros(&after(&[], served))), [2_000; 2]);
        let mut always = after(&[10_000], 0);
        always.served = u32::MAX;
        always.served();
        assert_eq!(always.served, u32::MAX);
        assert_eq!(micros(&after(&[u64::MAX], 1_000)), (u64::MAX as f64).round() as u64, "no end");
    }

    #[test]
    fn a_much_cheaper_bounce_replaces_the_mean_only_where_bounces_have_become_rare() {
        let next = |mean, served, took| {
            let mut bounce = after(&[mean], served);
            bounce.measure(Duration::from_micros(took));
            micros(&bounce)
        };
        assert_eq!(next(10_000, 100, 5_000), 5_000);
        assert_eq!(next(10_000, 101, 400), 400, "it may come back late");
        assert_eq!(next(10_000, 100, 5_010), 9_501, "not much cheaper");
        assert_eq!(next(10_000, 99, 5_000), 9_500, "not rare");
        assert_eq!(next(500, 19, 200), 470);
        assert_eq!(next(500, 20, 200), 200);
    }

    #[test]
    fn a_measured_bounce_begins_the_pause_anew() {
        let mut bounce = after(&[10_000], 99);
        bounce.measure(Duration::from_millis(10));
        bounce.served();
        assert_eq!(micros(&bounce), 10_000);
        (0..99).for_each(|_| bounce.served());
        assert_eq!(micros(&bounce), 2_000);
    }
}
