//! An application that is gone, behind a sidecar that is not.

use super::client::{Client, Kind};
use super::mesh::{Caller, Pod, ROUTINGS};
use crate::support::Place;
use serde_json::{Value, json};
use tokio::task::JoinSet;
use tonic::Code;

const CALLS: usize = 600;
const AT_ONCE: usize = 6;

/// No retries of the user's.
fn without_policy(route: &mut Value) {
    let policy = route["retry_policy"].as_object_mut().unwrap();
    policy.retain(|field, _| field == "retry_back_off");
}

/// How many calls are lost.
async fn lost(client: &Client) -> usize {
    let mut clients = JoinSet::new();
    for _ in 0..AT_ONCE {
        let client = client.clone();
        clients.spawn(async move {
            let mut lost = 0;
            for _ in 0..CALLS / AT_ONCE {
                match client.call(Kind::Echo, &["a"]).await {
                    Ok(answer) => assert_ne!(answer.app(), "gone"),
                    Err(status) => {
                        assert_eq!(status.code(), Code::Unavailable, "{status:?}");
                        lost += 1;
                    }
                }
            }
            lost
        });
    }
    clients.join_all().await.into_iter().sum()
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_are_not_lost_at_a_server_whose_application_is_gone() {
    let place = Place::new();
    for hold in [false, true] {
        let spec = json!({"concurrency": 8, "hold": hold});
        let [gone, one, two] = ["gone", "one", "two"].map(|name| format!("{name}-{hold}"));
        let gone = Pod::start(&place, &gone, spec.clone()).await;
        let pods = [Pod::start(&place, &one, spec.clone()).await, Pod::start(&place, &two, spec).await];
        let caller = Caller::start(&place, &[&gone, &pods[0], &pods[1]], without_policy).await;
        drop(gone.app);
        for way in ROUTINGS {
            let client = caller.client(way).await;
            assert_eq!(lost(&client).await, 0, "{way}, hold: {hold}");
        }
        // By which it is seen that the calls would be lost.
        let lost = lost(&caller.stock().await).await;
        assert!(lost > CALLS / 6, "{lost} with stock Envoy");
        for pod in &pods {
            pod.has_in_flight(0).await;
        }
    }
}
