//! The clusters that requests went to, by name.

use crate::cluster::Cluster;
use crate::host::Host;
use crate::names::MAX_CLUSTERS;
use crate::parameters::Parameters;
use crate::views::Views;
use bloc_policy::config::cluster_name::service_of;
use hashbrown::HashMap;
use std::cell::RefCell;
use std::rc::Rc;

/// A cluster under one configuration, shared by its requests.
pub type Shared<H> = Rc<RefCell<Cluster<H>>>;

/// The clusters that requests went to.
pub struct Clusters<H: Host> {
    /// A cluster without a view has no configuration.
    by_name: HashMap<String, Views<Shared<H>>>,
}

impl<H: Host> Default for Clusters<H> {
    fn default() -> Self {
        Self { by_name: HashMap::new() }
    }
}

impl<H: Host> Clusters<H> {
    /// The cluster with this name; none if it is new.
    pub fn get(&self, name: &str) -> Option<&Views<Shared<H>>> {
        self.by_name.get(name)
    }

    /// Whether there may be one more.
    pub fn has_room(&self) -> bool {
        self.by_name.len() < MAX_CLUSTERS
    }

    /// A new cluster.
    pub fn add(&mut self, name: &str, host: &H, parameters: &Parameters) -> &Views<Shared<H>> {
        let views = self.by_name.entry(name.to_owned()).or_default();
        apply(name, views, host, parameters);
        views
    }

    /// All that have a configuration.
    pub fn iter(&self) -> impl Iterator<Item = &Shared<H>> {
        self.by_name.values().flat_map(Views::iter)
    }

    /// Applies the parameters in force to all of them.
    pub fn apply(&mut self, host: &H, parameters: &Parameters) {
        for (name, views) in &mut self.by_name {
            apply(name, views, host, parameters);
        }
    }
}

fn apply<H: Host>(name: &str, views: &mut Views<Shared<H>>, host: &H, parameters: &Parameters) {
    views.apply(parameters.of_cluster(name), |parameters| {
        Rc::new(RefCell::new(Cluster::new(host, service_of(name), parameters, host.now())))
    });
}
