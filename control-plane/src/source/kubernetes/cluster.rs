//! The known state of the cluster, and the services computed from it. No I/O: the watches pass in
//! what they read.
//!
//! A Service is in force if a ConfigMap manages it. A changed object recomputes only the services
//! that it concerns. All others keep their values, so publishing needs only one comparison for
//! each.
//!
//! A refused ConfigMap changes nothing: its last good content stays in force while it exists. If a
//! namespace has several ConfigMaps, the oldest counts and the others are refused.

use super::endpoints::{self, Slice};
use super::policy::{PolicySpec, Scope};
use super::routes::{self, DEFAULT_RETRIES, Rules};
use super::watch::Key;
use crate::snapshot::{Service, Snapshot};
use bloc_policy::config::ServiceSpec;
use bloc_policy::sync::Routes;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

/// A ConfigMap with parameters.
#[derive(Clone, Debug, PartialEq)]
pub struct Policy {
    /// When it was created, in seconds since 1970.
    pub created: i64,
    /// Its parameters; `None`: it is refused, and its last good parameters count.
    pub spec: Option<Arc<PolicySpec>>,
}

/// The known state of a cluster.
#[derive(Debug)]
pub struct Cluster {
    namespace: String,
    domain: String,
    services: HashMap<Key, endpoints::Service>,
    slices: HashMap<Key, Slice>,
    /// The names of each Service's slices.
    slices_of: HashMap<Key, BTreeSet<String>>,
    policies: BTreeMap<Key, Policy>,
    routes: routes::Routes,
    /// Services to recompute.
    dirty: BTreeSet<Key>,
    /// Whether VirtualServices have changed.
    routes_dirty: bool,
    /// Whether to recompute hosts that are no Services.
    foreign_dirty: bool,
    built: BTreeMap<String, Arc<Service>>,
}

impl Cluster {
    /// An empty cluster. Cluster-wide parameters come from `namespace`; hosts end with
    /// `.svc.{domain}`.
    pub fn new(namespace: &str, domain: &str) -> Self {
        Self {
            namespace: namespace.to_owned(),
            domain: domain.to_owned(),
            services: HashMap::new(),
            slices: HashMap::new(),
            slices_of: HashMap::new(),
            policies: BTreeMap::new(),
            routes: routes::Routes::default(),
            dirty: BTreeSet::new(),
            routes_dirty: false,
            foreign_dirty: false,
            built: BTreeMap::new(),
        }
    }

    /// What the names in a ConfigMap of `namespace` refer to.
    pub fn scope(&self, namespace: &str) -> Scope {
        if namespace == self.namespace { Scope::Cluster } else { Scope::Namespace }
    }

    /// Adds or updates an EndpointSlice; returns whether it changed.
    pub fn put_slice(&mut self, key: Key, slice: Slice) -> bool {
        if self.slices.get(&key) == Some(&slice) {
            return false;
        }
        self.remove_slice(&key);
        let service = (key.0.clone(), slice.service.clone());
        self.slices_of.entry(service.clone()).or_default().insert(key.1.clone());
        self.slices.insert(key, slice);
        self.dirty.insert(service);
        true
    }

    /// Adds or updates a Service; returns whether it changed.
    pub fn put_service(&mut self, key: Key, service: endpoints::Service) -> bool {
        let before = self.services.get(&key);
        let news = before != Some(&service);
        self.routes_dirty |= before.and_then(endpoints::Service::alias) != service.alias();
        if news {
            self.services.insert(key.clone(), service);
            self.dirty.insert(key);
        }
        news
    }

    /// Adds or updates a ConfigMap; returns whether it changed.
    pub fn put_policy(&mut self, key: Key, mut policy: Policy) -> bool {
        if policy.spec.is_none() {
            policy.spec = self.policies.get(&key).and_then(|last| last.spec.clone());
        }
        let news = self.policies.get(&key) != Some(&policy);
        if news {
            self.touch(&key.0);
            self.policies.insert(key, policy);
        }
        news
    }

    /// Adds or updates a VirtualService; returns whether it changed.
    pub fn put_route(&mut self, key: Key, rules: Rules) -> bool {
        let news = self.routes.put(key, rules);
        self.routes_dirty |= news;
        news
    }

    pub fn remove_slice(&mut self, key: &Key) {
        let Some(slice) = self.slices.remove(key) else { return };
        let service = (key.0.clone(), slice.service);
        if let Some(names) = self.slices_of.get_mut(&service) {
            names.remove(&key.1);
            if names.is_empty() {
                self.slices_of.remove(&service);
            }
        }
        self.dirty.insert(service);
    }

    pub fn remove_service(&mut self, key: &Key) {
        if let Some(service) = self.services.remove(key) {
            self.routes_dirty |= service.alias().is_some();
            self.dirty.insert(key.clone());
        }
    }

    /// A ConfigMap is gone, or no longer ours.
    pub fn remove_policy(&mut self, key: &Key) {
        if self.policies.remove(key).is_some() {
            self.touch(&key.0);
        }
    }

    /// A VirtualService is gone, or no longer has rules.
    pub fn remove_route(&mut self, key: &Key) {
        self.routes.remove(key);
        self.routes_dirty = true;
    }

    /// Whether good parameters of this ConfigMap are known.
    pub fn has_spec(&self, key: &Key) -> bool {
        self.policies.get(key).is_some_and(|policy| policy.spec.is_some())
    }

    pub fn slices(&self) -> BTreeSet<Key> {
        self.slices.keys().cloned().collect()
    }

    pub fn services(&self) -> BTreeSet<Key> {
        self.services.keys().cloned().collect()
    }

    /// The known VirtualServices.
    pub fn routes(&self) -> BTreeSet<Key> {
        self.routes.names().cloned().collect()
    }

    /// The ConfigMap that counts in a namespace: the oldest; among equals, the first by name.
    pub fn policy_in_force(&self, namespace: &str) -> Option<&Key> {
        let all =
            self.policies.range((namespace.to_owned(), String::new())..).take_while(|(key, _)| key.0 == namespace);
        all.min_by_key(|(_, policy)| policy.created).map(|(key, _)| key)
    }

    /// All services in force. Recomputes those that changed.
    pub fn snapshot(&mut self) -> Snapshot {
        if std::mem::take(&mut self.routes_dirty) {
            let (domain, services) = (&self.domain, &self.services);
            let alias = |host: &str| services.get(&key(domain, host)?)?.alias().cloned();
            for host in self.routes.renew(domain, alias) {
                match key(domain, &host) {
                    Some(key) => _ = self.dirty.insert(key),
                    None => self.foreign_dirty = true,
                }
            }
        }
        if std::mem::take(&mut self.foreign_dirty) {
            self.build_foreign();
        }
        for key in std::mem::take(&mut self.dirty) {
            self.build(&key);
        }
        Snapshot::new(self.built.clone())
    }

    fn host(&self, (namespace, name): &Key) -> String {
        format!("{name}.{namespace}.svc.{}", self.domain)
    }

    /// Marks every service that the ConfigMaps of `namespace` concern.
    fn touch(&mut self, namespace: &str) {
        let cluster = self.scope(namespace) == Scope::Cluster;
        self.foreign_dirty |= cluster;
        self.dirty.extend(self.services.keys().filter(|(own, _)| cluster || own == namespace).cloned());
    }

    fn spec_in(&self, namespace: &str) -> Option<&PolicySpec> {
        self.policies.get(self.policy_in_force(namespace)?)?.spec.as_deref()
    }

    fn build(&mut self, key: &Key) {
        let host = self.host(key);
        match self.spec_of(key, &host) {
            Some(spec) => self.put(host, spec),
            None => {
                self.built.remove(&host);
            }
        }
    }

    /// The parameters and endpoints of a Service; `None` if it does not exist or is not managed.
    fn spec_of(&self, key: &Key, host: &str) -> Option<ServiceSpec> {
        let service = self.services.get(key)?;
        let own = if key.0 == self.namespace { None } else { self.spec_in(&key.0) };
        let said = [(self.spec_in(&self.namespace), host), (own, key.1.as_str())];
        let mut managed = false;
        let mut spec = ServiceSpec::default();
        for (policy, name) in said {
            let Some(policy) = policy else { continue };
            let (layers, manages) = policy.of(name);
            spec = layers.cloned().fold(spec, |base, layer| layer.or(base));
            managed |= manages;
        }
        if spec.endpoints.is_none() && spec.endpoints_by_port.is_empty() {
            let names = self.slices_of.get(key).into_iter().flatten();
            let slices = names.filter_map(|name| self.slices.get(&(key.0.clone(), name.clone())));
            for (port, addresses) in endpoints::by_port(service, slices).into_iter().flatten() {
                spec.endpoints_by_port.insert(port, addresses.iter().map(ToString::to_string).collect());
            }
        }
        managed.then_some(spec)
    }

    /// Recomputes hosts that are no Services; the cluster's ConfigMap may name these too.
    fn build_foreign(&mut self) {
        let ours = format!(".svc.{}", self.domain);
        self.built.retain(|host, _| host.ends_with(&ours));
        let Some(policy) = self.spec_in(&self.namespace) else { return };
        let hosts = policy.services.iter().filter(|(name, _)| *name != super::policy::ALL && !name.ends_with(&ours));
        let specs: Vec<_> =
            hosts.map(|(host, spec)| (host.clone(), spec.clone().or(policy.defaults.clone()))).collect();
        for (host, spec) in specs {
            self.put(host, spec);
        }
    }

    fn put(&mut self, host: String, spec: ServiceSpec) {
        let retries = spec.route_retries.unwrap_or(DEFAULT_RETRIES);
        let virtual_services = self.routes.of(&host, retries).map(|(name, retries)| (name.clone(), retries)).collect();
        match Service::validate(spec, Routes { retries: DEFAULT_RETRIES, virtual_services }) {
            Ok(service) => {
                let same = self.built.get(&host).is_some_and(|before| before.means_the_same_as(&service));
                if !same {
                    self.built.insert(host, Arc::new(service));
                }
            }
            // Its parts were validated one by one, so this would be a bug. Even then, the last good
            // state is the safest.
            Err(error) => tracing::error!(host, %error, "cannot build a service from its objects"),
        }
    }
}

/// The Service with this host.
fn key(domain: &str, host: &str) -> Option<Key> {
    let (name, namespace) = host.strip_suffix(domain)?.strip_suffix(".svc.")?.split_once('.')?;
    Some((namespace.to_owned(), name.to_owned()))
}
