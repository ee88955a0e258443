//! The clusters that requests went to, by name.

use crate::cluster::Cluster;
use crate::host::Host;
use crate::names::MAX_CLUSTERS;
use crate::parameters::Parameters;
use bloc_policy::cluster_name::service_of;
use bloc_policy::units::Timestamp;
use hashbrown::HashMap;
use std::cell::RefCell;
use std::rc::Rc;

/// A cluster, shared by its requests.
pub type Shared<H> = Rc<RefCell<Cluster<H>>>;

/// The clusters that requests went to.
pub struct Clusters<H: Host> {
    /// None: nobody configured the service.
    by_name: HashMap<String, Option<Shared<H>>>,
}

impl<H: Host> Default for Clusters<H> {
    fn default() -> Self {
        Self { by_name: HashMap::new() }
    }
}

impl<H: Host> Clusters<H> {
    /// The cluster with this name; none if it is new, and none in it if nobody configured it.
    pub fn get(&self, name: &str) -> Option<Option<Shared<H>>> {
        self.by_name.get(name).cloned()
    }

    /// Whether there may be one more.
    pub fn has_room(&self) -> bool {
        self.by_name.len() < MAX_CLUSTERS
    }

    /// A new cluster; none if nobody configured its service.
    pub fn add(&mut self, name: &str, host: &H, parameters: &Parameters) -> Option<Shared<H>> {
        let cluster = made(name, host, parameters, host.now());
        self.by_name.insert(name.to_owned(), cluster.clone());
        cluster
    }

    /// All that somebody configured.
    pub fn iter(&self) -> impl Iterator<Item = &Shared<H>> {
        self.by_name.values().flatten()
    }

    /// Brings the parameters in force to all of them.
    pub fn apply(&mut self, host: &H, parameters: &Parameters, now: Timestamp) {
        for (name, entry) in &mut self.by_name {
            match entry {
                Some(cluster) => match parameters.of_cluster(name) {
                    Some(parameters) => cluster.borrow_mut().sender.configure(parameters, now),
                    None => *entry = None,
                },
                None => *entry = made(name, host, parameters, now),
            }
        }
    }
}

fn made<H: Host>(name: &str, host: &H, parameters: &Parameters, now: Timestamp) -> Option<Shared<H>> {
    let parameters = parameters.of_cluster(name)?;
    Some(Rc::new(RefCell::new(Cluster::new(host, service_of(name), parameters, now))))
}
