//! The node agent's manifests as shipped, the rights that they give, and its source of pods with
//! these rights.

use super::cluster::{Cluster, LIMIT, until};
use bloc_node_agent::bytes::Bytes;
use bloc_node_agent::pods::Pod;
use bloc_node_agent::source::kubernetes::{DAEMON_SET, is_leaving, watch};
use k8s_openapi::api::apps::v1::DaemonSet;
use k8s_openapi::api::authentication::v1::TokenRequest;
use k8s_openapi::api::authorization::v1::{SelfSubjectRulesReview, SelfSubjectRulesReviewSpec};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Node, Pod as ApiPod, Secret, ServiceAccount};
use k8s_openapi::api::rbac::v1::{ClusterRole, RoleBinding};
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::{Api, Client, Error};
use serde_json::json;
use std::collections::BTreeSet;
use std::fmt::Debug;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

const NAMESPACE: &str = "bloc-node";

/// Applies the manifests as shipped, and returns a client with the agent's rights only.
async fn install(cluster: &Cluster) -> Client {
    apply(cluster, "node-agent").await;
    token(cluster, NAMESPACE, "bloc-node-agent").await
}

async fn apply(cluster: &Cluster, folder: &str) {
    let folder = format!("{}/../istio-manifests/{folder}", env!("CARGO_MANIFEST_DIR"));
    cluster.kubectl(&["apply", "--server-side", "--validate=strict", "-k", &folder]).await;
}

/// A client with the token of a ServiceAccount, as the kubelet mounts it.
async fn token(cluster: &Cluster, namespace: &str, name: &str) -> Client {
    let accounts = Api::<ServiceAccount>::namespaced(cluster.client.clone(), namespace);
    let request: TokenRequest = serde_json::from_value(json!({"spec": {"audiences": []}})).unwrap();
    let answer = accounts.create_token_request(name, &PostParams::default(), &request).await.unwrap();
    cluster.client_with(&answer.status.unwrap().token.unwrap())
}

/// What a client may do in a namespace, a line for each rule.
async fn rights(client: &Client, namespace: &str) -> BTreeSet<String> {
    let spec = SelfSubjectRulesReviewSpec { namespace: Some(namespace.to_owned()) };
    let review = SelfSubjectRulesReview { spec, ..SelfSubjectRulesReview::default() };
    let review = Api::<SelfSubjectRulesReview>::all(client.clone()).create(&PostParams::default(), &review).await;
    let status = review.unwrap().status.unwrap();
    assert!(!status.incomplete, "{:?}", status.evaluation_error);
    let words = |list: Option<Vec<String>>| list.unwrap_or_default().join(",");
    let rules = status.resource_rules.into_iter();
    let resources = rules
        .map(|rule| format!("{} {} {}", words(Some(rule.verbs)), words(rule.resources), words(rule.resource_names)));
    let paths = status.non_resource_rules.into_iter();
    resources.chain(paths.map(|rule| format!("{} {}", rule.verbs.join(","), words(rule.non_resource_urls)))).collect()
}

#[track_caller]
fn forbidden<T: Debug>(answer: Result<T, Error>) {
    match answer {
        Err(Error::Api(status)) if status.code == 403 => {}
        other => panic!("not forbidden: {other:?}"),
    }
}

/// A pod on a node, in shop; its container runs.
async fn start_pod(cluster: &Cluster, name: &str, node: &str) {
    let pods = Api::<ApiPod>::namespaced(cluster.client.clone(), "shop");
    let pod = json!({
        "metadata": {"name": name, "labels": {"app": "checkout"}},
        "spec": {
            "nodeName": node, "terminationGracePeriodSeconds": 0,
            "containers": [{"name": "app", "image": "app", "resources": {"requests": {"cpu": "1.5", "memory": "64Mi"}}}],
        },
    });
    pods.create(&PostParams::default(), &serde_json::from_value(pod).unwrap()).await.unwrap();
    let container = json!({
        "name": "app", "image": "app", "imageID": "", "ready": true, "restartCount": 0,
        "containerID": format!("containerd://{name}"), "state": {"running": {"startedAt": "2026-11-26T08:00:04Z"}},
    });
    let status = Patch::Merge(json!({"status": {"phase": "Running", "containerStatuses": [container]}}));
    pods.patch_status(name, &PatchParams::default(), &status).await.unwrap();
}

async fn label(client: &Client, name: &str, app: &str) -> Result<ApiPod, Error> {
    let change = Patch::Merge(json!({"metadata": {"labels": {"app": app}}}));
    Api::<ApiPod>::namespaced(client.clone(), "shop").patch(name, &PatchParams::default(), &change).await
}

#[tokio::test]
#[ignore = "needs kube-apiserver and etcd: make test-kube"]
async fn the_agent_may_list_pods_and_get_its_daemon_set_and_nothing_else() {
    let cluster = Cluster::start().await;
    let agent = install(&cluster).await;
    cluster.kubectl(&["create", "serviceaccount", "nobody", "--namespace=shop"]).await;
    let anybody = token(&cluster, "shop", "nobody").await;
    let own = "get daemonsets bloc-node-agent";
    for (namespace, more) in [(NAMESPACE, &["list,watch pods ", own][..]), ("shop", &["list,watch pods "][..])] {
        let (agents, others) = (rights(&agent, namespace).await, rights(&anybody, namespace).await);
        let difference: BTreeSet<_> = agents.symmetric_difference(&others).map(String::as_str).collect();
        assert_eq!(difference, more.iter().copied().collect(), "{namespace}");
    }

    start_pod(&cluster, "a", "node-1").await;
    let pods = Api::<ApiPod>::all(agent.clone()).list(&ListParams::default()).await.unwrap();
    assert_eq!(pods.items.len(), 1);
    Api::<DaemonSet>::namespaced(agent.clone(), NAMESPACE).get(DAEMON_SET).await.unwrap();
    let list = ListParams::default();
    forbidden(Api::<Secret>::all(agent.clone()).list(&list).await);
    forbidden(Api::<Secret>::namespaced(agent.clone(), NAMESPACE).list(&list).await);
    forbidden(Api::<ConfigMap>::namespaced(agent.clone(), NAMESPACE).get("bloc-node-agent").await);
    forbidden(Api::<Node>::all(agent.clone()).list(&list).await);
    forbidden(Api::<DaemonSet>::all(agent.clone()).list(&list).await);
    forbidden(Api::<DaemonSet>::namespaced(agent.clone(), NAMESPACE).get("another").await);
    forbidden(label(&agent, "a", "x").await);
    let shop = Api::<ApiPod>::namespaced(agent.clone(), "shop");
    forbidden(shop.delete("a", &DeleteParams::default()).await);
    forbidden(shop.get_subresource("log", "a").await);
}

#[tokio::test]
#[ignore = "needs kube-apiserver and etcd: make test-kube"]
async fn the_agents_pod_asks_for_folders_of_the_host_and_root_and_nothing_else() {
    let cluster = Cluster::start().await;
    let levels = ["baseline", "restricted"];
    for level in levels {
        let labels = json!({"pod-security.kubernetes.io/enforce": level});
        let namespace = serde_json::from_value(json!({"metadata": {"name": level, "labels": labels}})).unwrap();
        Api::<Namespace>::all(cluster.client.clone()).create(&PostParams::default(), &namespace).await.unwrap();
    }
    let own = [("kubepods", "/sys/fs/cgroup/kubepods.slice"), ("state", "/var/lib/bloc-node-agent")];
    let names = own.map(|(name, _)| format!("\"{name}\"")).join(", ");
    let objections = [
        format!("hostPath volumes (volumes {names})"),
        format!(
            "restricted volume types (volumes {names} use restricted volume type \"hostPath\"), \
             runAsNonRoot != true (pod or container \"node-agent\" must set securityContext.runAsNonRoot=true), \
             runAsUser=0 (pod must not set runAsUser=0)"
        ),
    ];
    // The second one is a change of the first.
    for folder in ["node-agent", "overlays/node-agent"] {
        apply(&cluster, folder).await;
        let pod = agents_pod(&cluster).await;
        let volumes = pod.spec.iter().flat_map(|spec| spec.volumes.iter().flatten());
        let folders =
            volumes.filter_map(|volume| Some((volume.name.as_str(), volume.host_path.as_ref()?.path.as_str())));
        assert_eq!(folders.collect::<Vec<_>>(), own, "{folder}");
        let container = &pod.spec.as_ref().unwrap().containers[0];
        let mounts = container.volume_mounts.iter().flatten();
        let mounted: BTreeSet<_> = mounts.map(|mount| mount.name.as_str()).collect();
        assert!(own.iter().all(|(name, _)| mounted.contains(name)), "{folder}: {mounted:?}");
        let context = container.security_context.as_ref();
        assert_eq!(context.and_then(|context| context.read_only_root_filesystem), Some(true), "{folder}");
        let dry = PostParams { dry_run: true, ..PostParams::default() };
        Api::namespaced(cluster.client.clone(), NAMESPACE).create(&dry, &pod).await.unwrap();

        for (level, objections) in levels.into_iter().zip(&objections) {
            let refused = Api::namespaced(cluster.client.clone(), level).create(&dry, &pod).await;
            let refused = refused.unwrap_err().to_string();
            let (_, said) = refused.split_once(&format!("violates PodSecurity \"{level}:latest\": ")).expect(&refused);
            let more = said.strip_prefix(objections.as_str()).unwrap_or_else(|| panic!("{folder}: {said}"));
            assert!(!more.starts_with(','), "{folder}: {said}");
        }
    }
}

/// A pod as the DaemonSet makes it.
async fn agents_pod(cluster: &Cluster) -> ApiPod {
    let daemon_set = Api::<DaemonSet>::namespaced(cluster.client.clone(), NAMESPACE).get(DAEMON_SET).await.unwrap();
    let template = daemon_set.spec.template;
    let mut pod = ApiPod { metadata: template.metadata.unwrap(), spec: template.spec, ..ApiPod::default() };
    pod.metadata.name = Some("agent".into());
    pod
}

#[tokio::test]
#[ignore = "needs kube-apiserver and etcd: make test-kube"]
async fn a_tenant_can_label_its_pods_into_an_application_but_not_name_one() {
    let cluster = Cluster::start().await;
    install(&cluster).await;
    // What the role `edit` consists of; a controller puts it together, which does not run here.
    let bind = ["create", "rolebinding", "tenant", "--namespace=shop", "--user=tenant"];
    cluster.kubectl(&[&bind[..], &["--clusterrole=system:aggregate-to-edit"]].concat()).await;
    start_pod(&cluster, "a", "node-1").await;
    let tenant = cluster.client_as("tenant");
    until("the tenant's rights", async || label(&tenant, "a", "pay").await.is_ok()).await;

    let change = Patch::Merge(json!({"data": {"node-agent.yaml": "mode: enforce"}}));
    let maps = Api::<ConfigMap>::namespaced(tenant.clone(), NAMESPACE);
    forbidden(maps.patch("bloc-node-agent", &PatchParams::default(), &change).await);
    let any = serde_json::from_value(json!({"metadata": {"name": "x"}})).unwrap();
    forbidden(maps.create(&PostParams::default(), &any).await);
    let pod = json!({"metadata": {"name": "x"}, "spec": {"containers": [{"name": "x", "image": "x"}]}});
    let pod = serde_json::from_value(pod).unwrap();
    forbidden(Api::<ApiPod>::namespaced(tenant.clone(), NAMESPACE).create(&PostParams::default(), &pod).await);
}

#[tokio::test]
#[ignore = "needs kube-apiserver and etcd: make test-kube"]
async fn the_source_follows_the_pods_of_its_node_only() {
    let mut cluster = Cluster::start().await;
    let agent = install(&cluster).await;
    start_pod(&cluster, "a", "node-1").await;
    start_pod(&cluster, "elsewhere", "node-2").await;
    let (sender, receiver) = tokio::sync::watch::channel(Arc::<Vec<Pod>>::default());
    let failures = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&failures);
    let source = tokio::spawn(async move {
        let count = || {
            counted.fetch_add(1, Ordering::Relaxed);
        };
        watch(agent, "node-1", sender, count).await;
    });
    // Names and labels.
    let sees = |expected: &[(&str, &str)]| {
        let pods = receiver.borrow();
        let whole = pods.iter().all(|pod| {
            let [container] = &pod.containers[..] else { return false };
            let requests = (container.requests.get(), container.memory) == (1.5, Bytes::mebi(64));
            pod.namespace == "shop" && container.id == pod.name && requests
        });
        let seen: BTreeSet<_> = pods.iter().map(|pod| (pod.name.as_str(), pod.labels["app"].as_str())).collect();
        whole && seen == expected.iter().copied().collect()
    };
    until("the first list", async || sees(&[("a", "checkout")])).await;
    start_pod(&cluster, "b", "node-1").await;
    until("a new pod", async || sees(&[("a", "checkout"), ("b", "checkout")])).await;
    label(&cluster.client, "b", "pay").await.unwrap();
    label(&cluster.client, "elsewhere", "pay").await.unwrap();
    until("a new label", async || sees(&[("a", "checkout"), ("b", "pay")])).await;
    let pods = Api::<ApiPod>::namespaced(cluster.client.clone(), "shop");
    pods.delete("a", &DeleteParams::default()).await.unwrap();
    until("a pod to go", async || sees(&[("b", "pay")])).await;
    let ended = Patch::Merge(json!({"status": {"phase": "Succeeded"}}));
    pods.patch_status("b", &PatchParams::default(), &ended).await.unwrap();
    until("a pod to end", async || sees(&[])).await;
    start_pod(&cluster, "c", "node-1").await;
    until("a third pod", async || sees(&[("c", "checkout")])).await;
    assert_eq!(failures.load(Ordering::Relaxed), 0);

    // A running watch survives the loss of its rights until it is renewed, which a restart of the
    // API server forces here.
    let roles = Api::<ClusterRole>::all(cluster.client.clone());
    roles.delete("bloc-node-agent", &DeleteParams::default()).await.unwrap();
    cluster.kill_server().await;
    cluster.restart_server().await;
    pods.delete("c", &DeleteParams::default()).await.unwrap();
    start_pod(&cluster, "d", "node-1").await;
    let before = failures.load(Ordering::Relaxed);
    until("two more failures", async || failures.load(Ordering::Relaxed) >= before + 2).await;
    assert!(sees(&[("c", "checkout")]), "the last list stays");
    apply(&cluster, "node-agent").await;
    until("the new state", async || sees(&[("d", "checkout")])).await;
    drop(receiver);
    tokio::time::timeout(LIMIT, source).await.unwrap().unwrap();
}

#[tokio::test]
#[ignore = "needs kube-apiserver and etcd: make test-kube"]
async fn the_agent_leaves_with_its_daemon_set_or_its_rights_only() {
    let mut cluster = Cluster::start().await;
    let agent = install(&cluster).await;
    let leaves = async || is_leaving(agent.clone(), NAMESPACE, DAEMON_SET).await;
    until("the agent's rights", async || !leaves().await).await;
    // An upgrade.
    cluster
        .kubectl(&["set", "image", "-n", NAMESPACE, "daemonset/bloc-node-agent", "node-agent=bloc-node-agent:0.2.0"])
        .await;
    assert!(!leaves().await);

    let sets = Api::<DaemonSet>::namespaced(cluster.client.clone(), NAMESPACE);
    let background = DeleteParams::background();
    sets.delete(DAEMON_SET, &background).await.unwrap();
    assert!(leaves().await, "404");
    apply(&cluster, "node-agent").await;
    assert!(!leaves().await);
    // It stays until its pods are gone, which nobody removes here.
    sets.delete(DAEMON_SET, &DeleteParams::foreground()).await.unwrap();
    assert!(sets.get(DAEMON_SET).await.unwrap().metadata.deletion_timestamp.is_some());
    assert!(leaves().await, "going");
    let without = Patch::Merge(json!({"metadata": {"finalizers": null}}));
    sets.patch(DAEMON_SET, &PatchParams::default(), &without).await.unwrap();
    apply(&cluster, "node-agent").await;
    until("the next one", async || !leaves().await).await;

    let roles = Api::<RoleBinding>::namespaced(cluster.client.clone(), NAMESPACE);
    roles.delete("bloc-node-agent", &background).await.unwrap();
    until("403", async || leaves().await).await;
    apply(&cluster, "node-agent").await;
    until("the rights", async || !leaves().await).await;
    let accounts = Api::<ServiceAccount>::namespaced(cluster.client.clone(), NAMESPACE);
    accounts.delete("bloc-node-agent", &background).await.unwrap();
    until("401", async || leaves().await).await;

    cluster.kill_server().await;
    assert!(!leaves().await, "nobody can be asked");
}
