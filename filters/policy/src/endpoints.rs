//! What a sender knows of the servers of one cluster: chips, backoff, pending requests (paper, sections 5.4.2 and 5.4.3).
//!
//! An endpoint *qualifies* when it has a chip, or when `reset_interval` has passed since its clock was set. The clock is set by every answer,
//! every rejection and every failure, and by a probe.
//!
//! | event | chips | clock |
//! |---|---|---|
//! | added | 1 | now |
//! | an attempt begins, with a chip | -1 | |
//! | an attempt begins without one: a probe, or forced because nobody qualified | | now |
//! | answered with a chip / without | +1, at most `max_chips` / +0 | now |
//! | rejected | 0 | now |
//! | bounced by its bid | +1, the one that was spent | now |
//! | failed: no answer came | | now |
//!
//! Qualified endpoints stand in a dense array, the others in a tree ordered by clock, so that choosing costs the same among ten
//! endpoints as among a thousand: each move between the two costs `O(log n)`, and there is one a request or less.
//!
//! Cold start: one chip each, so every server may be tried once before it has spoken. Deviations from the paper: 1. chips are bounded by
//! `max_chips` (there the counter may grow by one with each probe); 2. a forced attempt restarts the clock as a probe does, so that a
//! sender to whom nobody is open goes round instead of hammering one server; 3. a failure (connection refused, reset, timeout) spends the chip and
//! sets the clock, so that a dead server is left alone like one that rejected.

use crate::bid::Promises;
use crate::estimate::{Estimate, Limit, Standing};
use crate::units::Timestamp;
use crate::wire::load_report::LoadReport;
use hashbrown::{HashMap, HashSet};
use slotmap::{SlotMap, new_key_type};
use std::collections::BTreeSet;
use std::time::Duration;

new_key_type! {
    /// Names an endpoint of one [`Endpoints`] for as long as it is there; never used again for another.
    pub struct EndpointId;
}

/// One server as this sender sees it.
#[derive(Clone, Debug)]
pub struct Endpoint {
    address: Box<str>,
    chips: u32,
    clock: Timestamp,
    pending: u32,
    /// When it was met last, as [`Endpoints::meet`] was told.
    met: u64,
    report: LoadReport,
    estimate: Estimate,
    promises: Promises,
    /// Where it stands in `Endpoints::all`.
    place: usize,
    /// Where it stands in `Endpoints::qualified`, if it does.
    qualified: Option<usize>,
}

impl Endpoint {
    /// Its address, `ip:port`.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Chips that this sender holds for it.
    pub fn chips(&self) -> u32 {
        self.chips
    }

    /// Attempts of this sender that it has not finished.
    pub fn pending(&self) -> u32 {
        self.pending
    }

    /// What this sender believes about its queue and service rate.
    pub fn estimate(&self) -> &Estimate {
        &self.estimate
    }

    /// Whether its taking a request for a bid means anything.
    pub fn promises(&self) -> &Promises {
        &self.promises
    }

    /// What it said last; empty if it has not spoken yet.
    pub fn report(&self) -> &LoadReport {
        &self.report
    }
}

/// By what right an attempt goes to an endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Right {
    /// A chip was spent.
    Chip,
    /// Its reset interval has passed: a probe.
    Probe,
    /// Nobody qualified, and its interval ends first.
    Forced,
}

/// How an attempt ended, as far as the endpoint is concerned.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Answer {
    /// The application answered, with this report.
    Served(LoadReport),
    /// The server rejected the request, with this report.
    Rejected(LoadReport),
    /// The server bounced the request because it would take longer than the bid, with this report.
    Bounced(LoadReport),
    /// The application answered, and the server does not speak BLOC: as good as a chip.
    Silent,
    /// The application answered, and the server speaks [ORCA](crate::wire::orca) but not BLOC: as good as a chip, and its numbers count.
    Orca(LoadReport),
    /// No answer came.
    Failed,
}

/// The servers of one cluster.
#[derive(Clone, Debug)]
pub struct Endpoints {
    reset_interval: Duration,
    max_chips: u32,
    by_address: HashMap<Box<str>, EndpointId>,
    table: SlotMap<EndpointId, Endpoint>,
    all: Vec<EndpointId>,
    /// Beside `all`, place by place: what a choice that looks at every server reads, so that it need not look into the table.
    standings: Vec<Standing>,
    qualified: Vec<EndpointId>,
    waiting: BTreeSet<(Timestamp, EndpointId)>,
    /// The mean queue, in requests, as far as somebody looks at all servers.
    mean_queue: f64,
    /// Which place is looked at next for old news.
    looked_at: usize,
}

impl Endpoints {
    /// No servers yet; an endpoint without a chip is left alone for `reset_interval`.
    pub fn new(reset_interval: Duration, max_chips: u32) -> Self {
        Self {
            reset_interval,
            max_chips: max_chips.max(1),
            by_address: HashMap::new(),
            table: SlotMap::with_key(),
            all: Vec::new(),
            standings: Vec::new(),
            qualified: Vec::new(),
            waiting: BTreeSet::new(),
            mean_queue: 0.0,
            looked_at: 0,
        }
    }

    /// New parameters; what is known of the servers stays.
    pub fn configure(&mut self, reset_interval: Duration, max_chips: u32) {
        self.reset_interval = reset_interval;
        self.max_chips = max_chips.max(1);
        for endpoint in self.table.values_mut() {
            endpoint.chips = endpoint.chips.min(self.max_chips);
        }
    }

    /// The number of servers.
    pub fn len(&self) -> usize {
        self.all.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// The servers, in no particular order.
    pub fn iter(&self) -> impl Iterator<Item = (EndpointId, &Endpoint)> {
        self.table.iter()
    }

    /// What this sender believes about each server, by place: the servers in a fixed order.
    pub fn standings(&self) -> &[Standing] {
        &self.standings
    }

    /// The server at a place of [`standings`](Self::standings).
    pub fn at(&self, place: usize) -> Option<EndpointId> {
        self.all.get(place).copied()
    }

    /// One server, unless it has left.
    pub fn get(&self, id: EndpointId) -> Option<&Endpoint> {
        self.table.get(id)
    }

    /// The server with this address.
    pub fn find(&self, address: &str) -> Option<EndpointId> {
        self.by_address.get(address).copied()
    }

    /// Adds a server with one chip; one that is known already stays as it is.
    pub fn add(&mut self, address: &str, now: Timestamp) -> EndpointId {
        if let Some(id) = self.find(address) {
            return id;
        }
        let id = self.table.insert(Endpoint {
            address: address.into(),
            chips: 1,
            clock: now,
            pending: 0,
            met: 0,
            report: LoadReport::default(),
            estimate: Estimate::default(),
            promises: Promises::default(),
            place: self.all.len(),
            qualified: Some(self.qualified.len()),
        });
        self.all.push(id);
        self.standings.push(Standing::default());
        self.qualified.push(id);
        self.by_address.insert(address.into(), id);
        id
    }

    /// Forgets a server; its attempts still under way find nothing to report to.
    pub fn remove(&mut self, id: EndpointId) {
        self.disqualify(id);
        let Some(endpoint) = self.table.remove(id) else { return };
        self.waiting.remove(&(endpoint.clock, id));
        self.by_address.remove(&endpoint.address);
        self.all.swap_remove(endpoint.place);
        self.standings.swap_remove(endpoint.place);
        if let Some(moved) = self.all.get(endpoint.place).and_then(|&id| self.table.get_mut(id)) {
            moved.place = endpoint.place;
        }
    }

    /// An attempt met this server, when so many requests had gone exploring.
    pub fn meet(&mut self, id: EndpointId, explored: u64) {
        if let Some(endpoint) = self.table.get_mut(id) {
            endpoint.met = explored;
        }
    }

    /// Forgets the servers without a pending attempt that were met last at a time of which `is_gone` says that it is too long ago.
    pub fn forget(&mut self, is_gone: impl Fn(u64) -> bool) {
        let gone = self.table.iter().filter(|(_, endpoint)| endpoint.pending == 0 && is_gone(endpoint.met));
        let gone: Vec<EndpointId> = gone.map(|(id, _)| id).collect();
        for id in gone {
            self.remove(id);
        }
    }

    /// Makes `addresses` the servers: what is missing is added, what is not among them is forgotten, the others keep their state.
    pub fn replace<'a>(&mut self, addresses: impl IntoIterator<Item = &'a str>, now: Timestamp) {
        let keep: HashSet<EndpointId> = addresses.into_iter().map(|address| self.add(address, now)).collect();
        let gone: Vec<EndpointId> = self.table.keys().filter(|id| !keep.contains(id)).collect();
        for id in gone {
            self.remove(id);
        }
    }

    /// An attempt to this server begins: spends a chip or restarts the clock, and counts it as pending.
    pub fn begin(&mut self, id: EndpointId, now: Timestamp) -> Option<Right> {
        self.requalify(now);
        let endpoint = self.table.get_mut(id)?;
        endpoint.pending += 1;
        endpoint.estimate.sent(endpoint.pending, now);
        note(&mut self.standings, endpoint);
        let right = if endpoint.chips > 0 {
            endpoint.chips -= 1;
            Right::Chip
        } else {
            let right = if endpoint.qualified.is_some() { Right::Probe } else { Right::Forced };
            self.restart(id, now);
            right
        };
        self.settle(id, now);
        Some(right)
    }

    /// Takes note of how an attempt was answered. Its [`end`](Self::end) is reported separately: an answer has a body still to come.
    pub fn answer(&mut self, id: EndpointId, answer: Answer, now: Timestamp) {
        self.restart(id, now);
        let limit = Limit::new(self.all.len(), self.mean_queue);
        let Some(endpoint) = self.table.get_mut(id) else { return };
        let earned = match answer {
            Answer::Served(report) | Answer::Orca(report) => {
                endpoint.report = report;
                endpoint.estimate.hear(&report, endpoint.pending, limit, now);
                report.chip
            }
            Answer::Bounced(report) => {
                endpoint.promises.bounced();
                endpoint.report = report;
                endpoint.estimate.hear(&report, endpoint.pending, limit, now);
                // The server has room, only not at this price: the chip that was spent comes back.
                true
            }
            Answer::Silent => true,
            Answer::Failed => false,
            Answer::Rejected(report) => {
                endpoint.report = report;
                endpoint.estimate.hear(&report, endpoint.pending, limit, now);
                endpoint.chips = 0;
                false
            }
        };
        endpoint.chips = (endpoint.chips + u32::from(earned)).min(self.max_chips);
        note(&mut self.standings, endpoint);
        self.settle(id, now);
    }

    /// The application of this server answered an attempt. To be told before [`answer`](Self::answer), where servers' estimates matter.
    pub fn served(&mut self, id: EndpointId, now: Timestamp) {
        if let Some(endpoint) = self.table.get_mut(id) {
            endpoint.estimate.answered(now);
        }
    }

    /// A look at all servers found this mean queue, in requests. By the way one server, each in its turn, is looked at for news that is too old.
    pub fn survey(&mut self, mean_queue: f64, now: Timestamp) {
        self.mean_queue = mean_queue;
        self.looked_at = if self.looked_at + 1 < self.all.len() { self.looked_at + 1 } else { 0 };
        let Some(endpoint) = self.at(self.looked_at).and_then(|id| self.table.get_mut(id)) else { return };
        // Who owes this sender an answer is not tried anew before it has come.
        if endpoint.pending == 0 && endpoint.estimate.forget(self.reset_interval, now) {
            note(&mut self.standings, endpoint);
        }
    }

    /// A server took a request for the `bid` that it carried (none: without limit) and answered it after `took`, silently or with a report.
    pub fn judge(&mut self, id: EndpointId, bid: Option<Duration>, took: Duration, silent: bool) {
        if let Some(endpoint) = self.table.get_mut(id) {
            endpoint.promises.judge(bid, took, silent);
        }
    }

    /// The attempt is over, one pending request less.
    pub fn end(&mut self, id: EndpointId) {
        if let Some(endpoint) = self.table.get_mut(id) {
            endpoint.pending = endpoint.pending.saturating_sub(1);
            note(&mut self.standings, endpoint);
        }
    }

    /// An attempt that was said to be over counts as pending again.
    pub fn resume(&mut self, id: EndpointId) {
        if let Some(endpoint) = self.table.get_mut(id) {
            endpoint.pending += 1;
            note(&mut self.standings, endpoint);
        }
    }

    /// From now on the attempts under way are somebody else's.
    pub fn none_pending(&mut self) {
        for (_, endpoint) in &mut self.table {
            endpoint.pending = 0;
            note(&mut self.standings, endpoint);
        }
    }

    /// The server was not in the cluster when an attempt should have gone to it: left alone for an interval.
    pub fn missing(&mut self, id: EndpointId, now: Timestamp) {
        self.restart(id, now);
        if let Some(endpoint) = self.table.get_mut(id) {
            endpoint.chips = 0;
        }
        self.settle(id, now);
    }

    /// Moves every server whose interval has passed by `now` among the qualified.
    pub fn requalify(&mut self, now: Timestamp) {
        while let Some(&(clock, id)) = self.waiting.first() {
            if now.since(clock) < self.reset_interval {
                return;
            }
            self.waiting.pop_first();
            self.qualify(id);
        }
    }

    /// All servers, as a row from which the routing draws.
    pub(crate) fn all(&mut self) -> Row<'_> {
        let standings = self.standings.as_mut_slice();
        Row { ids: &mut self.all, standings, table: &mut self.table, place: |endpoint| Some(&mut endpoint.place) }
    }

    /// The qualified servers, as a row from which the routing draws.
    pub(crate) fn qualified(&mut self) -> Row<'_> {
        let (ids, table) = (&mut self.qualified, &mut self.table);
        Row { ids, standings: &mut [], table, place: |endpoint| endpoint.qualified.as_mut() }
    }

    /// The servers that do not qualify, the one whose interval ends first in front.
    pub(crate) fn waiting(&self) -> impl Iterator<Item = EndpointId> {
        self.waiting.iter().map(|&(_, id)| id)
    }

    fn qualify(&mut self, id: EndpointId) {
        if let Some(endpoint) = self.table.get_mut(id).filter(|endpoint| endpoint.qualified.is_none()) {
            endpoint.qualified = Some(self.qualified.len());
            self.qualified.push(id);
        }
    }

    fn disqualify(&mut self, id: EndpointId) {
        let Some(place) = self.table.get_mut(id).and_then(|endpoint| endpoint.qualified.take()) else { return };
        self.qualified.swap_remove(place);
        if let Some(moved) = self.qualified.get(place).and_then(|&id| self.table.get_mut(id)) {
            moved.qualified = Some(place);
        }
    }

    /// Sets the clock; a server that waits goes to the end of the queue.
    fn restart(&mut self, id: EndpointId, now: Timestamp) {
        let Some(endpoint) = self.table.get_mut(id) else { return };
        if self.waiting.remove(&(endpoint.clock, id)) {
            self.waiting.insert((now, id));
        }
        endpoint.clock = now;
    }

    /// Puts the server where its chips and its clock say.
    fn settle(&mut self, id: EndpointId, now: Timestamp) {
        let Some(endpoint) = self.table.get(id) else { return };
        let clock = endpoint.clock;
        if endpoint.chips > 0 || now.since(clock) >= self.reset_interval {
            self.waiting.remove(&(clock, id));
            self.qualify(id);
        } else {
            self.disqualify(id);
            self.waiting.insert((clock, id));
        }
    }
}

/// Brings the standing of an endpoint up to date.
fn note(standings: &mut [Standing], endpoint: &Endpoint) {
    if let Some(standing) = standings.get_mut(endpoint.place) {
        *standing = endpoint.estimate.standing(endpoint.pending);
    }
}

/// A dense array of endpoints whose order means nothing, so that drawing without replacement is a swap.
pub(crate) struct Row<'a> {
    ids: &'a mut Vec<EndpointId>,
    /// What moves along; empty: nothing.
    standings: &'a mut [Standing],
    table: &'a mut SlotMap<EndpointId, Endpoint>,
    place: fn(&mut Endpoint) -> Option<&mut usize>,
}

impl Row<'_> {
    pub(crate) fn len(&self) -> usize {
        self.ids.len()
    }

    /// The server standing at `at`.
    pub(crate) fn id(&self, at: usize) -> Option<EndpointId> {
        self.ids.get(at).copied()
    }

    /// Requests of this sender that are pending at the server standing at `at`.
    pub(crate) fn pending(&self, at: usize) -> u32 {
        self.ids.get(at).and_then(|&id| self.table.get(id)).map_or(u32::MAX, |endpoint| endpoint.pending)
    }

    /// Moves the server standing at `at` to `to` (and the one there to `at`), and names it.
    pub(crate) fn set_aside(&mut self, at: usize, to: usize) -> Option<EndpointId> {
        let id = *self.ids.get(at)?;
        let other = *self.ids.get(to)?;
        for (id, place) in [(id, to), (other, at)] {
            *self.ids.get_mut(place)? = id;
            *(self.place)(self.table.get_mut(id)?)? = place;
        }
        if at.max(to) < self.standings.len() {
            self.standings.swap(at, to);
        }
        Some(id)
    }
}

#[cfg(test)]
#[path = "endpoints_tests.rs"]
mod tests;
