//! Bodies of requests that are held, or rejected before their bodies have come.

use crate::inbound::{Request, Server};
use crate::thread::SECOND;
use std::time::Duration;

/// How much Envoy buffers.
const LIMIT: u64 = 1 << 20;
const CALL: &[(&str, &str)] = &[("content-type", "application/grpc")];
const UPLOAD: &[(&str, &str)] = &[("content-length", "100")];
/// One request at a time, without a queue.
const FULL: &str = r#""capacity":{"estimator":"static","limit":1}"#;
const HOLDS: &str = r#""concurrency":1,"hold":true,"maxQueueWait":"60s""#;

fn has_come(request: &Request, bytes: u64) {
    request.stream.0.bytes.set(bytes);
}

/// Time passes, and pending messages are read, without a tick.
fn hears(server: &Server, time: Duration) {
    server.thread.process.advance(time);
    server.hears();
}

#[test]
fn a_held_call_enters_when_it_turns_out_to_be_too_large() {
    let mut server = Server::new(HOLDS);
    let _inside = server.comes(&[]);
    let [call, upload] = [server.comes(CALL), server.comes(UPLOAD)];
    for (bytes, entered) in [(0, false), (LIMIT, false), (LIMIT + 1, true)] {
        has_come(&call, bytes);
        has_come(&upload, bytes);
        server.ticks(1);
        assert_eq!((call.entered(), upload.entered()), (entered, false), "{bytes}");
    }
}

#[test]
fn a_held_upload_whose_length_is_known_is_not_looked_at() {
    let mut server = Server::new(HOLDS);
    let _inside = server.comes(&[]);
    let [call, upload] = [server.comes(CALL), server.comes(UPLOAD)];
    server.ticks(3);
    assert_eq!((call.stream.0.visits.get(), upload.stream.0.visits.get()), (3, 0));
}

/// Each look costs some host calls.
#[test]
fn a_held_call_is_looked_at_every_50_ms_at_most() {
    let mut server = Server::new(HOLDS);
    let _inside = server.comes(&[]);
    let call = server.comes(CALL);
    server.ticks(1);
    has_come(&call, LIMIT + 1);
    for (after, entered) in
        [(Duration::from_millis(50) - Duration::from_nanos(1), false), (Duration::from_nanos(1), true)]
    {
        server.thread.process.advance(after);
        server.root.tick();
        assert_eq!(call.entered(), entered);
    }
}

#[test]
fn a_body_that_may_be_too_large_is_not_held() {
    let server = Server::new(HOLDS);
    let _inside = server.comes(&[]);
    for (own, held) in [
        (CALL, true),
        (UPLOAD, true),
        (&[("content-length", "1048576")], true),
        (&[("content-length", "1048577")], false),
        (&[("content-type", "application/octet-stream")], false),
    ] {
        let before = server.counted("held");
        drop(server.comes(own));
        assert_eq!(server.counted("held") - before, i64::from(held), "{own:?}");
    }
}

/// Over HTTP/1.1 an answer before the end of the body would cost the connection.
#[test]
fn a_rejected_upload_is_answered_when_its_body_has_come() {
    let mut server = Server::new(FULL);
    let _inside = server.comes(&[]);
    let upload = server.comes(UPLOAD);
    assert_eq!(upload.status(), None);
    has_come(&upload, 99);
    server.hears();
    assert_eq!(upload.status(), None, "a byte is missing");
    has_come(&upload, 100);
    server.thread.process.advance(Duration::from_millis(1));
    server.root.tick();
    assert_eq!(upload.status(), Some(429));
    assert_eq!(server.counted("rejected_capacity"), 1);
}

#[test]
fn a_rejected_upload_that_has_come_already_is_answered_with_the_next_message() {
    let mut server = Server::new(FULL);
    let _inside = server.comes(&[]);
    let uploads = [(); 3].map(|()| server.comes(UPLOAD));
    assert_eq!(server.thread.messages().len(), 1, "one message for all");
    let again = server.comes(UPLOAD);
    uploads.iter().chain([&again]).for_each(|upload| has_come(upload, 100));
    server.ticks(1);
    assert!(uploads.iter().chain([&again]).all(|upload| upload.status() == Some(429)));
    let last = server.comes(UPLOAD);
    has_come(&last, 100);
    hears(&server, Duration::ZERO);
    assert_eq!(last.status(), Some(429));
}

#[test]
fn a_rejected_upload_that_takes_longer_than_a_second_is_answered() {
    let mut server = Server::new(FULL);
    let _inside = server.comes(&[]);
    let upload = server.comes(UPLOAD);
    hears(&server, SECOND - Duration::from_nanos(1));
    assert_eq!(upload.status(), None);
    server.thread.process.advance(Duration::from_nanos(1));
    server.root.tick();
    assert_eq!(upload.status(), Some(429));
}

#[test]
fn rejects_at_once_where_no_body_of_known_size_is_on_its_way() {
    let server = Server::new(FULL);
    let _inside = server.comes(&[]);
    for own in [
        &[][..],
        CALL,
        &[("content-length", "1048577")],
        &[("content-length", "100"), ("expect", "100-continue")],
        &[("content-length", "a hundred")],
    ] {
        assert_eq!(server.comes(own).status(), Some(429), "{own:?}");
    }
    assert_eq!(server.comes(UPLOAD).status(), None);
}

#[test]
fn a_rejected_upload_whose_client_is_gone_is_not_answered() {
    let mut server = Server::new(FULL);
    let _inside = server.comes(&[]);
    let [gone, stays] = [server.comes(UPLOAD), server.comes(UPLOAD)];
    let stream = gone.stream.clone();
    drop(gone);
    server.ticks(2);
    assert_eq!(stream.0.reply.borrow().as_ref().map(|local| local.status), None);
    assert_eq!(stays.status(), Some(429));
}
