//! Callers that cancel their calls.

use super::client::{Client, Kind, next};
use super::mesh::{Caller, Pod, ROUTINGS};
use crate::support::Place;
use serde_json::json;

/// Gives up two calls that are inside and do not end: a unary one, and a stream after its first
/// answer.
async fn give_up_inside(pod: &Pod, client: &Client) {
    let unary = client.hold();
    pod.works_on(1).await;
    let (messages, talk) = client.talk(&["a"]);
    let mut answers = talk.await.unwrap().into_inner();
    assert_eq!(next(&mut answers).await.as_deref(), Some("re: a"));
    assert_eq!(pod.app.at_once(), 2);
    unary.abort();
    pod.works_on(1).await;
    drop((messages, answers));
    pod.works_on(0).await;
}

/// Gives up a held call of each kind.
async fn give_up_held(pod: &Pod, client: &Client) {
    let before = pod.app.calls().len();
    let inside = [client.hold(), client.hold()];
    pod.works_on(2).await;
    let held = Kind::ALL.map(|kind| client.begin(kind, &["1"]));
    let (messages, talk) = client.talk(&["a", "b"]);
    let talk = tokio::spawn(talk);
    pod.has_in_flight(7).await;
    held.iter().for_each(tokio::task::JoinHandle::abort);
    pod.has_in_flight(3).await;
    talk.abort();
    drop(messages);
    pod.has_in_flight(2).await;
    pod.app.release(2);
    for inside in inside {
        inside.await.unwrap().unwrap();
    }
    pod.has_in_flight(0).await;
    assert_eq!(pod.app.calls().len(), before + 2, "no other call reached the application");
}

/// All places are free: as many calls as there are places get inside at once.
async fn all_places_are_free(pod: &Pod, client: &Client) {
    let inside = [client.hold(), client.hold()];
    pod.works_on(2).await;
    pod.app.release(2);
    for inside in inside {
        inside.await.unwrap().unwrap();
    }
    pod.has_in_flight(0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancelled_call_is_no_longer_counted_and_frees_its_slot() {
    let place = Place::new();
    let holds = Pod::start(&place, "holds", json!({"concurrency": 2, "hold": true})).await;
    let caller = Caller::start(&place, &[&holds], |_| ()).await;
    // The application learns of it with stock Envoy, too.
    give_up_inside(&holds, &caller.stock().await).await;
    for way in ["bloc", "mu"] {
        let client = caller.client(way).await;
        give_up_inside(&holds, &client).await;
        holds.has_in_flight(0).await;
        give_up_held(&holds, &client).await;
        all_places_are_free(&holds, &client).await;
    }
    assert_eq!(holds.app.most_at_once(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancelled_call_frees_its_slot_at_a_server_that_rejects() {
    let place = Place::new();
    let spec = json!({"capacity": {"estimator": "static", "limit": 2}, "concurrency": 1, "hold": false});
    let pod = Pod::start(&place, "rejects", spec).await;
    let caller = Caller::start(&place, &[&pod], |_| ()).await;
    for way in ROUTINGS {
        let client = caller.client(way).await;
        for _ in 0..3 {
            give_up_inside(&pod, &client).await;
            pod.has_in_flight(0).await;
        }
        all_places_are_free(&pod, &client).await;
    }
}
