//! A server that answers UNIMPLEMENTED at once, among servers that work.

use super::client::{Client, Kind};
use super::mesh::{Caller, Pod, ROUTINGS};
use crate::support::Place;
use futures_util::future::join_all;
use serde_json::json;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use tonic::Code;

/// The servers. Each way to call has a wrong one of its own, so that none starts with what a server
/// has learned during the turn of another.
const NAMES: [&str; 4] = ["one", "two", "three", "four"];
const CLIENTS: usize = 10;
/// The calls before a server answers wrongly, those that are not judged after it, and those that
/// are.
const WARM_UP: usize = 150;
const UNSETTLED: usize = 50;
const JUDGED: usize = 300;

/// The share of the judged calls that the wrong server gets.
async fn share(client: &Client, wrong: &str) -> f64 {
    let (begun, answers) = (AtomicUsize::new(0), Mutex::new([0; 2]));
    let clients = (0..CLIENTS).map(|_| async {
        loop {
            let n = begun.fetch_add(1, Ordering::Relaxed);
            if n >= WARM_UP + UNSETTLED + JUDGED {
                return;
            }
            // A server that is not named takes 20 ms.
            let name = if n < WARM_UP { "none" } else { wrong };
            let is_wrong = match client.call(Kind::Echo, &[&format!("at {name} fail 12 what?")]).await {
                Ok(_) => false,
                Err(status) => {
                    assert_eq!((status.code(), status.message()), (Code::Unimplemented, "what?"));
                    true
                }
            };
            if n >= WARM_UP + UNSETTLED {
                answers.lock().unwrap()[usize::from(is_wrong)] += 1;
            }
        }
    });
    join_all(clients).await;
    let [right, wrong] = answers.into_inner().unwrap();
    assert_eq!(right + wrong, JUDGED);
    wrong as f64 / JUDGED as f64
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_answers_unimplemented_at_once_gets_no_more_than_with_least_request() {
    let place = Place::new();
    let spec = json!({"concurrency": 4, "hold": false});
    let pods = join_all(NAMES.map(|name| Pod::start(&place, name, spec.clone()))).await;
    let caller = Caller::start(&place, &pods.iter().collect::<Vec<_>>(), |_| ()).await;
    let stock = share(&caller.stock().await, NAMES[3]).await;
    let mut shares = Vec::new();
    for (way, wrong) in ROUTINGS.into_iter().zip(NAMES) {
        shares.push((way, share(&caller.client(way).await, wrong).await));
    }
    println!("least request {stock:.3}, {shares:.3?}");
    let calls: usize = pods.iter().map(|pod| pod.app.calls().len()).sum();
    assert_eq!(calls, 4 * (WARM_UP + UNSETTLED + JUDGED), "one attempt for each call");
    assert!(stock > 0.3, "with least request it attracts calls, which shows that this test can fail: {stock}");
    for (way, share) in shares {
        assert!(share <= 1.1 * stock + 0.05, "{way}: {share:.3} of the calls, least request {stock:.3}");
    }
}
