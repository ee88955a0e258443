//! Rows of servers that routings draw from.

use super::endpoint::{Endpoint, EndpointId};
use crate::units::Timestamp;
use slotmap::SlotMap;

/// A dense array of endpoints in arbitrary order, so drawing without replacement is a swap.
pub(crate) struct Row<'a> {
    pub(super) ids: &'a mut Vec<EndpointId>,
    pub(super) table: &'a mut SlotMap<EndpointId, Endpoint>,
    pub(super) place: fn(&mut Endpoint) -> Option<&mut usize>,
}

impl Row<'_> {
    pub(crate) fn len(&self) -> usize {
        self.ids.len()
    }

    pub(crate) fn id(&self, at: usize) -> Option<EndpointId> {
        self.ids.get(at).copied()
    }

    /// This sender's pending requests at the server at `at`.
    pub(crate) fn pending(&self, at: usize) -> u32 {
        self.ids.get(at).and_then(|&id| self.table.get(id)).map_or(u32::MAX, |endpoint| endpoint.pending)
    }

    /// The rank of the server at `at` for a first attempt, lower is better: whether it has just
    /// bounced and nothing is pending there, then its pending requests.
    pub(crate) fn against(&self, at: usize, now: Timestamp) -> (bool, u32) {
        let endpoint = self.ids.get(at).and_then(|&id| self.table.get(id));
        endpoint.map_or((true, u32::MAX), |endpoint| {
            (endpoint.pending == 0 && endpoint.has_just_bounced(now), endpoint.pending)
        })
    }

    /// Swaps the servers at `at` and `to`, and returns the id of the first.
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
