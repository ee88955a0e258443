//! The outbound listener of a proxy that also has an inbound one.

use super::testbed::{CLIENTS, OTHER, Stand, caller, listener, polling, spec};
use bloc_mesh::envoy::SERVICE;
use serde_json::{Value, json};
use std::time::Duration;
use tokio::time::sleep;

/// The outbound filter, with the nth configuration.
fn configuration(n: u32) -> Value {
    polling(json!({"services": {OTHER: {"bodyLimit": 4096 + n}}}))
}

async fn stand() -> Stand {
    let inbound = polling(json!({"service": SERVICE}));
    let listeners = |place: &_| vec![listener(place, "inbound", "app", Some(&inbound), 0)];
    let mut stand = Stand::start(listeners, json!({SERVICE: spec(40, 2)})).await;
    // Added later, so that it is configured last.
    let caller = caller(&stand.place, "outbound", &configuration(0));
    stand.sidecar.put(caller).await;
    stand.soon("at the start", async |stand| capacity_is(stand, 40).await).await;
    stand
}

async fn capacity_is(stand: &Stand, expected: u64) -> Result<(), String> {
    let now = stand.sidecar.metric("inbound", SERVICE, "capacity").await;
    if now == expected { Ok(()) } else { Err(format!("the capacity is {now}, not {expected}")) }
}

/// The proxy holds requests and follows the control plane after `happens` to the outbound listener.
async fn goes_on(mut stand: Stand, happens: impl AsyncFnOnce(&mut Stand)) {
    let out = stand.traffic("outbound", CLIENTS, "/slow").await;
    let here = stand.traffic("inbound", 12, "/brief").await;
    sleep(Duration::from_millis(500)).await;
    let tally = out.end().await;
    stand.note_tally("outbound", &tally);
    happens(&mut stand).await;
    stand.sidecar.drained().await;
    sleep(Duration::from_millis(500)).await;
    stand.keeps_holding("after the drain", SERVICE, &here).await;
    let tally = here.end().await;
    stand.note_tally("inbound", &tally);
    stand.polled("after the drain").await;
    for capacity in [30, 20] {
        stand.control_plane.set(json!({SERVICE: spec(capacity, 2)}));
        stand.soon("news", async |stand| capacity_is(stand, capacity as u64).await).await;
    }
    stand.end(&[SERVICE]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn removing_the_outbound_listener_keeps_holding_and_polling() {
    goes_on(stand().await, async |stand| stand.sidecar.remove("outbound").await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn rolling_back_the_outbound_listener_keeps_holding_and_polling() {
    goes_on(stand().await, async |stand| {
        for n in [1, 0] {
            let caller = caller(&stand.place, "outbound", &configuration(n));
            stand.sidecar.put(caller).await;
            sleep(Duration::from_millis(500)).await;
        }
        let out = stand.traffic("outbound", CLIENTS, "/slow").await;
        sleep(Duration::from_millis(500)).await;
        let tally = out.end().await;
        stand.note_tally("outbound, rolled back", &tally);
    })
    .await;
}
