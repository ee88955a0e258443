//! Modules of two versions in one proxy, whose threads share their data.

use super::testbed::{CLIENTS, Probe, Stand, caller, front, listener, polling, spec};
use crate::support::Place;
use bloc_mesh::envoy::SERVICE;
use serde_json::{Value, json};
use std::time::Duration;
use tokio::time::sleep;

fn listeners(place: &Place) -> [Value; 2] {
    let inbound = listener(place, "inbound", "app", Some(&polling(front(SERVICE, spec(40, 4)))), 0);
    [inbound, caller(place, "outbound", &polling(json!({})))]
}

/// As with `module-remote`, whose proxies take a new module without a restart.
#[tokio::test(flavor = "multi_thread")]
async fn a_module_of_another_version_takes_over_and_is_rolled_back() {
    let (old, new) = (Place::new(), Place::next_version());
    let services = json!({SERVICE: spec(7, 3)});
    let mut stand = Stand::start(|_| listeners(&old).to_vec(), services).await;
    stand.follows("this version").await;
    stand.all_workers_have("this version", "inbound", Some(7)).await;
    for (nth, (name, place)) in
        [("the next", &new), ("rolled back", &old), ("forward again", &new)].into_iter().enumerate()
    {
        let traffic =
            [stand.traffic("inbound", CLIENTS, "/slow").await, stand.traffic("outbound", CLIENTS, "/brief").await];
        for listener in listeners(place) {
            stand.sidecar.put(listener).await;
        }
        // The listeners of the other version drain, and their threads follow and report like these.
        sleep(Duration::from_millis(500)).await;
        let capacity = 8 + nth;
        stand.control_plane.set(json!({SERVICE: spec(capacity, 3)}));
        stand.follows(name).await;
        stand.all_workers_have(name, "inbound", Some(capacity)).await;
        stand.sidecar.drained().await;
        for traffic in traffic {
            let tally = traffic.end().await;
            stand.note_tally(name, &tally);
        }
        stand.all_workers_have(name, "inbound", Some(capacity)).await;
        stand.burst(name, &Probe::new("inbound", capacity, 3)).await;
        stand.polled(name).await;
    }
    stand.end(&[SERVICE]).await;
}
