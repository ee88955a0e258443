//! The parameters in force: from the plugin configurations and, over them, from the control plane.
//! What the control plane says of a service replaces what a plugin configuration says of it.

use crate::names::Plugin;
use bloc_policy::cluster_name::{parameters_of, service_of};
use bloc_policy::config::{ControlPlane, PluginConfig, ServiceParameters, Services};

/// Names a plugin configuration that is in force in this thread: the later it came the greater, and
/// never used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PluginId(u32);

impl PluginId {
    /// The configuration with this number.
    pub const fn new(number: u32) -> Self {
        Self(number)
    }
}

struct Configured {
    id: PluginId,
    plugin: Plugin,
    configuration: PluginConfig,
}

/// The parameters in force in one thread.
#[derive(Default)]
pub struct Parameters {
    /// In the order in which they came.
    plugins: Vec<Configured>,
    last: u32,
    control_plane: Services,
}

impl Parameters {
    /// A plugin configuration is in force from now on.
    pub fn add(&mut self, plugin: Plugin, configuration: PluginConfig) -> PluginId {
        self.last += 1;
        let id = PluginId(self.last);
        self.plugins.push(Configured { id, plugin, configuration });
        id
    }

    /// It is not any more.
    pub fn remove(&mut self, id: PluginId) {
        self.plugins.retain(|plugin| plugin.id != id);
    }

    /// What the control plane says is in force from now on.
    pub fn update(&mut self, services: Services) {
        self.control_plane = services;
    }

    /// The control plane that is to be asked: that of the configuration that came last, of those
    /// that name one. Those of `bloc.attempt`, which come with clusters, not with listeners, say
    /// nothing.
    pub fn control_plane(&self) -> Option<&ControlPlane> {
        let plugins = self.plugins.iter().rev().filter(|configured| configured.plugin != Plugin::Attempt);
        plugins.filter_map(|configured| configured.configuration.control_plane()).next()
    }

    /// What each configuration of `bloc.inbound` says of a service that this proxy stands in front
    /// of, where it says something.
    pub fn of_service(&self, service: &str) -> impl Iterator<Item = (PluginId, &ServiceParameters)> {
        let all = self.control_plane.get(service);
        self.of(Plugin::Inbound, move |plugin| all.or_else(|| plugin.services().get(service)))
    }

    /// What each configuration of `bloc.outbound` says of a cluster that requests go to, likewise.
    pub fn of_cluster(&self, cluster: &str) -> impl Iterator<Item = (PluginId, ServiceParameters)> {
        let service = service_of(cluster);
        let all = self.control_plane.get(service);
        let known = self.of(Plugin::Outbound, move |plugin| all.or_else(|| plugin.services().get(service)));
        known.map(move |(id, parameters)| (id, parameters_of(cluster, parameters)))
    }

    fn of<'a>(
        &'a self,
        plugin: Plugin,
        find: impl Fn(&'a PluginConfig) -> Option<&'a ServiceParameters>,
    ) -> impl Iterator<Item = (PluginId, &'a ServiceParameters)> {
        let plugins = self.plugins.iter().filter(move |configured| configured.plugin == plugin);
        plugins.filter_map(move |configured| Some((configured.id, find(&configured.configuration)?)))
    }
}
