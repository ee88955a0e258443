//! Changes the listeners of a running mesh, and checks what is in force.

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

/// Longer than a sidecar may hold a request that only asks what is in force.
const LIMIT: Duration = Duration::from_secs(3);
/// New connections to each sidecar, enough that each of its workers answers one.
const LOOKS: usize = 4;
/// Gauges: draining listeners, and draining filter chains of listeners that stay.
const DRAINING: &str = r"^listener_manager\.total_(listeners|filter_chains)_draining$";
/// Takes no time in the application, so checking adds no load.
const FOR_NOTHING: &str = "/cost/0";

impl Mesh {
    /// Replaces the listeners of all sidecars, at the frontends and at the backends. With our
    /// filters, the plugin configurations of the new listeners have this capacity. Without them,
    /// only the name in the statistics differs, which changes nothing. `None`: the original
    /// listeners. Needs a spec with [`drain`](super::MeshSpec::drain).
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

    /// Whether each backend's sidecar reports this capacity on new connections.
    pub async fn has_capacity(&self, capacity: u32) -> bool {
        let looks = self.endpoints().iter().flat_map(|at| std::iter::repeat_n(*at, LOOKS));
        join_all(looks.map(capacity_of)).await.into_iter().all(|seen| seen == Some(capacity))
    }

    /// Whether all sidecars have the control plane's current state, so each still polls.
    pub async fn all_poll(&self) -> bool {
        let Some(at) = self.control_plane_address() else { return false };
        let Ok((_, body)) = http::get(at, "/v1/status", LIMIT).await else { return false };
        let answer: Value = serde_json::from_slice(&body).unwrap_or_default();
        answer["proxies"]["current"] == self.frontends.len() + self.sidecars.len()
    }

    /// Whether no sidecar has a replaced listener that still drains.
    ///
    /// # Errors
    /// A sidecar does not answer.
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
