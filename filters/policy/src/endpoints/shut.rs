//! Which servers are left alone, and with which the others are compared.

use super::endpoint::Shut;
use super::{EndpointId, Endpoints, silence};
use crate::units::Timestamp;

impl Endpoints {
    /// An attempt that this server has already answered turned out to be an error.
    pub fn erred(&mut self, id: EndpointId, now: Timestamp) {
        let Some(endpoint) = self.table.get_mut(id) else { return };
        let counts = endpoint.failures.failed(&mut self.peers.failures);
        self.turned_out(id, counts, now);
    }

    /// Likewise an error of the client.
    pub fn client_erred(&mut self, id: EndpointId, now: Timestamp) {
        let Some(endpoint) = self.table.get_mut(id) else { return };
        let counts = endpoint.client_errors.mostly_failed(&mut self.peers.client_errors);
        self.turned_out(id, counts, now);
    }

    /// An answer turned out to be an error, which `counts` against its server or not.
    fn turned_out(&mut self, id: EndpointId, counts: bool, now: Timestamp) {
        self.restart(id, now);
        let Some(endpoint) = self.table.get_mut(id) else { return };
        if counts {
            endpoint.chips = endpoint.chips.saturating_sub(1);
            self.shut(id, now);
        } else if endpoint.shut.is_some_and(|shut| shut.is_probed) {
            self.reopen(id);
        }
        self.note(id);
        self.settle(id, now);
    }

    /// Leaves a server that hangs alone like one that failed; the more attempts it has not
    /// answered, the longer.
    pub(super) fn hangs(&mut self, id: EndpointId, now: Timestamp) {
        let Some(endpoint) = self.table.get(id) else { return };
        let asked = now.after(silence(endpoint.unheard, self.reset_interval));
        self.restart(id, asked);
        self.shut(id, asked);
    }

    pub(super) fn shut(&mut self, id: EndpointId, now: Timestamp) {
        let until = now.after(self.reset_interval);
        if let Some(endpoint) = self.table.get_mut(id) {
            endpoint.shut = Some(Shut { until, is_probed: false });
            self.compare(id, false);
        }
    }

    pub(super) fn reopen(&mut self, id: EndpointId) {
        if let Some(endpoint) = self.table.get_mut(id) {
            endpoint.shut = None;
            self.compare(id, true);
        }
    }

    /// Sets whether other servers are compared with this one.
    pub(super) fn compare(&mut self, id: EndpointId, compared: bool) {
        if let Some(endpoint) = self.table.get_mut(id) {
            endpoint.failures.compare(compared, &mut self.peers.failures);
            endpoint.client_errors.compare(compared, &mut self.peers.client_errors);
        }
    }

    /// Leaves a server alone for a reset interval: it was not in the cluster when an attempt should
    /// have gone to it, or its answers ask for that.
    pub fn leave_alone(&mut self, id: EndpointId, now: Timestamp) {
        self.restart(id, now);
        if let Some(endpoint) = self.table.get_mut(id) {
            endpoint.chips = 0;
        }
        self.shut(id, now);
        self.note(id);
        self.settle(id, now);
    }
}
