//! What a sender knows of the servers of one cluster: chips, backoff, pending requests (paper,
//! sections 5.4.2 and 5.4.3).
//!
//! | file | decides |
//! |---|---|
//! | [`failures`] | how often a server fails, and which of its failures count against it |
//!
//! An endpoint *qualifies* when it has a chip, or when `reset_interval` has passed since its *last
//! event*, a point in time. Every answer, rejection and failure sets it to now, and so does a
//! probe.
//!
//! | event | chips | last event | shut |
//! |---|---|---|---|
//! | added | 1 | now | no |
//! | an attempt begins, with a chip | -1 | | |
//! | an attempt begins without one: a probe, or forced because no server qualified | | now, or later if the server has not answered other attempts | |
//! | answered with a chip / without | +1, or +2 while chips are *owed*, at most `max_chips` / +0 | now | no / no after a probe |
//! | rejected, not in the cluster, or its answers [ask to leave it alone](crate::wire::headers::MARKS) | 0 | now | yes |
//! | bounced for its bid, or rejected for its deadline | +1 if one was spent | now | no after a probe |
//! | a failure that [counts](crate::endpoints::failures): no answer / an error | +0 / as answered, and -1 | now | yes |
//! | the same, and the server has not served since another such failure, or has said nothing for a quarter of a reset interval | 0 | seven reset intervals from now | yes |
//! | an error of the client that [counts](crate::endpoints::failures) / does not | +0 / as answered | now | yes / no after a probe |
//! | a failure that does not count: no answer / an error | +1 if one was spent / as answered | now | no after a probe |
//! | given up by its caller | +1 if one was spent | | |
//! | given up, and the server hangs: nothing was heard from it since its pending attempts began, a reset interval ago or more | +0 | later, by what it has not answered | yes |
//!
//! A routing that does not ask for chips ([`crate::routing::Mu`]) leaves out a *shut* server until
//! `reset_interval` has passed since it was shut or probed. Then an attempt probes it. A shut
//! server gets no chip back, and other servers' failures are not compared with its own.
//!
//! Qualified endpoints are in a dense array, the others in a tree ordered by last event, so
//! choosing costs the same among ten endpoints as among a thousand. Each move between them costs
//! `O(log n)`, and a request causes at most one.
//!
//! A server is owed the chips that failures have cost it, until it rejects. Without this one that
//! was away, and has no capacity, would get less than the others as long as these hold theirs. A
//! newcomer is owed as many as the others may have requests on average.
//!
//! Cold start: one chip each, so every server may be tried once before it has answered.
//!
//! Deviations from the paper:
//! 1. chips are bounded by `max_chips` (in the paper the counter may grow by one with each probe);
//! 2. a forced attempt counts as an event as a probe does, so that a sender for which no server
//!    qualifies tries them in turn instead of hammering one;
//! 3. a failure costs a chip, so that a dead server is left alone like one that rejected once its
//!    chips are spent, and one that fails fast does not look better than the others;
//! 4. a rejection for a deadline by a server with a queue says nothing about the server: it keeps
//!    its chips;
//! 5. shut servers;
//! 6. owed chips;
//! 7. a server that has not answered the last `n` attempts is left alone for `n` reset intervals,
//!    at most 8, so that one that hangs does not attract a request in each interval; likewise one
//!    whose failures follow each other, and one whose answers time out.

mod attempt;
mod effect;
mod endpoint;
pub mod failures;
mod list;
mod row;
mod shut;

pub use attempt::{Answer, Permit};
pub use endpoint::{Endpoint, EndpointId};
pub(crate) use row::Row;

use crate::units::Timestamp;
use effect::{Effect, Heard, Leaves, Reopens};
use endpoint::{Compared, Shut};
use hashbrown::HashMap;
use slotmap::SlotMap;
use std::collections::BTreeSet;
use std::time::Duration;

/// A server that does not answer, or fails again and again, is left alone for at most this many
/// reset intervals.
const MOST_INTERVALS: u32 = 8;

/// A failure of a server that was silent for this part of a reset interval is a timeout.
const SILENT: u32 = 4;

/// So many servers that do not qualify are looked at, so that a choice among many costs no more.
const LOOKED_AT: usize = 64;

/// How much longer than a reset interval a server is left alone that has not answered the last
/// `unheard` attempts: an interval for each but the first.
fn silence(unheard: u32, reset_interval: Duration) -> Duration {
    reset_interval * (unheard.clamp(1, MOST_INTERVALS) - 1)
}

/// The servers of one cluster.
#[derive(Clone, Debug)]
pub struct Endpoints {
    reset_interval: Duration,
    max_chips: u32,
    by_address: HashMap<Box<str>, EndpointId>,
    table: SlotMap<EndpointId, Endpoint>,
    all: Vec<EndpointId>,
    /// How often the order of `all` has changed.
    order: u64,
    /// Servers whose pending requests or shut state have changed since the routing looked, once
    /// each.
    changed: Vec<EndpointId>,
    qualified: Vec<EndpointId>,
    waiting: BTreeSet<(Timestamp, EndpointId)>,
    peers: Compared,
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
            order: 0,
            changed: Vec::new(),
            qualified: Vec::new(),
            waiting: BTreeSet::new(),
            peers: Compared::default(),
        }
    }

    /// Applies new parameters; what is known of the servers stays.
    pub fn configure(&mut self, reset_interval: Duration, max_chips: u32) {
        self.reset_interval = reset_interval;
        self.max_chips = max_chips.max(1);
        for endpoint in self.table.values_mut() {
            endpoint.chips = endpoint.chips.min(self.max_chips);
        }
    }

    /// Begins an attempt to this server: spends a chip or sets the last event to now, and counts
    /// the attempt as pending.
    pub fn begin(&mut self, id: EndpointId, now: Timestamp) -> Option<Permit> {
        self.requalify(now);
        let endpoint = self.table.get_mut(id)?;
        endpoint.pending += 1;
        if endpoint.unheard == 0 {
            endpoint.unheard_since = now;
        }
        endpoint.unheard = endpoint.unheard.saturating_add(1);
        let asked = now.after(silence(endpoint.unheard, self.reset_interval));
        if let Some(shut) = &mut endpoint.shut {
            *shut = Shut { until: asked.after(self.reset_interval), is_probed: true };
        }
        self.note(id);
        let endpoint = self.table.get_mut(id)?;
        let permit = if endpoint.chips > 0 {
            endpoint.chips -= 1;
            Permit::Chip
        } else {
            let permit = if endpoint.qualified.is_some() { Permit::Probe } else { Permit::Forced };
            self.restart(id, asked);
            permit
        };
        self.settle(id, now);
        Some(permit)
    }

    /// Records how an attempt, sent by this `permit`, was answered. Its [`end`](Self::end) is
    /// reported separately, because the body of the answer is still to come.
    pub fn answer(&mut self, id: EndpointId, permit: Permit, answer: Answer, now: Timestamp) {
        self.answer_after(id, permit, answer, Duration::MAX, now);
    }

    /// The same, if the attempt `took` so long. One that fails at once has not timed out, however
    /// long the server has said nothing. [`Effect`] is the table of what follows from which answer.
    pub fn answer_after(&mut self, id: EndpointId, permit: Permit, answer: Answer, took: Duration, now: Timestamp) {
        let Some(endpoint) = self.table.get_mut(id) else { return };
        // The server has been silent since its pending attempts began, or, if one of them began
        // before its last answer, since that. A caller that gives up within a reset interval proves
        // nothing, nor does one while a stream is open; a timeout does.
        let no_others = endpoint.unheard >= endpoint.pending;
        let silent = now.since(if no_others { endpoint.unheard_since } else { endpoint.heard });
        let hangs = answer == Answer::GivenUp && no_others && silent >= self.reset_interval;
        let times_out = answer == Answer::Failed && silent.min(took) >= self.reset_interval / SILENT;
        let effect = Effect::of(&answer, hangs || endpoint.tally(&answer, &mut self.peers));
        if effect.heard == Heard::Application {
            endpoint.heard = now;
        }
        if effect.heard != Heard::Nobody {
            endpoint.unheard = 0;
            self.restart(id, now);
        }
        let granted = self.keep_report(id, &answer, now);
        let Some(endpoint) = self.table.get(id) else { return };
        let is_probed = endpoint.shut.is_some_and(|shut| shut.is_probed);
        let reopens = match effect.reopens {
            Reopens::No => false,
            Reopens::Probed => is_probed,
            Reopens::ProbedOrGranted => is_probed || granted,
        };
        if reopens {
            self.reopen(id);
        }
        let most = self.max_chips;
        let Some(endpoint) = self.table.get_mut(id) else { return };
        if effect.serves {
            (endpoint.struck_before, endpoint.strikes) = (endpoint.strikes, 0);
        }
        endpoint.settle_chips(effect.chips, permit, granted, most);
        match effect.leaves {
            Leaves::No => {}
            Leaves::Shut => self.shut(id, now),
            Leaves::Fails => self.fails(id, times_out, now),
            Leaves::Hangs => self.hangs(id, now),
            Leaves::Errs => return self.erred(id, false, now),
        }
        self.note(id);
        self.settle(id, now);
    }

    /// Keeps what a server says about itself in an answer. Returns whether the answer grants a
    /// chip, as one without a report does.
    fn keep_report(&mut self, id: EndpointId, answer: &Answer, now: Timestamp) -> bool {
        let longest = self.reset_interval;
        let Some(endpoint) = self.table.get_mut(id) else { return false };
        if let Some(report) = answer.report() {
            (endpoint.report, endpoint.reported) = (*report, now);
        }
        if let Answer::Bounced(report) | Answer::RejectedForDeadline(report) = answer {
            endpoint.bounced_until = now.after(report.execution.unwrap_or_default().min(longest));
        }
        if matches!(answer, Answer::Unreported | Answer::Erred(None) | Answer::ClientError(None)) {
            // A server that was rolled back takes a bid that says the fleet's time for none.
            endpoint.report.fleet = false;
        }
        answer.report().is_none_or(|report| report.chip)
    }

    /// The attempt is over, one pending request less.
    pub fn end(&mut self, id: EndpointId) {
        if let Some(endpoint) = self.table.get_mut(id) {
            endpoint.pending = endpoint.pending.saturating_sub(1);
            self.note(id);
        }
    }

    /// An attempt that was reported as over counts as pending again.
    pub fn resume(&mut self, id: EndpointId) {
        if let Some(endpoint) = self.table.get_mut(id) {
            endpoint.pending += 1;
            self.note(id);
        }
    }

    /// Counts no attempt as pending: those under way belong to another sender.
    pub fn none_pending(&mut self) {
        for place in 0..self.all.len() {
            let Some(id) = self.at(place) else { return };
            if let Some(endpoint) = self.table.get_mut(id) {
                endpoint.pending = 0;
            }
            self.note(id);
        }
    }

    /// Moves every server whose interval has passed by `now` to the qualified ones.
    pub fn requalify(&mut self, now: Timestamp) {
        while let Some(&(last_event, id)) = self.waiting.first() {
            if now.since(last_event) < self.reset_interval {
                return;
            }
            self.waiting.pop_first();
            self.qualify(id);
        }
    }

    /// All servers, as a row from which the routing draws.
    pub(crate) fn all(&mut self) -> Row<'_> {
        self.reorder();
        Row { ids: &mut self.all, table: &mut self.table, place: |endpoint| Some(&mut endpoint.place) }
    }

    /// The qualified servers, as a row from which the routing draws.
    pub(crate) fn qualified(&mut self) -> Row<'_> {
        let (ids, table) = (&mut self.qualified, &mut self.table);
        Row { ids, table, place: |endpoint| endpoint.qualified.as_mut() }
    }

    /// The servers that do not qualify, in the order in which their intervals end; of the first
    /// [`LOOKED_AT`], those that are shut come last.
    pub(crate) fn waiting(&self) -> impl Iterator<Item = EndpointId> {
        let all = self.waiting.iter().map(|&(_, id)| id);
        let (first, rest) = (all.clone().take(LOOKED_AT), all.skip(LOOKED_AT));
        let is_shut = |id: &EndpointId| self.table.get(*id).is_none_or(Endpoint::is_shut);
        first.clone().filter(move |id| !is_shut(id)).chain(first.filter(is_shut)).chain(rest)
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

    /// Sets the last event, and moves a server that waits to its new place in the order.
    fn restart(&mut self, id: EndpointId, now: Timestamp) {
        let Some(endpoint) = self.table.get_mut(id) else { return };
        if self.waiting.remove(&(endpoint.last_event, id)) {
            self.waiting.insert((now, id));
        }
        endpoint.last_event = now;
    }

    /// Remembers that something has changed which the routing may read at its next choice.
    fn note(&mut self, id: EndpointId) {
        let Some(endpoint) = self.table.get_mut(id) else { return };
        if !endpoint.has_changed {
            endpoint.has_changed = true;
            self.changed.push(id);
        }
    }

    /// The order of the places changes, so a routing that keeps something by place has to look at
    /// all servers.
    fn reorder(&mut self) {
        self.order += 1;
        self.show_changes(|_, _| {});
    }

    /// How often the order of the places has changed.
    pub(crate) fn order(&self) -> u64 {
        self.order
    }

    /// Shows the routing each server that has changed since it looked.
    pub(crate) fn show_changes(&mut self, mut look: impl FnMut(EndpointId, &Endpoint)) {
        for id in self.changed.drain(..) {
            if let Some(endpoint) = self.table.get_mut(id) {
                endpoint.has_changed = false;
                look(id, endpoint);
            }
        }
    }

    /// Puts the server among the qualified or the waiting ones, by its chips and its last event.
    fn settle(&mut self, id: EndpointId, now: Timestamp) {
        let Some(endpoint) = self.table.get(id) else { return };
        let last_event = endpoint.last_event;
        if endpoint.chips > 0 || now.since(last_event) >= self.reset_interval {
            self.waiting.remove(&(last_event, id));
            self.qualify(id);
        } else {
            self.disqualify(id);
            self.waiting.insert((last_event, id));
        }
    }
}

#[cfg(test)]
mod tests;
