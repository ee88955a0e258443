//! What there is to report, and the messages.

use crate::agent::status::{self, Status};
use crate::cores::Cores;
use bloc_daemon::cpu::{AppCpu, ContainerCpu, CpuMessage, PodCpu, PodName};
use std::collections::BTreeSet;
use std::sync::Arc;

/// All that there is to report.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Cpu {
    /// The pods that have a quota.
    pub pods: Vec<PodCpu>,
    /// The applications, as of the last second.
    pub apps: Arc<Vec<AppCpu>>,
    /// The pods whose response times the agent asks for.
    pub asks: Arc<BTreeSet<PodName>>,
}

/// Most containers that are reported of an application; the page shows fewer.
const MOST_CONTAINERS: usize = 200;

/// The applications, for the page.
pub fn apps(status: &Status) -> Vec<AppCpu> {
    let container = |container: &status::ContainerCpu| ContainerCpu {
        pod: container.which.pod.clone(),
        container: container.which.container.clone(),
        quota: container.quota.map(Cores::get),
        used: container.used.get(),
        throttled: container.throttled,
    };
    let app = |(name, cpu): (&String, &status::AppCpu)| AppCpu {
        name: name.clone(),
        observed: !status.enforcing,
        limit: cpu.limit.get(),
        free: cpu.free.get(),
        containers: cpu.containers.iter().take(MOST_CONTAINERS).map(container).collect(),
    };
    status.cpu.iter().map(app).collect()
}

/// Most pods in a message: with the longest names they take 80 KB of 96 KiB.
const MOST_PODS: usize = 200;

// A message is about pods, an application, or a question: if one is refused, the others still
// count.

/// The messages about these pods; at least one.
pub(super) fn about_pods(node: &str, pods: &[PodCpu]) -> impl Iterator<Item = CpuMessage> {
    let (first, rest) = pods.split_at(pods.len().min(MOST_PODS));
    let message = |pods: &[PodCpu]| CpuMessage { pods: pods.to_vec(), ..of(node) };
    std::iter::once(first).chain(rest.chunks(MOST_PODS)).map(message)
}

pub(super) fn about_apps(node: &str, apps: &[AppCpu]) -> impl Iterator<Item = CpuMessage> {
    apps.iter().map(|app| CpuMessage { apps: vec![app.clone()], ..of(node) })
}

pub(super) fn about_asks(node: &str, asks: &[PodName]) -> impl Iterator<Item = CpuMessage> {
    asks.chunks(MOST_PODS).map(|asks| CpuMessage { asks: asks.to_vec(), ..of(node) })
}

fn of(node: &str) -> CpuMessage {
    CpuMessage { node: node.to_owned(), ..CpuMessage::default() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_message_is_about_one_thing() {
        let name = PodName { namespace: "shop".to_owned(), name: "checkout-0".to_owned() };
        let pods = [PodCpu { cores: Some(0.25), used_seconds: 1.5, ..PodCpu::default() }];
        let app = AppCpu { name: "shop/checkout".to_owned(), limit: 1.0, free: 0.25, ..AppCpu::default() };
        let (apps, asks) = ([app.clone(), app], [name]);
        assert_eq!(about_pods("n1", &pods).collect::<Vec<_>>(), [CpuMessage { pods: pods.to_vec(), ..of("n1") }]);
        assert_eq!(about_pods("n1", &[]).collect::<Vec<_>>(), [of("n1")]);
        let about: Vec<_> = about_apps("n1", &apps).map(|message| (message.pods.len(), message.apps.len())).collect();
        assert_eq!(about, [(0, 1), (0, 1)]);
        assert_eq!(about_asks("n1", &asks).collect::<Vec<_>>(), [CpuMessage { asks: asks.to_vec(), ..of("n1") }]);
        assert_eq!(about_asks("n1", &[]).count(), 0);
    }

    #[test]
    fn the_longest_messages_are_as_long_as_is_allowed() {
        let name = PodName { namespace: "n".repeat(63), name: "p".repeat(253) };
        let pod = PodCpu {
            namespace: name.namespace.clone(),
            name: name.name.clone(),
            cores: Some(1_234.567_890_123),
            used_seconds: 123_456_789.123_456_7,
        };
        let pods = vec![pod; 2 * MOST_PODS + 1];
        let asks = vec![name; 2 * MOST_PODS + 1];
        let length = |message| serde_json::to_vec(&message).unwrap().len();
        let lengths: Vec<usize> = about_pods("n1", &pods).chain(about_asks("n1", &asks)).map(length).collect();
        assert_eq!(lengths.len(), 6);
        assert!(lengths.iter().all(|length| *length < 96 << 10), "{lengths:?}");
    }
}
