//! What Mu knows about each server: an [`Estimate`], and the [`Standing`] derived from it.

use super::estimate::{Estimate, Limit, Standing};
use crate::endpoints::{Answer, Endpoint, EndpointId, Endpoints};
use crate::routing::contract::Event;
use crate::units::Timestamp;
use slotmap::SecondaryMap;
use std::time::Duration;

/// The servers of one cluster, as Mu sees them.
#[derive(Clone, Debug)]
pub struct Known {
    reset_interval: Duration,
    estimates: SecondaryMap<EndpointId, Estimate>,
    /// By place, so that a choice reads no table.
    standings: Vec<Standing>,
    /// The order of places that `standings` reflects.
    order: Option<u64>,
    /// In requests.
    mean_queue: f64,
    /// The place last checked for a stale report, and when.
    looked_at: usize,
    surveyed: Timestamp,
}

impl Known {
    /// No knowledge yet. Reports expire after [`HORIZON`](super::estimate::HORIZON) reset
    /// intervals.
    pub fn new(reset_interval: Duration) -> Self {
        Self {
            reset_interval,
            estimates: SecondaryMap::new(),
            standings: Vec::new(),
            order: None,
            mean_queue: 0.0,
            looked_at: 0,
            surveyed: Timestamp::ZERO,
        }
    }

    /// Sets the reset interval.
    pub fn configure(&mut self, reset_interval: Duration) {
        self.reset_interval = reset_interval;
    }

    /// Makes the next [`refresh`](Self::refresh) recompute all standings.
    #[cfg(test)]
    pub fn forget_order(&mut self) {
        self.order = None;
    }

    /// The standing of each server, by place, as of the last [`refresh`](Self::refresh).
    pub fn standings(&self) -> &[Standing] {
        &self.standings
    }

    /// Updates the server's estimate.
    pub fn learn(&mut self, event: &Event<'_>, endpoints: &Endpoints) {
        let (Event::Began { endpoint, .. } | Event::Answered { endpoint, .. } | Event::Ended(endpoint)) = *event else {
            return;
        };
        let Some(pending) = endpoints.get(endpoint).map(|server| server.pending()) else { return };
        let Some(entry) = self.estimates.entry(endpoint) else { return };
        let estimate = entry.or_default();
        match *event {
            Event::Began { now, .. } => estimate.sent(pending, now),
            Event::Ended(_) => estimate.ended(pending),
            Event::Answered { answer, now, .. } => {
                if matches!(answer, Answer::Served(_) | Answer::Orca(_)) {
                    estimate.answered(now);
                }
                if let Some(report) = answer.report() {
                    estimate.observe(report, pending, Limit::new(endpoints.len(), self.mean_queue), now);
                }
                if *answer == Answer::Unreported {
                    estimate.served_without_report(now);
                }
            }
            _ => {}
        }
    }

    /// Brings the standings up to date.
    pub fn refresh(&mut self, endpoints: &mut Endpoints) {
        let Self { estimates, standings, .. } = self;
        let order = Some(endpoints.order());
        if self.order == order {
            endpoints.show_changes(|id, server| note(standings, estimates.get(id), server));
        } else {
            endpoints.show_changes(|_, _| {});
            self.order = order;
            standings.clear();
            let all = (0..endpoints.len()).filter_map(|place| endpoints.at(place));
            standings.extend(all.filter_map(|id| Some(standing(estimates.get(id), endpoints.get(id)?))));
        }
    }

    /// Records the mean queue (requests) that a scan of all servers found. Also checks some servers
    /// in turn for stale reports: at least one, and all within a reset interval.
    pub fn survey(&mut self, mean_queue: f64, endpoints: &mut Endpoints, now: Timestamp) {
        self.mean_queue = mean_queue;
        let passed = now.since(self.surveyed).as_secs_f64() / self.reset_interval.as_secs_f64();
        self.surveyed = now;
        let count = endpoints.len();
        let looks = 1 + (passed.min(1.0) * count as f64) as usize;
        for _ in 0..looks.min(count) {
            self.look_at_next(endpoints, now);
        }
    }

    fn look_at_next(&mut self, endpoints: &mut Endpoints, now: Timestamp) {
        self.looked_at = if self.looked_at + 1 < endpoints.len() { self.looked_at + 1 } else { 0 };
        if self.looked_at == 0 {
            endpoints.renew_peers();
        }
        let Some(id) = endpoints.at(self.looked_at) else { return };
        // A forgotten server looks new and would be tried again, so do not forget one with an
        // attempt under way.
        let Some(server) = endpoints.get(id).filter(|server| server.pending() == 0) else { return };
        let Some(estimate) = self.estimates.get_mut(id) else { return };
        if estimate.forget(self.reset_interval, now) {
            note(&mut self.standings, Some(estimate), server);
            endpoints.forget_failures(id);
        }
    }
}

/// Updates the standing of one server.
fn note(standings: &mut [Standing], estimate: Option<&Estimate>, server: &Endpoint) {
    if let Some(old) = standings.get_mut(server.place()) {
        *old = standing(estimate, server);
    }
}

fn standing(estimate: Option<&Estimate>, server: &Endpoint) -> Standing {
    estimate.copied().unwrap_or_default().standing(server.pending()).shut(server.shut_until())
}
