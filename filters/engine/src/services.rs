//! The services that this proxy stands in front of, by name and by the cluster that leads to them.

use crate::host::Host;
use crate::names::MAX_CLUSTERS;
use crate::parameters::Parameters;
use crate::service::Service;
use bloc_policy::units::inserted::inserted;
use hashbrown::HashMap;
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::rc::Rc;

/// A service, shared by its requests.
pub type Shared<H> = Rc<RefCell<Service<H>>>;

/// The services that this proxy stands in front of.
pub struct Services<H: Host> {
    by_name: HashMap<String, Shared<H>>,
    /// The services behind the inbound clusters that requests went to since the last tick; none:
    /// the cluster belongs to no service.
    by_cluster: HashMap<String, Option<Shared<H>>>,
}

impl<H: Host> Default for Services<H> {
    fn default() -> Self {
        Self { by_name: HashMap::new(), by_cluster: HashMap::new() }
    }
}

impl<H: Host> Services<H> {
    /// The service with this name, if it is known.
    pub fn get(&self, name: &str) -> Option<Shared<H>> {
        self.by_name.get(name).map(Rc::clone)
    }

    /// Whether there may be one more.
    pub fn has_room(&self) -> bool {
        self.by_name.len() < MAX_CLUSTERS
    }

    /// A new service.
    pub fn add(&mut self, name: &str, service: Service<H>) -> Shared<H> {
        let service = Rc::new(RefCell::new(service));
        self.by_name.insert(name.to_owned(), Rc::clone(&service));
        service
    }

    /// The service behind this cluster: outer none if that is not known, inner none if it has no
    /// service.
    pub fn behind(&self, cluster: &str) -> Option<Option<Shared<H>>> {
        self.by_cluster.get(cluster).cloned()
    }

    /// Notes that this service, or none, is behind this cluster.
    pub fn set_behind(&mut self, cluster: &str, service: Option<Shared<H>>) {
        if self.by_cluster.len() < MAX_CLUSTERS {
            self.by_cluster.insert(cluster.to_owned(), service);
        }
    }

    /// Forgets which services are behind the clusters: Istio may have changed that.
    pub fn forget_clusters(&mut self) {
        self.by_cluster.clear();
    }

    /// How many there are; the number never falls.
    pub fn count(&self) -> usize {
        self.by_name.len()
    }

    /// Their names.
    pub fn names(&self) -> BTreeSet<String> {
        inserted(self.by_name.keys().cloned())
    }

    /// All of them, to work on while this table is not borrowed.
    pub fn all(&self) -> Vec<Shared<H>> {
        self.by_name.values().map(Rc::clone).collect()
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = &Shared<H>> {
        self.by_name.values()
    }

    /// Applies the parameters in force to all of them.
    pub fn apply(&self, parameters: &Parameters) {
        for service in self.by_name.values() {
            service.borrow_mut().configure(parameters);
        }
    }
}
