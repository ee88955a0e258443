//! Requests that a server has taken for their bids and holds for too long.

use crate::host::Process;
use crate::inbound::{ANSWER, Request, Server};
use crate::thread::{SECOND, Thread};
use std::time::Duration;

const HOLDS: &str = r#""concurrency":1,"hold":true,"maxQueueWait":"10s""#;
/// It is held for 600 ms.
const BIDS: (&str, &str) = ("x-bloc-bid", "300;exec=50");
const UPLOAD: (&str, &str) = ("content-length", "100");

/// Time passes, then the thread looks.
fn after(server: &mut Server, millis: u64) {
    server.thread.process.advance(Duration::from_millis(millis));
    server.root.tick();
}

/// The headers of the filter's own answer.
fn said(request: &Request, name: &str) -> Option<String> {
    let reply = request.stream.0.reply.borrow();
    let headers = &reply.as_ref().expect("an answer").headers;
    headers.iter().find(|(header, _)| header == name).map(|(_, value)| value.clone())
}

#[test]
fn a_request_that_is_held_for_twice_its_bid_is_bounced() {
    let mut server = Server::new(HOLDS);
    let _inside = server.comes(&[]);
    let held = server.comes(&[BIDS]);
    after(&mut server, 599);
    assert!(held.waits());
    after(&mut server, 1);
    assert_eq!((held.status(), said(&held, "x-bloc-reject").as_deref()), (Some(429), Some("bid")));
    assert_eq!(said(&held, "x-bloc-load").as_deref(), Some("chip=0, queue=1, fleet, held"));
    assert_eq!(["rejected_bid", "rejected_deadline", "admitted"].map(|name| server.counted(name)), [1, 0, 2]);
    assert_eq!(server.counted("in_flight"), 1);
}

#[test]
fn a_request_whose_deadline_comes_first_is_rejected_for_that() {
    let mut server = Server::new(HOLDS);
    let _inside = server.comes(&[]);
    let held = server.comes(&[BIDS, ("x-envoy-expected-rq-timeout-ms", "500")]);
    after(&mut server, 600);
    assert_eq!(said(&held, "x-bloc-reject").as_deref(), Some("deadline"));
    assert_eq!(["rejected_bid", "rejected_deadline"].map(|name| server.counted(name)), [0, 1]);
}

#[test]
fn a_bounce_on_arrival_does_not_say_that_the_request_was_held() {
    let server = Server::new(r#""concurrency":1,"hold":true"#);
    let mut first = server.comes(&[]);
    server.thread.process.advance(SECOND / 10);
    first.answered(&ANSWER, true);
    drop(first);
    let _inside = server.comes(&[]);
    let bounced = server.comes(&[("x-bloc-bid", "150;exec=100")]);
    assert_eq!(said(&bounced, "x-bloc-reject").as_deref(), Some("bid"));
    assert!(!said(&bounced, "x-bloc-load").expect("a report").contains("held"));
}

#[test]
fn a_request_without_a_bid_of_this_version_is_held_for_as_long_as_before() {
    for bid in ["any", "400"] {
        let mut server = Server::new(HOLDS);
        let _inside = server.comes(&[]);
        let held = server.comes(&[("x-bloc-bid", bid)]);
        after(&mut server, 9_999);
        assert!(held.waits(), "{bid}");
        after(&mut server, 1);
        assert_eq!(said(&held, "x-bloc-reject").as_deref(), Some("deadline"), "{bid}");
    }
}

#[test]
fn a_request_that_a_place_is_found_for_in_time_is_not_bounced() {
    let mut server = Server::new(HOLDS);
    let inside = server.comes(&[]);
    let held = server.comes(&[BIDS]);
    after(&mut server, 599);
    drop(inside);
    server.hears();
    assert!(held.entered());
    after(&mut server, 1_000);
    assert_eq!((held.status(), server.counted("rejected_bid")), (None, 0));
}

/// The request behind waits in another thread.
#[test]
fn the_next_in_the_queue_gets_the_place_that_a_bounced_request_does_not_take() {
    let process = Process::new(1);
    let [mut one, other] = [(); 2].map(|()| Server::on(Thread::of(&process), HOLDS));
    let inside = one.comes(&[]);
    let (bounced, next) = (one.comes(&[BIDS]), other.comes(&[]));
    after(&mut one, 600);
    assert_eq!((bounced.status(), next.waits()), (Some(429), true));
    drop(inside);
    other.hears();
    assert!(next.entered());
}

/// A server at half of the fleet's speed tries one request when it is not sure any more.
#[test]
fn a_probe_ends_when_its_own_request_is_reset_and_not_when_another_one_is() {
    const SLOW: &[(&str, &str)] = &[("x-bloc-bid", "60;exec=50")];
    let server = Server::new(r#""concurrency":2,"hold":true"#);
    for _ in 0..200 {
        let mut request = server.comes(&[]);
        server.thread.process.advance(SECOND / 10);
        request.answered(&ANSWER, true);
    }
    assert_eq!(server.comes(SLOW).status(), Some(429));
    let other = server.comes(&[]);
    server.thread.process.advance(30 * SECOND);
    let probe = server.comes(SLOW);
    assert_eq!(probe.status(), None);
    drop(other);
    assert_eq!(server.comes(SLOW).status(), Some(429));
    drop(probe);
    assert_eq!(server.comes(SLOW).status(), None);
}

/// A bounce would reach its client: Envoy's router repeats no request with a larger body.
#[test]
fn a_held_call_that_has_grown_too_large_to_be_repeated_enters_when_it_would_be_bounced() {
    let mut server = Server::new(HOLDS);
    let _inside = server.comes(&[]);
    let [large, small, later] = [(); 3].map(|()| server.comes(&[BIDS, ("content-type", "application/grpc")]));
    large.stream.0.bytes.set((1 << 20) + 1);
    small.stream.0.bytes.set(1 << 20);
    drop(later);
    after(&mut server, 600);
    assert_eq!((large.entered(), large.status(), small.status()), (true, None, Some(429)));
    assert_eq!((server.counted("rejected_bid"), small.stream.0.visits.get()), (1, 2), "asked, then answered");
}

/// Over HTTP/1.1 an answer before the end of the body would cost the connection.
#[test]
fn a_held_upload_is_bounced_when_its_body_has_come() {
    let mut server = Server::new(HOLDS);
    let _inside = server.comes(&[]);
    let [upload, there] = [server.comes(&[BIDS, UPLOAD]), server.comes(&[BIDS, UPLOAD])];
    there.stream.0.bytes.set(100);
    upload.stream.0.bytes.set(99);
    after(&mut server, 600);
    server.hears();
    assert_eq!((upload.status(), there.status()), (None, Some(429)));
    upload.stream.0.bytes.set(100);
    after(&mut server, 50);
    assert_eq!(said(&upload, "x-bloc-load").as_deref(), Some("chip=0, queue=2, fleet, held"));
    assert_eq!(server.counted("rejected_bid"), 2);
}
