use super::*;
use crate::bytes::Bytes;
use crate::cores::Cores;
use crate::pods::Container;
use kube::Config as ClientConfig;
use serde_json::{Value, json};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

/// A pod of a Deployment with Istio's sidecar, as `kubectl get -o json` shows it, shortened.
fn checkout() -> Value {
    let id = |digit: &str| format!("containerd://{}", digit.repeat(64));
    let running = json!({"running": {"startedAt": "2026-11-26T08:00:04Z"}});
    let ended = json!({"terminated": {"exitCode": 0, "reason": "Completed", "containerID": id("1")}});
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": "checkout-6d5f8c7b9-x2x7q", "namespace": "shop", "uid": "0a1b2c3d-0000-4000-8000-00000000000a",
            "resourceVersion": "4711", "creationTimestamp": "2026-11-26T08:00:00Z",
            "labels": {"app": "checkout", "pod-template-hash": "6d5f8c7b9"},
            "annotations": {"kubectl.kubernetes.io/default-container": "app"},
            "managedFields": [{
                "manager": "kubelet", "operation": "Update", "apiVersion": "v1", "time": "2026-11-26T08:00:05Z",
                "fieldsType": "FieldsV1", "fieldsV1": {"f:status": {"f:phase": {}}}, "subresource": "status",
            }],
        },
        "spec": {
            "nodeName": "node-1",
            "initContainers": [
                {"name": "istio-init", "image": "proxyv2", "resources": {"requests": {"cpu": "10m"}}},
                {"name": "istio-proxy", "image": "proxyv2", "restartPolicy": "Always",
                 "resources": {"requests": {"cpu": "100m", "memory": "128Mi"}}},
            ],
            "containers": [
                {"name": "app", "image": "shop/checkout:7", "resources": {"requests": {"cpu": "1500m", "memory": "0.5Gi"}, "limits": {"cpu": "2"}}},
                {"name": "exporter", "image": "exporter", "resources": {}},
            ],
        },
        "status": {
            "phase": "Running", "qosClass": "Burstable",
            "initContainerStatuses": [
                {"name": "istio-init", "ready": true, "restartCount": 0, "image": "proxyv2", "imageID": "", "containerID": id("1"), "state": ended},
                {"name": "istio-proxy", "ready": true, "restartCount": 0, "image": "proxyv2", "imageID": "", "containerID": id("2"), "state": running},
            ],
            "containerStatuses": [
                {"name": "exporter", "ready": true, "restartCount": 0, "image": "exporter", "imageID": "", "containerID": id("4"), "state": running},
                {"name": "app", "ready": true, "restartCount": 0, "image": "shop/checkout:7", "imageID": "", "containerID": id("3"), "state": running},
            ],
            "ephemeralContainerStatuses": [
                {"name": "debugger", "ready": false, "restartCount": 0, "image": "busybox", "imageID": "", "containerID": id("5"), "state": running},
            ],
        },
    })
}

fn parsed(pod: Value) -> api::Pod {
    serde_json::from_value(pod).unwrap()
}

/// The reduced pod, after a change.
fn reduced(change: impl FnOnce(&mut Value)) -> Pod {
    let mut pod = checkout();
    change(&mut pod);
    reduce::pod(&parsed(pod)).unwrap()
}

/// The containers of a pod, after a change.
fn containers(change: impl FnOnce(&mut Value)) -> Vec<(String, Cores)> {
    reduced(change).containers.into_iter().map(|container| (container.name, container.requests)).collect()
}

#[test]
fn keeps_the_containers_that_run_and_their_requests() {
    let container = |name: &str, digit: &str, requests, memory| Container {
        name: name.into(),
        id: digit.repeat(64),
        requests: Cores::milli(requests),
        memory: Bytes::mebi(memory),
    };
    let pod = Pod {
        namespace: "shop".into(),
        name: "checkout-6d5f8c7b9-x2x7q".into(),
        uid: "0a1b2c3d-0000-4000-8000-00000000000a".into(),
        labels: [("app", "checkout"), ("pod-template-hash", "6d5f8c7b9")].map(|(a, b)| (a.into(), b.into())).into(),
        containers: vec![
            container("istio-proxy", "2", 100, 128),
            container("app", "3", 1_500, 512),
            container("exporter", "4", 0, 0),
        ],
    };
    assert_eq!(reduce::pod(&parsed(checkout())), Some(pod));
}

#[test]
fn leaves_out_containers_that_do_not_run_or_have_no_id() {
    let all = [("istio-proxy", 100), ("app", 1_500), ("exporter", 0)];
    let all = all.map(|(name, requests)| (name.to_owned(), Cores::milli(requests)));
    for state in [json!({"waiting": {"reason": "CrashLoopBackOff"}}), json!({"terminated": {"exitCode": 1}}), json!({})]
    {
        let left = containers(|pod| pod["status"]["containerStatuses"][1]["state"] = state.clone());
        assert_eq!(left, [all[0].clone(), all[2].clone()], "{state}");
    }
    for id in ["", "containerd://", "0123", "containerd://..", "containerd://a/b", "containerd://a b"] {
        let left = containers(|pod| pod["status"]["initContainerStatuses"][1]["containerID"] = id.into());
        assert_eq!(left, all[1..], "{id}");
    }
    // A container that only starts has no status yet.
    assert_eq!(containers(|pod| pod["status"]["containerStatuses"] = json!([])), all[..1]);
    // Running init containers are omitted, too: they end.
    let running = json!({"running": {}});
    assert_eq!(containers(|pod| pod["status"]["initContainerStatuses"][0]["state"] = running), all);
    assert_eq!(containers(|pod| pod["status"]["containerStatuses"][0]["containerID"] = "cri-o://4a".into()), all);
}

#[test]
fn a_request_that_cannot_be_read_counts_as_none() {
    for (quantity, cores) in [("2", 2_000), ("0.25", 250), ("1k", 0), ("", 0), ("-1", 0), ("NaN", 0)] {
        let left = containers(|pod| pod["spec"]["containers"][0]["resources"]["requests"]["cpu"] = quantity.into());
        assert_eq!(left[1], ("app".into(), Cores::milli(cores)), "{quantity}");
    }
    for (quantity, bytes) in [("128974848000m", 128_974_848), ("1e9", 1_000_000_000), ("", 0), ("-1", 0), ("NaN", 0)] {
        let left = reduced(|pod| pod["spec"]["containers"][0]["resources"]["requests"]["memory"] = quantity.into());
        let app = &left.containers[1];
        assert_eq!((app.requests, app.memory), (Cores::milli(1_500), Bytes::new(bytes)), "{quantity}");
    }
}

#[test]
fn leaves_out_pods_that_ended_have_not_begun_or_belong_to_the_node() {
    type Change = fn(&mut Value);
    let none: [Change; 6] = [
        |pod| pod["status"]["phase"] = "Succeeded".into(),
        |pod| pod["status"]["phase"] = "Failed".into(),
        |pod| pod["status"] = Value::Null,
        |pod| pod["spec"] = Value::Null,
        |pod| pod["metadata"]["uid"] = Value::Null,
        |pod| pod["metadata"]["annotations"] = json!({"kubernetes.io/config.mirror": "0f"}),
    ];
    for (number, change) in none.into_iter().enumerate() {
        let mut pod = checkout();
        change(&mut pod);
        assert_eq!(reduce::pod(&parsed(pod)), None, "{number}");
    }
    // Until its containers have ended, a pod that is being deleted uses CPU.
    assert_eq!(containers(|pod| pod["metadata"]["deletionTimestamp"] = "2026-11-26T09:00:00Z".into()).len(), 3);
    assert_eq!(containers(|pod| pod["status"]["phase"] = "Pending".into()).len(), 3);
}

/// The pod with another uid and label.
fn pod(uid: &str, app: &str) -> api::Pod {
    let mut pod = checkout();
    pod["metadata"]["uid"] = uid.into();
    pod["metadata"]["labels"] = json!({"app": app});
    parsed(pod)
}

fn known(known: &Known) -> Vec<(&str, &str)> {
    known.pods.values().map(|pod| (pod.uid.as_str(), pod.labels["app"].as_str())).collect()
}

#[test]
fn publishes_what_changes_and_lists_as_a_whole() {
    let mut state = Known::default();
    assert!(!state.take(Event::Init) && !state.take(Event::InitApply(pod("a", "x"))) && state.pods.is_empty());
    assert!(state.take(Event::InitDone));
    assert_eq!(known(&state), [("a", "x")]);
    assert!(state.take(Event::Apply(pod("b", "x"))) && state.take(Event::Apply(pod("b", "y"))));
    assert_eq!(known(&state), [("a", "x"), ("b", "y")]);
    // A change of something that does not matter, such as a condition.
    assert!(!state.take(Event::Apply(pod("b", "y"))));
    let ended = |uid| api::Pod { status: None, ..pod(uid, "x") };
    assert!(state.take(Event::Apply(ended("a"))) && !state.take(Event::Apply(ended("a"))));
    assert_eq!(known(&state), [("b", "y")]);
    // A list that breaks off and restarts shows nothing of the first attempt.
    for uid in ["c", "d"] {
        assert!(!state.take(Event::Init) && !state.take(Event::InitApply(pod(uid, "x"))));
        assert!(!state.take(Event::InitApply(ended("e"))));
    }
    assert_eq!(known(&state), [("b", "y")]);
    assert!(state.take(Event::InitDone));
    assert_eq!(known(&state), [("d", "x")]);
    assert!(state.take(Event::Delete(pod("d", "x"))) && !state.take(Event::Delete(pod("d", "x"))));
    assert!(state.pods.is_empty() && state.listed.is_empty());
}

/// An API server that answers each request with a status and a body; status 0: no answer.
async fn server(answer: impl Fn(&str) -> (u16, String) + Send + Sync + 'static) -> Client {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let answer = Arc::new(answer);
    tokio::spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            let answer = Arc::clone(&answer);
            tokio::spawn(async move {
                let mut head = Vec::new();
                while !head.ends_with(b"\r\n\r\n") {
                    head.push(stream.read_u8().await.unwrap());
                }
                let (status, body) = answer(&String::from_utf8(head).unwrap());
                if status == 0 {
                    return std::future::pending().await;
                }
                let answer = format!(
                    "HTTP/1.1 {status} x\r\ncontent-type: application/json\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{body}",
                    body.len()
                );
                stream.write_all(answer.as_bytes()).await.unwrap();
            });
        }
    });
    Client::try_from(ClientConfig::new(url.parse().unwrap())).unwrap()
}

fn status(code: u16) -> (u16, String) {
    let status =
        json!({"apiVersion": "v1", "kind": "Status", "status": "Failure", "reason": "x", "message": "", "code": code});
    (code, status.to_string())
}

fn daemon_set(metadata: &Value) -> (u16, String) {
    let kind = json!({"apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadata", "metadata": metadata});
    (200, kind.to_string())
}

#[tokio::test]
async fn leaves_if_its_daemon_set_is_gone_or_going() {
    let named = json!({"name": DAEMON_SET, "namespace": "bloc-node"});
    let going = json!({"name": DAEMON_SET, "namespace": "bloc-node", "deletionTimestamp": "2026-11-26T09:00:00Z"});
    let answers = [
        (daemon_set(&named), false),
        (daemon_set(&going), true),
        (status(401), true),
        (status(403), true),
        (status(404), true),
        (status(400), false),
        (status(500), false),
        ((200, "no JSON".into()), false),
        // No answer within the time at the end.
        ((0, String::new()), false),
    ];
    for (answer, leaving) in answers {
        let shown = format!("{answer:?}");
        let client = server(move |head| {
            let path = "/apis/apps/v1/namespaces/bloc-node/daemonsets/bloc-node-agent";
            assert!(head.starts_with(&format!("GET {path}")), "{head}");
            answer.clone()
        });
        let client = client.await;
        let leaves = is_leaving(client, "bloc-node", DAEMON_SET);
        let leaves = tokio::time::timeout(Duration::from_secs(30), leaves).await;
        assert_eq!(leaves, Ok(leaving), "{shown}");
    }
    let gone = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let client = Client::try_from(ClientConfig::new(format!("http://{gone}").parse().unwrap())).unwrap();
    assert!(!is_leaving(client, "bloc-node", DAEMON_SET).await);
}

#[tokio::test]
async fn keeps_the_last_list_when_requests_fail_and_counts_them() {
    let lists = AtomicUsize::new(0);
    let client = server(move |head| {
        assert!(head.contains("fieldSelector=spec.nodeName%3Dnode-1"), "{head}");
        if head.contains("watch=") {
            // The revision has expired: it lists again.
            let error = json!({"type": "ERROR", "object": serde_json::from_str::<Value>(&status(410).1).unwrap()});
            return (200, format!("{error}\n"));
        }
        assert!(head.contains("resourceVersion=0"), "{head}");
        match lists.fetch_add(1, Ordering::Relaxed) {
            0 => {
                let metadata = json!({"resourceVersion": "7"});
                let list = json!({"apiVersion": "v1", "kind": "PodList", "metadata": metadata, "items": [checkout()]});
                (200, list.to_string())
            }
            _ => status(500),
        }
    });
    let client = client.await;
    let (sender, mut pods) = watch::channel(Arc::default());
    let failures = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&failures);
    let count = move || {
        counted.fetch_add(1, Ordering::Relaxed);
    };
    let running = tokio::spawn(async move { watch(client, "node-1", sender, count).await });
    let limit = Duration::from_secs(30);
    tokio::time::timeout(limit, pods.changed()).await.unwrap().unwrap();
    assert_eq!(**pods.borrow_and_update(), [reduce::pod(&parsed(checkout())).unwrap()]);
    let three_failures = async {
        while failures.load(Ordering::Relaxed) < 3 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(limit, three_failures).await.unwrap();
    assert!(!pods.has_changed().unwrap());
    drop(pods);
    tokio::time::timeout(limit, running).await.unwrap().unwrap();
}
