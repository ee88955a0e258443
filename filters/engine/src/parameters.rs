//! The parameters in force: from the plugin configurations and, over them, from the control plane.
//! What the control plane says of a service replaces what a plugin configuration says of it.

use crate::names::Plugin;
use bloc_policy::cluster_name::{parameters_of, service_of};
use bloc_policy::config::{PluginConfig, ServiceParameters, Services};

/// The parameters in force in one thread.
#[derive(Default)]
pub struct Parameters {
    inbound: PluginConfig,
    outbound: PluginConfig,
    control_plane: Services,
}

impl Parameters {
    /// A plugin's configuration is in force from now on.
    pub fn configure(&mut self, plugin: Plugin, configuration: PluginConfig) {
        match plugin {
            Plugin::Inbound => self.inbound = configuration,
            Plugin::Outbound => self.outbound = configuration,
            // It has none.
            Plugin::Attempt => {}
        }
    }

    /// What the control plane says is in force from now on.
    pub fn update(&mut self, services: Services) {
        self.control_plane = services;
    }

    /// Those of a service that this proxy stands in front of.
    pub fn of_service(&self, service: &str) -> Option<&ServiceParameters> {
        self.control_plane.get(service).or_else(|| self.inbound.services().get(service))
    }

    /// Those of a cluster that requests go to.
    pub fn of_cluster(&self, cluster: &str) -> Option<ServiceParameters> {
        let service = service_of(cluster);
        let known = self.control_plane.get(service).or_else(|| self.outbound.services().get(service));
        known.map(|parameters| parameters_of(cluster, parameters))
    }
}
