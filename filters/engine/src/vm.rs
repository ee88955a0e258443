//! The state of one worker thread: everything that lives as long as its VM, whatever root contexts
//! come and go.
//!
//! Each worker has its own, so there are no locks. Each part is borrowed separately and briefly.
//! Host calls never run a filter in between, so nothing is borrowed twice.

use crate::cluster::Cluster;
use crate::clusters::{self, Clusters};
use crate::crash_recovery::{CrashRecovery, Step};
use crate::fail_open::count_crash;
use crate::handover::Handover;
use crate::held::HeldStreams;
use crate::host::{Host, Stream, TextAttribute};
use crate::message::Message;
use crate::metrics::MemoryGauge;
use crate::names::Plugin;
use crate::pace::Pace;
use crate::parameters::{Parameters, PluginId};
use crate::requests::Requests;
use crate::service::Service;
use crate::services::{self, Services};
use crate::streams::{FIRST_LOOK, Streams};
use crate::views::Views;
use bloc_policy::config::cluster_name::service_of;
use bloc_policy::config::{self, ControlPlane, PluginConfig};
use bloc_policy::proxy::cpu::ServerCpu;
use bloc_policy::units::Timestamp;
use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::rc::Rc;

/// The state of one worker thread.
pub struct Vm<H: Host> {
    /// This thread of the proxy.
    pub host: H,
    /// The VM's number: random, never 0.
    pub number: u64,
    /// The VM's random number generator.
    pub rng: RefCell<fastrand::Rng>,
    /// A buffer for header values, so that the steady path allocates nothing.
    pub text: RefCell<String>,
    /// A buffer for a request's server list, likewise.
    pub list: RefCell<Vec<u8>>,
    /// The outgoing requests.
    pub requests: RefCell<Requests<RefCell<Cluster<H>>, H::Stream>>,
    /// The incoming requests that are held.
    pub held: HeldStreams<H::Stream>,
    /// The answers that have begun.
    pub streams: Streams<H>,
    /// How often it ticks, and in which root context.
    pub pace: Pace<H>,
    /// What crash recovery does for this VM.
    pub recovery: CrashRecovery,
    parameters: RefCell<Parameters>,
    services: RefCell<Services<H>>,
    clusters: RefCell<Clusters<H>>,
    /// Services that were met since the agent last asked.
    new_services: RefCell<BTreeSet<String>>,
    updated: Cell<bool>,
    handover: Handover,
    memory: RefCell<MemoryGauge<H>>,
}

impl<H: Host> Vm<H> {
    /// A thread without any state yet.
    pub fn new(host: H) -> Self {
        let seed = host.entropy();
        let mut rng = fastrand::Rng::with_seed(seed);
        let recovery = CrashRecovery::default();
        let crashed = host.clone();
        recovery.register(Step::Count, move || count_crash(&crashed));
        Self {
            number: seed.max(1),
            requests: RefCell::new(Requests::new(rng.u64(..))),
            rng: RefCell::new(rng),
            text: RefCell::default(),
            list: RefCell::default(),
            held: HeldStreams::new(&recovery),
            streams: Streams::new(host.now()),
            pace: Pace::new(&host),
            recovery,
            parameters: RefCell::default(),
            services: RefCell::default(),
            clusters: RefCell::default(),
            new_services: RefCell::default(),
            updated: Cell::new(false),
            handover: Handover::new(host.now()),
            memory: RefCell::new(MemoryGauge::new(&host)),
            host,
        }
    }

    /// Puts a plugin configuration in force.
    pub fn configure(&self, plugin: Plugin, configuration: PluginConfig) -> PluginId {
        let mut new = self.new_services.borrow_mut();
        new.extend(configuration.service().map(str::to_owned));
        new.extend(configuration.services().keys().cloned());
        let id = self.parameters.borrow_mut().add(plugin, configuration);
        self.apply_to(plugin);
        id
    }

    /// Removes a plugin configuration.
    pub fn remove(&self, plugin: Plugin, id: PluginId) {
        self.parameters.borrow_mut().remove(id);
        self.apply_to(plugin);
    }

    /// The control plane to be asked.
    pub fn control_plane(&self) -> Option<ControlPlane> {
        self.parameters.borrow().control_plane().cloned()
    }

    /// Puts in force what the control plane says; `unread`: the services that could not be read.
    /// Requests held for a service that it has removed
    /// may go, so the queues need a look.
    pub fn update(&self, services: config::Services, unread: &[String]) {
        self.parameters.borrow_mut().update(services, unread);
        Plugin::ALL.into_iter().for_each(|plugin| self.apply_to(plugin));
        self.updated.set(true);
    }

    /// The application has this CPU: applies that to all services that this proxy stands in front
    /// of, and to those that come later.
    pub fn provide(&self, cpu: ServerCpu) {
        self.parameters.borrow_mut().provide(cpu);
        self.apply_to(Plugin::Inbound);
    }

    /// Whether [`Self::update`] was called since [`Self::take_updated`].
    pub fn is_updated(&self) -> bool {
        self.updated.get()
    }

    /// Likewise, and resets it.
    pub fn take_updated(&self) -> bool {
        self.updated.take()
    }

    /// Applies the parameters in force to everything that configurations of this plugin concern.
    fn apply_to(&self, plugin: Plugin) {
        let parameters = self.parameters.borrow();
        match plugin {
            Plugin::Inbound => self.services.borrow().apply(&parameters),
            Plugin::Outbound => self.clusters.borrow_mut().apply(&self.host, &parameters),
            Plugin::Attempt => {}
        }
    }

    /// The service that this proxy stands in front of, made on first use.
    pub fn service(&self, name: &str) -> services::Shared<H> {
        if let Some(known) = self.known_service(name) {
            return known;
        }
        let parameters = self.parameters.borrow();
        let service = Service::new(&self.host, name, &parameters, self.number, &self.recovery);
        self.services.borrow_mut().add(name, service)
    }

    /// The service that this proxy stands in front of, if it is known already.
    pub fn known_service(&self, name: &str) -> Option<services::Shared<H>> {
        self.services.borrow().get(name)
    }

    /// The service that Istio names in the metadata of the cluster that this request is routed to.
    pub fn service_behind(&self, stream: &H::Stream) -> Option<services::Shared<H>> {
        let cluster = stream.text(TextAttribute::ClusterName)?;
        let cluster = std::str::from_utf8(cluster.as_ref()).ok()?;
        if let Some(known) = self.services.borrow().behind(cluster) {
            return known;
        }
        let name = stream.text(TextAttribute::IstioService);
        let name = name.as_ref().and_then(|name| std::str::from_utf8(name.as_ref()).ok());
        let service = name.filter(|name| !name.is_empty()).and_then(|name| {
            let is_known = self.known_service(name).is_some();
            if !is_known && !self.services.borrow().has_room() {
                return None;
            }
            if !is_known {
                self.announce(name.to_owned());
            }
            Some(self.service(name))
        });
        self.services.borrow_mut().set_behind(cluster, service.clone());
        service
    }

    /// All services that this proxy stands in front of.
    pub fn services(&self) -> Vec<services::Shared<H>> {
        self.services.borrow().all()
    }

    /// How many services this thread stands in front of; the number never falls.
    pub fn serves_count(&self) -> usize {
        self.services.borrow().count()
    }

    /// The services that this thread stands in front of.
    pub fn serves(&self) -> BTreeSet<String> {
        self.services.borrow().names()
    }

    /// Forgets which services are behind the inbound clusters.
    pub fn forget_clusters(&self) {
        self.services.borrow_mut().forget_clusters();
    }

    /// The cluster that this request is routed to, if its configuration or the control plane has
    /// parameters for the service. Without a configuration: under the newest one that has.
    pub fn cluster_of(&self, plugin: Option<PluginId>, stream: &H::Stream) -> Option<clusters::Shared<H>> {
        self.cluster(plugin, std::str::from_utf8(stream.text(TextAttribute::ClusterName)?.as_ref()).ok()?)
    }

    /// The cluster with this name, made on first use, likewise.
    pub fn cluster(&self, plugin: Option<PluginId>, name: &str) -> Option<clusters::Shared<H>> {
        let find = |views: &Views<clusters::Shared<H>>| {
            plugin.or_else(|| views.newest()).and_then(|plugin| views.get(plugin)).map(Rc::clone)
        };
        if let Some(known) = self.clusters.borrow().get(name) {
            return find(known);
        }
        if !self.clusters.borrow().has_room() {
            return None;
        }
        self.announce(service_of(name).to_owned());
        find(self.clusters.borrow_mut().add(name, &self.host, &self.parameters.borrow()))
    }

    /// Reports a request for a service that is new here to the agent. The message goes through this
    /// VM's own queue, because the agent can ask from a root context only.
    fn announce(&self, service: String) {
        self.new_services.borrow_mut().insert(service);
        self.host.wake(self.number, &Message::News.encode());
    }

    /// The services that were met since the last call.
    pub fn take_new_services(&self) -> BTreeSet<String> {
        self.new_services.take()
    }

    /// Puts back services that are still to be announced.
    pub fn give_back_new_services(&self, services: BTreeSet<String>) {
        self.new_services.borrow_mut().extend(services);
    }

    /// What a tick does with the counters, done by a request. It also finds out whether there are
    /// long streams to look at. No counter may be borrowed.
    pub fn hand_over(&self, now: Timestamp) {
        if self.handover.take_due(now) {
            self.flush();
            if self.streams.note(now) {
                self.pace.hurry(FIRST_LOOK);
            }
        }
    }

    /// Whether a request has handed the counters over since the last call.
    pub fn was_handed_over(&self) -> bool {
        self.handover.take_by_request()
    }

    /// Hands all counters to the host; returns whether there was anything to hand over.
    pub fn flush(&self) -> bool {
        let mut any = false;
        for service in self.services.borrow().iter() {
            any |= service.borrow_mut().flush();
        }
        for cluster in self.clusters.borrow().iter() {
            any |= cluster.borrow_mut().flush();
        }
        self.memory.borrow_mut().show();
        any
    }

    /// Whether there is something to hand over.
    pub fn has_counted(&self) -> bool {
        self.services.borrow().iter().any(|service| service.borrow().has_counted())
            || self.clusters.borrow().iter().any(|cluster| cluster.borrow().has_counted())
    }
}
