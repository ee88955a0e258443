//! How long a request may wait: bids, and the SLO at a gateway.

use crate::support::{Answer, Place, Pod, Traffic, eventually, metric, request, send, single_sender};
use bloc_mesh::envoy::SERVICE;
use serde_json::json;
use std::time::Duration;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};

/// A pod with `concurrency: 1` that has served a few requests of 100 ms.
async fn pod(place: &Place, name: &str) -> Pod {
    let spec = json!({"concurrency": 1, "hold": false});
    let pod = Pod::start(place, name, json!({"service": SERVICE, "services": {SERVICE: spec}})).await;
    // Each of its workers measures for itself.
    for _ in 0..12 {
        send(pod.address, request("/slow"), "").await.unwrap();
    }
    pod
}

/// Requests that stay in the pod until they are released.
async fn fill(pod: &Pod, count: usize) -> Vec<JoinHandle<Result<Answer, String>>> {
    let to = pod.address;
    let held = (0..count).map(|_| tokio::spawn(async move { send(to, request("/hold"), "").await })).collect();
    eventually("the held requests' arrival", async || (pod.app.seen("/hold").len() == count).then_some(())).await;
    held
}

async fn release(pod: &Pod, held: Vec<JoinHandle<Result<Answer, String>>>) {
    for _ in &held {
        pod.app.release();
    }
    for held in held {
        assert_eq!(held.await.unwrap().unwrap().status.as_u16(), 200);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_attempt_that_would_wait_longer_than_its_bid_is_bounced() {
    let place = Place::new();
    let pod = pod(&place, "pod").await;
    let held = fill(&pod, 5).await;
    let bid = |bid: &'static str| request("/x").header("x-bloc-bid", bid);
    let bounced = send(pod.address, bid("300"), "").await.unwrap();
    assert_eq!((bounced.status.as_u16(), bounced.header("x-bloc-reject"), bounced.app()), (429, Some("bid"), None));
    assert_eq!(bounced.load(), Some((false, Some(5), None)));
    assert_eq!(pod.app.seen("/x").len(), 0);
    let served = send(pod.address, bid("60000"), "").await.unwrap();
    assert_eq!(served.app(), Some("pod"));
    for invalid in ["", "-1", "NaN", "1e3", "soon", "99999999999999999999"] {
        let served = send(pod.address, bid(invalid), "").await.unwrap();
        assert_eq!(served.app(), Some("pod"), "{invalid:?} counts as no bid");
    }
    assert_eq!(pod.app.seen("/x").len(), 7);
    assert!(pod.app.seen("/x").iter().all(|seen| !seen.headers.contains_key("x-bloc-bid")));
    eventually("the count", async || (pod.metric("rejected_bid").await == 1).then_some(())).await;
    release(&pod, held).await;
    eventually("an empty server", async || (pod.metric("in_flight").await == 0).then_some(())).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn bids_reach_the_idle_server_without_a_shed_request() {
    let place = Place::new();
    let (busy, idle) = (pod(&place, "busy").await, pod(&place, "idle").await);
    let (envoy, to) = single_sender(&place, "sender", &[busy.address, idle.address], json!({"routing": "bid"})).await;
    // Until the sender knows both servers, it does not bid. What the busy one served meanwhile
    // would tell it that its held requests take no time.
    for _ in 0..30 {
        assert_eq!(send(to, request("/slow"), "").await.unwrap().status.as_u16(), 200);
    }
    let held = fill(&busy, 30).await;
    let before = metric(&envoy, "outbound", "bounces").await;
    let mut idle_served = 0;
    for _ in 0..40 {
        let answer = send(to, request("/slow"), "a body that travels along").await.unwrap();
        assert_eq!((answer.status.as_u16(), answer.body.as_ref()), (200, b"a body that travels along".as_slice()));
        assert_eq!(answer.ours(), Vec::<String>::new());
        idle_served += usize::from(answer.app() == Some("idle"));
    }
    assert_eq!(idle_served, 40, "the busy one would take three seconds");
    assert!(idle.app.seen("/slow").iter().all(|seen| !seen.headers.contains_key("x-bloc-bid")));
    let bounces =
        eventually("bounces", async || Some(metric(&envoy, "outbound", "bounces").await).filter(|&n| n > before)).await;
    println!("{bounces} bounces");
    assert_eq!(metric(&envoy, "outbound", "retries_exhausted").await, 0);
    release(&busy, held).await;
}

/// Longer than a server bounces requests from a free place without learning anything new.
const RECOVERED: Duration = Duration::from_secs(90);

#[tokio::test(flavor = "multi_thread")]
async fn a_slow_server_is_spared_until_it_is_fast_again() {
    spares_the_slow_server(2).await;
}

/// Such a caller knows the slow server as well as the fast one.
#[tokio::test(flavor = "multi_thread")]
async fn callers_with_one_request_at_a_time_spare_a_slow_server_until_it_is_fast_again() {
    spares_the_slow_server(1).await;
}

/// Two callers with so many clients each. There is always a free place at both servers.
async fn spares_the_slow_server(clients: usize) {
    let place = Place::new();
    let spec = json!({"concurrency": 2 * clients, "hold": false, "routing": "bid"});
    let configuration = json!({"service": SERVICE, "services": {SERVICE: spec}});
    let pods =
        [Pod::start(&place, "slow", configuration.clone()).await, Pod::start(&place, "fast", configuration).await];
    let [slow, fast] = &pods;
    slow.app.takes(200);
    fast.app.takes(20);
    let mut callers = Vec::new();
    for name in ["one", "other"] {
        callers.push(single_sender(&place, name, &[slow.address, fast.address], json!({"routing": "bid"})).await);
    }
    let within = Duration::from_secs(10);
    let [one, other] = [0, 1].map(|caller| Traffic::start(clients, callers[caller].1, "/work", within));
    let came = || pods.each_ref().map(|pod| pod.app.seen("/work").len());
    eventually("bounces of the slow server", async || (slow.metric("rejected_bid").await > 10).then_some(())).await;
    let before = came();
    eventually("many requests", async || (came()[1] > before[1] + 200).then_some(())).await;
    let [of_slow, of_fast] = [came()[0] - before[0], came()[1] - before[1]];
    println!("slow {of_slow}, fast {of_fast}");
    assert!(10 * of_slow < of_fast, "{of_slow} of {of_fast}");

    slow.app.takes(20);
    let since = Instant::now();
    loop {
        let before = came();
        sleep(Duration::from_secs(2)).await;
        let [of_slow, of_fast] = [came()[0] - before[0], came()[1] - before[1]];
        println!("{:?}: slow {of_slow}, fast {of_fast}", since.elapsed());
        if 2 * of_slow > of_fast {
            break;
        }
        assert!(since.elapsed() < RECOVERED, "{of_slow} and {of_fast}");
    }
    let tally = one.end().await.and(other.end().await);
    assert_eq!(tally.disagrees_with(&pods.each_ref().map(|pod| &pod.app)), Vec::<String>::new());
}

/// Nobody has said that the application works on three requests at once.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_finds_out_how_many_requests_its_application_works_on() {
    let place = Place::new();
    let configuration = json!({"service": SERVICE, "services": {SERVICE: {"routing": "bid"}}});
    let pod = Pod::start(&place, "pod", configuration).await;
    // Long beside what a busy machine adds to each request outside of the places.
    pod.app.takes(15);
    pod.app.works_on(3);
    let since = Instant::now();
    // It can only be seen where the places are now all taken, now not.
    let estimate = loop {
        for clients in 1..=8 {
            let traffic = Traffic::start(clients, pod.address, "/work", Duration::from_secs(10));
            sleep(Duration::from_millis(250)).await;
            assert_eq!(traffic.end().await.lost, Vec::<String>::new());
        }
        let estimate = pod.metric("concurrency_estimate").await;
        println!("{:?}: {} requests, {estimate}", since.elapsed(), pod.app.seen("/work").len());
        if estimate > 0 {
            break estimate;
        }
        assert!(since.elapsed() < RECOVERED, "nothing is sure");
    };
    assert!((2..=5).contains(&estimate), "{estimate}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_gateway_refuses_a_request_that_no_server_can_answer_in_time() {
    let place = Place::new();
    let pod = pod(&place, "pod").await;
    let spec = json!({"routing": "mu", "slo": "2s"});
    let (envoy, to) = single_sender(&place, "sender", &[pod.address], spec).await;
    // A lone gateway counts its own requests at the server, so fill the server through it.
    assert_eq!(send(to, request("/slow"), "").await.unwrap().status.as_u16(), 200);
    let mut held = Vec::new();
    for n in 1..=40 {
        held.push(tokio::spawn(async move { send(to, request("/hold"), "").await }));
        eventually("its arrival or refusal", async || {
            (pod.app.seen("/hold").len() == n || held.last().unwrap().is_finished()).then_some(())
        })
        .await;
        if held.last().unwrap().is_finished() {
            break;
        }
    }
    let refused = held.pop().unwrap().await.unwrap().unwrap();
    assert_eq!((refused.status.as_u16(), refused.app()), (503, None));
    assert_eq!(refused.header("retry-after"), Some("1"), "just over the bound of 2.5 s");
    assert_eq!(refused.ours(), Vec::<String>::new());
    // 2.5 s at some 100 ms each; on a busy machine fewer.
    assert!((10..=25).contains(&held.len()), "{} requests were let in", held.len());
    eventually("the count", async || (metric(&envoy, "outbound", "refused_slo").await == 1).then_some(())).await;
    release(&pod, held).await;
    assert_eq!(send(to, request("/x"), "").await.unwrap().app(), Some("pod"), "admitted again once the queue is short");
}
