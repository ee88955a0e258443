//! The parameters in force, from the plugin configurations and from the control plane. What the
//! control plane says of a service replaces what a plugin configuration says of it. The CPU of the
//! application is beside them: all services and all configurations have the same.

use crate::names::Plugin;
use bloc_policy::config::cluster_name::{parameters_of, service_of};
use bloc_policy::config::{ControlPlane, PluginConfig, ServiceParameters, Services};
use bloc_policy::proxy::cpu::ServerCpu;

/// Names a plugin configuration in force in this thread. A later one has a greater id; no id is
/// used again.
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
    /// The oldest first.
    plugins: Vec<Configured>,
    last: u32,
    control_plane: Services,
    cpu: ServerCpu,
}

impl Parameters {
    /// Puts a plugin configuration in force.
    pub fn add(&mut self, plugin: Plugin, configuration: PluginConfig) -> PluginId {
        self.last += 1;
        let id = PluginId(self.last);
        self.plugins.push(Configured { id, plugin, configuration });
        id
    }

    /// Removes a plugin configuration.
    pub fn remove(&mut self, id: PluginId) {
        self.plugins.retain(|plugin| plugin.id != id);
    }

    /// Puts in force what the control plane says. Of services that could not be read the last good
    /// parameters stay.
    pub fn update(&mut self, mut services: Services, unread: &[String]) {
        let last = std::mem::take(&mut self.control_plane);
        services.extend(last.into_iter().filter(|(name, _)| unread.contains(name)));
        self.control_plane = services;
    }

    /// The application has this CPU.
    pub fn provide(&mut self, cpu: ServerCpu) {
        self.cpu = cpu;
    }

    /// What the application has of CPU.
    pub fn cpu(&self) -> ServerCpu {
        self.cpu
    }

    /// The control plane to be asked: that of the newest configuration that names one.
    /// Configurations of `bloc.attempt` do not count, because they come with clusters, not with
    /// listeners.
    pub fn control_plane(&self) -> Option<&ControlPlane> {
        let plugins = self.plugins.iter().rev().filter(|configured| configured.plugin != Plugin::Attempt);
        plugins.filter_map(|configured| configured.configuration.control_plane()).next()
    }

    /// The parameters of a service that this proxy stands in front of, from each configuration of
    /// `bloc.inbound` that has some.
    pub fn of_service(&self, service: &str) -> impl Iterator<Item = (PluginId, &ServiceParameters)> {
        let all = self.control_plane.get(service);
        self.of(Plugin::Inbound, move |plugin| all.or_else(|| plugin.services().get(service)))
    }

    /// The parameters of a cluster that requests go to, from each configuration of `bloc.outbound`
    /// that has some.
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
