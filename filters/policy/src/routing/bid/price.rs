//! The bid of each attempt of a request: the longest expected response time that it accepts.
//!
//! A bid is the price of looking further: what the search after it may expect, and what a bounce
//! costs. [`super::search`] has the rule. The servers are those that BLOC would choose, in its
//! order. After the last bid, attempts go without limit, so nothing is shed that BLOC would have
//! served.
//!
//! `cost = 1.25 * bounce + price * F`
//!
//! `bounce` is the measured time of a bounce ([`super::bounce`]), `F` the mean execution time that
//! servers report, and `price` the service's `bouncePrice`: what the CPU of a bounce counts for in
//! response time. So bids rise by themselves where bounces are slow, and there are hardly any
//! bounces where offers hardly differ. The quarter is for CPU that does not shrink with `F`: where
//! requests take 1 ms, 2.6% of them were bounced without it, and 1.6% are.
//!
//! Where there are two servers, a bounce leads to the other one for sure. So the bid is at most 1.4
//! times what that one has offered last, and the cost. Without this, a caller that has half of its
//! requests at each never finds a slow server too slow, however slow it is: the power mean of order
//! 4 is at least 0.84 of the slow one's offer, and 1.4 times that is more than the offer. The other
//! server does not count while it is no alternative ([`Endpoints::only_other`]).
//!
//! A stale bid costs a needless bounce, or a longer wait: it is only what the attempt accepts, and
//! the server decides at the moment of the request. What a sender has not heard of for [`STALE`] is
//! not believed: neither the fleet's execution time, nor the other one of two servers.
//!
//! While full servers reject more than a fifth of a sender's attempts, there is nothing left to
//! find, and attempts do not bid. One full server among ten is not enough for that. Rejections for
//! other reasons do not count: a server whose application is down says nothing about the others.
//!
//! A server's numbers cannot spoil the bids among several others. Of a report, at most
//! [`MAX_REPORT_FACTOR`] times what this sender's own requests take is believed ([`Bids::served`]):
//! one of ten servers that reports arbitrary numbers raises the last bids, and the first ones by a
//! few percent. A bounce counts as one only if the attempt had a bid, and the expected response
//! time that the server reports is not less than half of it, or the server has held it
//! ([`is_bounce`]). Otherwise it is a rejection, and the server is left alone like any that
//! rejects.
//!
//! Cold start: no bid before the eighth report. Cost: a few multiplications a report, and new
//! prices after every fourth one, or when the cost of a bounce has changed by a tenth. Not in the
//! papers: bids are this project's own. What was tried is in
//! `filters/adr/0017-the-price-of-looking-further.md`.
//!
//! [`Endpoints::only_other`]: crate::endpoints::Endpoints::only_other

use super::bounce::{Bounce, WEIGHT};
use super::search::{Heard, MOST_BIDS, WITHOUT_LIMIT};
use crate::routing::contract::BidPosition;
use crate::wire::bid::Bid;
use crate::wire::load_report::LoadReport;
use std::time::Duration;

/// What a bounce costs, as a multiple of its time.
const BOUNCE_FACTOR: f64 = 1.25;
/// The first prices are made after this many reports,
const FIRST: usize = 8;
/// and new ones after each so many.
const NEXT: usize = 4;
/// The mean execution time is that of the last so many reports, roughly.
const EXECUTIONS: f64 = 50.0;
/// The weight of the newest attempt in the share of those that full servers reject.
const REJECTION_WEIGHT: f64 = 0.03;
/// Attempts do not bid while more than this share of them is rejected by full servers.
const MOST_REJECTED: f64 = 0.2;
/// The fleet's execution time is believed up to this share of the longest time that is.
const MOST_FLEET: f64 = 0.75;
/// What was heard of the fleet this long ago is not said.
pub const STALE: Duration = Duration::from_secs(10);
/// By what factor a server's numbers may exceed what this sender's own requests take.
pub const MAX_REPORT_FACTOR: f64 = 4.0;

/// What a sender knows of a service's response times, and what it bids.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Bids {
    /// What a bounce is worth, in execution times.
    price: f64,
    heard: Heard,
    /// Reports heard since the prices were made.
    news: usize,
    /// All times are in seconds.
    execution: Option<f64>,
    /// How many reports `execution` is the mean of.
    executions: f64,
    /// How long served requests took.
    took: Option<f64>,
    bounce: Bounce,
    /// The share of attempts that full servers rejected.
    rejected: f64,
    prices: Option<Prices>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
struct Prices {
    bids: [f64; MOST_BIDS],
    /// The cost of a bounce for which they were made.
    bounce: f64,
    /// That of looking further.
    cost: f64,
}

/// Whether a server that bounced a request with this `bid` and this report did so for the bid. Half
/// of the bid is enough, because the queue moves between the decision and the report. A server that
/// is not sure how fast it is may have counted with the fleet's execution time. A server that has
/// held the request did so because it took longer than the queue.
pub fn is_bounce(bid: Option<Bid>, report: &LoadReport) -> bool {
    bid.is_some_and(|bid| {
        let offer = report.highest_offer(bid.fleet.map(|fleet| fleet.as_secs_f64()));
        report.held || offer.is_none_or(|offer| offer >= bid.most.as_secs_f64() / 2.0)
    })
}

/// A time of so many seconds, in whole microseconds: no more are written.
fn whole(seconds: f64) -> Duration {
    Duration::from_micros((seconds * 1e6) as u64)
}

fn follow(mean: &mut Option<f64>, value: f64) {
    *mean = Some(mean.map_or(value, |mean| mean + WEIGHT * (value - mean)));
}

impl Bids {
    /// Those of a sender that has heard nothing. `price`: what a bounce is worth, in execution
    /// times.
    pub fn new(price: f64) -> Self {
        Self { price, ..Self::default() }
    }

    /// Sets what a bounce is worth. Prices that are made from now on follow it.
    pub fn configure(&mut self, price: f64) {
        self.price = price;
    }

    /// A server has reported, in an answer or a bounce.
    pub fn hear(&mut self, report: &LoadReport) {
        let most = self.most();
        if let Some(execution) = report.execution {
            let (mean, execution) = (self.execution.unwrap_or_default(), execution.as_secs_f64().min(most));
            self.executions = (self.executions + 1.0).min(EXECUTIONS);
            self.execution = Some(mean + (execution - mean) / self.executions);
        }
        if let Some(offer) = report.offer(self.fleet_seconds()) {
            self.heard.hear(offer);
            self.news += 1;
            self.reprice();
        }
    }

    /// A request was served after `took`, from sending the attempt to its answer.
    pub fn served(&mut self, took: Duration) {
        follow(&mut self.took, took.as_secs_f64());
        // Limits what was believed before the first answer, too.
        let most = self.most();
        self.execution = self.execution.map(|value| value.min(most));
        self.rejected -= REJECTION_WEIGHT * self.rejected;
        self.bounce.served();
    }

    /// The longest time that is believed, in seconds.
    fn most(&self) -> f64 {
        self.took.map_or(f64::INFINITY, |took| took * MAX_REPORT_FACTOR)
    }

    /// A bounce took this long, from sending the attempt to its answer.
    pub fn bounced(&mut self, took: Duration) {
        self.bounce.measure(took);
        self.reprice();
    }

    /// A full server has rejected an attempt.
    pub fn rejected(&mut self) {
        self.rejected += REJECTION_WEIGHT * (1.0 - self.rejected);
    }

    /// Makes the prices anew after every few reports, and when the cost of a bounce has changed.
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

    /// The mean execution time that servers report, if it is believed: where it is much longer than
    /// what this sender's own requests take, it is no measure for them.
    pub fn fleet(&self) -> Option<Duration> {
        self.fleet_seconds().map(whole)
    }

    fn fleet_seconds(&self) -> Option<f64> {
        self.execution.filter(|execution| *execution <= MOST_FLEET * self.most())
    }

    /// The price of looking further where only the server with this report is left, if that is
    /// known.
    pub fn price_of(&self, report: &LoadReport) -> Option<Duration> {
        Some(whole(WITHOUT_LIMIT * report.offer(self.fleet_seconds())? + self.prices?.cost))
    }

    /// The bid of this turn; none: without limit.
    pub fn bid(&self, turn: BidPosition) -> Option<Duration> {
        if self.rejected > MOST_REJECTED {
            return None;
        }
        // Fewer bids: the higher ones, as they are made from the last to the first.
        let place = (MOST_BIDS + turn.number).checked_sub(turn.of)?;
        self.prices?.bids.get(place).copied().map(whole)
    }
}

#[cfg(test)]
#[path = "price_tests.rs"]
mod tests;
