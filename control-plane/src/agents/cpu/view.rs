//! What operators see of the CPU of applications.

use bloc_daemon::cpu::{AppCpu, ContainerCpu};
use serde::Serialize;

/// The most containers shown of an application on a node.
const MAX_CONTAINERS: usize = 30;

/// An application on a node, in cores.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AppView {
    /// `namespace/name`.
    pub name: String,
    pub node: String,
    /// Whether quotas, limit and free CPU are what the agent would set.
    pub observed: bool,
    pub limit: f64,
    /// What no container has.
    pub free: f64,
    /// The sum of the quotas; `null`: a container has none.
    pub quota: Option<f64>,
    /// The sum of what the containers use.
    pub used: f64,
    /// Unused quota; `null`: a container has no quota.
    pub slack: Option<f64>,
    pub container_count: usize,
    /// The first containers, in the agent's order.
    pub containers: Vec<ContainerView>,
}

/// A container, in cores.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ContainerView {
    /// What the agent reports of it.
    #[serde(flatten)]
    pub of: ContainerCpu,
    /// Unused quota; `null`: it has no quota.
    pub slack: Option<f64>,
}

impl AppView {
    /// What an agent has reported.
    pub fn of(node: &str, app: &AppCpu) -> Self {
        let view = |of: &ContainerCpu| ContainerView { of: of.clone(), slack: slack(of.quota, of.used) };
        let quota = app.containers.iter().map(|of| of.quota).sum::<Option<f64>>();
        let used = app.containers.iter().map(|of| of.used).sum();
        Self {
            name: app.name.clone(),
            node: node.to_owned(),
            observed: app.observed,
            limit: app.limit,
            free: app.free,
            quota,
            used,
            slack: slack(quota, used),
            container_count: app.containers.len(),
            containers: app.containers.iter().take(MAX_CONTAINERS).map(view).collect(),
        }
    }
}

/// At least 0: recent use may exceed the current quota.
fn slack(quota: Option<f64>, used: f64) -> Option<f64> {
    quota.map(|quota| (quota - used).max(0.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn adds_up_the_containers_and_shows_the_first() {
        let of = |quota, used| ContainerCpu { quota, used, throttled: 0.5, ..ContainerCpu::default() };
        let app = |containers| AppCpu { name: "a/b".into(), observed: true, limit: 4.0, free: 1.0, containers };
        let view = AppView::of("n1", &app(vec![of(Some(1.0), 0.25), of(Some(2.0), 2.5)]));
        assert_eq!((&*view.name, &*view.node, view.limit, view.free, view.observed), ("a/b", "n1", 4.0, 1.0, true));
        assert_eq!((view.quota, view.used, view.slack, view.container_count), (Some(3.0), 2.75, Some(0.25), 2));
        let slacks: Vec<_> = view.containers.iter().map(|of| (of.slack, of.of.throttled)).collect();
        assert_eq!(slacks, [(Some(0.75), 0.5), (Some(0.0), 0.5)]);
        let view = AppView::of("n1", &app([vec![of(None, 1.0)], vec![of(Some(1.0), 0.0); 30]].concat()));
        assert_eq!((view.quota, view.slack, view.container_count, view.containers.len()), (None, None, 31, 30));
        assert_eq!((view.containers[0].slack, view.containers[1].slack), (None, Some(1.0)));
    }
}
