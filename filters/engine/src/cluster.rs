//! A cluster that requests go to, as one thread sees it: its sender, and what is counted of it.

use crate::host::Host;
use crate::latency::CallLatencies;
use crate::metrics::{Counters, events};
use crate::views::View;
use bloc_policy::config::ServiceParameters;
use bloc_policy::endpoints::EndpointId;
use bloc_policy::sender::Sender;
use bloc_policy::units::Timestamp;
use bloc_policy::units::rng::Rng;
use std::cell::RefCell;
use std::rc::Rc;

events! {
    /// What is counted of a cluster.
    Sent: 15 {
        /// Requests, with a server list or without.
        Requests = "requests",
        /// Attempts, retries included.
        Attempts = "attempts",
        /// Attempts to servers without a chip, because their interval had passed.
        Probes = "probes",
        /// Attempts to servers without a chip, because no server qualified.
        Forced = "forced",
        /// Attempts that the server rejected.
        Rejections = "rejections",
        /// Attempts without an answer although their callers still waited.
        Failures = "failures",
        /// Requests whose last attempt was rejected too.
        RetriesExhausted = "retries_exhausted",
        /// Of these, requests that might have been retried once more: Envoy did not do it, usually
        /// because `max_retries` of the cluster's circuit breaker were under way.
        RetriesOverflowed = "retries_overflowed",
        /// Requests without a list, placed by Envoy's fallback policy.
        Fallbacks = "fallbacks",
        /// Requests refused because no server would have met the SLO.
        RefusedSlo = "refused_slo",
        /// Attempts that the server bounced because they would have taken longer than their bid.
        Bounces = "bounces",
        /// Answers and failures that were not retried only because of the retry budget.
        OverBudget = "over_budget",
        /// Envoy's retries that went to no server, because they were more than the request may
        /// have.
        RefusedRetries = "refused_retries",
        /// Answers that were errors: 5xx, UNAVAILABLE or INTERNAL.
        Errors = "errors",
        /// Attempts whose callers gave up before there was an answer.
        GivenUp = "given_up",
    }
}

/// A cluster that requests go to, as this thread sees it under one configuration.
pub struct Cluster<H: Host> {
    host: H,
    service: Rc<str>,
    /// The decisions about it.
    pub sender: Sender,
    /// Events to be counted.
    pub counters: Counters<H, Sent, 15>,
    /// How requests end, and how long they take.
    pub latencies: CallLatencies,
}

impl<H: Host> Cluster<H> {
    /// A cluster of this service with these parameters.
    pub fn new(host: &H, service: &str, parameters: ServiceParameters, now: Timestamp) -> Self {
        Self::of(host, service.into(), Sender::new(parameters, now))
    }

    fn of(host: &H, service: Rc<str>, sender: Sender) -> Self {
        let counters = Counters::define(host, "outbound", &service);
        Self { host: host.clone(), service, sender, counters, latencies: CallLatencies::default() }
    }

    /// Hands everything that was counted to the host; returns whether there was anything.
    pub fn flush(&mut self) -> bool {
        self.counters.flush() | self.latencies.flush(&self.host, &self.service)
    }

    /// Whether there is something to hand over.
    pub fn has_counted(&self) -> bool {
        self.counters.any() || self.latencies.any()
    }

    /// Chooses the servers of a request; returns the first, if there is one.
    pub fn choose(&mut self, now: Timestamp, rng: &mut impl Rng) -> Option<EndpointId> {
        self.counters.count(Sent::Requests);
        let first = self.sender.choose(now, rng).first().copied();
        if first.is_none() {
            self.counters.count(Sent::Fallbacks);
        }
        first
    }
}

impl<H: Host> Drop for Cluster<H> {
    fn drop(&mut self) {
        // Attempts under way may outlive the configuration.
        self.flush();
    }
}

impl<H: Host> View for Rc<RefCell<Cluster<H>>> {
    type Parameters = ServiceParameters;

    fn agrees(&self, parameters: &ServiceParameters) -> bool {
        self.borrow().sender.parameters() == parameters
    }

    fn configure(&mut self, parameters: ServiceParameters) {
        let mut cluster = self.borrow_mut();
        let now = cluster.host.now();
        cluster.sender.configure(parameters, now);
    }

    fn beside(&self, parameters: ServiceParameters) -> Self {
        let cluster = self.borrow();
        let sender = cluster.sender.beside(parameters, cluster.host.now());
        Rc::new(RefCell::new(Cluster::of(&cluster.host, Rc::clone(&cluster.service), sender)))
    }
}
