//! A promise that is taken back: with `hold: true` a request that has waited for twice its bid is
//! bounced, though it was accepted for that bid.
//!
//! Nothing is served by a server of [`place_taken`] before, so it knows no execution time, and
//! accepts each bid. So whatever is bounced there has waited.

mod caller;
mod server;

use crate::support::{Answer, Place, Pod, eventually, request, send};
use bloc_policy::wire::load_report::LoadReport;
use serde_json::{Value, json};
use std::time::Duration;
use tokio::task::JoinHandle;

/// A request under way.
type Underway = JoinHandle<Result<Answer, String>>;

/// The bid of a request to a server directly, and the header that says it. A request without it
/// comes from a caller without our filters.
const BID: Duration = Duration::from_millis(150);
const BID_HEADER: &str = "150;exec=50";
/// How long such a request waits at least before it is bounced.
const HELD: Duration = Duration::from_millis(300);

/// Takes all places of the application, with requests that stay until they are released.
async fn fill(pod: &Pod, places: usize) -> Vec<Underway> {
    let (to, before) = (pod.address, pod.app.seen("/hold").len());
    let held = (0..places).map(|_| tokio::spawn(send(to, request("/hold"), ""))).collect();
    eventually("the arrival of those inside", async || (pod.app.seen("/hold").len() == before + places).then_some(()))
        .await;
    held
}

/// Releases the requests that take the places.
async fn release(pod: &Pod, inside: Vec<Underway>) {
    inside.iter().for_each(|_| pod.app.release());
    for inside in inside {
        assert_eq!(inside.await.unwrap().unwrap().app(), Some(pod.app.name()));
    }
}

/// A server that has never served, all of whose places are taken.
async fn place_taken(
    place: &Place,
    places: u32,
    workers: usize,
    edit: impl FnOnce(&mut Value),
) -> (Pod, Vec<Underway>) {
    let spec = json!({"concurrency": places, "hold": true, "routing": "bid"});
    let pod = Pod::balanced(place, "pod", spec, workers, edit).await;
    let inside = fill(&pod, places as usize).await;
    (pod, inside)
}

/// Waits until a gauge or counter of the server has this value.
async fn has(pod: &Pod, metric: &str, value: u64) {
    let what = format!("{metric} = {value} at {}", pod.app.name());
    eventually(&what, async || (pod.metric(metric).await == value).then_some(())).await;
}

/// Nothing is left in the server: no request is counted, and each place is free.
async fn is_empty(pod: &Pod, places: u32) {
    has(pod, "in_flight", 0).await;
    let before = pod.app.seen("/hold").len();
    let inside = fill(pod, places as usize).await;
    let waits = tokio::spawn(send(pod.address, request("/last"), ""));
    has(pod, "in_flight", u64::from(places) + 1).await;
    assert_eq!((pod.app.seen("/hold").len(), pod.app.seen("/last").len()), (before + places as usize, 0));
    release(pod, inside).await;
    assert_eq!(waits.await.unwrap().unwrap().app(), Some(pod.app.name()));
    has(pod, "in_flight", 0).await;
}

/// Whether this answer of a server is a bounce after a wait.
fn is_late_bounce(answer: &Answer) -> bool {
    let report = answer.headers.get("x-bloc-load").and_then(|report| LoadReport::decode(report.as_bytes()));
    answer.status == 429
        && answer.app().is_none()
        && answer.header("x-bloc-reject") == Some("bid")
        && report.is_some_and(|report| report.held)
}
