//! Requests directly to a server's sidecar, with bids of the test.

use super::{BID, BID_HEADER, HELD, Underway, has, is_empty, is_late_bounce, place_taken, release};
use crate::support::{Answer, PATIENCE, Place, Pod, eventually, from_sidecar, request, send, send_http2};
use hyper::Request;
use hyper::body::Bytes;
use hyper::http::request::Builder;
use nix::sys::signal::Signal;
use std::net::SocketAddr;
use std::time::Duration;
use tokio::time::{Instant, sleep, timeout};

const WORKERS: usize = 4;
const PLACES: u32 = 3;

/// The bids that count for nothing here: none, any, and one of a caller that does not say the
/// fleet's execution time.
const PATIENT: [Option<&str>; 3] = [None, Some("any"), Some("1")];

fn bidding(path: &str, bid: Option<&str>) -> Builder {
    bid.into_iter().fold(request(path), |request, bid| request.header("x-bloc-bid", bid))
}

fn begin(pod: &Pod, path: &str, bid: Option<&str>) -> Underway {
    tokio::spawn(send(pod.address, bidding(path, bid), ""))
}

/// Each of these is bounced after a wait, and not before its time.
async fn are_bounced(began: Instant, underway: Vec<Underway>) {
    for underway in underway {
        let answer = underway.await.unwrap().unwrap();
        assert!(is_late_bounce(&answer), "{answer:?}");
        assert!(answer.body.is_empty());
        assert!(began.elapsed() >= HELD, "not before its time");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn four_workers_bounce_only_what_made_a_bid_and_leave_no_place_taken() {
    const EACH: usize = 12;
    let place = Place::new();
    let (pod, inside) = place_taken(&place, PLACES, WORKERS, |_| ()).await;
    let patient: Vec<_> = (0..EACH).flat_map(|_| PATIENT.map(|bid| begin(&pod, "/patient", bid))).collect();
    let began = Instant::now();
    let bidding = (0..2 * EACH).map(|_| begin(&pod, "/bids", Some(BID_HEADER))).collect();
    are_bounced(began, bidding).await;
    has(&pod, "rejected_bid", 2 * EACH as u64).await;
    has(&pod, "held", 5 * EACH as u64).await;
    has(&pod, "in_flight", 3 * EACH as u64 + u64::from(PLACES)).await;
    // Those without a bid wait for longer.
    sleep(2 * BID).await;
    assert!(patient.iter().all(|patient| !patient.is_finished()));
    assert_eq!((pod.app.seen("/bids").len(), pod.app.seen("/patient").len()), (0, 0));
    release(&pod, inside).await;
    for patient in patient {
        assert_eq!(patient.await.unwrap().unwrap().app(), Some("pod"));
    }
    assert_eq!((pod.app.seen("/bids").len(), pod.app.seen("/patient").len()), (0, 3 * EACH));
    has(&pod, "rejected_bid", 2 * EACH as u64).await;
    is_empty(&pod, PLACES).await;
    assert_eq!(pod.app.most_at_once(), PLACES as usize);
}

/// A request that is held for 40 ms.
async fn bounced_soon(to: SocketAddr, http2: bool) -> Result<Answer, String> {
    const BID: &str = "20;exec=20";
    if http2 {
        let post = Request::post("http://backend/x").header("x-bloc-bid", BID);
        return send_http2(to, post, Bytes::from_static(b"a body")).await;
    }
    send(to, bidding("/x", Some(BID)), "").await
}

/// Clients leave at random moments, many of them when their request is bounced.
#[tokio::test(flavor = "multi_thread")]
async fn clients_that_leave_when_their_request_is_bounced_leave_no_place_taken() {
    const WAVES: u64 = 12;
    const REQUESTS: u64 = 16 * WAVES;
    let place = Place::new();
    let (pod, inside) = place_taken(&place, PLACES, WORKERS, |_| ()).await;
    let mut random = fastrand::Rng::with_seed(7);
    let mut answers: Vec<Option<Answer>> = Vec::new();
    // Few at a time: a worker that gets no processor for 2.5 s is taken for dead.
    for _ in 0..WAVES {
        let mut wave = tokio::task::JoinSet::new();
        for n in 0..REQUESTS / WAVES {
            // They are bounced after 40 to 90 ms.
            let patience = if n % 4 == 0 { PATIENCE } else { Duration::from_millis(random.u64(0..150)) };
            wave.spawn(timeout(patience, bounced_soon(pod.address, n % 8 < 4)));
        }
        answers.extend(wave.join_all().await.into_iter().map(|answer| answer.ok().map(Result::unwrap)));
    }
    let bounced = answers.iter().flatten().count() as u64;
    println!("bounced {bounced}, left {}", REQUESTS - bounced);
    let other = answers.iter().flatten().find(|answer| !is_late_bounce(answer));
    assert!(other.is_none(), "{other:?}");
    assert!((REQUESTS / 4..REQUESTS).contains(&bounced));
    assert_eq!(pod.app.seen("/x").len(), 0);
    has(&pod, "in_flight", PLACES.into()).await;
    // Whom a client no longer hears is bounced all the same, or was held and has gone.
    let counted =
        eventually("the count", async || Some(pod.metric("rejected_bid").await).filter(|&counted| counted >= bounced))
            .await;
    assert!(counted <= REQUESTS);
    release(&pod, inside).await;
    is_empty(&pod, PLACES).await;
}

/// The bids end while the sidecar is stopped.
#[tokio::test(flavor = "multi_thread")]
async fn each_request_has_one_answer_after_a_stop_of_a_second() {
    const EACH: usize = 10;
    let place = Place::new();
    let (mut pod, inside) = place_taken(&place, 1, 2, |_| ()).await;
    let began = Instant::now();
    let patient: Vec<_> = (0..EACH).map(|n| begin(&pod, &format!("/patient/{n}"), Some("any"))).collect();
    let bidding = (0..EACH).map(|_| begin(&pod, "/bids", Some("500;exec=50"))).collect();
    has(&pod, "held", 2 * EACH as u64).await;
    pod.sidecar.process().signal(Signal::SIGSTOP);
    sleep(Duration::from_secs(1)).await;
    pod.sidecar.process().signal(Signal::SIGCONT);
    are_bounced(began, bidding).await;
    release(&pod, inside).await;
    for (n, patient) in patient.into_iter().enumerate() {
        assert_eq!(patient.await.unwrap().unwrap().app(), Some("pod"));
        assert_eq!(pod.app.seen(&format!("/patient/{n}")).len(), 1);
    }
    assert_eq!(pod.app.seen("/bids").len(), 0);
    has(&pod, "rejected_bid", EACH as u64).await;
    is_empty(&pod, 1).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_grpc_call_is_bounced_late_with_resource_exhausted() {
    let place = Place::new();
    let (pod, inside) = place_taken(&place, 1, 1, |_| ()).await;
    let began = Instant::now();
    let call = Request::post("http://backend/x")
        .header("content-type", "application/grpc")
        .header("te", "trailers")
        .header("x-bloc-bid", BID_HEADER);
    let answer = send_http2(pod.address, call, Bytes::from_static(&[0; 5])).await.unwrap();
    assert!(began.elapsed() >= HELD, "not before its time");
    assert_eq!((answer.status.as_u16(), answer.header("grpc-status")), (200, Some("8")));
    assert_eq!(answer.header("x-bloc-reject"), Some("bid"));
    assert!(answer.header("x-bloc-load").unwrap().contains("held"));
    release(&pod, inside).await;
    // A free place is given whatever the bid.
    assert_eq!(send(pod.address, from_sidecar("/x"), "").await.unwrap().app(), Some("pod"));
    is_empty(&pod, 1).await;
}
