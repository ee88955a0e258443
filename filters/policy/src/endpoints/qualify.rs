//! Which servers qualify for an attempt: those with a chip, and those whose reset interval has
//! passed. The others wait, ordered by the end of their intervals.

use super::{Endpoint, EndpointId, Endpoints};
use crate::units::Timestamp;

/// How many waiting servers to check for being shut, which bounds the cost of a choice.
const LOOKED_AT: usize = 64;

impl Endpoints {
    /// Qualifies every server whose interval has passed by `now`.
    pub fn requalify(&mut self, now: Timestamp) {
        while let Some(&(last_event, id)) = self.waiting.first() {
            if now.since(last_event) < self.reset_interval {
                return;
            }
            self.waiting.pop_first();
            self.qualify(id);
        }
    }

    /// The servers that do not qualify, by the end of their intervals. Of the first [`LOOKED_AT`],
    /// shut ones come last.
    pub(crate) fn waiting(&self) -> impl Iterator<Item = EndpointId> {
        let all = self.waiting.iter().map(|&(_, id)| id);
        let (first, rest) = (all.clone().take(LOOKED_AT), all.skip(LOOKED_AT));
        let is_shut = |id: &EndpointId| self.table.get(*id).is_none_or(Endpoint::is_shut);
        first.clone().filter(move |id| !is_shut(id)).chain(first.filter(is_shut)).chain(rest)
    }

    pub(super) fn qualify(&mut self, id: EndpointId) {
        if let Some(endpoint) = self.table.get_mut(id).filter(|endpoint| endpoint.qualified.is_none()) {
            endpoint.qualified = Some(self.qualified.len());
            self.qualified.push(id);
        }
    }

    pub(super) fn disqualify(&mut self, id: EndpointId) {
        let Some(place) = self.table.get_mut(id).and_then(|endpoint| endpoint.qualified.take()) else { return };
        self.qualified.swap_remove(place);
        if let Some(moved) = self.qualified.get(place).and_then(|&id| self.table.get_mut(id)) {
            moved.qualified = Some(place);
        }
    }

    /// Sets the last event, and reorders a waiting server.
    pub(super) fn restart(&mut self, id: EndpointId, now: Timestamp) {
        let Some(endpoint) = self.table.get_mut(id) else { return };
        if self.waiting.remove(&(endpoint.last_event, id)) {
            self.waiting.insert((now, id));
        }
        endpoint.last_event = now;
    }

    /// Makes the server qualified or waiting, according to its chips and last event.
    pub(super) fn settle(&mut self, id: EndpointId, now: Timestamp) {
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
