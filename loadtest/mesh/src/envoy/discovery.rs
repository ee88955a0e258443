//! Endpoints that change while an Envoy runs: EDS from a file, which Envoy rereads when it is
//! replaced.

use super::cluster::address;
use serde_json::{Value, json};
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

/// The endpoints of one cluster, in a file.
#[derive(Clone, Debug)]
pub struct Discovery {
    cluster: String,
    file: PathBuf,
}

impl Discovery {
    /// For the cluster called `cluster`. The file is in `directory`, which should hold nothing
    /// else, since Envoy watches all of it.
    pub fn new(cluster: &str, directory: &Path) -> Self {
        Self { cluster: cluster.to_owned(), file: directory.join("endpoints.json") }
    }

    /// Makes the static cluster of this name in `bootstrap` read its endpoints from the file; does
    /// nothing if there is none.
    pub fn attach(&self, bootstrap: &mut Value) {
        let clusters = bootstrap["static_resources"]["clusters"].as_array_mut();
        let Some(cluster) = clusters.into_iter().flatten().find(|one| one["name"] == self.cluster.as_str()) else {
            return;
        };
        if let Some(fields) = cluster.as_object_mut() {
            fields.remove("load_assignment");
        }
        cluster["type"] = json!("EDS");
        cluster["eds_cluster_config"] = json!({"eds_config": {
            "resource_api_version": "V3",
            "path_config_source": {"path": self.file, "watched_directory": {"path": self.file.parent()}},
        }});
    }

    /// Sets the endpoints in one step: Envoy never sees a partial list.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn announce(&self, endpoints: &[SocketAddr]) -> io::Result<()> {
        let hosts: Vec<Value> = endpoints.iter().map(|at| json!({"endpoint": {"address": address(*at)}})).collect();
        let resource = json!({
            "@type": "type.googleapis.com/envoy.config.endpoint.v3.ClusterLoadAssignment",
            "cluster_name": self.cluster,
            "endpoints": [{"lb_endpoints": hosts}],
        });
        let draft = self.file.with_extension("new");
        let version = endpoints.len().to_string();
        std::fs::write(&draft, json!({"version_info": version, "resources": [resource]}).to_string())?;
        std::fs::rename(&draft, &self.file)
    }
}

#[cfg(test)]
mod tests {
    use super::super::cluster::{Balancing, static_cluster};
    use super::*;

    #[test]
    fn only_the_named_cluster_reads_the_file() {
        let directory = tempfile::tempdir().unwrap();
        let at: SocketAddr = "127.0.0.1:80".parse().unwrap();
        let cluster = |name| static_cluster(name, &[at], Balancing::Random);
        let mut bootstrap = json!({"static_resources": {"clusters": [cluster("other"), cluster("backend")]}});
        let discovery = Discovery::new("backend", directory.path());
        discovery.attach(&mut bootstrap);
        let clusters = &bootstrap["static_resources"]["clusters"];
        assert_eq!(clusters[0], cluster("other"));
        assert_eq!((&clusters[1]["type"], &clusters[1]["load_assignment"]), (&json!("EDS"), &Value::Null));
        let path = clusters[1]["eds_cluster_config"]["eds_config"]["path_config_source"]["path"].as_str().unwrap();

        discovery.announce(&[at]).unwrap();
        let written: Value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
        let host = &written["resources"][0]["endpoints"][0]["lb_endpoints"][0]["endpoint"]["address"];
        assert_eq!(host["socket_address"]["port_value"], 80);
    }
}
