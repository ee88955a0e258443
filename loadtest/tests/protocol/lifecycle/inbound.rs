//! The inbound listeners.

use super::testbed::{CLIENTS, MAX_QUEUE_WAIT, OTHER, Probe, Stand, front, listener, polling, spec};
use crate::support::Tally;
use crate::support::traffic::send_known;
use bloc_mesh::envoy::SERVICE;
use serde_json::json;
use std::time::Duration;
use tokio::task::JoinSet;
use tokio::time::sleep;

/// Envoy uses the root context of the first configuration again, without a call to it; it deletes
/// that of the second at the end of its drain.
#[tokio::test(flavor = "multi_thread")]
async fn a_configuration_that_is_rolled_back_within_the_drain_is_in_force_again() {
    let configuration = |capacity| polling(front(SERVICE, spec(capacity, 4)));
    let (a, b) = (configuration(40), configuration(5));
    let mut stand = Stand::start(|place| vec![listener(place, "inbound", "app", Some(&a), 0)], json!({})).await;
    let other = listener(&stand.place, "inbound", "app", Some(&b), 0);
    let back = listener(&stand.place, "inbound", "app", Some(&a), 0);
    stand.burst("with A", &Probe::new("inbound", 40, 4)).await;

    let traffic = stand.traffic("inbound", CLIENTS, "/slow").await;
    stand.sidecar.put(other).await;
    sleep(Duration::from_millis(500)).await;
    stand.sidecar.put(back).await;
    sleep(Duration::from_millis(500)).await;
    let tally = traffic.end().await;
    stand.note_tally("from A over B to A", &tally);
    stand.burst("with A again", &Probe::new("inbound", 40, 4)).await;

    let traffic = stand.traffic("inbound", CLIENTS, "/slow").await;
    stand.sidecar.drained().await;
    sleep(Duration::from_millis(500)).await;
    let tally = traffic.end().await;
    stand.note_tally("at the end of B's drain", &tally);
    stand.burst("after B's drain", &Probe::new("inbound", 40, 4)).await;
    waits_no_longer(&mut stand).await;
    stand.polled("after B's drain").await;
    stand.control_plane.set(json!({SERVICE: spec(7, 3)}));
    stand.follows("as the control plane says").await;
    stand.all_workers_have("as the control plane says", "inbound", Some(7)).await;
    stand.burst("as the control plane says", &Probe::new("inbound", 7, 3)).await;
    stand.end(&[SERVICE]).await;
}

/// No request inside ends, so each held one is rejected after `maxQueueWait`.
async fn waits_no_longer(stand: &mut Stand) {
    let to = stand.sidecar.address("inbound").await;
    let mut requests = JoinSet::new();
    for _ in 0..12 {
        requests.spawn(send_known(to, "/hold", super::testbed::BOUND));
    }
    let mut tally = Tally::default();
    while tally.rejected.len() + tally.lost.len() < 8 {
        let (id, answer, took) = requests.join_next().await.unwrap().unwrap();
        tally.count(id, answer, took);
    }
    let early = tally.longest < MAX_QUEUE_WAIT && tally.lost.is_empty();
    stand.note("held", early.then(|| format!("given up after {:?}", tally.longest)));
    while !requests.is_empty() {
        stand.app.release();
        let (id, answer, took) = requests.join_next().await.unwrap().unwrap();
        tally.count(id, answer, took);
    }
    stand.note_tally("held", &tally);
}

#[tokio::test(flavor = "multi_thread")]
async fn removing_the_newest_listener_leaves_the_other_one_holding() {
    let services = json!({SERVICE: spec(40, 2), OTHER: spec(40, 2)});
    let configuration = |service: &str| polling(json!({"service": service, "services": services.clone()}));
    let (a, b) = (configuration(SERVICE), configuration(OTHER));
    let mut stand = Stand::start(|place| vec![listener(place, "a", "app", Some(&a), 0)], json!({})).await;
    let second = listener(&stand.place, "b", "other-app", Some(&b), 0);
    stand.sidecar.put(second).await;

    let there = stand.traffic("b", CLIENTS, "/brief").await;
    let here = stand.traffic("a", 12, "/brief").await;
    sleep(Duration::from_millis(500)).await;
    let tally = there.end().await;
    stand.note_tally("the second listener", &tally);
    stand.sidecar.remove("b").await;
    stand.sidecar.drained().await;
    sleep(Duration::from_millis(500)).await;
    stand.keeps_holding("after the removal", SERVICE, &here).await;
    let tally = here.end().await;
    stand.note_tally("the first listener", &tally);
    stand.burst("after the removal", &Probe::new("a", 40, 2)).await;
    stand.polled("after the removal").await;
    stand.end(&[SERVICE, OTHER]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn each_inbound_listener_has_the_parameters_of_its_own_configuration() {
    let (a, b) = (front(SERVICE, spec(3, 2)), front(OTHER, spec(9, 5)));
    let mut stand = Stand::start(|place| vec![listener(place, "a", "app", Some(&a), 0)], json!({})).await;
    let (first, second) = (Probe::new("a", 3, 2), Probe::new("b", 9, 5).other());
    stand.burst("a alone", &first).await;
    let listener_b = listener(&stand.place, "b", "other-app", Some(&b), 0);
    stand.sidecar.put(listener_b).await;
    stand.burst("a beside b", &first).await;
    stand.burst("b beside a", &second).await;
    for (service, admitted) in [(SERVICE, 6), (OTHER, 9)] {
        stand
            .soon("counted each for its own", async |stand| {
                let now = stand.sidecar.metric("inbound", service, "admitted").await;
                if now == admitted { Ok(()) } else { Err(format!("{now} of {service} admitted, not {admitted}")) }
            })
            .await;
    }
    stand.sidecar.remove("b").await;
    stand.burst("a while b drains", &first).await;
    stand.sidecar.drained().await;
    sleep(Duration::from_millis(500)).await;
    stand.burst("a after b", &first).await;
    stand.end(&[SERVICE, OTHER]).await;
}
