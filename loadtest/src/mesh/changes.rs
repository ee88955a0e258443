//! Changing the listeners of a mesh that stands, and seeing what is in force.

use super::error::{MeshError, file_error};
use super::faults::Role;
use super::running::Mesh;
use crate::envoy::Listeners;
use crate::http;
use bloc_policy::config::{CapacitySpec, PluginSpec};
use bloc_policy::wire::bid;
use bloc_policy::wire::headers::{BID, LOAD};
use bloc_policy::wire::load_report::LoadReport;
use futures_util::future::{join_all, try_join_all};
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::time::Duration;

/// Longer than a request may be held that only asks what is in force.
const LIMIT: Duration = Duration::from_secs(3);
/// New connections to each sidecar, so that each of its workers is among those that answer.
const LOOKS: usize = 4;
/// Gauges: listeners that are replaced as a whole, and parts of such that are not.
const DRAINING: &str = r"^listener_manager\.total_(listeners|filter_chains)_draining$";
/// So that looking is no load.
const FOR_NOTHING: &str = "/cost/0";

impl Mesh {
    /// Replaces the listeners of all sidecars, those of the frontends and those of the backends:
    /// with filters of ours by listeners whose plugin configurations have this capacity, otherwise
    /// by listeners with another name in their statistics, which changes nothing. `None`: by those
    /// of the beginning. Needs a spec with [`drain`](super::MeshSpec::drain).
    ///
    /// # Errors
    /// A file cannot be read or written.
    pub fn change(&self, capacity: Option<u32>) -> Result<(), MeshError> {
        let (frontends, sidecars) = (self.frontends.len(), self.sidecars.len());
        let roles = (0..frontends).map(Role::Frontend).chain((0..sidecars).map(Role::Sidecar));
        for role in roles {
            let listeners = Listeners::of(&self.directory, self.envoy(role).name());
            let edit = |manager: &mut Value| {
                let Some(limit) = capacity else { return };
                let configuration = &mut manager["http_filters"][0]["typed_config"]["config"]["configuration"]["value"];
                let spec = configuration.as_str().and_then(|text| serde_json::from_str::<PluginSpec>(text).ok());
                let Some(mut spec) = spec else {
                    manager["stat_prefix"] = json!("changed");
                    return;
                };
                spec.services
                    .values_mut()
                    .for_each(|service| service.capacity = Some(CapacitySpec::Static { limit: limit.into() }));
                *configuration = json!(json!(spec).to_string());
            };
            listeners.change(edit).map_err(|source| file_error(listeners.file(), source))?;
        }
        Ok(())
    }

    /// Whether each backend's sidecar says, on new connections, that this is its capacity.
    pub async fn has_capacity(&self, capacity: u32) -> bool {
        let looks = self.endpoints().iter().flat_map(|at| std::iter::repeat_n(*at, LOOKS));
        join_all(looks.map(capacity_of)).await.into_iter().all(|seen| seen == Some(capacity))
    }

    /// Whether all sidecars have asked the control plane with what it says now: each still polls.
    pub async fn all_poll(&self) -> bool {
        let Some(at) = self.control_plane_address() else { return false };
        let Ok((_, body)) = http::get(at, "/v1/services", LIMIT).await else { return false };
        let answer: Value = serde_json::from_slice(&body).unwrap_or_default();
        let all = answer["proxies"].as_array().into_iter().flatten();
        let current = all.filter(|proxy| proxy["current"] == true).count();
        current == self.frontends.len() + self.sidecars.len()
    }

    /// Whether no sidecar drains listeners that were replaced.
    ///
    /// # Errors
    /// One does not answer.
    pub async fn drained(&self) -> Result<bool, MeshError> {
        let all = self.frontends.iter().chain(&self.sidecars).map(|envoy| envoy.stats(DRAINING));
        let all = try_join_all(all).await?;
        Ok(all.iter().flat_map(|stats| stats.values()).all(|draining| *draining == 0))
    }
}

async fn capacity_of(sidecar: SocketAddr) -> Option<u32> {
    let answer = http::fetch(sidecar, FOR_NOTHING, &[(BID, bid::ANY)], LIMIT).await.ok()?;
    LoadReport::decode(answer.headers().get(LOAD)?.as_bytes())?.capacity
}
