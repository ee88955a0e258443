//! What a sidecar reports to the control plane and to Prometheus.

use crate::control_plane::{ControlPlane, pod, write};
use crate::support::{Place, eventually, outbound, request, send, sender};
use bloc_mesh::envoy::{Envoy, SERVICE};
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// The sidecar metrics on the dashboard.
fn on_the_dashboard() -> BTreeSet<&'static str> {
    let dashboard = include_str!("../../../control-plane/dashboards/bloc.json");
    let words = dashboard.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_'));
    words.filter(|word| word.starts_with("bloc_inbound_") || word.starts_with("bloc_outbound_")).collect()
}

/// The names of the metrics whose label `bloc_service` is this service.
async fn metrics(envoy: &Envoy) -> BTreeSet<String> {
    let text = envoy.admin_get("/stats/prometheus").await.unwrap();
    let label = format!("bloc_service=\"{SERVICE}\"");
    text.lines()
        .filter(|line| line.contains(&label))
        .filter_map(|line| line.split_once('{'))
        .map(|(name, _)| name.to_owned())
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn reports_server_events_to_the_control_plane_and_to_prometheus() {
    let place = Place::new();
    write(&place, "1", &[]);
    let control_plane = ControlPlane::start(&place, "127.0.0.1:0").await;
    let pod = pod(&place, "a", control_plane.address).await;
    write(&place, "1", &[pod.address]);
    let configuration = json!({"services": {SERVICE: {"retries": 0}}});
    let (caller, address) = sender(&place, &outbound(&place, &[pod.address], &configuration, None)).await;

    // With a capacity of 1 an answer carries a chip if no other request is inside, and of two
    // concurrent requests the second is rejected.
    eventually("a chip and a rejection in the report", async || {
        let both = tokio::join!(send(address, request("/slow"), ""), send(address, request("/slow"), ""));
        assert!(both.0.is_ok() && both.1.is_ok());
        let service: Value =
            serde_json::from_str(&control_plane.get(&format!("/v1/status/services/{SERVICE}")).await).unwrap();
        let events = &service["servers"][0]["events"];
        let rates = [&events["chipsGranted"], &events["rejectedCapacity"], &events["departures"]];
        rates.iter().all(|rate| rate.as_f64().is_some_and(|rate| rate > 0.0)).then_some(())
    })
    .await;

    let shown = &metrics(&pod.sidecar).await | &metrics(&caller).await;
    let missing: Vec<_> = on_the_dashboard().into_iter().filter(|name| !shown.contains(*name)).collect();
    assert_eq!(missing, Vec::<&str>::new());
}
