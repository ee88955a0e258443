//! A cluster whose circuit breaker allows no retries: the extreme of Envoy's default of three, with
//! which it is chance whether a request is lost.

use crate::support::fleet::{Plan, STOCK, addresses, applications, places, send_all};
use crate::support::{Fleet, eventually, request};
use serde_json::{Value, json};

const SERVERS: usize = 4;
/// Three requests for each place: without a pause of bids, 30 to 50 of the requests are bounced.
const CLIENTS: usize = 12;
const REQUESTS: usize = 2_500;

fn allow_no_retry(bootstrap: &mut Value) {
    for cluster in bootstrap["static_resources"]["clusters"].as_array_mut().unwrap() {
        cluster["circuit_breakers"]["thresholds"][0]["max_retries"] = json!(0);
    }
}

/// A caller finds out once that Envoy does not retry, and not again for 8,000 requests. Those under
/// way then may meet it, too.
#[tokio::test(flavor = "multi_thread")]
async fn few_requests_are_lost_where_envoy_retries_no_bounces() {
    let apps = applications(&[STOCK, "bid"], SERVERS).await;
    for app in apps.iter().flat_map(|(_, apps)| apps) {
        app.takes(10);
        app.works_on(1);
    }
    let spec = |way: &str| places(way, 1);
    let plan = Plan { workers: 1, spec: &spec, caller: &allow_no_retry, ..Plan::default() };
    let fleet = Fleet::start(&addresses(&apps), plan).await;
    let lost = async |way: usize| {
        let answers = send_all(fleet.ways[way].to, CLIENTS, REQUESTS, |_| request("/work")).await;
        answers.iter().filter(|answer| answer.status != 200).count()
    };
    assert_eq!(lost(0).await, 0, "without bids there are no retries");
    let lost = lost(1).await;
    println!("{lost} of {REQUESTS}");
    // The sum is complete once all requests are counted.
    let overflowed = eventually("all requests counted", async || {
        let requests = fleet.outbound("bid", "requests").await;
        (requests == REQUESTS as u64).then_some(fleet.outbound("bid", "retries_overflowed").await)
    });
    assert_eq!(overflowed.await, lost as u64);
    assert!((1..=CLIENTS).contains(&lost), "{lost} of {REQUESTS} requests");
}
