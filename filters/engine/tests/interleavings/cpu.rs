//! The CPU of the application: what the control plane says of it reaches every thread at once.

use crate::host::{FakeHost, Process};
use crate::thread::{SECOND, Thread};
use bloc_engine::host::PostAnswer;
use bloc_engine::root::Root;
use serde_json::{Value, json};
use std::rc::Rc;
use std::time::Duration;

const ASKS: &str = r#"{"service":"s","controlPlane":{"cluster":"a","wait":"30s"}}"#;
const OTHER: &str = r#"{"service":"s","controlPlane":{"cluster":"b","wait":"30s"}}"#;
/// Eight requests for each core.
const STATE: &str = r#"{"version":"1","services":{
    "s":{"capacity":{"estimator":"static","perCore":8}},
    "t":{"capacity":{"estimator":"static","perCore":16,"limit":20}}
}}"#;

/// A proxy with two threads, the first of which leads.
struct Proxy {
    process: Rc<Process>,
    threads: [Thread; 2],
    roots: Vec<Root<FakeHost>>,
}

impl Proxy {
    /// It has asked once.
    fn new() -> Self {
        let process = Process::new(1);
        process.is_connected.set(true);
        let threads = [Thread::of(&process), Thread::of(&process)];
        let roots = threads.iter().map(|thread| thread.plug(1, "bloc.inbound", ASKS)).collect();
        let mut proxy = Self { process, threads, roots };
        proxy.tick();
        assert_eq!(proxy.polls(), 1);
        proxy
    }

    /// Likewise; the control plane has answered with a state, and then with so many cores.
    fn with_cores(cores: &str) -> Self {
        let proxy = Self::new();
        proxy.process.advance(SECOND);
        proxy.answer(STATE);
        proxy.process.advance(SECOND);
        proxy.cpu(&format!(r#"{{"cores":{cores}}}"#));
        proxy
    }

    fn tick(&mut self) {
        for (thread, root) in self.threads.iter().zip(&mut self.roots) {
            thread.tick(root);
        }
    }

    fn polls(&self) -> usize {
        self.process.calls.borrow().len()
    }

    /// The last poll.
    fn asked(&self) -> Value {
        serde_json::from_slice(self.process.calls.borrow().last().expect("a poll")).expect("a question")
    }

    fn answered(&self, status: &str, body: &str) {
        let answer = PostAnswer { status: status.into(), body: body.into(), ..PostAnswer::default() };
        self.roots[0].call_answered(self.polls() as u32, Some(&answer));
        self.observe();
    }

    fn observe(&self) {
        for (thread, root) in self.threads.iter().zip(&self.roots) {
            thread.observe(root);
        }
    }

    fn answer(&self, body: &str) {
        self.answered("200", body);
    }

    /// An answer that is only about CPU.
    fn cpu(&self, cpu: &str) {
        self.answer(&format!(r#"{{"version":"1","cpu":{cpu}}}"#));
    }

    /// The capacity of this service in each thread.
    fn capacities(&self, service: &str) -> [Option<u32>; 2] {
        self.threads.each_ref().map(|thread| {
            let service = thread.engine.vm().service(service);
            let service = service.borrow();
            service.servers.iter().next().and_then(|server| Some(server.capacity()?.get()))
        })
    }
}

#[test]
fn when_the_quota_is_halved_the_capacity_is_halved_in_all_threads() {
    let proxy = Proxy::with_cores("2");
    assert_eq!(proxy.capacities("s"), [Some(16); 2]);
    assert_eq!(proxy.threads[0].metric("capacity"), Some(16));
    proxy.process.advance(SECOND);
    proxy.cpu(r#"{"cores":1}"#);
    assert_eq!(proxy.capacities("s"), [Some(8); 2]);
    assert_eq!(proxy.threads[0].metric("capacity"), Some(8));
    assert_eq!(proxy.capacities("t"), [Some(16); 2], "a service that comes later");
    proxy.process.advance(SECOND);
    proxy.cpu(r#"{"cores":2}"#);
    assert_eq!([proxy.capacities("s"), proxy.capacities("t")], [[Some(16); 2], [Some(20); 2]]);
}

#[test]
fn an_answer_about_cpu_keeps_services_and_version_and_the_next_poll_says_what_it_brought() {
    let proxy = Proxy::with_cores("0.5");
    assert_eq!((&proxy.asked()["version"], &proxy.asked()["cpu"]), (&json!("1"), &json!(0.5)));
    assert_eq!(proxy.capacities("s"), [Some(4); 2]);
    proxy.process.advance(SECOND);
    proxy.answer(r#"{"version":"whatever","cpu":{"cores":0.25,"used":0.1,"perRequestUs":500}}"#);
    assert_eq!((&proxy.asked()["version"], &proxy.asked()["cpu"]), (&json!("1"), &json!(0.25)));
    assert_eq!(proxy.capacities("s"), [Some(2); 2]);
}

#[test]
fn a_state_may_come_with_cpu_or_say_nothing_of_it() {
    let proxy = Proxy::new();
    proxy.process.advance(SECOND);
    proxy.answer(&STATE.replacen('{', r#"{"cpu":{"cores":0.5},"#, 1));
    assert_eq!((proxy.capacities("s"), &proxy.asked()["cpu"]), ([Some(4); 2], &json!(0.5)));
    proxy.process.advance(SECOND);
    proxy.answer(&STATE.replace(":8}", ":80}").replace(r#""1""#, r#""2""#));
    assert_eq!((proxy.capacities("s"), &proxy.asked()["cpu"]), ([Some(40); 2], &json!(0.5)));
    proxy.process.advance(SECOND);
    proxy.answered("304", "");
    assert_eq!((proxy.capacities("s"), &proxy.asked()["cpu"]), ([Some(40); 2], &json!(0.5)));
}

#[test]
fn a_poll_follows_an_answer_about_cpu_at_once_even_if_that_came_soon() {
    let mut proxy = Proxy::with_cores("1");
    for (after, cores) in [(200, "2"), (150, "1"), (200, "2")] {
        let before = proxy.polls();
        proxy.process.advance(Duration::from_millis(after));
        proxy.cpu(&format!(r#"{{"cores":{cores}}}"#));
        assert_eq!(proxy.polls(), before + 1, "after {after} ms");
    }
    let before = proxy.polls();
    proxy.process.advance(Duration::from_millis(149));
    proxy.cpu(r#"{"cores":1}"#);
    assert_eq!((proxy.polls(), proxy.capacities("s")), (before, [Some(8); 2]), "too soon");
    proxy.tick();
    assert_eq!((proxy.polls(), &proxy.asked()["cpu"]), (before + 1, &json!(1.0)));
}

#[test]
fn an_empty_answer_about_cpu_means_that_nothing_is_known_any_more() {
    let proxy = Proxy::with_cores("1");
    assert_eq!((proxy.capacities("s"), proxy.capacities("t")), ([Some(8); 2], [Some(16); 2]));
    proxy.process.advance(SECOND);
    proxy.cpu("{}");
    assert_eq!((proxy.capacities("s"), proxy.capacities("t")), ([None; 2], [Some(20); 2]));
    assert_eq!(proxy.asked().get("cpu"), None);
}

#[test]
fn nonsense_is_not_known_and_leaves_the_services_alone() {
    for cpu in [r#"{"cores":-1}"#, r#"{"cores":0}"#, r#"{"cores":1e300}"#, r#"{"cores":1e999}"#, r#"{"cores":[]}"#, "7"]
    {
        let proxy = Proxy::with_cores("1");
        proxy.process.advance(SECOND);
        proxy.cpu(cpu);
        assert_eq!(proxy.capacities("t"), [Some(20); 2], "{cpu}");
        assert_eq!((&proxy.asked()["version"], proxy.asked().get("cpu")), (&json!("1"), None), "{cpu}");
    }
}

#[test]
fn the_cpu_is_forgotten_when_nothing_was_said_of_it_for_90_s() {
    for (status, body) in [("503", ""), ("304", ""), ("200", STATE)] {
        let mut proxy = Proxy::with_cores("1");
        // A tick of each thread takes a second.
        for second in (2..90).step_by(2) {
            assert_eq!(proxy.capacities("s"), [Some(8); 2], "{status}, {second} s");
            proxy.answered(status, body);
            proxy.tick();
        }
        assert_eq!((proxy.capacities("s"), &proxy.asked()["cpu"]), ([Some(8); 2], &json!(1.0)), "{status}");
        (0..3).for_each(|_| proxy.tick());
        assert_eq!(proxy.capacities("s"), [None; 2], "{status}");
        proxy.answered(status, body);
        (0..6).for_each(|_| proxy.tick());
        assert_eq!(proxy.asked().get("cpu"), None, "{status}");
        proxy.cpu(r#"{"cores":0.5}"#);
        assert_eq!((proxy.capacities("s"), &proxy.asked()["cpu"]), ([Some(4); 2], &json!(0.5)), "{status}: it is back");
    }
}

#[test]
fn the_cpu_is_known_as_long_as_it_is_said_again_at_the_end_of_each_poll() {
    let mut proxy = Proxy::with_cores("1");
    for polls in 1..=5 {
        (0..15).for_each(|_| proxy.tick());
        proxy.answered("503", "");
        (0..15).for_each(|_| proxy.tick());
        assert_eq!((proxy.capacities("s"), &proxy.asked()["cpu"]), ([Some(8); 2], &json!(1.0)), "{polls}");
        proxy.cpu(r#"{"cores":1}"#);
    }
}

#[test]
fn nothing_is_known_without_a_control_plane_or_from_another_one() {
    for configuration in [r#"{"service":"s","services":{"s":{"capacity":{"estimator":"static","perCore":8}}}}"#, OTHER]
    {
        let mut proxy = Proxy::with_cores("1");
        let thread = &proxy.threads[0];
        let next = thread.plug(2, "bloc.inbound", configuration);
        drop(std::mem::replace(&mut proxy.roots[0], next));
        let thread = &proxy.threads[0];
        thread.observe(&proxy.roots[0]);
        assert_eq!(proxy.capacities("s")[0], None, "{configuration}");
        assert_eq!(proxy.capacities("s")[1], Some(8), "the other thread has not changed yet");
    }
}

/// Two threads believe to lead: the first one's answer is the older one.
#[test]
fn an_answer_does_not_count_if_another_thread_has_brought_a_newer_one() {
    for has_heard in [false, true] {
        let mut proxy = Proxy::with_cores("1");
        let first = proxy.polls() as u32;
        // It is silent until its lease ends.
        proxy.process.advance(SECOND * 12);
        proxy.roots[1].tick();
        assert_eq!(proxy.polls() as u32, first + 1);
        let answer = |cores: &str| PostAnswer {
            status: b"200".to_vec(),
            body: format!(r#"{{"version":"1","cpu":{{"cores":{cores}}}}}"#).into_bytes(),
            ..PostAnswer::default()
        };
        proxy.roots[1].call_answered(first + 1, Some(&answer("3")));
        if has_heard {
            proxy.observe();
            assert_eq!(proxy.capacities("s"), [Some(24); 2]);
        }
        proxy.roots[0].call_answered(first, Some(&answer("2")));
        proxy.observe();
        assert_eq!(proxy.capacities("s"), [Some(24); 2]);
    }
}
