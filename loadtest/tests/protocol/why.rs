//! `x-bloc-why` in real Envoys: it is sent only where `debugHeaders` is on.

use crate::support::{Place, Pod, eventually, outbound, request, send, sender};
use bloc_mesh::envoy::SERVICE;
use serde_json::json;

#[tokio::test(flavor = "multi_thread")]
async fn debug_headers_tell_why_and_where_a_request_was_rejected() {
    let place = Place::new();
    let server = |debug: bool| json!({"capacity": {"estimator": "static", "limit": 1}, "debugHeaders": debug});
    let configuration = json!({"service": SERVICE, "services": {SERVICE: server(true)}});
    let pod = Pod::start(&place, "pod", configuration).await;
    let address = pod.address;
    let held = tokio::spawn(async move { send(address, request("/hold"), "").await });
    eventually("the held request's arrival", async || (!pod.app.seen("/hold").is_empty()).then_some(())).await;

    let stranger = send(pod.address, request("/x"), "").await.unwrap();
    assert_eq!((stranger.status.as_u16(), stranger.app()), (429, None));
    let why = stranger.header("x-bloc-why").expect("a reason");
    assert!(why.starts_with("capacity;queue=1;limit=1"), "{why}");
    assert_eq!(stranger.ours(), ["x-bloc-why"]);

    for tells in [true, false] {
        let spec = json!({"endpoints": [pod.address.to_string()], "retries": 1, "debugHeaders": tells});
        let bootstrap = outbound(&place, &[pod.address], &json!({"services": {SERVICE: spec}}), None);
        let (_envoy, to) = sender(&place, &bootstrap).await;
        let answer = send(to, request("/x"), "").await.unwrap();
        assert_eq!((answer.status.as_u16(), answer.app()), (429, None));
        if tells {
            assert_eq!(answer.ours(), ["x-bloc-why"]);
            let why = answer.header("x-bloc-why").unwrap_or_default();
            assert!(why.starts_with("capacity;queue=1;limit=1"), "{why}");
            let end = format!(";attempt=1;server=\"{}\";took=", pod.address);
            assert!(why.contains(&end), "{why}");
        } else {
            assert_eq!(answer.ours(), Vec::<String>::new());
        }
    }
    pod.app.release();
    held.await.unwrap().unwrap();
}
