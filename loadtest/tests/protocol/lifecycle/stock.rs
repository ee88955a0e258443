//! The same updates in stock Envoy, without our filters, lose no request. So the filters are the
//! cause if one is lost with them.

use super::testbed::{CLIENTS, Stand, listener};
use serde_json::json;
use std::time::Duration;
use tokio::time::sleep;

#[tokio::test(flavor = "multi_thread")]
async fn stock_envoy_loses_no_request_by_the_same_listener_updates() {
    let stock = |place: &_, name: &str, to: &str, mark| listener(place, name, to, None, mark);
    let mut stand = Stand::start(|place| vec![stock(place, "a", "app", 0)], json!({})).await;
    let here = stand.traffic("a", CLIENTS, "/slow").await;
    // Updated, and rolled back within the drain.
    for mark in [1, 0] {
        let next = stock(&stand.place, "a", "app", mark);
        stand.sidecar.put(next).await;
        sleep(Duration::from_millis(500)).await;
    }
    // Another one comes and goes.
    let second = stock(&stand.place, "b", "other-app", 0);
    stand.sidecar.put(second).await;
    let there = stand.traffic("b", CLIENTS, "/slow").await;
    sleep(Duration::from_millis(500)).await;
    let tally = there.end().await;
    stand.note_tally("the second listener", &tally);
    stand.sidecar.remove("b").await;
    stand.sidecar.drained().await;
    sleep(Duration::from_millis(500)).await;
    let tally = here.end().await;
    stand.note_tally("the first listener", &tally);
    assert!(tally.rejected.is_empty(), "stock Envoy rejects nothing");
    stand.end(&[]).await;
}
