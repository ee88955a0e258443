//! The pods of this node, from the Kubernetes API; and whether the agent is being uninstalled.
//!
//! The watcher selects by `spec.nodeName`, so the API server sends the pods of one node only. Each
//! is [reduced](reduce) as it arrives, to about 1 KiB.
//!
//! After a failure the last list stays. The next attempt follows after 0.8 s, doubled each time up
//! to 30 s, with jitter. A list is published when it is complete.
//!
//! Lists may come from the API server's cache (`resourceVersion=0`), as for the kubelet: with a
//! quorum read, each agent that starts would make etcd read the pods of all nodes. A list can thus
//! be older than the one before, until the watch catches up.

mod reduce;
#[cfg(test)]
mod tests;

use crate::pods::Pod;
use futures_util::StreamExt;
use k8s_openapi::api::apps::v1::DaemonSet;
use k8s_openapi::api::core::v1 as api;
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::{Config, Event, watcher};
use kube::{Api, Client, Error};
use std::collections::BTreeMap;
use std::mem;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::timeout;

/// Publishes a node's pods until nobody receives them, including an empty first list. Calls
/// `failed` for each failed request. Needs permission to list and watch pods in all namespaces.
pub async fn watch(client: Client, node: &str, pods: watch::Sender<Arc<Vec<Pod>>>, mut failed: impl FnMut()) {
    // Pages would disable `any_semantic`, and a node has few pods.
    let here = Config { page_size: None, ..Config::default() }.any_semantic().fields(&format!("spec.nodeName={node}"));
    let mut events = pin!(watcher(Api::<api::Pod>::all(client), here).default_backoff());
    let mut known = Known::default();
    loop {
        let event = tokio::select! {
            event = events.next() => event,
            () = pods.closed() => return,
        };
        match event {
            Some(Ok(event)) => {
                if known.take(event) {
                    pods.send_replace(Arc::new(known.pods.values().cloned().collect()));
                }
            }
            Some(Err(error)) => {
                failed();
                tracing::warn!(%error, "request to the Kubernetes API failed; the last list of pods stays");
            }
            None => return,
        }
    }
}

/// Pods by uid.
#[derive(Default)]
struct Known {
    pods: BTreeMap<String, Pod>,
    /// A list that is not complete yet.
    listed: BTreeMap<String, Pod>,
}

impl Known {
    /// Returns whether the pods are to be published.
    fn take(&mut self, event: Event<api::Pod>) -> bool {
        match event {
            Event::Init => {
                self.listed.clear();
                false
            }
            Event::InitApply(pod) => {
                self.listed.extend(reduce::pod(&pod).map(|pod| (pod.uid.clone(), pod)));
                false
            }
            Event::InitDone => {
                self.pods = mem::take(&mut self.listed);
                true
            }
            Event::Apply(pod) => match reduce::pod(&pod) {
                Some(pod) => {
                    let new = Some(&pod) != self.pods.get(&pod.uid);
                    self.pods.insert(pod.uid.clone(), pod);
                    new
                }
                None => self.forget(&pod),
            },
            Event::Delete(pod) => self.forget(&pod),
        }
    }

    fn forget(&mut self, pod: &api::Pod) -> bool {
        pod.metadata.uid.as_ref().is_some_and(|uid| self.pods.remove(uid).is_some())
    }
}

pub const DAEMON_SET: &str = "bloc-node-agent";
/// How long the API server may take: the kubelet kills an agent that does not end in time.
const PATIENCE: Duration = Duration::from_secs(2);

/// Whether a DaemonSet is gone or being deleted. If so, an agent restores the original settings;
/// otherwise containers keep what they have until it returns.
///
/// A refusal (401, 403) counts as gone, because its permissions are deleted together with it. After
/// another error, or no answer within 2 s, it counts as staying: a release throttles nobody. Needs
/// permission to get this DaemonSet.
pub async fn is_leaving(client: Client, namespace: &str, name: &str) -> bool {
    let api = Api::<DaemonSet>::namespaced(client, namespace);
    match timeout(PATIENCE, api.get_metadata(name)).await {
        Ok(Ok(found)) => found.metadata.deletion_timestamp.is_some(),
        Ok(Err(Error::Api(status))) => matches!(status.code, 401 | 403 | 404),
        Ok(Err(_)) | Err(_) => false,
    }
}
