//! The node agent of the shipped overlay: sidecars follow the quotas of their pods, by the control
//! plane.

use super::chapter::AT_FIRST;
use crate::mesh::{Answer, Mesh};
use anyhow::{Context, Result, ensure};

const PER_CORE: &str = "capacity: {estimator: static, perCore: 50, limit: 40}";
const DAEMON_SET: &str = "/apis/apps/v1/namespaces/bloc-node/daemonsets/bloc-node-agent";
/// While the cores are not known.
const LIMIT: i64 = 40;
/// What each container keeps at least; idle, it gets no more. So these are capacities: 20, 25.
const FLOORS: [&str; 2] = ["400m", "500m"];

/// The overlay as it is shipped, with a sidecar and without capabilities.
pub async fn the_overlay_runs_an_agent_that_observes(mesh: &Mesh) -> Result<()> {
    mesh.set_parameters("shop", PER_CORE).await?;
    roll_out(mesh, "overlays/node-agent").await?;
    mesh.until("the agent", async || {
        let metrics = metrics(mesh).await?;
        Ok(is(&metrics, "bloc_node_config_ok", 1.0) && is(&metrics, "bloc_node_enforcing", 0.0))
    })
    .await?;
    // The application is named, but nothing is enforced.
    configure(mesh, "observe", &quotas(FLOORS[0]))?;
    mesh.until("an application that is observed", async || {
        Ok(metrics(mesh).await?.contains(r#"bloc_node_cpu_quota_cores{app="shop/backend""#))
    })
    .await?;
    mesh.capacity_in_force(LIMIT).await
}

/// Agent, its sidecar, the control plane's, and the polls of the pods' sidecars.
pub async fn sidecars_follow_the_quotas_of_which_the_agent_tells_the_control_plane(mesh: &Mesh) -> Result<()> {
    configure(mesh, "enforce", &quotas(FLOORS[0]))?;
    mesh.capacity_in_force(20).await?;
    heard(mesh).await
}

/// Whether each replica of the control plane hears of the agent.
async fn heard(mesh: &Mesh) -> Result<()> {
    for pod in mesh.kubelet.pods("bloc-system", "app", "bloc-control-plane") {
        let answer = Answer::get(&format!("http://{}:7081/metrics", pod.address), &[]).await?;
        ensure!(is(&answer.body, "bloc_node_agents", 1.0), "{} hears of no agent: {answer:?}", pod.name);
    }
    Ok(())
}

/// The node's part comes with a token that names the node, by Lease objects of the control plane.
pub async fn a_limit_over_nodes_is_leased_to_the_node_of_the_token(mesh: &Mesh) -> Result<()> {
    configure(mesh, "enforce", &format!("cpu: {{limit: 5, over: cluster, floor: {}}}", FLOORS[1]))?;
    mesh.until("a part of the limit", async || {
        let held = metrics(mesh).await?.lines().find_map(|line| {
            line.strip_prefix(r#"bloc_node_lease_held_ratio{app="shop/backend"} "#)?.parse::<f64>().ok()
        });
        Ok(held.is_some_and(|held| held > 0.0))
    })
    .await?;
    // Five containers with their floors: 25 for each of them.
    mesh.capacity_in_force(25).await?;
    let leases = mesh.api.kubectl(["-n", "bloc-system", "get", "leases", "-o", "name"]).await?;
    ensure!(leases.contains("/cpu.shop.backend"), "no record: {leases}");
    configure(mesh, "enforce", &quotas(FLOORS[0]))?;
    mesh.until("nothing that is held", async || {
        Ok(!metrics(mesh).await?.contains(r#"bloc_node_lease_held_ratio{app="shop/backend"}"#))
    })
    .await
}

/// Sidecars report them, and the control plane answers the agent's message with them.
pub async fn response_times_come_to_an_agent_in_qos_mode(mesh: &Mesh) -> Result<()> {
    configure(mesh, "enforce", "qos: {target: 10s}")?;
    mesh.until("response times of all backends", async || {
        for _ in 0..20 {
            ensure!(mesh.ask("/").await?.status == 200, "no answer");
        }
        let metrics = metrics(mesh).await?;
        let measured = metrics.lines().filter_map(|line| {
            let (which, seconds) = line.split_once(' ')?;
            which.starts_with("bloc_node_qos_response_seconds{").then(|| seconds.parse::<f64>().ok())?
        });
        // A request takes 20 ms.
        Ok(measured.filter(|seconds| (0.01..1.0).contains(seconds)).count() == mesh.backends().len())
    })
    .await?;
    configure(mesh, "enforce", &quotas(FLOORS[0]))?;
    mesh.capacity_in_force(20).await
}

/// It follows the next agent again.
pub async fn a_sidecar_whose_agent_is_gone_uses_what_is_configured(mesh: &Mesh) -> Result<()> {
    mesh.api.kubectl(["-n", "bloc-node", "delete", "daemonset", "bloc-node-agent"]).await?;
    mesh.capacity_in_force(LIMIT).await?;
    roll_out(mesh, "overlays/node-agent").await?;
    configure(mesh, "enforce", &quotas(FLOORS[1]))?;
    mesh.capacity_in_force(25).await
}

/// With the shop as before.
pub async fn uninstalled_a_sidecar_uses_what_is_configured(mesh: &Mesh) -> Result<()> {
    mesh.delete_folder("overlays/node-agent").await?;
    mesh.capacity_in_force(LIMIT).await?;
    mesh.set_parameters("shop", AT_FIRST).await?;
    mesh.capacity_in_force(9).await
}

/// Applies an overlay with the agent, and waits until its pod is the only one.
async fn roll_out(mesh: &Mesh, overlay: &str) -> Result<()> {
    mesh.apply_folder(overlay).await?;
    mesh.until(&format!("the agent of {overlay}"), async || {
        let set = mesh.api.get(DAEMON_SET).await?.context("no DaemonSet")?;
        let one = |name: &str| set["status"][name] == 1;
        let seen = set["status"]["observedGeneration"] == set["metadata"]["generation"];
        metrics(mesh).await?;
        Ok(seen && one("updatedNumberScheduled") && one("numberAvailable"))
    })
    .await
}

/// The agent's metrics, past its sidecar.
async fn metrics(mesh: &Mesh) -> Result<String> {
    let [pod] = &mesh.kubelet.pods("bloc-node", "app", "bloc-node-agent")[..] else {
        anyhow::bail!("not one pod of the agent");
    };
    let answer = Answer::get(&format!("http://{}:7082/metrics", pod.address), &[]).await?;
    ensure!(answer.status == 200, "{answer:?}");
    Ok(answer.body)
}

/// Whether a metric without labels has this value.
fn is(metrics: &str, name: &str, value: f64) -> bool {
    let line = metrics.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    line.and_then(|number| number.parse().ok()) == Some(value)
}

/// A limit that is enough for all.
fn quotas(floor: &str) -> String {
    format!("cpu: {{limit: 100, floor: {floor}}}")
}

/// Changes the agent's file, as the kubelet does some time after the ConfigMap has changed.
fn configure(mesh: &Mesh, mode: &str, rule: &str) -> Result<()> {
    let pods = mesh.kubelet.pods("bloc-node", "app", "bloc-node-agent");
    let folder = mesh.logs.join(&pods.first().context("no agent")?.name).join("config");
    let app = format!("{{pods: {{matchLabels: {{app: backend}}}}, {rule}}}");
    let draft = folder.join("draft");
    std::fs::write(&draft, format!("mode: {mode}\napps:\n  shop/backend: {app}\n"))?;
    Ok(std::fs::rename(draft, folder.join("node-agent.yaml"))?)
}
