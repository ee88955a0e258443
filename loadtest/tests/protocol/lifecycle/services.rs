//! A service is deleted or renamed while its requests are held.

use super::testbed::{BOUND, OTHER, Probe, Stand, front, listener, polling, spec};
use crate::support::Tally;
use crate::support::traffic::send_known;
use bloc_mesh::envoy::SERVICE;
use serde_json::{Value, json};
use std::time::Duration;
use tokio::task::JoinSet;

const HELD: u64 = 18;
const INSIDE: usize = 2;

type Requests = JoinSet<(u64, Result<crate::support::Answer, String>, Duration)>;

/// Two requests in the application, and some held ones, which it would answer at once.
async fn hold(stand: &Stand) -> (Requests, Requests) {
    let to = stand.sidecar.address("inbound").await;
    let (mut inside, mut held) = (JoinSet::new(), JoinSet::new());
    for _ in 0..INSIDE {
        inside.spawn(send_known(to, "/hold", BOUND));
    }
    crate::support::eventually("two inside", async || (stand.app.at_once() == INSIDE).then_some(())).await;
    for _ in 0..HELD {
        held.spawn(send_known(to, "/brief", BOUND));
    }
    crate::support::eventually("the others in the sidecar", async || {
        let now = stand.sidecar.metric("inbound", SERVICE, "in_flight").await;
        (now == HELD + INSIDE as u64).then_some(())
    })
    .await;
    (inside, held)
}

async fn answers(mut requests: Requests, into: Tally) -> Tally {
    let mut tally = into;
    while let Some(done) = requests.join_next().await {
        let (id, answer, took) = done.unwrap();
        tally.count(id, answer, took);
    }
    tally
}

/// The plugin configuration no longer names the service. Held requests keep the parameters under
/// which they arrived: they get the slots of requests that end.
async fn no_longer_named(new: Value, after: Probe) {
    let named = front(SERVICE, spec(40, INSIDE));
    let mut stand = Stand::start(|place| vec![listener(place, "inbound", "app", Some(&named), 0)], json!({})).await;
    let (inside, held) = hold(&stand).await;
    let listener = listener(&stand.place, "inbound", "app", Some(&new), 0);
    stand.sidecar.put(listener).await;
    // One free slot is enough for all held requests.
    stand.app.release();
    let tally = answers(held, Tally::default()).await;
    stand.app.release();
    let tally = answers(inside, tally).await;
    stand.note_tally("held", &tally);
    stand.burst("with the new configuration", &after).await;
    stand.sidecar.drained().await;
    stand.burst("after the drain", &after).await;
    stand.end(&[SERVICE, OTHER]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn deleting_a_service_from_the_configuration_leaves_no_request_held() {
    no_longer_named(json!({}), Probe::new("inbound", 20, 20)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn deleting_a_services_parameters_leaves_no_request_held() {
    no_longer_named(json!({"service": SERVICE}), Probe::new("inbound", 20, 20)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn renaming_a_service_in_the_configuration_leaves_no_request_held() {
    no_longer_named(front(OTHER, spec(9, 5)), Probe::new("inbound", 9, 5)).await;
}

/// The control plane no longer has the service: all held requests are admitted at once.
async fn gone_at_the_control_plane(new: Value) {
    let named = polling(json!({"service": SERVICE}));
    // Long enough that no held request is rejected for its wait by chance.
    let mut parameters = spec(40, INSIDE);
    parameters["maxQueueWait"] = json!("60s");
    let mut stand =
        Stand::start(|place| vec![listener(place, "inbound", "app", Some(&named), 0)], json!({SERVICE: parameters}))
            .await;
    stand.follows("at the start").await;
    stand.all_workers_have("at the start", "inbound", Some(40)).await;
    let (inside, held) = hold(&stand).await;
    stand.control_plane.set(new);
    let tally = answers(held, Tally::default()).await;
    let rejected = tally.rejected.len();
    stand.note("held", (rejected > 0).then(|| format!("{rejected} were rejected, not let in")));
    (0..INSIDE).for_each(|_| stand.app.release());
    let tally = answers(inside, tally).await;
    stand.note_tally("held", &tally);
    stand.follows("without it").await;
    stand.all_workers_have("without it", "inbound", None).await;
    stand.burst("without it", &Probe::new("inbound", 20, 20)).await;
    stand.control_plane.set(json!({SERVICE: spec(7, 3)}));
    stand.follows("with it again").await;
    stand.all_workers_have("with it again", "inbound", Some(7)).await;
    stand.burst("with it again", &Probe::new("inbound", 7, 3)).await;
    stand.polled("at the end").await;
    stand.end(&[SERVICE]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn deleting_a_service_at_the_control_plane_leaves_no_request_held() {
    gone_at_the_control_plane(json!({})).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn renaming_a_service_at_the_control_plane_leaves_no_request_held() {
    gone_at_the_control_plane(json!({"renamed": spec(9, 5)})).await;
}
