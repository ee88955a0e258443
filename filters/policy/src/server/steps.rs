//! The steps of a request through a server: [`arrive`](Server::arrive),
//! [`hand_over`](Server::hand_over), and [`answer`](Server::answer) or [`leave`](Server::leave).
//! Each consumes the value of the step before, so no other order compiles. [`tick`](Server::tick)
//! comes now and then.

use super::Server;
use super::departures::{Flag, Totals};
use crate::units::{Concurrency, Timestamp};
use crate::wire::bid::Bid;
use crate::wire::reason::Reason;
use std::time::Duration;

/// What all threads of a proxy share about one application.
pub trait Threads {
    /// Start of the running request, if any thread has told it.
    fn running_since(&self) -> Option<Timestamp>;

    /// Tells all threads that a request starts to run.
    fn runs_since(&mut self, now: Timestamp);

    /// Counts an answered request. `confident`: the server was busy all the time.
    fn departed(&mut self, confident: bool);

    /// The counts so far.
    fn totals(&self) -> Totals;
}

/// A proxy with one thread.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct OneThread {
    since: Option<Timestamp>,
    totals: Totals,
}

impl Threads for OneThread {
    fn running_since(&self) -> Option<Timestamp> {
        self.since
    }

    fn runs_since(&mut self, now: Timestamp) {
        self.since = Some(now);
    }

    fn departed(&mut self, confident: bool) {
        self.totals.departed += 1;
        self.totals.confident += u64::from(confident);
    }

    fn totals(&self) -> Totals {
        self.totals
    }
}

/// An admitted request. It can be neither copied nor forged, so each step happens once.
#[derive(Debug, PartialEq)]
pub struct Admitted {
    flag: Flag,
    arrived: Timestamp,
}

/// A request that the application has.
#[derive(Debug, PartialEq)]
pub struct Inside {
    admitted: Admitted,
    since: Timestamp,
}

impl Inside {
    /// Its arrival.
    pub fn arrived(&self) -> Timestamp {
        self.admitted.arrived
    }

    /// Its hand-over to the application.
    pub fn since(&self) -> Timestamp {
        self.since
    }
}

impl Admitted {
    /// Hands it over when its server no longer has parameters.
    pub fn unmeasured(self, now: Timestamp) -> Inside {
        Inside { admitted: self, since: now }
    }
}

impl From<Inside> for Admitted {
    fn from(inside: Inside) -> Self {
        inside.admitted
    }
}

impl Server {
    /// A request arrives and meets `others` in the server. It accepts an expected response time up
    /// to `bid`, and has `deadline` left. No bid buys a place beyond the capacity.
    ///
    /// # Errors
    /// Why it must not enter.
    pub fn arrive(
        &mut self,
        others: Concurrency,
        bid: Option<Bid>,
        deadline: Option<Duration>,
        threads: &impl Threads,
        now: Timestamp,
    ) -> Result<Admitted, Reason> {
        if (bid.is_some() || deadline.is_some()) && self.asks_for_start(others) {
            self.observe_start(threads.running_since());
        }
        self.judge_arrival(others, bid, deadline, now)?;
        Ok(Admitted { flag: self.flag(others, bid.is_some()), arrived: now })
    }

    /// The application gets a request. `waited`: it was held before.
    pub fn hand_over(&self, admitted: Admitted, waited: bool, threads: &mut impl Threads, now: Timestamp) -> Inside {
        if self.begins(if waited { Concurrency::new(0) } else { admitted.flag.others }) {
            threads.runs_since(now);
        }
        Inside { admitted, since: now }
    }

    /// The application has answered a request; `others` are left in the server. `tells_speed`:
    /// whether the response time says how fast the application is.
    pub fn answer(
        &mut self,
        inside: Inside,
        tells_speed: bool,
        others: Concurrency,
        threads: &mut impl Threads,
        now: Timestamp,
    ) {
        let Inside { admitted: Admitted { flag, arrived }, since } = inside;
        if tells_speed {
            let confident = self.depart(flag, now.since(since), others, now);
            threads.departed(confident);
        } else {
            self.vanish(others, arrived, now);
        }
        if self.passes_on(others) {
            threads.runs_since(now);
        }
    }

    /// A request left the server without an answer from the application; `others` are left.
    pub fn leave(&mut self, admitted: impl Into<Admitted>, others: Concurrency, now: Timestamp) {
        self.vanish(others, admitted.into().arrived, now);
    }

    /// Call this at each answer and a few times a second. `executing`: the application is working
    /// on a request. Returns whether a measuring interval is over; servers made by
    /// [`beside`](Self::beside) must then [`follow`](Self::follow).
    pub fn tick(&mut self, threads: &impl Threads, executing: impl FnOnce() -> bool, now: Timestamp) -> bool {
        let due = self.is_due(now);
        if due {
            self.measure(threads.totals(), executing(), now);
        }
        due
    }
}
