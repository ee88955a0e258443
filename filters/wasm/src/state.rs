//! What a VM knows: one per worker thread, so no locks; shared by the three filters.
//!
//! Parameters come from the plugin configuration and, over it, from the control plane: what the control plane says of a service
//! replaces what the plugin configuration says of it.

use crate::host;
use crate::inbound::Inbound;
use crate::message::Message;
use crate::metrics::MemoryGauge;
use crate::outbound::Cluster;
use bloc_policy::cluster_name::{parameters_of, service_of};
use bloc_policy::config::{PluginConfig, ServiceParameters, Services};
use bloc_policy::endpoints::EndpointId;
use bloc_policy::units::Timestamp;
use hashbrown::HashMap;
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::rc::Rc;
use std::time::Duration;

/// Clusters that a VM keeps state for; requests of others pass untouched. Envoy's own configuration bounds the number; this bounds a mistake.
const MAX_CLUSTERS: usize = 10_000;

/// Where Istio writes the host of the service that an inbound cluster belongs to.
const ISTIO_SERVICE: &str = "xds\0cluster_metadata\0filter_metadata\0istio\0services\x000\0host";

/// The state of one VM.
pub struct State {
    /// The VM's number, drawn at random; never 0.
    pub vm: u64,
    /// The VM's generator.
    pub rng: fastrand::Rng,
    /// The services that this proxy stands in front of.
    inbound: HashMap<String, Rc<RefCell<Inbound>>>,
    /// Those behind the inbound clusters that requests went to since the last tick; none: the cluster belongs to no service.
    behind: HashMap<String, Option<Rc<RefCell<Inbound>>>>,
    /// The root context that looks after them: the one that was configured last.
    pub inbound_root: u32,
    /// How often it ticks.
    pub inbound_tick: Duration,
    /// The clusters that requests went to; none: nobody configured the service.
    clusters: HashMap<String, Option<Rc<RefCell<Cluster>>>>,
    /// The plugin configurations by root id.
    plugins: HashMap<String, PluginConfig>,
    /// What the control plane said last.
    control_plane: Services,
    /// Services of clusters seen since the agent last looked.
    pub new_services: BTreeSet<String>,
    /// Where header values are written, so that the steady path allocates nothing.
    pub text: String,
    /// Where the request under way in this very call ought to go first; see `attempt`.
    pub first: Option<First>,
    /// Whether the last attempt answered in this VM was rejected: the answer may be on its way to `outbound` in this very call.
    pub rejected: bool,
    memory: MemoryGauge,
    /// When a request last handed the counters to the host, and whether one has done so since the last tick.
    handed_over: Timestamp,
    by_request: bool,
}

/// The first server of a request, as `outbound` has just chosen it.
pub struct First {
    /// The cluster that the request goes to.
    pub cluster: Rc<RefCell<Cluster>>,
    /// The server.
    pub endpoint: EndpointId,
    /// When.
    pub chosen: Timestamp,
}

thread_local! {
    static STATE: RefCell<State> = RefCell::new(State::new(host::entropy()));
}

/// Works on the state of this VM. Calls to the host inside never come back into the guest, so it is never borrowed twice.
pub fn with<T>(work: impl FnOnce(&mut State) -> T) -> T {
    STATE.with(|state| work(&mut state.borrow_mut()))
}

impl State {
    fn new(seed: u64) -> Self {
        Self {
            vm: seed.max(1),
            rng: fastrand::Rng::with_seed(seed),
            inbound: HashMap::new(),
            behind: HashMap::new(),
            inbound_root: 0,
            inbound_tick: Duration::ZERO,
            clusters: HashMap::new(),
            plugins: HashMap::new(),
            control_plane: Services::new(),
            new_services: BTreeSet::new(),
            text: String::new(),
            first: None,
            rejected: false,
            memory: MemoryGauge::default(),
            handed_over: host::now(),
            by_request: false,
        }
    }

    /// The parameters in force for a service.
    fn parameters(&self, service: &str, root_id: &str) -> Option<&ServiceParameters> {
        self.control_plane
            .get(service)
            .or_else(|| self.plugins.get(root_id).and_then(|plugin| plugin.services().get(service)))
    }

    /// A plugin's configuration is in force from now on.
    pub fn configure(&mut self, root_id: &str, plugin: PluginConfig) {
        if let Some(service) = plugin.service() {
            self.new_services.insert(service.to_owned());
        }
        self.new_services.extend(plugin.services().keys().cloned());
        self.plugins.insert(root_id.to_owned(), plugin);
        self.apply();
    }

    /// What the control plane says is in force from now on.
    pub fn update(&mut self, services: Services) {
        self.control_plane = services;
        self.apply();
    }

    /// Brings the parameters in force to all that is there already.
    fn apply(&mut self) {
        let now = host::now();
        for (service, inbound) in &self.inbound {
            inbound.borrow_mut().configure(self.parameters(service, crate::root::INBOUND));
        }
        let names: Vec<String> = self.clusters.keys().cloned().collect();
        for name in names {
            let parameters = self
                .parameters(service_of(&name), crate::root::OUTBOUND)
                .map(|parameters| parameters_of(&name, parameters));
            let Some(entry) = self.clusters.get_mut(&name) else { continue };
            match (parameters, entry.as_ref()) {
                (Some(parameters), Some(cluster)) => cluster.borrow_mut().sender.configure(parameters, now),
                (Some(parameters), None) => {
                    *entry = Some(Rc::new(RefCell::new(Cluster::new(service_of(&name), parameters, now))));
                }
                (None, _) => *entry = None,
            }
        }
    }

    /// The service that this proxy stands in front of, made on first use.
    pub fn inbound(&mut self, service: &str) -> Rc<RefCell<Inbound>> {
        if let Some(inbound) = self.inbound.get(service) {
            return Rc::clone(inbound);
        }
        let inbound = Inbound::new(service, self.parameters(service, crate::root::INBOUND), self.vm);
        let inbound = Rc::new(RefCell::new(inbound));
        self.inbound.insert(service.to_owned(), Rc::clone(&inbound));
        inbound
    }

    /// The service that Istio names in the metadata of the cluster that the request under way is routed to; the first if there are several.
    pub fn inbound_behind(&mut self, cluster: &str) -> Option<Rc<RefCell<Inbound>>> {
        if let Some(known) = self.behind.get(cluster) {
            return known.clone();
        }
        let service = host::text_property(ISTIO_SERVICE).filter(|service| !service.is_empty());
        let inbound = service.filter(|service| self.has_room_for(service)).map(|service| {
            if !self.inbound.contains_key(&service) {
                self.announce(service.clone());
            }
            self.inbound(&service)
        });
        if self.behind.len() < MAX_CLUSTERS {
            self.behind.insert(cluster.to_owned(), inbound.clone());
        }
        inbound
    }

    fn has_room_for(&self, service: &str) -> bool {
        self.inbound.len() < MAX_CLUSTERS || self.inbound.contains_key(service)
    }

    /// Forgets which services are behind the inbound clusters: Istio may have changed that.
    pub fn look_anew(&mut self) {
        self.behind.clear();
    }

    /// The service that this proxy stands in front of, if it is known already.
    pub fn known(&self, service: &str) -> Option<Rc<RefCell<Inbound>>> {
        self.inbound.get(service).map(Rc::clone)
    }

    /// The cluster with this name, made on first use; none if nobody configured its service.
    pub fn cluster(&mut self, name: &str) -> Option<Rc<RefCell<Cluster>>> {
        if let Some(known) = self.clusters.get(name) {
            return known.clone();
        }
        if self.clusters.len() >= MAX_CLUSTERS {
            return None;
        }
        let service = service_of(name);
        self.announce(service.to_owned());
        let cluster = self
            .parameters(service, crate::root::OUTBOUND)
            .map(|parameters| parameters_of(name, parameters))
            .map(|parameters| Rc::new(RefCell::new(Cluster::new(service, parameters, host::now()))));
        self.clusters.insert(name.to_owned(), cluster.clone());
        cluster
    }

    /// The services that this proxy stands in front of.
    pub fn served(&self) -> impl Iterator<Item = (&String, &Rc<RefCell<Inbound>>)> {
        self.inbound.iter()
    }

    /// The services that this proxy stands in front of, to be worked on while the state is not borrowed.
    pub fn served_here(&self) -> Vec<Rc<RefCell<Inbound>>> {
        self.inbound.values().map(Rc::clone).collect()
    }

    /// A request has come for a service that is new here: this VM's own queue brings it to the agent, which can ask from a root context only.
    fn announce(&mut self, service: String) {
        self.new_services.insert(service);
        host::wake(self.vm, &Message::News.encode());
    }

    /// What a tick does of the counters, done by a request on its way: a thread that has traffic need not be woken for it. No counter may be borrowed.
    pub fn hand_over(&mut self, now: Timestamp) {
        if now.since(self.handed_over) >= crate::agent::TICK {
            (self.handed_over, self.by_request) = (now, true);
            self.flush();
        }
    }

    /// Whether a request has handed the counters over since this was last asked.
    pub fn was_handed_over(&mut self) -> bool {
        std::mem::take(&mut self.by_request)
    }

    /// Hands all counters to the host; whether there was anything to hand over.
    pub fn flush(&mut self) -> bool {
        let mut any = false;
        for inbound in self.inbound.values() {
            any |= inbound.borrow_mut().counters.flush();
        }
        for cluster in self.clusters.values().flatten() {
            any |= cluster.borrow_mut().counters.flush();
        }
        self.memory.show();
        any
    }

    /// Whether there is something to hand over.
    pub fn has_counted(&self) -> bool {
        self.inbound.values().any(|inbound| inbound.borrow().counters.any())
            || self.clusters.values().flatten().any(|cluster| cluster.borrow().counters.any())
    }

    /// The inbound root context ticks every `period` from now on; to be called in that context or one of its requests.
    pub fn pace(&mut self, period: Duration) {
        if self.inbound_tick != period {
            self.inbound_tick = period;
            host::set_tick_period(period);
        }
    }

    /// It ticks at least every `period` from now on.
    pub fn hurry(&mut self, period: Duration) {
        if self.inbound_tick > period {
            self.pace(period);
        }
    }
}
