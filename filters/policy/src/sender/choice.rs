//! Chooses the servers of a request.

use super::Sender;
use crate::endpoints::{Endpoint, EndpointId};
use crate::routing::{Event, Routing};
use crate::units::Timestamp;
use crate::units::rng::Rng;
use std::time::Duration;

/// The most places for a user's own retries.
const MOST_LISTED: u32 = 10;

impl Sender {
    /// Chooses the servers of a request, in the order to try them: one for the first attempt and at
    /// most one per retry, for the larger of the two kinds. The list is empty if no server is
    /// known, or if the request explores (see [`discovery`](super::discovery)).
    pub fn choose(&mut self, now: Timestamp, rng: &mut impl Rng) -> &[EndpointId] {
        self.list.clear();
        self.router.learn(&Event::Request(now), &self.endpoints);
        if self.learns() && self.discovery.explores(self.endpoints.len(), self.endpoints.open(), rng) {
            return &self.list;
        }
        self.budget.request();
        let own = self.parameters.route_retries().min(MOST_LISTED);
        let length = self.retries(0, true).left().max(own) as usize + 1;
        self.router.choose(&mut self.endpoints, length, now, rng, &mut self.list);
        self.doubts.check_speed(&self.endpoints, &mut self.list, rng);
        self.go_round(length);
        if self.parameters.routing().compares_speeds() {
            self.doubts.explore(&mut self.endpoints, &mut self.list, rng);
        }
        &self.list
    }

    /// Fills a list that has fewer servers than places by repeating the open ones, the first one
    /// last. Beyond the list, Envoy's fallback policy prefers the server with the fewest requests,
    /// which is one that refuses connections.
    pub(super) fn go_round(&mut self, length: usize) {
        let once = self.list.len();
        let is_open = |id: &EndpointId| self.endpoints.get(*id).is_some_and(|endpoint| !endpoint.is_shut());
        if once < 2 || once >= length || !self.list.iter().any(is_open) {
            return;
        }
        let mut place = 0;
        while self.list.len() < length {
            place = (place + 1) % once;
            self.list.extend(self.list.get(place).copied().filter(is_open));
        }
    }

    /// By how much the best server of the last choice would miss the SLO; none if it would meet it,
    /// or if there is no SLO or no estimate. (Mu, paper section 4.4.1: a request that cannot meet
    /// the SLO gets a 503. The rule is ours.)
    pub fn overrun(&self) -> Option<Duration> {
        let slo = self.parameters.slo()?;
        let expected = self.router.expected()?;
        expected.checked_sub(slo).filter(|overrun| !overrun.is_zero())
    }

    /// The addresses of the servers chosen last.
    pub fn chosen(&self) -> impl Iterator<Item = &str> {
        self.list.iter().filter_map(|&id| self.endpoints.get(id)).map(Endpoint::address)
    }
}
