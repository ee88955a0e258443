//! The part of a pod that the agent needs.
//!
//! The reduction omits pods that have ended, containers that do not run, init containers without
//! `restartPolicy: Always`, ephemeral containers, and static pods. The cgroups of static pods are
//! not named after the uid that the API knows, and these pods belong to the node, not to an
//! application.

use crate::pods::{Container, Pod};
use k8s_openapi::api::core::v1 as api;
use k8s_openapi::api::core::v1::ContainerStatus;
use std::fmt::Display;
use std::iter;
use std::str::FromStr;

/// The annotation of the API's copy of a static pod.
const MIRROR: &str = "kubernetes.io/config.mirror";

pub fn pod(pod: &api::Pod) -> Option<Pod> {
    let (metadata, status) = (&pod.metadata, pod.status.as_ref()?);
    let ended = matches!(status.phase.as_deref(), Some("Succeeded" | "Failed"));
    let mirror = metadata.annotations.as_ref().is_some_and(|annotations| annotations.contains_key(MIRROR));
    if ended || mirror {
        return None;
    }
    let spec = pod.spec.as_ref()?;
    let sidecars = spec.init_containers.iter().flatten().filter(|one| one.restart_policy.as_deref() == Some("Always"));
    let sidecars = sidecars.zip(iter::repeat(&status.init_container_statuses));
    let others = spec.containers.iter().zip(iter::repeat(&status.container_statuses));
    let running = sidecars.chain(others).filter_map(|(container, statuses)| {
        let status = statuses.iter().flatten().find(|status| status.name == container.name)?;
        Some(Container {
            name: container.name.clone(),
            id: id(status)?,
            requests: requests(pod, container, "cpu"),
            memory: requests(pod, container, "memory"),
        })
    });
    Some(Pod {
        namespace: metadata.namespace.clone().unwrap_or_default(),
        name: metadata.name.clone().unwrap_or_default(),
        uid: metadata.uid.clone()?,
        labels: metadata.labels.clone().unwrap_or_default(),
        containers: running.collect(),
    })
}

/// The runtime's id of a running container. It becomes part of a path, and the kubelet is not its
/// only writer.
fn id(status: &ContainerStatus) -> Option<String> {
    status.state.as_ref()?.running.as_ref()?;
    let (_, id) = status.container_id.as_deref()?.split_once("://")?;
    let plain = !id.is_empty() && id.bytes().all(|byte| byte.is_ascii_alphanumeric());
    plain.then(|| id.to_owned())
}

/// The requests of a container; 0 if there are none, or they cannot be parsed.
fn requests<T: Default + FromStr<Err: Display>>(pod: &api::Pod, container: &api::Container, resource: &str) -> T {
    let requests = container.resources.as_ref().and_then(|resources| resources.requests.as_ref());
    let Some(quantity) = requests.and_then(|requests| requests.get(resource)) else {
        return T::default();
    };
    quantity.0.parse().unwrap_or_else(|error| {
        let (namespace, name) = (pod.metadata.namespace.as_deref(), pod.metadata.name.as_deref());
        tracing::warn!(namespace, pod = name, container = container.name, %error, "requests.{resource} counts as 0");
        T::default()
    })
}
