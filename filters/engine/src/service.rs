//! A service that this proxy stands in front of, as one thread sees it: the state of the inbound
//! filter.
//!
//! The requests in flight are counted in a gauge that all threads of the proxy share;
//! [`bloc_policy::server::count`] puts it right when a VM is lost.

use crate::crash_recovery::{CrashRecovery, Step};
use crate::host::Host;
use crate::latency::ServerLatencies;
use crate::message::Message;
use crate::metrics::{Counters, Gauge, InFlight};
use crate::parameters::{Parameters, PluginId};
use crate::queue::{Queue, Turns};
use crate::running::{AllThreads, Running};
pub use crate::service_metrics::Served;
use crate::service_metrics::ServiceMetrics;
use crate::views::{View, Views};
use bloc_policy::config::ServiceParameters;
use bloc_policy::server::Server;
use bloc_policy::server::count::{self, Count};
use bloc_policy::server::steps::{Admitted, Inside};
use bloc_policy::units::rng::Rng;
use bloc_policy::units::{Concurrency, Timestamp};
use bloc_policy::wire::load_report::LoadReport;
use std::time::Duration;

/// The tick period while the threads recount their requests: several times within
/// [`bloc_policy::server::limiter::WORKER_TIMEOUT`].
const TICK_WHILE_COUNTING: Duration = Duration::from_millis(250);

/// A request that the application has answered.
#[derive(Debug)]
pub struct Answered {
    /// The request.
    pub inside: Inside,
    /// Whether the time that it took says how fast the application is.
    pub tells_speed: bool,
}

/// A service that this proxy stands in front of, as this thread sees it.
pub struct Service<H: Host> {
    name: String,
    host: H,
    /// The decisions, per configuration that has parameters.
    pub servers: Views<Server>,
    /// The requests that wait.
    pub queue: Queue<H>,
    in_flight: InFlight<H>,
    count: Count,
    capacity_in_force: Gauge<H>,
    /// Requests per 1000 s, because gauges are whole numbers; 0: not known.
    service_rate: Gauge<H>,
    /// Estimated, in requests; 0: not known, or configured.
    concurrency: Gauge<H>,
    /// What all threads know of the application.
    pub threads: AllThreads<H>,
    /// The newest configuration.
    newest: Option<PluginId>,
    /// The configuration of the last request, or the one that the next request is likely to have.
    pub last: Option<PluginId>,
    /// The capacity and the concurrency that the gauges show.
    shown: Option<Concurrency>,
    estimated: Option<Concurrency>,
    /// Events to be counted.
    pub counters: Counters<H, Served, 9>,
    /// How long requests take.
    pub latencies: ServerLatencies,
}

impl<H: Host> Service<H> {
    /// A service with these parameters, in the VM with this number. Without parameters it passes
    /// everything.
    pub fn new(host: &H, name: &str, parameters: &Parameters, vm: u64, recovery: &CrashRecovery) -> Self {
        let ServiceMetrics { in_flight, capacity, service_rate, concurrency, departed, confident, counters } =
            ServiceMetrics::define(host, name);
        let count = Count::new(name, vm);
        let (own, gauges) = (count.own(), in_flight.clone());
        recovery.register(Step::TakeBack, move || own.take_back(&gauges));
        let (shared, resigned) = (host.clone(), name.to_owned());
        recovery.register(Step::Resign, move || count::resign(&shared, &resigned, vm));
        let mut service = Self {
            name: name.to_owned(),
            host: host.clone(),
            servers: Views::default(),
            queue: Queue::new(host, name, vm, recovery),
            in_flight,
            count,
            capacity_in_force: capacity,
            service_rate,
            concurrency,
            threads: AllThreads { running: Running::new(host, name), departed, confident },
            newest: None,
            last: None,
            shown: None,
            // Unlike any estimate: the first one is shown even if it is none.
            estimated: Some(Concurrency::new(0)),
            counters,
            latencies: ServerLatencies::default(),
        };
        service.configure(parameters);
        // Before its first request is counted.
        service.look_at_count(host.now());
        service
    }

    /// Applies new parameters, or new CPU; measurements stay.
    pub fn configure(&mut self, parameters: &Parameters) {
        let wanted = parameters.of_service(&self.name);
        let wanted = wanted.map(|(plugin, parameters)| (plugin, parameters.without_endpoints()));
        self.servers.apply(wanted, |parameters| Server::new(&parameters));
        self.servers.iter_mut().for_each(|server| server.provide(parameters.cpu()));
        let servers = &self.servers;
        self.queue.configure(|plugin| servers.get(plugin).and_then(Server::places));
        if self.servers.newest() != self.newest || self.in_use().is_none() {
            self.newest = self.servers.newest();
            self.last = self.newest;
        }
        self.show_capacity(self.in_use().and_then(Server::capacity));
    }

    /// As under the configuration `last`.
    fn in_use(&self) -> Option<&Server> {
        self.servers.get(self.last?)
    }

    /// How often it needs a tick, if it does.
    pub fn tick_period(&self, now: Timestamp) -> Option<Duration> {
        let counting = self.count.needs_looks(now).then_some(TICK_WHILE_COUNTING);
        self.queue.tick_period(now).into_iter().chain(counting).min()
    }

    /// Hands everything that was counted to the host; returns whether there was anything.
    pub fn flush(&mut self) -> bool {
        self.counters.flush() | self.latencies.flush(&self.host, &self.name)
    }

    /// Whether there is something to hand over.
    pub fn has_counted(&self) -> bool {
        self.counters.any() || self.latencies.any()
    }

    /// What is due a few times a second: ends the measuring interval, and looks after the count and
    /// the queue in case a message was lost.
    pub fn tick(&mut self, now: Timestamp) -> Turns<H> {
        self.tick_count(now);
        let mut turns = self.look(now);
        for _ in 0..turns.in_turn() {
            self.counters.count(Served::Rescued);
        }
        self.queue.look_at_sizes(&mut turns, now);
        turns
    }

    /// Looks after the queue.
    pub fn look(&mut self, now: Timestamp) -> Turns<H> {
        self.measure(now);
        let held = self.queue.needs_looks() || self.servers.iter().any(|server| server.places().is_some());
        let mut turns = if held { self.queue.look(now) } else { Turns::default() };
        self.queue.look_at_unread(&mut turns, now);
        turns
    }

    /// Does what the count of requests in flight needs now.
    pub fn look_at_count(&mut self, now: Timestamp) {
        let others = self.count.look(&self.host, &self.in_flight, now);
        self.tell_to_count(others);
    }

    /// Likewise, if it is due.
    pub fn tick_count(&mut self, now: Timestamp) {
        let others = self.count.tick(&self.host, &self.in_flight, now);
        self.tell_to_count(others);
    }

    fn tell_to_count(&self, others: Vec<u64>) {
        for vm in others {
            self.host.wake(vm, &Message::Count(&self.name).encode());
        }
    }

    fn measure(&mut self, now: Timestamp) {
        let mut servers = self.servers.iter_mut();
        let Some(server) = servers.next() else { return };
        let executing = || self.count.get(&self.in_flight) > Concurrency::new(0);
        if server.tick(&self.threads, executing, now) {
            servers.for_each(Server::follow);
            let (rate, capacity, concurrency) = (self.in_use())
                .map(|server| (server.service_rate(), server.capacity(), server.estimated_concurrency()))
                .unwrap_or_default();
            if self.estimated != concurrency {
                self.estimated = concurrency;
                self.concurrency.set(concurrency.map_or(0, |places| u64::from(places.get())));
            }
            if let Some(rate) = rate {
                self.service_rate.set((rate * 1e3) as u64);
            }
            self.show_capacity(capacity);
        }
    }

    /// Shows the capacity in force, if it has changed. If configurations differ, the last request's
    /// applies.
    pub fn show_capacity(&mut self, capacity: Option<Concurrency>) {
        if self.shown != capacity {
            self.shown = capacity;
            self.capacity_in_force.set(capacity.map_or(0, |limit| u64::from(limit.get())));
        }
    }

    /// Requests in the server, over all threads.
    fn in_flight(&self) -> Concurrency {
        self.count.get(&self.in_flight)
    }

    /// Requests in the server besides one that is counted.
    pub fn others(&self) -> Concurrency {
        Concurrency::new(self.in_flight().get().saturating_sub(1))
    }

    /// A request of this thread has come (1) or gone (-1).
    pub fn add(&self, offset: i64) {
        self.count.add(&self.in_flight, offset);
    }

    /// A request is handed to the application. `waited`: after it was held.
    pub fn hand_over(&mut self, plugin: PluginId, admitted: Admitted, waited: bool, now: Timestamp) -> Inside {
        match self.servers.get(plugin) {
            Some(server) => server.hand_over(admitted, waited, &mut self.threads, now),
            None => admitted.unmeasured(now),
        }
    }

    /// A request that was let in ends without an answer from the application.
    pub fn leave(&mut self, plugin: PluginId, admitted: impl Into<Admitted>) {
        let (others, now) = (self.others(), self.host.now());
        if let Some(server) = self.servers.get_mut(plugin) {
            server.leave(admitted, others, now);
        }
    }

    /// The report for a request that was let in and never reached the
    /// application: nothing is measured, and no chip is given.
    pub fn unreached(&mut self, plugin: PluginId, admitted: impl Into<Admitted>) -> Option<LoadReport> {
        self.counters.count(Served::RejectedUnreachable);
        self.leave(plugin, admitted);
        let others = self.others();
        self.servers.get(plugin).map(|server| server.bare_report(others))
    }

    /// The application has answered a request that was let in: measures it. Returns the load
    /// report, with or without a chip, for a caller that `reads` reports; for others the report for
    /// ORCA, if that is on.
    pub fn answered(
        &mut self,
        plugin: PluginId,
        admitted: Option<Answered>,
        reads: bool,
        rng: &mut impl Rng,
    ) -> Option<LoadReport> {
        let others = self.others();
        let server = self.servers.get_mut(plugin)?;
        if let Some(Answered { inside, tells_speed }) = admitted {
            let now = self.host.now();
            self.latencies.answer(inside.arrived(), inside.since(), now);
            server.answer(inside, tells_speed, others, &mut self.threads, now);
            self.measure(now);
        }
        let server = self.servers.get(plugin)?;
        if !reads {
            return server.orca().then(|| server.bare_report(others));
        }
        let report = server.report(others, rng);
        self.counters.count(if report.chip { Served::ChipsGranted } else { Served::ChipsWithheld });
        Some(report)
    }
}

impl View for Server {
    type Parameters = ServiceParameters;

    fn agrees(&self, parameters: &ServiceParameters) -> bool {
        self.parameters() == parameters
    }

    fn configure(&mut self, parameters: ServiceParameters) {
        Self::configure(self, &parameters);
    }

    fn beside(&self, parameters: ServiceParameters) -> Self {
        Self::beside(self, &parameters)
    }
}
