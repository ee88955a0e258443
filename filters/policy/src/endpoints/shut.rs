//! Which servers are left alone, and which ones others are compared with.

use super::endpoint::Shut;
use super::{EndpointId, Endpoints};
use crate::units::Timestamp;
use std::time::Duration;

/// Failures within this fraction of a reset interval count as one.
const TOGETHER: u32 = 100;

/// The most reset intervals for which a server that hangs or fails repeatedly is left alone.
const MOST_INTERVALS: u32 = 8;

/// How much longer than a reset interval to leave a server alone that has not answered the last
/// `unheard` attempts: an interval for each but the first.
pub(super) fn silence(unheard: u32, reset_interval: Duration) -> Duration {
    reset_interval * (unheard.clamp(1, MOST_INTERVALS) - 1)
}

impl Endpoints {
    /// An attempt turned out to be an error. `answered`: it had counted as served, and had earned a
    /// chip and perhaps an owed one.
    pub fn erred(&mut self, id: EndpointId, answered: bool, now: Timestamp) {
        let Some(endpoint) = self.table.get_mut(id) else { return };
        if answered {
            endpoint.strikes = endpoint.strikes.max(endpoint.struck_before);
        }
        let counts = endpoint.failures.failed(&mut self.peers.failures);
        if counts {
            endpoint.lose(1 + u32::from(answered));
            self.fails(id, false, now);
        }
        self.turned_out(id, counts, now);
    }

    /// The same for an error of the client.
    pub fn client_erred(&mut self, id: EndpointId, now: Timestamp) {
        let Some(endpoint) = self.table.get_mut(id) else { return };
        let counts = endpoint.client_errors.mostly_failed(&mut self.peers.client_errors);
        if counts {
            endpoint.lose(2);
            self.restart(id, now);
            self.shut(id, now);
        }
        self.turned_out(id, counts, now);
    }

    /// Applies an answer that turned out to be an error. `counts`: whether it counts against the
    /// server.
    fn turned_out(&mut self, id: EndpointId, counts: bool, now: Timestamp) {
        if !counts {
            self.restart(id, now);
            if self.table.get(id).is_some_and(|endpoint| endpoint.shut.is_some_and(|shut| shut.is_probed)) {
                self.reopen(id);
            }
        }
        self.note(id);
        self.settle(id, now);
    }

    /// Leaves a server alone because a failure counts against it: for a reset interval, or for
    /// [`MOST_INTERVALS`] if it is not the first failure since the server last served, or if the
    /// server was silent (`times_out`), since probing such a server costs a request a timeout.
    /// Simultaneous failures, as of all requests on a broken connection, count as one. A failure
    /// never shortens the interval.
    pub(super) fn fails(&mut self, id: EndpointId, times_out: bool, now: Timestamp) {
        let Some(endpoint) = self.table.get_mut(id) else { return };
        if endpoint.strikes == 0 || now.since(endpoint.struck) > self.reset_interval / TOGETHER {
            endpoint.strikes = endpoint.strikes.saturating_add(1);
        }
        endpoint.struck = now;
        let mut from = endpoint.shut.map_or(now, |shut| now.max(shut.until.before(self.reset_interval)));
        if endpoint.strikes > 1 || times_out {
            endpoint.lose(u32::MAX);
            from = from.max(now.after(self.reset_interval * (MOST_INTERVALS - 1)));
        }
        self.restart(id, from);
        self.shut(id, from);
    }

    /// Leaves a server that hangs alone, longer for each unanswered attempt.
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

    /// Leaves a server alone for a reset interval: it was not in the cluster, or its answers ask
    /// for it.
    pub fn leave_alone(&mut self, id: EndpointId, now: Timestamp) {
        self.restart(id, now);
        if let Some(endpoint) = self.table.get_mut(id) {
            endpoint.lose(u32::MAX);
        }
        self.shut(id, now);
        self.note(id);
        self.settle(id, now);
    }
}
