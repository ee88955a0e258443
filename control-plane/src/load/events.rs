//! Events at one server per second, from the growth of its counters between reports.
//!
//! `rate = growth / T` in events/s, over a span `T` of about one report interval; the confidence is
//! confident departures divided by departures. These rates are only shown on the page; no decision
//! uses them. Cold start, early, late and doubled reports, and leaps are treated as in
//! [`Arrivals`](super::arrivals). A counter that has fallen means that the proxy restarted, and its
//! first report is the new baseline.

use super::growth::{Growth, MAX_RATE};
use super::report::Since;
use bloc_policy::sync::ServiceLoad;
use serde::Serialize;
use std::ops::AddAssign;
use std::time::Duration;
use tokio::time::Instant;

/// Events per second at a server, or at all servers of a service. Finite and at least 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct EventRates {
    /// Answers of the application.
    pub departures: f64,
    /// Those of them from a server that had been busy all the time.
    pub confident: f64,
    /// Answers with a chip.
    pub chips_granted: f64,
    /// Answers without one.
    pub chips_withheld: f64,
    /// Requests rejected for the capacity.
    pub rejected_capacity: f64,
    /// Requests rejected for their bid.
    pub rejected_bid: f64,
    /// Requests rejected for their deadline.
    pub rejected_deadline: f64,
}

impl EventRates {
    /// Share of the departures that were confident, 0 to 1; `None` without departures.
    pub fn confidence(&self) -> Option<f64> {
        (self.departures > 0.0).then(|| (self.confident / self.departures).min(1.0))
    }

    /// Rejections that mean trouble, in requests per second: those for the capacity and for the
    /// deadline. A bounced bid is normal: bids use it to find a server.
    pub fn rejected(&self) -> f64 {
        self.rejected_capacity + self.rejected_deadline
    }

    /// Rejected requests as a share of the rejected and answered ones; 0 to 1.
    pub fn rejected_share(&self) -> f64 {
        let rejected = self.rejected();
        if rejected > 0.0 { rejected / (rejected + self.departures) } else { 0.0 }
    }
}

impl AddAssign for EventRates {
    fn add_assign(&mut self, other: Self) {
        self.departures += other.departures;
        self.confident += other.confident;
        self.chips_granted += other.chips_granted;
        self.chips_withheld += other.chips_withheld;
        self.rejected_capacity += other.rejected_capacity;
        self.rejected_bid += other.rejected_bid;
        self.rejected_deadline += other.rejected_deadline;
    }
}

impl From<[f64; 7]> for EventRates {
    fn from(rates: [f64; 7]) -> Self {
        let [departures, confident, chips_granted, chips_withheld, rejected_capacity, rejected_bid, rejected_deadline] =
            rates;
        Self {
            departures,
            confident,
            chips_granted,
            chips_withheld,
            rejected_capacity,
            rejected_bid,
            rejected_deadline,
        }
    }
}

/// The counters of one server.
#[derive(Debug, Default)]
pub struct Events {
    /// When an older proxy's counters were last taken as the baseline, and their values.
    baseline: Option<(Instant, [u64; 7])>,
    last: [u64; 7],
    growth: Growth<7>,
    rates: Option<EventRates>,
}

impl Events {
    /// Adds a report; `least_span` is the shortest time that makes a rate.
    pub fn hear(&mut self, load: &ServiceLoad, since: Since, least_span: Duration, now: Instant) {
        match since {
            Since::Start => self.hear_sums(load, least_span, now),
            Since::Counted(span) => {
                self.baseline = None;
                let least = least_span / if self.rates.is_none() { 5 } else { 1 };
                let rates = span.and_then(|span| self.growth.add(counters(load), span, least));
                self.rates = rates.map(EventRates::from).or(self.rates);
            }
        }
    }

    fn hear_sums(&mut self, load: &ServiceLoad, least_span: Duration, now: Instant) {
        let counters = counters(load);
        let Some((since, baseline)) = self.baseline else {
            (self.baseline, self.last) = (Some((now, counters)), counters);
            return;
        };
        let restarted = counters.iter().zip(&self.last).any(|(now, before)| now < before);
        self.last = counters;
        let span = now.saturating_duration_since(since);
        if span < least_span && !restarted {
            return;
        }
        let mut rates = [0.0; 7];
        for ((rate, now), before) in rates.iter_mut().zip(counters).zip(baseline) {
            *rate = now.saturating_sub(before) as f64 / span.as_secs_f64();
        }
        if !restarted && rates.iter().all(|rate| *rate <= MAX_RATE) {
            self.rates = Some(rates.into());
        }
        self.baseline = Some((now, counters));
    }

    /// The rates; `None` before the first span.
    pub fn rates(&self) -> Option<EventRates> {
        self.rates
    }
}

/// In the order of the fields of [`EventRates`].
pub fn counters(load: &ServiceLoad) -> [u64; 7] {
    let e = &load.events;
    [
        load.departed,
        e.departed_confident,
        e.chips_granted,
        e.chips_withheld,
        e.rejected_capacity,
        e.rejected_bid,
        e.rejected_deadline,
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use bloc_policy::sync::ServiceEvents;

    const LEAST: Duration = Duration::from_millis(2_500);

    fn load(departed: u64, events: ServiceEvents) -> ServiceLoad {
        ServiceLoad { departed, events, ..ServiceLoad::default() }
    }

    #[test]
    fn turns_every_counter_into_its_own_rate() {
        let start = Instant::now();
        let mut events = Events::default();
        events.hear(&load(0, ServiceEvents::default()), Since::Start, LEAST, start);
        assert_eq!(events.rates(), None);
        let counted = ServiceEvents {
            departed_confident: 40,
            chips_granted: 30,
            chips_withheld: 20,
            rejected_capacity: 15,
            rejected_bid: 10,
            rejected_deadline: 5,
        };
        events.hear(&load(50, counted), Since::Start, LEAST, start + Duration::from_secs(5));
        let expected = EventRates {
            departures: 10.0,
            confident: 8.0,
            chips_granted: 6.0,
            chips_withheld: 4.0,
            rejected_capacity: 3.0,
            rejected_bid: 2.0,
            rejected_deadline: 1.0,
        };
        let mut counted_itself = Events::default();
        let span = Some(Duration::from_secs(5));
        counted_itself.hear(&load(50, counted), Since::Counted(span), LEAST, start);
        assert_eq!(counted_itself.rates(), Some(expected));
        let mut twice = expected;
        twice += expected;
        assert_eq!((events.rates(), twice.departures, twice.rejected_deadline), (Some(expected), 20.0, 2.0));
        assert_eq!(
            (expected.confidence(), expected.rejected(), expected.rejected_share()),
            (Some(0.8), 4.0, 4.0 / 14.0)
        );
        assert_eq!((EventRates::default().confidence(), EventRates::default().rejected_share()), (None, 0.0));
    }

    #[test]
    fn skips_early_reports_and_takes_a_new_baseline_after_a_restart() {
        let start = Instant::now();
        let mut events = Events::default();
        events.hear(&load(100, ServiceEvents::default()), Since::Start, LEAST, start);
        let mut departures = |millis, departed| {
            let at = start + Duration::from_millis(millis);
            events.hear(&load(departed, ServiceEvents::default()), Since::Start, LEAST, at);
            events.rates().map(|rates| rates.departures)
        };
        assert_eq!(departures(100, 190), None);
        assert_eq!(departures(5_000, 200), Some(20.0));
        assert_eq!(departures(10_000, 7), Some(20.0), "restarted");
        assert_eq!(departures(15_000, 57), Some(10.0));
        assert_eq!(departures(20_000, 1 << 53), Some(10.0), "an impossible jump");
    }
}
