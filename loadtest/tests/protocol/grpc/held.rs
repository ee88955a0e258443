//! Calls that a server's sidecar holds, because its application works on one at a time.

use super::client::{Kind, next};
use super::mesh::{Caller, Pod};
use crate::support::Place;
use serde_json::json;
use tonic::Code;

#[tokio::test(flavor = "multi_thread")]
async fn held_calls_keep_their_messages_and_streams_keep_their_slot() {
    let place = Place::new();
    let pod = Pod::start(&place, "pod", json!({"concurrency": 1, "hold": true})).await;
    let caller = Caller::start(&place, &[&pod], |_| ()).await;
    for way in ["bloc", "mu"] {
        let client = caller.client(way).await;
        let before = pod.app.calls().len();
        let inside = client.hold();
        pod.works_on(1).await;
        // They enter the wait queue one after the other.
        let numbers: Vec<String> = (0..50).map(|n| n.to_string()).collect();
        let (messages, talk) = client.talk(&["a", "b"]);
        let talk = tokio::spawn(talk);
        pod.has_in_flight(2).await;
        let gathered = client.begin(Kind::Gather, &numbers.iter().map(String::as_str).collect::<Vec<_>>());
        pod.has_in_flight(3).await;
        let counted = client.begin(Kind::Count, &["50"]);
        pod.has_in_flight(4).await;
        let echoed = client.begin(Kind::Echo, &["hello"]);
        pod.has_in_flight(5).await;
        for n in &numbers {
            messages.send(n.clone()).unwrap();
        }
        let last = client.hold();
        pod.has_in_flight(6).await;
        assert_eq!(pod.app.calls().len(), before + 1, "{way}: the others are held");

        pod.app.release(1);
        inside.await.unwrap().unwrap();
        let mut answers = talk.await.unwrap().unwrap().into_inner();
        for message in ["a", "b"].into_iter().chain(numbers.iter().map(String::as_str)) {
            assert_eq!(next(&mut answers).await, Some(format!("re: {message}")), "{way}");
        }
        // The stream keeps its slot as long as it is open, and messages pass in both directions.
        assert_eq!((pod.metric("in_flight").await, pod.app.calls().len()), (5, before + 2), "{way}");
        messages.send("c".into()).unwrap();
        assert_eq!(next(&mut answers).await.as_deref(), Some("re: c"), "{way}");
        drop(messages);
        assert_eq!(next(&mut answers).await, None, "{way}");
        assert_eq!(gathered.await.unwrap().unwrap().messages, [numbers.join(",")], "{way}");
        assert_eq!(counted.await.unwrap().unwrap().messages, numbers, "{way}");
        assert_eq!(echoed.await.unwrap().unwrap().messages, ["hello"], "{way}");
        pod.works_on(1).await;
        pod.app.release(1);
        last.await.unwrap().unwrap();
        pod.has_in_flight(0).await;
        let methods: Vec<String> = pod.app.calls().split_off(before).into_iter().map(|call| call.method).collect();
        assert_eq!(methods, ["Echo", "Talk", "Gather", "Count", "Echo", "Echo"], "{way}: first come, first served");
    }
    assert_eq!(pod.app.most_at_once(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_held_too_long_ends_with_resource_exhausted() {
    let place = Place::new();
    let spec = json!({"concurrency": 1, "hold": true, "maxQueueWait": "300ms"});
    let pods = [Pod::start(&place, "one", spec.clone()).await, Pod::start(&place, "two", spec).await];
    let caller = Caller::start(&place, &[&pods[0], &pods[1]], |_| ()).await;
    let client = caller.client("bloc").await;
    // Both applications work on streams. A call is held at one, then at the other, until its
    // retries are used up.
    let mut streams = Vec::new();
    for inside in 1..=2 {
        let (messages, talk) = client.talk(&["a"]);
        let mut answers = talk.await.unwrap().into_inner();
        assert_eq!(next(&mut answers).await.as_deref(), Some("re: a"));
        assert_eq!(pods[0].app.at_once() + pods[1].app.at_once(), inside);
        streams.push((messages, answers));
    }
    for (kind, message) in [(Kind::Echo, "x"), (Kind::Talk, "x")] {
        let status = client.call(kind, &[message]).await.unwrap_err();
        assert_eq!(status.code(), Code::ResourceExhausted, "{kind:?}: {status:?}");
    }
    assert_eq!(pods[0].calls("Echo") + pods[1].calls("Echo"), 0);
    // One stream ends, so a slot is free.
    drop(streams.pop());
    for (kind, message) in [(Kind::Echo, "x"), (Kind::Talk, "x")] {
        client.call(kind, &[message]).await.unwrap();
    }
    drop(streams);
    pods[0].has_in_flight(0).await;
    pods[1].has_in_flight(0).await;
}
