//! Calls that no server rejects.

use super::client::{Answered, Client, Kind, next, ours};
use super::mesh::{Caller, Pod, ROUTINGS, WORKERS};
use crate::support::Place;
use serde_json::json;
use tokio::task::JoinSet;
use tonic::metadata::MetadataValue;
use tonic::{Code, Request, Status};

/// Two servers with free capacity.
async fn servers(place: &Place) -> [Pod; 2] {
    let spec = json!({"concurrency": 8, "hold": false});
    [Pod::start(place, "one", spec.clone()).await, Pod::start(place, "two", spec).await]
}

fn numbers(count: usize) -> Vec<String> {
    (0..count).map(|n| n.to_string()).collect()
}

fn with_metadata(messages: Vec<String>) -> Request<Vec<String>> {
    let mut request = Request::new(messages);
    request.metadata_mut().insert("x-own", MetadataValue::from_static("its own"));
    request.metadata_mut().insert_bin("x-own-bin", MetadataValue::from_bytes(&[0, 255, 10, 13]));
    // A header of ours from a client is not trusted, and not passed on.
    request.metadata_mut().insert("x-bloc-bid", MetadataValue::from_static("1"));
    request
}

async fn of_each_kind(client: Client) {
    for (kind, messages, expected) in [
        (Kind::Echo, vec!["hello".to_owned()], vec!["hello".to_owned()]),
        (Kind::Count, vec!["100".to_owned()], numbers(100)),
        (Kind::Gather, numbers(100), vec![numbers(100).join(",")]),
        (Kind::Talk, numbers(100), numbers(100).iter().map(|n| format!("re: {n}")).collect()),
    ] {
        let Answered { messages, metadata } = client.call_with(kind, with_metadata(messages)).await.unwrap();
        assert_eq!(messages, expected, "{kind:?}");
        assert_eq!(ours(&metadata), Vec::<String>::new(), "{kind:?}");
        assert!(metadata.contains_key("x-app"), "{kind:?}: {metadata:?}");
    }
    // Each message is sent after the answer to the one before.
    let (messages, talk) = client.talk(&["first"]);
    let mut answers = talk.await.unwrap().into_inner();
    assert_eq!(next(&mut answers).await.as_deref(), Some("re: first"));
    for n in numbers(20) {
        messages.send(n.clone()).unwrap();
        assert_eq!(next(&mut answers).await, Some(format!("re: {n}")));
    }
    drop(messages);
    assert_eq!(next(&mut answers).await, None);
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_of_every_kind_pass_whole_and_in_order_in_every_routing() {
    let place = Place::new();
    let pods = servers(&place).await;
    let caller = Caller::start(&place, &[&pods[0], &pods[1]], |_| ()).await;
    for way in ROUTINGS {
        let client = caller.client(way).await;
        let mut clients = JoinSet::new();
        (0..4).for_each(|_| drop(clients.spawn(of_each_kind(client.clone()))));
        while let Some(done) = clients.join_next().await {
            done.unwrap();
        }
    }
    for pod in &pods {
        pod.has_in_flight(0).await;
        let calls = pod.app.calls();
        assert!(!calls.is_empty(), "both servers get calls");
        for call in &calls {
            let bare = call.method == "Talk" && !call.metadata.contains_key("x-own");
            assert!(bare || call.metadata.get("x-own").is_some_and(|value| value == "its own"), "{call:?}");
            let bytes = call.metadata.get_bin("x-own-bin").map(|value| value.to_bytes().unwrap());
            assert!(bare || bytes.as_deref() == Some(&[0, 255, 10, 13]), "{call:?}");
            assert_eq!(ours(&call.metadata.clone().into_headers()), Vec::<String>::new());
        }
    }
    for envoy in [&caller.sidecar, &pods[0].sidecar, &pods[1].sidecar] {
        let connections = envoy.stats(r"^cluster\.(backend|app)\.upstream_cx_http[12]_total$").await.unwrap();
        let of = |version: &str| -> u64 {
            connections.iter().filter(|(name, _)| name.contains(version)).map(|(_, count)| count).sum()
        };
        assert!(of("http2") >= 2 && of("http1") == 0, "HTTP/2 all the way, on both workers: {connections:?}");
    }
}

/// What a caller sees of a status.
#[derive(Debug, PartialEq)]
struct Seen {
    code: Code,
    message: String,
    details: Vec<u8>,
    metadata: Vec<(String, Vec<u8>)>,
}

impl Seen {
    fn of(status: &Status) -> Self {
        let (message, details) = (status.message().to_owned(), status.details().to_vec());
        let headers = status.metadata().clone().into_headers();
        // Envoy adds headers with date and duration to any answer.
        let added = |key: &str| ["date", "server"].contains(&key) || key.starts_with("x-envoy-");
        let own = headers.iter().filter(|(key, _)| !added(key.as_str()));
        let mut metadata: Vec<_> = own.map(|(key, value)| (key.to_string(), value.as_bytes().to_vec())).collect();
        metadata.sort();
        Self { code: status.code(), message, details, metadata }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn passes_and_retries_an_applications_status_as_stock_envoy_does() {
    let place = Place::new();
    let pods = servers(&place).await;
    let caller = Caller::start(&place, &[&pods[0], &pods[1]], |_| ()).await;
    let stock = caller.stock().await;
    let calls = || pods.iter().map(|pod| pod.app.calls().len()).sum::<usize>();
    // RESOURCE_EXHAUSTED, as in our rejections; UNAVAILABLE, which clients retry; and NOT_FOUND,
    // neither of these.
    let statuses = ["fail 8 its own: no room, ümlaut % \n", "fail 14 its own: down", "fail 5 its own: what?"];
    let mut expected = Vec::new();
    for status in statuses {
        let after_three = format!("3 {status}");
        for (kind, messages) in [
            (Kind::Echo, vec![status]),
            (Kind::Count, vec![&*after_three]),
            (Kind::Gather, vec!["a", status, "b"]),
            (Kind::Talk, vec!["a", "b", status]),
        ] {
            let before = calls();
            let stock = Seen::of(&stock.call(kind, &messages).await.unwrap_err());
            assert!(stock.message.starts_with("its own") && !stock.details.is_empty(), "{stock:?}");
            assert!(stock.metadata.iter().any(|(key, _)| key == "x-own-bin"), "{stock:?}");
            let messages: Vec<_> = messages.iter().map(ToString::to_string).collect();
            expected.push((kind, messages, stock, calls() - before));
        }
    }
    // Istio's default policy retries UNAVAILABLE if it has no message.
    let attempts: usize = expected.iter().map(|(.., attempts)| attempts).sum();
    assert!(attempts > expected.len(), "{expected:?}");
    for way in ROUTINGS {
        let client = caller.client(way).await;
        for (kind, messages, expected, attempts) in &expected {
            let before = calls();
            let messages: Vec<&str> = messages.iter().map(String::as_str).collect();
            let status = client.call(*kind, &messages).await.unwrap_err();
            assert_eq!(Seen::of(&status), *expected, "{way}, {kind:?}");
            assert_eq!(calls() - before, *attempts, "{way}, {kind:?}");
        }
    }
    pods[0].has_in_flight(0).await;
    pods[1].has_in_flight(0).await;
    let attempts = (attempts * ROUTINGS.len()) as u64;
    crate::support::eventually("the count", async || (caller.metric("attempts").await == attempts).then_some(())).await;
    assert_eq!((caller.metric("rejections").await, caller.metric("retries_exhausted").await), (0, 0));
}

/// Calls that an application answers with UNAVAILABLE, one after the other.
const FAILING: usize = 150;

#[tokio::test(flavor = "multi_thread")]
async fn retries_failing_calls_only_within_the_retry_budget() {
    let place = Place::new();
    let pods = servers(&place).await;
    let caller = Caller::start(&place, &[&pods[0], &pods[1]], |_| ()).await;
    let calls = || pods.iter().map(|pod| pod.app.calls().len()).sum::<usize>();
    let fail = async |client: Client| {
        let before = calls();
        for _ in 0..FAILING {
            let status = client.call(Kind::Echo, &["fail 14 its own: down"]).await.unwrap_err();
            assert_eq!((status.code(), status.message()), (Code::Unavailable, "its own: down"));
        }
        calls() - before
    };
    // The budget: a fifth of the requests, and ten at once on each worker.
    let most = FAILING + FAILING / 5 + 10 * WORKERS;
    for way in ROUTINGS {
        let calls = fail(caller.client(way).await).await;
        assert!((FAILING + FAILING / 10..=most).contains(&calls), "{way}: {calls} calls, at most {most}");
    }
    // With Istio's default policy alone.
    assert_eq!(fail(caller.stock().await).await, 3 * FAILING);
}
