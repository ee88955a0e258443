//! Which of our headers applications and clients see, and the effect of forged ones.

use crate::support::{Place, Pod, outbound, request, send, sender};
use bloc_mesh::envoy::SERVICE;
use serde_json::json;

#[tokio::test(flavor = "multi_thread")]
async fn hides_our_headers_from_application_and_client() {
    let place = Place::new();
    let pod = Pod::with_capacity(&place, "pod", 10).await;
    let configuration = json!({"services": {SERVICE: {"endpoints": [pod.address.to_string()]}}});
    let (_envoy, to) = sender(&place, &outbound(&place, &[pod.address], &configuration, None)).await;
    // The client forges all of them, and so does the application at `/lie`.
    for path in ["/x", "/lie"] {
        let dressed = request(path)
            .header("x-bloc-bid", "1")
            .header("x-bloc-load", "chip=1")
            .header("x-bloc-reject", "capacity")
            .header("x-bloc-endpoints", "127.0.0.1:1");
        let answer = send(to, dressed, "").await.unwrap();
        assert_eq!((answer.status.as_u16(), answer.app()), (200, Some("pod")));
        assert_eq!(answer.ours(), Vec::<String>::new());
        let seen = pod.app.seen(path);
        assert_eq!(seen.len(), 1, "a forged rejection is no rejection: no retry");
        let ours: Vec<&str> =
            seen[0].headers.keys().map(|name| name.as_str()).filter(|name| name.starts_with("x-bloc")).collect();
        assert_eq!(ours, Vec::<&str>::new());
        let retry: Vec<&str> =
            seen[0].headers.keys().map(|name| name.as_str()).filter(|name| name.contains("retr")).collect();
        assert_eq!(retry, Vec::<&str>::new(), "headers for the router stay in the sidecar");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_cannot_choose_the_server() {
    let place = Place::new();
    let (chosen, other) =
        (Pod::with_capacity(&place, "chosen", 10).await, Pod::with_capacity(&place, "other", 10).await);
    let endpoints = [chosen.address, other.address];
    // The client's list has no effect, whether the service is configured or not.
    let known = json!({"services": {SERVICE: {"endpoints": [other.address.to_string()]}}});
    let (envoy, to) = sender(&place, &outbound(&place, &endpoints, &known, None)).await;
    for _ in 0..20 {
        let forged = request("/x").header("x-bloc-endpoints", chosen.address.to_string());
        assert_eq!(send(to, forged, "").await.unwrap().app(), Some("other"));
    }
    envoy.end().await;
    let (_envoy, to) = sender(&place, &outbound(&place, &endpoints, &json!({}), None)).await;
    let mut apps = Vec::new();
    for _ in 0..40 {
        let forged = request("/x").header("x-bloc-endpoints", chosen.address.to_string());
        apps.push(send(to, forged, "").await.unwrap().app().unwrap().to_owned());
    }
    // Two choices between idle servers: all 40 requests reach the same one with probability 2^-39.
    assert!(apps.contains(&"other".to_owned()) && apps.contains(&"chosen".to_owned()), "{apps:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn passes_requests_to_an_unconfigured_service_unchanged() {
    let place = Place::new();
    let pod = Pod::start(&place, "pod", json!({})).await;
    let (_envoy, to) = sender(&place, &outbound(&place, &[pod.address], &json!({}), None)).await;
    let answer = send(to, request("/x").header("x-custom", "kept"), "body").await.unwrap();
    assert_eq!((answer.status.as_u16(), answer.app(), answer.body.as_ref()), (200, Some("pod"), b"body".as_slice()));
    assert_eq!(pod.app.seen("/x")[0].headers["x-custom"], "kept");
    let direct = send(pod.address, request("/x"), "").await.unwrap();
    assert_eq!(direct.ours(), Vec::<String>::new(), "without parameters there is nothing to report");
}

#[tokio::test(flavor = "multi_thread")]
async fn sheds_nothing_and_sends_each_request_once_without_overload() {
    let place = Place::new();
    let (one, two) = (Pod::with_capacity(&place, "one", 10).await, Pod::with_capacity(&place, "two", 10).await);
    let configuration =
        json!({"services": {SERVICE: {"endpoints": [one.address.to_string(), two.address.to_string()]}}});
    let (_envoy, to) = sender(&place, &outbound(&place, &[one.address, two.address], &configuration, None)).await;
    let bodies = ["", "a", "binary \0 \u{1F600} text", "line\r\nline"];
    for body in bodies.into_iter().cycle().take(100) {
        let answer = send(to, hyper::Request::post("/echo").header("host", SERVICE), body).await.unwrap();
        assert_eq!((answer.status.as_u16(), answer.body.as_ref()), (200, body.as_bytes()));
        assert!(answer.app().is_some());
    }
    assert_eq!(one.app.seen("/echo").len() + two.app.seen("/echo").len(), 100, "nothing was sent twice");
    assert_eq!(one.metric("rejected_capacity").await + two.metric("rejected_capacity").await, 0);
}
