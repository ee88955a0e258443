//! The message to a replica of the control plane.

use crate::agent::status::{AppCpu, ContainerCpu, PodCpu, Status};
use crate::cores::Cores;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// A pod.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct PodName {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

/// The CPU of a pod.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Pod {
    /// The sum of the quotas of its containers that the agent manages; absent: nothing is known any
    /// more.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cores: Option<f64>,
    /// What they have used since they were found.
    pub used_seconds: f64,
}

/// A container, for the page.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Container {
    /// Its pod.
    pub pod: String,
    /// Its name.
    pub container: String,
    /// What it may use, in cores; absent: as much as there is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub quota: Option<f64>,
    /// Its use, in cores.
    pub used: f64,
    /// The share of periods in which it was throttled.
    pub throttled: f64,
}

/// An application, for the page.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct App {
    /// `namespace/name`.
    pub name: String,
    /// Whether the agent only observes: quotas, limit and what is free are what it would set.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub observed: bool,
    /// The limit in force, in cores.
    pub limit: f64,
    /// What no container has of it.
    pub free: f64,
    /// Its containers.
    pub containers: Vec<Container>,
}

/// All that there is to tell.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Cpu {
    /// The pods whose quotas are limited.
    pub pods: BTreeMap<PodName, Pod>,
    /// The applications, as of the last second.
    pub apps: Arc<Vec<App>>,
    /// The pods whose response times are asked for.
    pub asks: Arc<BTreeSet<PodName>>,
}

impl Cpu {
    /// Of these pods.
    pub fn new(pods: impl Iterator<Item = PodCpu>, apps: Arc<Vec<App>>, asks: Arc<BTreeSet<PodName>>) -> Self {
        let limited = pods.filter_map(|PodCpu { namespace, name, quota, used }| {
            Some((PodName { namespace, name }, Pod { cores: Some(quota?.get()), used_seconds: used.as_secs_f64() }))
        });
        Self { pods: limited.collect(), apps, asks }
    }
}

/// The most containers of an application that are told: the page shows fewer.
const MOST_CONTAINERS: usize = 200;

impl App {
    /// All that the agent shows.
    pub fn all(status: &Status) -> Vec<Self> {
        let container = |container: &ContainerCpu| Container {
            pod: container.which.pod.clone(),
            container: container.which.container.clone(),
            quota: container.quota.map(Cores::get),
            used: container.used.get(),
            throttled: container.throttled,
        };
        let app = |(name, cpu): (&String, &AppCpu)| Self {
            name: name.clone(),
            observed: !status.enforcing,
            limit: cpu.limit.get(),
            free: cpu.free.get(),
            containers: cpu.containers.iter().take(MOST_CONTAINERS).map(container).collect(),
        };
        status.cpu.iter().map(app).collect()
    }
}

/// What one request says.
#[derive(Debug, PartialEq, Serialize)]
pub(super) struct Message<'a> {
    pub(super) node: &'a str,
    #[serde(flatten)]
    pub(super) about: About<'a>,
}

/// Pods, an application, or a question: whatever is wrong with one must not keep the others from
/// being heard.
#[derive(Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum About<'a> {
    Pods(&'a [Entry]),
    Apps([&'a App; 1]),
    Asks(&'a [PodName]),
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Entry {
    #[serde(flatten)]
    pub(super) name: PodName,
    #[serde(flatten)]
    pub(super) pod: Pod,
}

/// The most pods of a message: with the longest names they take 80 KB, and 96 KiB are allowed.
const MOST_PODS: usize = 200;

/// The messages about these pods; one at least.
pub(super) fn about_pods<'a>(node: &'a str, pods: &'a [Entry]) -> impl Iterator<Item = Message<'a>> {
    let (first, rest) = pods.split_at(pods.len().min(MOST_PODS));
    std::iter::once(first).chain(rest.chunks(MOST_PODS)).map(move |pods| Message { node, about: About::Pods(pods) })
}

/// The messages about these applications.
pub(super) fn about_apps<'a>(node: &'a str, apps: &'a [App]) -> impl Iterator<Item = Message<'a>> {
    apps.iter().map(move |app| Message { node, about: About::Apps([app]) })
}

/// The messages that ask for these pods.
pub(super) fn about_asks<'a>(node: &'a str, asks: &'a [PodName]) -> impl Iterator<Item = Message<'a>> {
    asks.chunks(MOST_PODS).map(move |asks| Message { node, about: About::Asks(asks) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_the_text_that_the_control_plane_reads() {
        let name = PodName { namespace: "shop".to_owned(), name: "checkout-0".to_owned() };
        let asks = serde_json::json!({"node": "n1", "asks": [{"namespace": "shop", "name": "checkout-0"}]});
        let entry = Entry { name: name.clone(), pod: Pod { cores: Some(0.25), used_seconds: 1.5 } };
        let pod = serde_json::json!({"namespace": "shop", "name": "checkout-0", "cores": 0.25, "usedSeconds": 1.5});
        let texts = |messages: &mut dyn Iterator<Item = Message<'_>>| {
            messages.map(|message| serde_json::to_value(message).unwrap()).collect::<Vec<_>>()
        };
        assert_eq!(texts(&mut about_pods("n1", &[entry])), [serde_json::json!({"node": "n1", "pods": [pod]})]);
        assert_eq!(texts(&mut about_pods("n1", &[])), [serde_json::json!({"node": "n1", "pods": []})]);
        let container = Container {
            pod: "checkout-0".to_owned(),
            container: "app".to_owned(),
            quota: None,
            used: 0.5,
            throttled: 0.25,
        };
        let containers = vec![container];
        let app = App { name: "shop/checkout".to_owned(), observed: false, limit: 1.0, free: 0.25, containers };
        let expected = serde_json::json!({"node": "n1", "apps": [{"name": "shop/checkout", "limit": 1.0, "free": 0.25,
            "containers": [{"pod": "checkout-0", "container": "app", "used": 0.5, "throttled": 0.25}]}]});
        assert_eq!(texts(&mut about_apps("n1", std::slice::from_ref(&app))), [expected]);
        let observed = texts(&mut about_apps("n1", &[App { observed: true, ..app }]));
        assert_eq!(observed[0]["apps"][0]["observed"], true);
        assert_eq!(texts(&mut about_asks("n1", &[name])), [asks]);
        assert_eq!(texts(&mut about_asks("n1", &[])), [] as [serde_json::Value; 0]);
    }

    #[test]
    fn the_longest_messages_are_as_long_as_is_allowed() {
        let name = PodName { namespace: "n".repeat(63), name: "p".repeat(253) };
        let pod = Pod { cores: Some(1_234.567_890_123), used_seconds: 123_456_789.123_456_7 };
        let pods = vec![Entry { name: name.clone(), pod }; 2 * MOST_PODS + 1];
        let asks = vec![name; 2 * MOST_PODS + 1];
        let length = |message| serde_json::to_vec(&message).unwrap().len();
        let lengths: Vec<usize> = about_pods("n1", &pods).chain(about_asks("n1", &asks)).map(length).collect();
        assert_eq!(lengths.len(), 6);
        assert!(lengths.iter().all(|length| *length < 96 << 10), "{lengths:?}");
    }
}
