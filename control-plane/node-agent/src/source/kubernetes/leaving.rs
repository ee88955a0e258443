//! Whether the agent is being uninstalled.
//!
//! At SIGTERM an agent that will come back lets containers keep what they have; one that will not
//! restores what was there before it.

use k8s_openapi::api::apps::v1::DaemonSet;
use kube::{Api, Client, Error};
use std::time::Duration;
use tokio::time::timeout;

/// The name of the agent's DaemonSet.
pub const DAEMON_SET: &str = "bloc-node-agent";
/// How long the API server may take: the kubelet kills what does not end in time.
const PATIENCE: Duration = Duration::from_secs(2);

/// Whether a DaemonSet is gone or being deleted.
///
/// A refusal (401, 403) counts as gone, because its rights are deleted together with it. If the
/// answer is another one or none within 2 s, the DaemonSet stays: what an agent leaves behind then
/// throttles nobody.
///
/// Needs the right to get this DaemonSet.
pub async fn is_leaving(client: Client, namespace: &str, name: &str) -> bool {
    let api = Api::<DaemonSet>::namespaced(client, namespace);
    match timeout(PATIENCE, api.get_metadata(name)).await {
        Ok(Ok(found)) => found.metadata.deletion_timestamp.is_some(),
        Ok(Err(Error::Api(status))) => matches!(status.code, 401 | 403 | 404),
        Ok(Err(_)) | Err(_) => false,
    }
}
