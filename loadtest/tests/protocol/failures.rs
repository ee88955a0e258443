//! Which attempts without an answer count as a failure of the server, and which do not.

use crate::support::{Place, Pod, eventually, metric, outbound, request, send, sender};
use bloc_mesh::envoy::{Envoy, SERVICE, route_configuration};
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::time::Duration;
use tokio::time::timeout;

const SERVERS: usize = 3;

/// A caller's sidecar whose route is edited, and its servers.
struct Stand {
    envoy: Envoy,
    to: SocketAddr,
    _place: Place,
    _pods: Vec<Pod>,
}

impl Stand {
    async fn start(routing: &str, edit: impl Fn(&mut Value)) -> Self {
        let place = Place::new();
        let mut pods = Vec::new();
        for number in 0..SERVERS {
            pods.push(Pod::with_capacity(&place, &format!("pod-{number}"), 20).await);
        }
        let endpoints: Vec<_> = pods.iter().map(|pod| pod.address).collect();
        let names: Vec<String> = endpoints.iter().map(ToString::to_string).collect();
        // A retry budget that is no limit here.
        let spec = json!({"routing": routing, "endpoints": names, "retryBudget": 1});
        let mut bootstrap = outbound(&place, &endpoints, &json!({"services": {SERVICE: spec}}), None);
        edit(&mut route_configuration(&mut bootstrap)["virtual_hosts"][0]["routes"][0]["route"]);
        let (envoy, to) = sender(&place, &bootstrap).await;
        Self { envoy, to, _place: place, _pods: pods }
    }

    async fn counted(&self, name: &str) -> u64 {
        metric(&self.envoy, "outbound", name).await
    }

    /// Waits until all attempts are counted, with `failures` failed and `given_up` given up.
    async fn counts(&self, failures: u64, given_up: u64) {
        let mut seen = [0, 0];
        let all = failures + given_up;
        let what = format!("{failures} failures, {given_up} given up");
        let counted = eventually(&what, async || {
            seen = [self.counted("failures").await, self.counted("given_up").await];
            (seen.iter().sum::<u64>() >= all).then_some(seen)
        });
        assert_eq!(counted.await, [failures, given_up]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_goes_away_is_no_failure_of_the_server() {
    for routing in ["bloc", "mu"] {
        let stand = Stand::start(routing, |_| ()).await;
        for gone in 1..=10 {
            let answer = send(stand.to, request("/takes/500"), "");
            assert!(timeout(Duration::from_millis(50), answer).await.is_err(), "the client has gone");
            // Envoy may read the next request before it sees that this client has gone.
            stand.counts(0, gone).await;
            assert_eq!(send(stand.to, request("/takes/1"), "").await.unwrap().status.as_u16(), 200);
        }
        assert_eq!(stand.counted("forced").await, 0);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_timeout_is_a_failure_of_the_server() {
    let whole = |route: &mut Value| route["timeout"] = json!("0.05s");
    let stand = Stand::start("bloc", whole).await;
    for _ in 0..10 {
        assert_eq!(send(stand.to, request("/takes/500"), "").await.unwrap().status.as_u16(), 504);
    }
    stand.counts(10, 0).await;

    let one_try = |route: &mut Value| {
        route["timeout"] = json!("10s");
        route["retry_policy"]["per_try_timeout"] = json!("0.05s");
        route["retry_policy"]["retry_on"] = json!("5xx");
    };
    let stand = Stand::start("bloc", one_try).await;
    for _ in 0..10 {
        assert_eq!(send(stand.to, request("/takes/500"), "").await.unwrap().status.as_u16(), 504);
    }
    let failures = eventually("all attempts to be counted", async || {
        let attempts = stand.counted("attempts").await;
        let counted = [stand.counted("failures").await, stand.counted("given_up").await];
        (attempts > 10 && counted.iter().sum::<u64>() == attempts).then_some(counted)
    });
    assert_eq!(failures.await[1], 0);
}

/// Of the attempts that Envoy makes at the same time, only one is answered; Envoy cancels the
/// others.
#[tokio::test(flavor = "multi_thread")]
async fn a_hedged_attempt_that_loses_does_not_count_as_a_failure() {
    let hedges = |route: &mut Value| {
        route["timeout"] = json!("10s");
        route["hedge_policy"] = json!({"hedge_on_per_try_timeout": true});
        route["retry_policy"]["per_try_timeout"] = json!("0.1s");
        route["retry_policy"]["retry_on"] = json!("5xx");
    };
    let stand = Stand::start("bloc", hedges).await;
    for _ in 0..10 {
        assert_eq!(send(stand.to, request("/takes/150"), "").await.unwrap().status.as_u16(), 200);
    }
    let attempts = eventually("attempts", async || Some(stand.counted("attempts").await).filter(|count| *count >= 20));
    stand.counts(0, attempts.await - 10).await;
}
