//! Rows of servers, from which a routing draws.

use super::endpoint::{Endpoint, EndpointId};
use crate::units::Timestamp;
use slotmap::SlotMap;

/// A dense array of endpoints whose order means nothing, so that drawing without replacement is a
/// swap.
pub(crate) struct Row<'a> {
    pub(super) ids: &'a mut Vec<EndpointId>,
    pub(super) table: &'a mut SlotMap<EndpointId, Endpoint>,
    pub(super) place: fn(&mut Endpoint) -> Option<&mut usize>,
}

impl Row<'_> {
    pub(crate) fn len(&self) -> usize {
        self.ids.len()
    }

    /// The server at `at`.
    pub(crate) fn id(&self, at: usize) -> Option<EndpointId> {
        self.ids.get(at).copied()
    }

    /// Requests of this sender that are pending at the server at `at`.
    pub(crate) fn pending(&self, at: usize) -> u32 {
        self.ids.get(at).and_then(|&id| self.table.get(id)).map_or(u32::MAX, |endpoint| endpoint.pending)
    }

    /// What says against the server at `at` as the first one of a request: that it has just bounced
    /// one although none is pending there, and its pending requests.
    pub(crate) fn against(&self, at: usize, now: Timestamp) -> (bool, u32) {
        let endpoint = self.ids.get(at).and_then(|&id| self.table.get(id));
        endpoint.map_or((true, u32::MAX), |endpoint| {
            (endpoint.pending == 0 && endpoint.has_just_bounced(now), endpoint.pending)
        })
    }

    /// Moves the server at `at` to `to` (and the one there to `at`), and returns its id.
    pub(crate) fn set_aside(&mut self, at: usize, to: usize) -> Option<EndpointId> {
        let id = *self.ids.get(at)?;
        let other = *self.ids.get(to)?;
        for (id, place) in [(id, to), (other, at)] {
            *self.ids.get_mut(place)? = id;
            *(self.place)(self.table.get_mut(id)?)? = place;
        }
        Some(id)
    }
}
