//! The pods of this node, from the Kubernetes API; and whether the agent itself is to stay.
//!
//! `kube::runtime::watcher` lists and watches with `spec.nodeName` as a field selector, so that the
//! API server sends the pods of one node only. Each is [reduced](reduce) as it arrives, and nothing
//! else of it is kept: about 1 KiB a pod.
//!
//! On failure the last list stays, and the next try follows after 0.8 to 30 s, doubled each time,
//! with jitter. A list is published when it is complete, never in parts.
//!
//! Lists may be served from the API server's cache (`resourceVersion=0`), as to the kubelet. With a
//! quorum read, each agent that starts would have etcd read the pods of all nodes. The price is a
//! list that can be older than the one before; the watch that follows catches up.

mod leaving;
mod reduce;
#[cfg(test)]
mod tests;

pub use leaving::{DAEMON_SET, is_leaving};

use crate::pods::Pod;
use futures_util::StreamExt;
use k8s_openapi::api::core::v1 as api;
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::{Config, Event, watcher};
use kube::{Api, Client};
use std::collections::BTreeMap;
use std::mem;
use std::pin::pin;
use std::sync::Arc;
use tokio::sync::watch;

/// Publishes the pods of a node, until nobody receives them.
///
/// The first list is published also if it is empty: before that nothing is known. `failed` is
/// called once for each failed request.
///
/// Needs the right to list and watch pods in all namespaces.
pub async fn watch(client: Client, node: &str, pods: watch::Sender<Arc<Vec<Pod>>>, mut failed: impl FnMut()) {
    // With pages `any_semantic` has no effect; a node has few enough pods without.
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

/// The pods that are known, by uid.
#[derive(Default)]
struct Known {
    pods: BTreeMap<String, Pod>,
    /// Those of a list that is not complete yet.
    listed: BTreeMap<String, Pod>,
}

impl Known {
    /// Whether the pods are to be published.
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
