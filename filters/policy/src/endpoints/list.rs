//! The list of servers, and when a sender forgets a server or its report.

use super::endpoint::TOOK_WEIGHT;
use super::{Endpoint, EndpointId, Endpoints, Row};
use crate::endpoints::failures::Failures;
use crate::units::Timestamp;
use crate::wire::load_report::LoadReport;
use hashbrown::HashSet;
use std::time::Duration;

impl Endpoints {
    /// The number of servers.
    pub fn len(&self) -> usize {
        self.all.len()
    }

    /// The number of servers that are not shut.
    pub fn open(&self) -> usize {
        self.peers.failures.count()
    }

    /// Whether there are no servers.
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// The servers, in no particular order.
    pub fn iter(&self) -> impl Iterator<Item = (EndpointId, &Endpoint)> {
        self.table.iter()
    }

    /// The server at this place. A draw may change the places.
    pub fn at(&self, place: usize) -> Option<EndpointId> {
        self.all.get(place).copied()
    }

    /// One server, unless it has left.
    pub fn get(&self, id: EndpointId) -> Option<&Endpoint> {
        self.table.get(id)
    }

    /// The only other server; its last report, with at least this sender's pending requests as its
    /// queue; and how long an attempt there has waited for any answer. None if there is not exactly
    /// one other, or if it is shut, failed recently, or has not reported within `longest`.
    pub fn only_other(
        &self,
        one: EndpointId,
        longest: Duration,
        now: Timestamp,
    ) -> Option<(EndpointId, LoadReport, Duration)> {
        let &[first, second] = self.all.as_slice() else { return None };
        let id = if first == one { second } else { first };
        let other = self.get(id)?;
        let counts = !other.is_shut() && !other.failures.are_recent();
        let queue = other.report.queue.map(|queue| queue.max(other.pending));
        let waits = if other.unheard == 0 { Duration::ZERO } else { now.since(other.unheard_since) };
        (counts && now.since(other.reported) < longest).then_some((id, LoadReport { queue, ..other.report }, waits))
    }

    /// The server with this address.
    pub fn find(&self, address: &str) -> Option<EndpointId> {
        self.by_address.get(address).copied()
    }

    /// Adds a server with one chip. A known server stays unchanged.
    pub fn add(&mut self, address: &str, now: Timestamp) -> EndpointId {
        if let Some(id) = self.find(address) {
            return id;
        }
        let id = self.table.insert(Endpoint {
            address: address.into(),
            chips: 1,
            owed: self.mean_chips().saturating_sub(1),
            last_event: now,
            reported: now,
            pending: 0,
            unheard: 0,
            unheard_since: now,
            heard: now,
            strikes: 0,
            struck_before: 0,
            struck: Timestamp::ZERO,
            seen: 0,
            chosen: 0,
            took: None,
            report: LoadReport::default(),
            bounced_until: Timestamp::ZERO,
            failures: Failures::default(),
            client_errors: Failures::default(),
            shut: None,
            has_changed: false,
            place: self.all.len(),
            qualified: Some(self.qualified.len()),
        });
        self.compare(id, true);
        self.reorder();
        self.all.push(id);
        self.qualified.push(id);
        self.by_address.insert(address.into(), id);
        id
    }

    /// The mean number of requests that the servers may have, by their chips.
    fn mean_chips(&self) -> u32 {
        let all: u32 = self.table.values().map(|endpoint| endpoint.chips + endpoint.pending).sum();
        all / u32::try_from(self.all.len().max(1)).unwrap_or(u32::MAX)
    }

    /// Forgets a server, and ignores later results of its attempts.
    pub fn remove(&mut self, id: EndpointId) {
        self.disqualify(id);
        self.compare(id, false);
        let Some(endpoint) = self.table.remove(id) else { return };
        self.waiting.remove(&(endpoint.last_event, id));
        self.by_address.remove(&endpoint.address);
        self.reorder();
        self.all.swap_remove(endpoint.place);
        if let Some(moved) = self.all.get(endpoint.place).and_then(|&id| self.table.get_mut(id)) {
            moved.place = endpoint.place;
        }
    }

    /// Envoy's own policy chose this server. `explored`: how many requests had explored by then.
    pub fn seen(&mut self, id: EndpointId, explored: u64) {
        if let Some(endpoint) = self.table.get_mut(id) {
            endpoint.seen = explored;
        }
    }

    /// A server without reports answered after this time.
    pub fn took(&mut self, id: EndpointId, took: Duration) {
        if let Some(endpoint) = self.table.get_mut(id) {
            let took = took.as_secs_f64();
            endpoint.took = Some(endpoint.took.map_or(took, |mean| mean + TOOK_WEIGHT * (took - mean)));
        }
    }

    /// This server is first in the list with this number.
    pub fn chosen(&mut self, id: EndpointId, number: u64) {
        if let Some(endpoint) = self.table.get_mut(id) {
            endpoint.chosen = number;
        }
    }

    /// Forgets servers without pending attempts whose last [`meet`](Self::meet) was too long ago.
    /// `is_gone` decides from its `explored`.
    pub fn forget(&mut self, is_gone: impl Fn(u64) -> bool) {
        let gone = self.table.iter().filter(|(_, endpoint)| endpoint.pending == 0 && is_gone(endpoint.seen));
        let gone: Vec<EndpointId> = gone.map(|(id, _)| id).collect();
        for id in gone {
            self.remove(id);
        }
    }

    /// The same for one server per call, in turn.
    pub fn forget_in_turn(&mut self, turn: u64, is_gone: impl Fn(u64) -> bool) {
        let place = usize::try_from(turn).unwrap_or(usize::MAX) % self.all.len().max(1);
        let is_gone = |one: &Endpoint| one.pending == 0 && is_gone(one.seen);
        if let Some(id) = self.at(place).filter(|id| self.table.get(*id).is_some_and(is_gone)) {
            self.remove(id);
        }
    }

    /// Makes `addresses` the servers: adds new ones, forgets others, and keeps the state of those
    /// that stay.
    pub fn replace<'a>(&mut self, addresses: impl IntoIterator<Item = &'a str>, now: Timestamp) {
        let keep: HashSet<EndpointId> = addresses.into_iter().map(|address| self.add(address, now)).collect();
        let gone: Vec<EndpointId> = self.table.keys().filter(|id| !keep.contains(id)).collect();
        for id in gone {
            self.remove(id);
        }
    }

    /// Recomputes the sums that servers are compared with.
    pub(crate) fn renew_peers(&mut self) {
        self.peers.failures.renew(self.table.values().map(|endpoint| &endpoint.failures));
        self.peers.client_errors.renew(self.table.values().map(|endpoint| &endpoint.client_errors));
    }

    /// Forgets this server's failures, which were too long ago.
    pub(crate) fn forget_failures(&mut self, id: EndpointId) {
        if let Some(endpoint) = self.table.get_mut(id) {
            endpoint.failures.forget(&mut self.peers.failures);
            endpoint.client_errors.forget(&mut self.peers.client_errors);
        }
    }
}

impl Endpoints {
    pub(crate) fn all(&mut self) -> Row<'_> {
        self.reorder();
        Row { ids: &mut self.all, table: &mut self.table, place: |endpoint| Some(&mut endpoint.place) }
    }

    pub(crate) fn qualified(&mut self) -> Row<'_> {
        let (ids, table) = (&mut self.qualified, &mut self.table);
        Row { ids, table, place: |endpoint| endpoint.qualified.as_mut() }
    }

    /// Marks a server as changed since the routing last looked.
    pub(super) fn note(&mut self, id: EndpointId) {
        let Some(endpoint) = self.table.get_mut(id) else { return };
        if !endpoint.has_changed {
            endpoint.has_changed = true;
            self.changed.push(id);
        }
    }

    /// The order of places changes, so a routing that stores data by place must look at all
    /// servers.
    pub(super) fn reorder(&mut self) {
        self.order += 1;
        self.show_changes(|_, _| {});
    }

    pub(crate) fn order(&self) -> u64 {
        self.order
    }

    /// Shows the routing each server that changed since it last looked.
    pub(crate) fn show_changes(&mut self, mut look: impl FnMut(EndpointId, &Endpoint)) {
        for id in self.changed.drain(..) {
            if let Some(endpoint) = self.table.get_mut(id) {
                endpoint.has_changed = false;
                look(id, endpoint);
            }
        }
    }
}
