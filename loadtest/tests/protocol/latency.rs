//! Latencies as the control plane shows them, beside the clients' own measurements.

use crate::control_plane::ControlPlane;
use crate::support::{App, Place, Workers, balance, eventually, inbound, metric, outbound, request, sender};
use bloc_figures::stats::quantile;
use bloc_mesh::envoy::{CONTROL_PLANE_CLUSTER, Envoy, SERVICE};
use bloc_policy::sync::latency::histogram::upper_bound;
use bloc_policy::sync::polls;
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::time::Duration;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

const WORKERS: usize = 2;

/// How long a poll may be held.
const WAIT: Duration = Duration::from_secs(1);

fn asks() -> Value {
    json!({"cluster": CONTROL_PLANE_CLUSTER, "wait": format!("{}s", WAIT.as_secs())})
}

fn write(place: &Place, pods: &[SocketAddr]) {
    let endpoints: Vec<String> = pods.iter().map(ToString::to_string).collect();
    let services = json!({"services": {SERVICE: {"endpoints": endpoints, "retries": 0}}});
    std::fs::write(place.path().join("services.new"), services.to_string()).unwrap();
    std::fs::rename(place.path().join("services.new"), place.path().join("services.yaml")).unwrap();
}

/// A pod, and a caller of it.
struct Stand {
    app: App,
    server: Envoy,
    server_at: SocketAddr,
    caller: Envoy,
    caller_at: SocketAddr,
    control_plane: ControlPlane,
    _place: Place,
}

impl Stand {
    async fn new(place: Place) -> Self {
        write(&place, &[]);
        let control_plane = ControlPlane::start(&place, "127.0.0.1:0").await;
        let app = App::start("pod").await;
        let configuration = json!({"service": SERVICE, "controlPlane": asks()});
        let mut bootstrap = inbound(&place, app.address, &configuration, Some(control_plane.address));
        balance(&mut bootstrap);
        let server = Envoy::start(&place.envoy, place.path(), "pod", &bootstrap, WORKERS).await.unwrap();
        let server_at = server.listener("inbound").unwrap();
        let configuration = json!({"controlPlane": asks()});
        let mut bootstrap = outbound(&place, &[server_at], &configuration, Some(control_plane.address));
        balance(&mut bootstrap);
        let (caller, caller_at) = sender(&place, &bootstrap).await;
        write(&place, &[server_at]);
        let stand = Self { app, server, server_at, caller, caller_at, control_plane, _place: place };
        // Requests before the parameters are not measured. The caller asks with its first request.
        let mut workers = Workers::new(&stand.caller, stand.caller_at);
        for worker in 0..WORKERS {
            let mut connection = workers.connect(worker).await;
            eventually("a measured request", async || {
                let before = stand.measured().await;
                connection.send(request("/x"), "").await.unwrap();
                // Counters reach Envoy's statistics with a tick.
                sleep(Duration::from_millis(1_500)).await;
                let now = stand.measured().await;
                now.iter().zip(before).all(|(now, before)| *now > before).then_some(())
            })
            .await;
        }
        stand.reported().await;
        stand
    }

    /// How many requests the filters have measured: at the server, and at the caller.
    async fn measured(&self) -> [u64; 2] {
        [metric(&self.server, "inbound", "departed").await, metric(&self.caller, "outbound", "requests").await]
    }

    /// Waits until the control plane has all that the filters have measured, and returns that.
    async fn reported(&self) -> [u64; 2] {
        eventually("all reports", async || {
            let (measured, counts) = (self.measured().await, self.counts().await);
            (measured == counts).then_some(counts)
        })
        .await
    }

    /// How many requests the control plane has in its histograms: of the server, and of its
    /// callers.
    async fn counts(&self) -> [u64; 2] {
        let text = self.control_plane.get("/metrics").await;
        ["response", "call"].map(|kind| {
            let name = format!("bloc_service_{kind}_seconds_count{{service=\"{SERVICE}\"}} ");
            text.lines().find_map(|line| line.strip_prefix(&name)).map_or(0, |count| count.parse().unwrap())
        })
    }

    /// The upper bound of the bucket in which Prometheus finds this quantile, and the bounds.
    async fn prometheus(&self, kind: &str, share: f64) -> (usize, Vec<f64>) {
        let text = self.control_plane.get("/metrics").await;
        let name = format!("bloc_service_{kind}_seconds_bucket{{");
        let buckets: Vec<(f64, f64)> = (text.lines().filter_map(|line| line.strip_prefix(&name)))
            .map(|line| {
                let (labels, count) = line.rsplit_once(' ').unwrap();
                let bound = labels.split('"').nth(1).unwrap();
                let bound = if bound == "+Inf" { f64::INFINITY } else { bound.parse().unwrap() };
                (bound, count.parse().unwrap())
            })
            .collect();
        let all = buckets.last().unwrap().1;
        let at = buckets.iter().position(|(_, count)| *count >= share * all).unwrap();
        (at, buckets.into_iter().map(|(bound, _)| bound).collect())
    }

    async fn latency(&self) -> Value {
        let service: Value =
            serde_json::from_str(&self.control_plane.get(&format!("/v1/status/services/{SERVICE}")).await).unwrap();
        service["latency"].clone()
    }
}

/// The exact quantile.
fn exact(times: &[f64], share: f64) -> f64 {
    quantile(times, share).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn quantiles_are_right_over_two_workers_and_each_request_counts_once() {
    const PATHS: [&str; 4] = ["/takes/300", "/takes/300", "/takes/300", "/takes/1200"];
    const CLIENTS: usize = 24;
    const EACH: usize = 8;
    let stand = Stand::new(Place::new()).await;
    let before = stand.reported().await;
    let mut clients = JoinSet::new();
    let mut workers = Workers::new(&stand.caller, stand.caller_at);
    for client in 0..CLIENTS {
        let mut connection = workers.connect(client % WORKERS).await;
        clients.spawn(async move {
            let mut times = Vec::new();
            for nth in 0..EACH {
                let began = Instant::now();
                let answer = connection.send(request(PATHS[(client + nth) % PATHS.len()]), "").await.unwrap();
                assert_eq!(answer.status.as_u16(), 200);
                times.push(began.elapsed().as_secs_f64());
            }
            times
        });
    }
    let mut times: Vec<f64> = clients.join_all().await.into_iter().flatten().collect();
    times.sort_by(f64::total_cmp);
    let all = times.len() as u64;
    eventually("all reports", async || {
        let now = stand.counts().await;
        assert!(now.iter().zip(before).all(|(now, before)| now - before <= all), "{now:?} after {before:?} and {all}");
        now.iter().zip(before).all(|(now, before)| now - before == all).then_some(())
    })
    .await;
    assert_eq!(stand.reported().await, stand.measured().await);
    let latency = stand.latency().await;
    println!("exact: p50 {:.3}, p99 {:.3}; on the page: {latency}", exact(&times, 0.5), exact(&times, 0.99));
    for (seen, kind) in [("response", "response"), ("callers", "call")] {
        for (name, share) in [("p50", 0.5), ("p99", 0.99)] {
            let (shown, exact) = (latency[seen][name].as_f64().unwrap(), exact(&times, share));
            assert!(
                (shown / exact - 1.0).abs() < 0.1,
                "{seen} {name}: {shown} s on the page, {exact} s at the clients"
            );
            let (at, bounds) = stand.prometheus(kind, share).await;
            let true_bucket = bounds.iter().position(|bound| exact <= *bound).unwrap();
            assert!(at.abs_diff(true_bucket) <= 1, "{seen} {name}: {exact} s is in bucket {true_bucket}, not {at}");
        }
    }
    assert_eq!(upper_bound(144), 64.0);
    assert!(latency["calls"]["failed"] == 0.0 && latency["calls"]["exhausted"] == 0.0, "{latency}");
    assert!(!stand.app.all_seen().is_empty());
}

/// What the worker that crashes has measured since its last hand-over is lost, and nothing else. If
/// it was the leader, the report under way may count twice: nobody hears that it was counted, and
/// when its time is over it is in the next one again.
#[tokio::test(flavor = "multi_thread")]
async fn a_crash_loses_or_doubles_a_second_of_counts_at_most() {
    const EVERY: Duration = Duration::from_millis(50);
    let stand = Stand::new(Place::crashing()).await;
    let before = stand.reported().await;
    let mut connection = Workers::new(&stand.server, stand.server_at).connect(0).await;
    let (mut sent, mut others) = (0, 0);
    for _ in 0..60 {
        let answer = connection.send(crate::support::from_sidecar("/x"), "").await.unwrap();
        assert_eq!(answer.status.as_u16(), 200);
        sent += 1;
        sleep(EVERY).await;
    }
    let crash = crate::support::from_sidecar("/x").header("x-bloc-crash", "inbound.request");
    assert_eq!(connection.send(crash, "").await.unwrap().status.as_u16(), 503);
    let mut connection = Workers::new(&stand.server, stand.server_at).connect(1).await;
    for _ in 0..20 {
        others += u64::from(connection.send(crate::support::from_sidecar("/x"), "").await.unwrap().status == 200);
    }
    let all = sent + others;
    // A second's worth, and one that is due with the next request.
    let some = 1_000 / EVERY.as_millis() as u64 + 1;
    let counted = async || stand.counts().await[0] - before[0];
    eventually("the reports", async || (counted().await >= all - some).then_some(())).await;
    sleep(polls::longest(WAIT) + 2 * WAIT).await;
    let counted = counted().await;
    assert!((all - some..=all + some).contains(&counted), "{counted} of {all}");
}
