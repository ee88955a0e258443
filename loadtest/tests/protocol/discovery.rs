//! Servers without a configured list are learned from `upstream.address`.

use crate::support::{Place, Pod, eventually, outbound, request, send, sender};
use bloc_mesh::envoy::SERVICE;
use serde_json::json;

#[tokio::test(flavor = "multi_thread")]
async fn learns_servers_from_responses_and_forgets_one_that_left() {
    let place = Place::new();
    let (one, two) = (Pod::with_capacity(&place, "one", 10).await, Pod::with_capacity(&place, "two", 10).await);
    let mut bootstrap = outbound(&place, &[one.address, two.address], &json!({"services": {SERVICE: {}}}), None);
    // The cluster's endpoints from a file, as a mesh's control plane would send them.
    let endpoints = place.path().join("endpoints.json");
    let cluster = &mut bootstrap["static_resources"]["clusters"][0];
    let mut assignment = cluster["load_assignment"].take();
    cluster.as_object_mut().unwrap().remove("load_assignment");
    cluster["type"] = json!("EDS");
    cluster["eds_cluster_config"] = json!({"eds_config": {"resource_api_version": "V3",
        "path_config_source": {"path": endpoints, "watched_directory": {"path": place.path()}}}});
    bootstrap["node"] = json!({"id": "sender", "cluster": "test"});
    let write = |assignment: &serde_json::Value, version: &str| {
        let mut resource = assignment.clone();
        resource["@type"] = json!("type.googleapis.com/envoy.config.endpoint.v3.ClusterLoadAssignment");
        let new = endpoints.with_extension("new");
        std::fs::write(&new, json!({"version_info": version, "resources": [resource]}).to_string()).unwrap();
        std::fs::rename(&new, &endpoints).unwrap();
    };
    write(&assignment, "1");
    let (envoy, to) = sender(&place, &bootstrap).await;
    let counter = async |name: &str| crate::support::metric(&envoy, "outbound", name).await;

    for _ in 0..200 {
        assert_eq!(send(to, request("/x"), "").await.unwrap().status.as_u16(), 200);
    }
    let shares = [one.app.seen("/x").len(), two.app.seen("/x").len()];
    assert!(shares.iter().all(|&share| share > 40), "{shares:?}");
    let fallbacks =
        eventually("counts", async || (counter("requests").await == 200).then_some(counter("fallbacks").await)).await;
    // Each worker learns on its own. It needs at least one request, and at most some dozens, to
    // learn both servers.
    assert!((2..120).contains(&fallbacks), "{fallbacks} of 200 requests went without a list");

    // One leaves the cluster: no request is lost, and the list no longer names it.
    assignment["endpoints"][0]["lb_endpoints"].as_array_mut().unwrap().remove(0);
    write(&assignment, "2");
    eventually("the update of the endpoints", async || {
        let stats = envoy.stats("cluster.backend.membership_total").await.unwrap();
        (stats.get("cluster.backend.membership_total") == Some(&1)).then_some(())
    })
    .await;
    for _ in 0..200 {
        let answer = send(to, request("/y"), "").await.unwrap();
        assert_eq!((answer.status.as_u16(), answer.app()), (200, Some("two")));
    }
}
