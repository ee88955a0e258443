//! The endpoints of the service, and how the mesh learns of them: the filters from the control
//! plane's services file, Envoy from EDS.

use super::error::{MeshError, file_error};
use super::spec::MeshSpec;
use crate::envoy::{Discovery, SERVICE};
use bloc_policy::config::{CapacitySpec, ServiceSpec, ServicesSpec};
use serde_json::Value;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

/// The endpoints of the service. Those after the first `spec.backends` are spare until they are
/// announced.
#[derive(Debug)]
pub(super) struct Registry {
    spec: MeshSpec,
    directory: PathBuf,
    endpoints: Vec<SocketAddr>,
    /// Present only with spare backends; otherwise the clusters are static.
    discovery: Option<Discovery>,
}

impl Registry {
    pub(super) fn new(spec: &MeshSpec, directory: &Path, endpoints: Vec<SocketAddr>) -> Result<Self, MeshError> {
        let discovery = if spec.spare == 0 {
            None
        } else {
            let watched = directory.join("eds");
            std::fs::create_dir_all(&watched).map_err(|source| file_error(&watched, source))?;
            Some(Discovery::new(SERVICE, &watched))
        };
        Ok(Self { spec: spec.clone(), directory: directory.to_owned(), endpoints, discovery })
    }

    pub(super) fn spec(&self) -> &MeshSpec {
        &self.spec
    }

    pub(super) fn endpoints(&self) -> &[SocketAddr] {
        &self.endpoints
    }

    pub(super) fn attach(&self, bootstrap: &mut Value) {
        if let Some(discovery) = &self.discovery {
            discovery.attach(bootstrap);
        }
    }

    /// Makes the first `count` endpoints the service.
    pub(super) fn announce(&self, count: usize) -> Result<(), MeshError> {
        self.announce_with(count, None)
    }

    /// Like `announce`, with another capacity than at the start.
    pub(super) fn announce_with(&self, count: usize, capacity: Option<CapacitySpec>) -> Result<(), MeshError> {
        let members = &self.endpoints[..count.min(self.endpoints.len())];
        if let Some(discovery) = &self.discovery {
            discovery.announce(members).map_err(|source| file_error(&self.directory.join("eds"), source))?;
        }
        if self.spec.has_control_plane() {
            let mut services = self.spec.services(Some(members));
            if let Some(capacity) = capacity {
                services.values_mut().for_each(|service| service.capacity = Some(capacity.clone()));
            }
            write_services(&self.directory, &services)?;
        }
        Ok(())
    }
}

pub(super) fn services_file(directory: &Path) -> PathBuf {
    directory.join("services.yaml")
}

/// Writes the services file in one step; JSON is YAML.
pub(super) fn write_services(directory: &Path, services: &BTreeMap<String, ServiceSpec>) -> Result<(), MeshError> {
    let (file, draft) = (services_file(directory), directory.join("services.yaml.new"));
    let text = format!("{:#}\n", serde_json::json!(ServicesSpec { services: services.clone() }));
    std::fs::write(&draft, text)
        .and_then(|()| std::fs::rename(&draft, &file))
        .map_err(|source| file_error(&file, source))
}
