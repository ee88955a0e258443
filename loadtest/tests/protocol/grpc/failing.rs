//! A server that fails at once, among slower ones.

use super::client::{Client, Kind};
use super::mesh::{Caller, Pod, ROUTINGS};
use crate::support::Place;
use futures_util::future::join_all;
use serde_json::{Value, json};
use tonic::Code;

const CLIENTS: usize = 6;
const CALLS: usize = 60;

/// The kind of call and its message, for a status in headers and one in trailers.
const CASES: [(Kind, &str); 2] = [(Kind::Echo, "at failing fail 14 gone"), (Kind::Count, "0 at failing fail 14 gone")];

/// Clients call one after the other: the failing server's calls, all calls, and errors.
async fn share(pods: &[Pod], client: &Client, kind: Kind, message: &str) -> (usize, usize, usize) {
    let had = || -> Vec<usize> { pods.iter().map(|pod| pod.app.calls().len()).collect() };
    let before = had();
    let clients = (0..CLIENTS).map(|_| async {
        let mut errors = 0;
        for _ in 0..CALLS {
            match client.call(kind, &[message]).await {
                Ok(_) => {}
                Err(status) if status.code() == Code::Unavailable => errors += 1,
                Err(status) => panic!("{status:?}"),
            }
        }
        errors
    });
    let errors = join_all(clients).await.into_iter().sum();
    let had: Vec<usize> = had().iter().zip(&before).map(|(now, before)| now - before).collect();
    (had[0], had.iter().sum(), errors)
}

fn outlier_detection(cluster: &mut Value) {
    cluster["outlier_detection"] =
        json!({"consecutive_5xx": 5, "interval": "0.5s", "base_ejection_time": "5s", "max_ejection_percent": 50});
}

/// One of three servers fails at once, with Envoy's outlier detection and without. Each worker of
/// the sender judges for itself.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_fails_fast_gets_at_most_1_5_times_its_share() {
    for adjust in [|_: &mut Value| (), outlier_detection] {
        let place = Place::new();
        let pods = ["failing", "one", "two"].map(|name| Pod::start(&place, name, json!({})));
        let pods = join_all(pods).await;
        let caller = Caller::start_with(&place, &pods.iter().collect::<Vec<_>>(), |_| (), adjust).await;
        for (kind, message) in CASES {
            let (failing, all, errors) = share(&pods, &caller.stock().await, kind, message).await;
            println!("stock, {kind:?}: {failing} of {all}, {errors} errors");
            for way in ROUTINGS {
                let (failing, all, errors) = share(&pods, &caller.client(way).await, kind, message).await;
                println!("{way}, {kind:?}: {failing} of {all}, {errors} errors");
                assert!(2 * failing <= all, "{way}, {kind:?}: {failing} of {all} calls");
                assert!(errors <= failing, "{way}, {kind:?}: {errors} errors of {failing} calls");
            }
        }
    }
}
