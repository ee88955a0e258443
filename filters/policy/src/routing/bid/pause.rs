//! How long a sender stops bidding after Envoy did not retry a bounce.
//!
//! Then the user gets a rejection although a server had room: the cluster's circuit breaker or
//! retry budget allows too few retries for bids. Filters cannot read these settings, so each worker
//! loses a request to find out. They rarely change, so pauses grow, unless bids worked for as many
//! requests as the last pause lasted. See `filters/adr/0025-what-envoy-finds-out.md`.

use crate::units::Timestamp;
use std::time::Duration;

/// The first pause, in requests.
const REQUESTS: u64 = 8_000;
/// The longest duration of the first pause.
const LASTS: Duration = Duration::from_secs(600);
/// The factor between successive pauses.
const LONGER: u32 = 8;
/// The number after which pauses stop growing: half a million requests, or eleven hours.
const LONGEST: u32 = 3;

/// The pauses of a sender.
#[derive(Clone, Copy, Debug, Default)]
pub struct BidPause {
    /// Requests left of the current pause.
    left: u64,
    ends: Timestamp,
    /// Successive pauses, without enough requests between them; 0: none.
    number: u32,
    /// Requests since the last pause.
    since: u64,
}

impl BidPause {
    /// Whether the sender must not bid now.
    pub fn is_on(&self) -> bool {
        self.left > 0
    }

    /// Envoy did not retry a bounce.
    pub fn overflowed(&mut self, now: Timestamp) {
        // Requests under way when the pause began may fail the same way.
        if self.is_on() {
            return;
        }
        let went_well = self.since >= requests(self.number);
        self.number = if went_well { 1 } else { LONGEST.min(self.number + 1) };
        self.left = requests(self.number);
        self.ends = now.after(LASTS * times(self.number));
        self.since = 0;
    }

    /// A request arrived.
    pub fn count(&mut self, now: Timestamp) {
        if !self.is_on() {
            self.since += 1;
        } else if now >= self.ends {
            self.left = 0;
        } else {
            self.left -= 1;
        }
    }
}

fn times(number: u32) -> u32 {
    LONGER.pow(number.saturating_sub(1))
}

fn requests(number: u32) -> u64 {
    REQUESTS * u64::from(times(number))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Timestamp {
        Timestamp::ZERO.after(Duration::from_secs(seconds))
    }

    /// How many requests a pause lasts if no time passes.
    fn pause(pause: &mut BidPause, now: Timestamp) -> u64 {
        pause.overflowed(now);
        let mut requests = 0;
        while pause.is_on() {
            pause.count(now);
            requests += 1;
        }
        requests
    }

    #[test]
    fn each_further_pause_is_eight_times_as_long_up_to_half_a_million_requests() {
        let mut bids = BidPause::default();
        assert!(!bids.is_on());
        let pauses = [(); 4].map(|()| pause(&mut bids, at(0)));
        assert_eq!(pauses, [8_000, 64_000, 512_000, 512_000]);
    }

    #[test]
    fn a_pause_ends_after_its_time_too() {
        let mut bids = BidPause::default();
        for (began, ends) in [(0, 600), (600, 5_400), (5_400, 43_800), (43_800, 82_200)] {
            bids.overflowed(at(began));
            bids.count(at(ends - 1));
            assert!(bids.is_on(), "{ends}");
            bids.count(at(ends));
            assert!(!bids.is_on(), "{ends}");
        }
    }

    #[test]
    fn begins_anew_once_bids_went_well_for_as_long_as_the_last_pause() {
        for (well, next) in [(63_999, 512_000), (64_000, 8_000)] {
            let mut bids = BidPause::default();
            assert_eq!([(); 2].map(|()| pause(&mut bids, at(0))), [8_000, 64_000]);
            (0..well).for_each(|_| bids.count(at(0)));
            assert_eq!(pause(&mut bids, at(0)), next, "{well}");
        }
    }

    #[test]
    fn overflows_during_a_pause_change_nothing() {
        let mut bids = BidPause::default();
        bids.overflowed(at(0));
        bids.overflowed(at(500));
        bids.count(at(600));
        assert!(!bids.is_on());
        assert_eq!(pause(&mut bids, at(600)), 64_000);
    }
}
