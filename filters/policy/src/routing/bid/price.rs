//! The bid of each attempt: the longest expected response time that it accepts.
//!
//! A bid is the expectation of further search ([`super::search`]) plus `cost = 1.25 * bounce +
//! price * F`: the measured time of a bounce ([`super::bounce`]), and `bouncePrice` mean execution
//! times `F` as reported. Of two servers, the other one's last offer also limits the bid
//! ([`Endpoints::only_other`]). Attempts after the last bid have no limit. Reasons, and limits on
//! reports: `filters/adr/0017-the-price-of-looking-further.md`. Cold start: no bid before the
//! eighth report.
//!
//! [`Endpoints::only_other`]: crate::endpoints::Endpoints::only_other

use super::bounce::{Bounce, WEIGHT};
use super::search::{Heard, MOST_BIDS, WITHOUT_LIMIT};
use crate::routing::contract::BidPosition;
use crate::wire::bid::Bid;
use crate::wire::load_report::LoadReport;
use std::time::Duration;

/// What a bounce costs, as a multiple of its time. Above 1 for CPU that does not shrink with `F`:
/// with requests of 1 ms, 2.6% were bounced at 1, and 1.6% are now.
const BOUNCE_FACTOR: f64 = 1.25;
/// The first prices need this many reports,
const FIRST: usize = 8;
/// and new ones this many more.
const NEXT: usize = 4;
/// The mean execution time covers about this many reports.
const EXECUTIONS: f64 = 50.0;
/// The weight of the newest attempt in the share that full servers reject.
const REJECTION_WEIGHT: f64 = 0.03;
/// Above this share of attempts rejected by full servers, attempts do not bid: there is nothing
/// left to find. One full server among ten stays below it.
const MOST_REJECTED: f64 = 0.2;
/// Bids state the fleet's execution time only up to this share of the longest believed time.
const MOST_FLEET: f64 = 0.75;
/// Bids do not use what was heard longer ago than this.
pub const STALE: Duration = Duration::from_secs(10);
/// By what factor a server's numbers may exceed the time of this sender's own requests.
pub const MAX_REPORT_FACTOR: f64 = 4.0;

/// What a sender knows about a service's response times, and its bids.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Bids {
    /// The price of a bounce, in execution times.
    price: f64,
    heard: Heard,
    /// Reports since the last prices.
    news: usize,
    /// The mean of the servers' reports. All times are in seconds.
    execution: Option<f64>,
    /// How many reports `execution` averages.
    executions: f64,
    took: Option<f64>,
    bounce: Bounce,
    /// The share of attempts that full servers rejected.
    rejected: f64,
    prices: Option<Prices>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
struct Prices {
    bids: [f64; MOST_BIDS],
    /// The cost of a bounce that they are based on.
    bounce: f64,
    /// The cost of looking further.
    cost: f64,
}

/// Whether a server that bounced an attempt with this `bid` and report did so for the bid. Half of
/// the bid is enough, because the queue moves between decision and report, and a server unsure of
/// its speed may have used the fleet's execution time. A held request is bounced for its own wait,
/// whatever the queue.
pub fn is_bounce(bid: Option<Bid>, report: &LoadReport) -> bool {
    bid.is_some_and(|bid| {
        let offer = report.highest_offer(bid.fleet.map(|fleet| fleet.as_secs_f64()));
        report.held || offer.is_none_or(|offer| offer >= bid.most.as_secs_f64() / 2.0)
    })
}

/// In whole microseconds, the resolution of the header.
fn whole(seconds: f64) -> Duration {
    Duration::from_micros((seconds * 1e6) as u64)
}

fn follow(mean: &mut Option<f64>, value: f64) {
    *mean = Some(mean.map_or(value, |mean| mean + WEIGHT * (value - mean)));
}

impl Bids {
    /// The state of a sender that has heard nothing. `price`: the price of a bounce, in execution
    /// times.
    pub fn new(price: f64) -> Self {
        Self { price, ..Self::default() }
    }

    /// Sets the price of a bounce for later bids.
    pub fn configure(&mut self, price: f64) {
        self.price = price;
    }

    /// A server reported, in an answer or a bounce.
    pub fn observe(&mut self, report: &LoadReport) {
        let most = self.most();
        if let Some(execution) = report.execution {
            let (mean, execution) = (self.execution.unwrap_or_default(), execution.as_secs_f64().min(most));
            self.executions = (self.executions + 1.0).min(EXECUTIONS);
            self.execution = Some(mean + (execution - mean) / self.executions);
        }
        if let Some(offer) = report.offer(self.fleet_seconds()) {
            self.heard.observe(offer);
            self.news += 1;
            self.reprice();
        }
    }

    /// A request was served after `took`, from sending the attempt to its answer.
    pub fn served(&mut self, took: Duration) {
        follow(&mut self.took, took.as_secs_f64());
        // Also limits what was believed before the first answer.
        let most = self.most();
        self.execution = self.execution.map(|value| value.min(most));
        self.rejected -= REJECTION_WEIGHT * self.rejected;
        self.bounce.served();
    }

    /// The longest time to believe, in seconds.
    fn most(&self) -> f64 {
        self.took.map_or(f64::INFINITY, |took| took * MAX_REPORT_FACTOR)
    }

    /// A bounce took this long, from sending the attempt to its answer.
    pub fn bounced(&mut self, took: Duration) {
        self.bounce.measure(took);
        self.reprice();
    }

    /// A full server rejected an attempt.
    pub fn rejected(&mut self) {
        self.rejected += REJECTION_WEIGHT * (1.0 - self.rejected);
    }

    /// Computes new prices after every few reports, and when the cost of a bounce changes.
    fn reprice(&mut self) {
        let bounce = self.bounce.cost();
        let due = self.prices.map_or(self.news >= FIRST, |prices| {
            self.news >= NEXT || (bounce - prices.bounce).abs() > prices.bounce / 10.0
        });
        if !due {
            return;
        }
        let cost = BOUNCE_FACTOR * bounce + self.price * self.execution.unwrap_or(0.0);
        self.prices = Some(Prices { bids: self.heard.prices(self.most(), cost), bounce, cost });
        self.news = 0;
        self.bounce.priced();
    }

    /// The mean execution time that servers report; none if it is much longer than this sender's
    /// own requests, which it then does not describe.
    pub fn fleet(&self) -> Option<Duration> {
        self.fleet_seconds().map(whole)
    }

    fn fleet_seconds(&self) -> Option<f64> {
        self.execution.filter(|execution| *execution <= MOST_FLEET * self.most())
    }

    /// The price of looking further if the only other server has this report, if known.
    pub fn price_of(&self, report: &LoadReport) -> Option<Duration> {
        Some(whole(WITHOUT_LIMIT * report.offer(self.fleet_seconds())? + self.prices?.cost))
    }

    /// The bid at this position; none: no limit.
    pub fn bid(&self, turn: BidPosition) -> Option<Duration> {
        if self.rejected > MOST_REJECTED {
            return None;
        }
        // With fewer bids, use the higher ones, which come last.
        let place = (MOST_BIDS + turn.number).checked_sub(turn.of)?;
        self.prices?.bids.get(place).copied().map(whole)
    }
}

#[cfg(test)]
#[path = "price_tests.rs"]
mod tests;
