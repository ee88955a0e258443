//! Answers that have begun: how often a thread looks at them, and which ones do not count.

use crate::host::Seen;
use crate::inbound::{ANSWER, Request, Server};
use crate::mesh::headers;
use crate::thread::{SECOND, Thread, came};
use std::time::Duration;

const IDLE: Duration = Duration::from_secs(5);

/// A request whose answer has begun.
fn begun(server: &Server) -> Request {
    let mut stream = server.comes(&[]);
    stream.answered(&ANSWER, false);
    stream
}

#[test]
fn a_thread_looks_at_answers_that_take_longer_than_a_second() {
    let mut server = Server::new(r#""streamIdle":"1s""#);
    let stream = begun(&server);
    let periods = [(); 3].map(|()| {
        server.ticks(1);
        server.period()
    });
    assert_eq!(periods[1..], [SECOND / 2; 2]);
    drop(stream);
    server.ticks(2);
    assert_eq!(server.period(), IDLE);
    let mut ended = server.comes(&[]);
    ended.answered(&ANSWER, true);
    server.ticks(4);
    assert_eq!(server.period(), IDLE, "it ended with its headers");
}

#[test]
fn a_thread_with_many_open_answers_looks_less_often() {
    let mut server = Server::new(r#""streamIdle":"1s""#);
    let _streams: Vec<Request> = (0..6_000).map(|_| begun(&server)).collect();
    server.ticks(2);
    assert_eq!(server.period(), SECOND * 3 / 2, "4,000 looks a second");
    server.ticks(1);
    assert_eq!(server.period(), SECOND / 2, "the rest of that");
    server.thread.process.advance(SECOND / 2);
    server.root.tick();
    assert_eq!(server.period(), SECOND * 3 / 2);
}

#[test]
fn an_idle_stream_gives_its_place_back_once() {
    let mut server = Server::new(r#""concurrency":1,"hold":true,"streamIdle":"1s","maxQueueWait":"60s""#);
    let stream = begun(&server);
    let [first, second] = [server.comes(&[]), server.comes(&[])];
    server.ticks(6);
    assert_eq!((first.entered(), second.entered()), (true, false), "in place of the idle stream");
    drop(stream);
    server.hears();
    server.ticks(2);
    assert!(!second.entered());
    assert_eq!(server.thread.metric("in_flight"), Some(2));
    drop(first);
    server.hears();
    assert!(second.entered());
}

#[test]
fn an_idle_stream_that_carries_bytes_again_counts_again() {
    let mut server = Server::new(r#""concurrency":1,"hold":true,"streamIdle":"1s","maxQueueWait":"60s""#);
    let stream = begun(&server);
    server.ticks(5);
    assert_eq!(server.thread.metric("in_flight"), Some(0));
    stream.stream.0.bytes.set(1);
    server.ticks(1);
    assert_eq!(server.thread.metric("in_flight"), Some(1));
    let held = server.comes(&[]);
    assert!(held.waits(), "it has its place again");
    drop(stream);
    server.hears();
    assert!(held.entered());
    assert_eq!(server.thread.metric("in_flight"), Some(1));
}

#[test]
fn an_idle_attempt_is_not_pending() {
    let thread = Thread::new();
    let mut root = thread.plug(1, "bloc.outbound", r#"{"services":{"backend":{"streamIdle":"1s"}}}"#);
    let attempts = thread.plug(2, "bloc.attempt", "");
    let seen = || Seen { address: Some("10.0.0.1:80".to_owned()), ..Seen::default() };
    let (stream, mut filter) = came(&attempts, seen());
    stream.0.response.replace(Some(headers(&ANSWER)));
    filter.response_headers(false);
    let cluster = thread.engine.vm().cluster(None, "backend").expect("a cluster");
    let pending = || cluster.borrow().sender.endpoints().iter().map(|(_, server)| server.pending()).sum::<u32>();
    assert_eq!(pending(), 1);
    (0..5).for_each(|_| thread.tick(&mut root));
    assert_eq!(pending(), 0);
    stream.0.bytes.set(1);
    thread.tick(&mut root);
    assert_eq!(pending(), 1);
    (0..5).for_each(|_| thread.tick(&mut root));
    let _other = came(&attempts, seen());
    drop(filter);
    assert_eq!(pending(), 1, "the idle one has been counted out already");
}
