//! A plugin configuration that names no service: the filter takes the name from Istio's metadata of
//! the inbound cluster.

use crate::support::{App, Place, eventually, from_sidecar, inbound, request, send};
use bloc_mesh::envoy::Envoy;
use serde_json::{Value, json};

const HOST: &str = "shop.default.svc.cluster.local";

/// A sidecar whose plugin configuration has parameters, but no service; `services` is Istio's
/// metadata.
async fn start(place: &Place, services: Value) -> (App, Envoy) {
    let app = App::start("pod").await;
    let spec = json!({"capacity": {"estimator": "static", "limit": 7}});
    let mut bootstrap = inbound(place, app.address, &json!({"services": {HOST: spec}}), None);
    bootstrap["static_resources"]["clusters"][0]["metadata"] =
        json!({"filter_metadata": {"istio": {"services": services}}});
    let sidecar = Envoy::start(&place.envoy, place.path(), "pod", &bootstrap, 2).await.unwrap();
    (app, sidecar)
}

#[tokio::test(flavor = "multi_thread")]
async fn the_inbound_filter_takes_the_first_service_of_the_cluster() {
    let place = Place::new();
    let other = json!({"host": "other.default.svc.cluster.local", "name": "other", "namespace": "default"});
    let first = json!({"host": HOST, "name": "shop", "namespace": "default"});
    let (_app, sidecar) = start(&place, json!([first, other])).await;
    let address = sidecar.listener("inbound").unwrap();
    let answer = send(address, from_sidecar("/x"), "").await.unwrap();
    assert_eq!((answer.app(), answer.load().and_then(|load| load.2)), (Some("pod"), Some(7)));
    let admitted = format!("wasmcustom.bloc.inbound.{HOST}.admitted");
    eventually("the count of what was admitted", async || {
        (sidecar.stats("wasmcustom").await.unwrap().get(&admitted) == Some(&1)).then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn strips_our_headers_for_a_cluster_without_a_service() {
    let place = Place::new();
    let (app, sidecar) = start(&place, json!([])).await;
    let address = sidecar.listener("inbound").unwrap();
    let asked = ["x-bloc-endpoints", "x-bloc-bid", "x-bloc-load", "x-bloc-reject"];
    let request = asked.into_iter().fold(request("/x"), |request, name| request.header(name, "1"));
    let answer = send(address, request, "").await.unwrap();
    assert_eq!((answer.app(), answer.ours()), (Some("pod"), vec![]));
    let seen = &app.seen("/x")[0].headers;
    assert!(seen.keys().all(|name| !name.as_str().starts_with("x-bloc")), "{seen:?}");
    let metrics = sidecar.stats("wasmcustom").await.unwrap();
    assert!(metrics.keys().all(|name| !name.contains("inbound")), "{metrics:?}");
}
