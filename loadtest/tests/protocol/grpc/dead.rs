//! An application that has ended behind a running sidecar.

use super::client::{Client, Kind};
use super::mesh::{Caller, Pod, ROUTINGS};
use crate::support::Place;
use serde_json::{Value, json};
use tokio::task::JoinSet;
use tonic::{Code, Status};

const CALLS: usize = 600;
const AT_ONCE: usize = 6;

/// Removes the user's retries.
fn without_policy(route: &mut Value) {
    let policy = route["retry_policy"].as_object_mut().unwrap();
    policy.retain(|field, _| field == "retry_back_off");
}

/// The statuses of the lost calls.
async fn lost(client: &Client) -> Vec<Status> {
    let mut clients = JoinSet::new();
    for _ in 0..AT_ONCE {
        let client = client.clone();
        clients.spawn(async move {
            let mut lost = Vec::new();
            for _ in 0..CALLS / AT_ONCE {
                match client.call(Kind::Echo, &["a"]).await {
                    Ok(answer) => assert_ne!(answer.app(), "gone"),
                    Err(status) => {
                        assert_eq!(status.code(), Code::Unavailable, "{status:?}");
                        lost.push(status);
                    }
                }
            }
            lost
        });
    }
    clients.join_all().await.concat()
}

#[tokio::test(flavor = "multi_thread")]
async fn loses_no_call_when_one_sidecar_has_lost_its_application() {
    let place = Place::new();
    for hold in [false, true] {
        let spec = json!({"concurrency": 8, "hold": hold});
        let [gone, one, two] = ["gone", "one", "two"].map(|name| format!("{name}-{hold}"));
        let gone = Pod::start(&place, &gone, spec.clone()).await;
        let pods = [Pod::start(&place, &one, spec.clone()).await, Pod::start(&place, &two, spec).await];
        let caller = Caller::start(&place, &[&gone, &pods[0], &pods[1]], without_policy).await;
        gone.app.stop().await;
        for way in ROUTINGS {
            let client = caller.client(way).await;
            let lost = lost(&client).await;
            assert!(lost.is_empty(), "{way}, hold: {hold}: {lost:?}");
        }
        // Stock Envoy loses calls here, which shows that the test can fail.
        let lost = lost(&caller.stock().await).await.len();
        assert!(lost > CALLS / 6, "{lost} with stock Envoy");
        for pod in &pods {
            pod.has_in_flight(0).await;
        }
    }
}
