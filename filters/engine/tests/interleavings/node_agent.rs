//! The CPU of the application, as the node agent itself says: it reaches every thread at once, and
//! the control plane's word counts where the agent says nothing.

#[path = "node_agent/configurations.rs"]
mod configurations;

use crate::host::{FakeHost, Process};
use crate::thread::{SECOND, Thread};
use bloc_engine::host::CallAnswer;
use bloc_engine::root::Root;
use bloc_policy::features::Features;
use serde_json::{Value, json};
use std::rc::Rc;
use std::time::Duration;

const CONTROL_PLANE: &str = "a";
const AGENT: &str = "self";
const ASKS: &str = r#"{"service":"s","controlPlane":{"cluster":"a","wait":"30s"},"nodeAgent":{"cluster":"self"}}"#;
/// Likewise, without an agent.
const WITHOUT: &str = r#"{"service":"s","controlPlane":{"cluster":"a","wait":"30s"}}"#;
/// Eight requests for each core.
const STATE: &str = r#"{"version":"1","services":{"s":{"capacity":{"estimator":"static","perCore":8}}}}"#;
const IDLE: Duration = Duration::from_secs(5);

/// A proxy with two threads, the first of which leads.
struct Proxy {
    process: Rc<Process>,
    threads: [Thread; 2],
    roots: Vec<Root<FakeHost>>,
}

impl Proxy {
    /// It has asked each once, and the control plane has answered with a state.
    fn new(configuration: &str) -> Self {
        let process = Process::new(1);
        process.is_connected.set(true);
        let threads = [Thread::of(&process), Thread::of(&process)];
        let root = |(number, thread): (u32, &Thread)| thread.plug(number, "bloc.inbound", configuration);
        let roots = (1..).zip(&threads).map(root).collect();
        let mut proxy = Self { process, threads, roots };
        proxy.tick();
        proxy.process.advance(SECOND);
        proxy.control_plane(STATE);
        proxy
    }

    /// Likewise; the control plane says that there are two cores, and the agent says that there are
    /// so many.
    fn with_cores(cores: &str) -> Self {
        let proxy = Self::new(ASKS);
        proxy.process.advance(SECOND);
        proxy.control_plane(r#"{"version":"1","cpu":{"cores":2}}"#);
        assert_eq!(proxy.capacities(), [Some(16); 2]);
        proxy.agent(&format!(r#"{{"cores":{cores}}}"#));
        proxy
    }

    fn tick(&mut self) {
        for (thread, root) in self.threads.iter().zip(&mut self.roots) {
            thread.tick(root);
        }
    }

    /// So many seconds pass, two in each step.
    fn pass(&mut self, seconds: u32) {
        (0..seconds / 2).for_each(|_| self.tick());
    }

    /// The tokens of the polls at this cluster, and their lines.
    fn polls(&self, cluster: &str) -> Vec<(u32, String)> {
        let all = self.process.call_lines.borrow();
        let of_it = (1..).zip(all.iter()).filter(|(_, [to, _])| to == cluster);
        of_it.map(|(token, [_, line])| (token, line.clone())).collect()
    }

    /// The last poll at the agent.
    fn asked(&self) -> (u32, String) {
        self.polls(AGENT).pop().expect("a poll")
    }

    /// What the last poll at the control plane says of the cores.
    fn told(&self) -> Value {
        let (token, _) = self.polls(CONTROL_PLANE).pop().expect("a poll");
        let body: Value = serde_json::from_slice(&self.process.calls.borrow()[token as usize - 1]).expect("JSON");
        body["cpu"].clone()
    }

    fn answered(&self, thread: usize, token: u32, status: &str, body: &str) {
        let features = Some(Features::own().to_string().into_bytes());
        let answer = CallAnswer { status: status.into(), features, body: body.into(), ..CallAnswer::default() };
        self.roots[thread].call_answered(token, Some(&answer));
    }

    fn control_plane(&self, body: &str) {
        let (token, _) = self.polls(CONTROL_PLANE).pop().expect("a poll");
        self.answered(0, token, "200", body);
        self.hear();
    }

    /// The agent answers the last poll.
    fn agent_says(&self, status: &str, body: &str) {
        self.answered(0, self.asked().0, status, body);
        self.hear();
    }

    fn agent(&self, cpu: &str) {
        self.agent_says("200", cpu);
    }

    fn hear(&self) {
        for (thread, root) in self.threads.iter().zip(&self.roots) {
            thread.hear(root);
        }
    }

    /// The first thread gets this configuration instead of its last one.
    fn configure(&mut self, context: u32, configuration: &str) {
        let next = self.threads[0].plug(context, "bloc.inbound", configuration);
        drop(std::mem::replace(&mut self.roots[0], next));
        self.threads[0].hear(&self.roots[0]);
    }

    /// The capacity in each thread.
    fn capacities(&self) -> [Option<u32>; 2] {
        self.threads.each_ref().map(|thread| {
            let service = thread.engine.vm().service("s");
            let service = service.borrow();
            service.servers.iter().next().and_then(|server| Some(server.capacity()?.get()))
        })
    }
}

#[test]
fn what_the_agent_says_is_in_force_in_all_threads_and_the_next_poll_says_it() {
    let proxy = Proxy::new(ASKS);
    assert_eq!(proxy.polls(AGENT), [(2, "GET node-agent/v1/self?wait=10s".to_owned())], "one for the proxy");
    assert_eq!((&*proxy.process.calls.borrow()[1], proxy.capacities()), (&b""[..], [None; 2]));
    for (cores, capacity) in [(0.5, 4), (0.25, 2), (1.5, 12)] {
        proxy.process.advance(Duration::from_millis(200));
        let before = proxy.polls(AGENT).len();
        proxy.agent(&format!(r#"{{"cores":{cores},"used":0.1}}"#));
        assert_eq!(proxy.capacities(), [Some(capacity); 2]);
        assert_eq!(proxy.polls(AGENT).len(), before + 1, "at once");
        assert_eq!(proxy.asked().1, format!("GET node-agent/v1/self?wait=10s&cores={cores}"));
    }
}

#[test]
fn the_agents_word_counts_and_the_control_plane_is_told_what_itself_has_said() {
    let proxy = Proxy::with_cores("1");
    assert_eq!((proxy.capacities(), proxy.told()), ([Some(8); 2], json!(2.0)));
    proxy.process.advance(SECOND);
    let (token, _) = proxy.polls(CONTROL_PLANE).pop().expect("a poll");
    proxy.answered(0, token, "200", r#"{"version":"1","cpu":{"cores":4}}"#);
    assert!(proxy.process.messages.borrow().values().all(|queue| queue.is_empty()), "it wakes nobody");
    assert_eq!((proxy.capacities(), proxy.told()), ([Some(8); 2], json!(4.0)));
    proxy.process.advance(SECOND);
    proxy.control_plane(r#"{"version":"1","cpu":{}}"#);
    assert_eq!((proxy.capacities(), proxy.told()), ([Some(8); 2], Value::Null));
    proxy.process.advance(SECOND);
    proxy.agent("{}");
    assert_eq!(proxy.capacities(), [None; 2], "nobody knows");
    proxy.control_plane(r#"{"version":"1","cpu":{"cores":3}}"#);
    assert_eq!(proxy.capacities(), [Some(24); 2]);
}

#[test]
fn an_agent_that_has_just_started_leaves_its_word_as_it_is() {
    let proxy = Proxy::with_cores("1");
    let before = proxy.polls(AGENT).len();
    proxy.process.advance(SECOND);
    proxy.agent_says("304", "");
    assert_eq!((proxy.capacities(), proxy.polls(AGENT).len()), ([Some(8); 2], before + 1), "it is no failure");
}

#[test]
fn an_agent_that_does_not_manage_the_pod_leaves_the_word_to_the_control_plane_at_once() {
    for cpu in ["{}", r#"{"cores":-1}"#, r#"{"used":0.5}"#] {
        let proxy = Proxy::with_cores("1");
        proxy.process.advance(SECOND);
        proxy.agent(cpu);
        assert_eq!((proxy.capacities(), proxy.told()), ([Some(16); 2], json!(2.0)), "{cpu}");
        assert_eq!(proxy.asked().1, "GET node-agent/v1/self?wait=10s", "{cpu}");
    }
}

#[test]
fn when_the_agent_is_gone_its_word_holds_for_20_s_and_then_the_control_planes_counts() {
    for (status, body) in
        [("503", "of Envoy"), ("404", r#"{"cores":3}"#), ("400", ""), ("200", "<html>"), ("200", "[1]"), ("200", "")]
    {
        let mut proxy = Proxy::with_cores("1");
        for second in (0..18).step_by(2) {
            proxy.agent_says(status, body);
            assert_eq!(proxy.capacities(), [Some(8); 2], "{status} {body}, {second} s");
            proxy.pass(2);
        }
        let before = proxy.polls(AGENT).len();
        assert!(before > 5, "{status} {body}: {before} polls");
        proxy.pass(4);
        assert_eq!(proxy.capacities(), [Some(16); 2], "{status} {body}");
        proxy.agent_says(status, body);
        proxy.pass(10);
        assert_eq!(proxy.asked().1, "GET node-agent/v1/self?wait=10s", "{status} {body}: nothing is known");
        proxy.agent(r#"{"cores":0.5}"#);
        assert_eq!(proxy.capacities(), [Some(4); 2], "{status} {body}: it is back");
    }
}

#[test]
fn what_the_agent_says_again_at_the_end_of_each_poll_holds() {
    let mut proxy = Proxy::with_cores("1");
    for poll in 1..=6 {
        proxy.pass(10);
        assert_eq!(proxy.capacities(), [Some(8); 2], "poll {poll}");
        proxy.agent(r#"{"cores":1}"#);
        assert_eq!(proxy.asked().1, "GET node-agent/v1/self?wait=10s&cores=1.0", "poll {poll}");
    }
    assert_eq!(proxy.polls(AGENT).len(), 2 + 6);
}

/// An idle thread ticks each 5 s anyway.
#[test]
fn the_other_threads_are_woken_for_cores_but_not_for_what_is_used_of_them() {
    let mut proxy = Proxy::with_cores("1");
    let woken = |proxy: &Proxy, cpu: &str| {
        proxy.process.advance(SECOND);
        proxy.answered(0, proxy.asked().0, "200", cpu);
        !proxy.threads[1].messages().is_empty()
    };
    assert!(woken(&proxy, r#"{"cores":2,"used":0.1}"#));
    assert!(!woken(&proxy, r#"{"cores":2,"used":1.5}"#));
    assert!(woken(&proxy, r#"{"used":1.5}"#));
    assert!(!woken(&proxy, r#"{"used":1.75}"#));
    assert!(woken(&proxy, r#"{"cores":0.5}"#));
    proxy.tick();
    assert_eq!(proxy.capacities(), [Some(4); 2], "found by the tick, since the message was lost");
}

/// Otherwise an agent that starts again within seconds, and has nothing new to say, would say it
/// too late.
#[test]
fn after_a_failure_it_is_asked_for_a_short_wait_so_that_its_word_is_renewed_in_time() {
    let mut proxy = Proxy::with_cores("1");
    proxy.pass(10);
    proxy.agent_says("503", "");
    proxy.pass(2);
    assert_eq!(proxy.asked().1, "GET node-agent/v1/self?wait=1s&cores=1.0");
    proxy.pass(2);
    proxy.agent(r#"{"cores":1}"#);
    assert_eq!(proxy.asked().1, "GET node-agent/v1/self?wait=10s&cores=1.0");
    proxy.pass(18);
    assert_eq!(proxy.capacities(), [Some(8); 2], "renewed");
}

#[test]
fn an_answer_that_never_comes_is_given_up() {
    let mut proxy = Proxy::with_cores("1");
    let lost = proxy.asked().0;
    proxy.pass(18);
    assert_eq!(proxy.asked().0, lost);
    proxy.pass(4);
    assert_ne!(proxy.asked().0, lost);
    assert_eq!(proxy.capacities(), [Some(16); 2]);
    proxy.answered(0, lost, "200", r#"{"cores":0.5}"#);
    proxy.hear();
    assert_eq!(proxy.capacities(), [Some(16); 2], "too late");
    proxy.agent(r#"{"cores":0.25}"#);
    assert_eq!(proxy.capacities(), [Some(2); 2]);
}

/// Two threads believe to lead: the first one's answer is the older one.
#[test]
fn an_answer_does_not_count_if_another_leader_has_brought_a_newer_one() {
    for has_heard in [false, true] {
        let mut proxy = Proxy::with_cores("1");
        let late = proxy.asked().0;
        // It is silent until its lease ends.
        proxy.process.advance(SECOND * 12);
        proxy.roots[1].tick();
        let (token, line) = proxy.asked();
        assert_eq!((token > late, &*line), (true, "GET node-agent/v1/self?wait=1s&cores=1.0"));
        proxy.answered(1, token, "200", r#"{"cores":3}"#);
        if has_heard {
            proxy.hear();
            assert_eq!(proxy.capacities(), [Some(24); 2]);
        }
        let before = proxy.polls(AGENT).len();
        proxy.answered(0, late, "200", r#"{"cores":0.5}"#);
        proxy.hear();
        assert_eq!(proxy.capacities(), [Some(24); 2]);
        assert_eq!(proxy.polls(AGENT).len(), before, "it does not lead any more");
    }
}

#[test]
fn a_poll_is_repeated_when_its_root_context_ends_and_its_answer_counts_no_more() {
    let mut proxy = Proxy::with_cores("1");
    let (lost, of_control_plane) = (proxy.asked().0, proxy.polls(CONTROL_PLANE).len());
    proxy.process.advance(SECOND);
    proxy.configure(9, ASKS);
    assert_eq!(proxy.asked().1, "GET node-agent/v1/self?wait=10s&cores=1.0");
    assert_eq!((proxy.asked().0 > lost, proxy.polls(CONTROL_PLANE).len()), (true, of_control_plane + 1));
    proxy.answered(0, lost, "200", r#"{"cores":0.5}"#);
    assert_eq!(proxy.capacities(), [Some(8); 2]);
    proxy.agent(r#"{"cores":0.25}"#);
    assert_eq!(proxy.capacities(), [Some(2); 2]);
}

#[test]
fn the_other_thread_asks_as_soon_as_the_last_configuration_of_the_leader_ends() {
    let mut proxy = Proxy::with_cores("1");
    let before = proxy.asked().0;
    drop(proxy.roots.remove(0));
    proxy.threads[1].hear(&proxy.roots[0]);
    assert!(proxy.asked().0 > before);
    assert_eq!(proxy.capacities(), [None, Some(8)]);
    proxy.process.advance(SECOND);
    proxy.answered(0, proxy.asked().0, "200", r#"{"cores":0.5}"#);
    assert_eq!(proxy.capacities()[1], Some(4));
}

/// Nodes may have no agent.
#[test]
fn an_idle_thread_ticks_no_more_often_for_an_agent_that_does_not_answer() {
    let mut proxy = Proxy::new(ASKS);
    let period = |proxy: &Proxy| proxy.process.periods.borrow()[&1];
    proxy.pass(4);
    assert_eq!(period(&proxy), IDLE, "while a poll is under way");
    for failure in 1..=8 {
        proxy.agent_says("503", "no healthy upstream");
        assert_eq!(period(&proxy) == IDLE, failure > 3, "failure {failure}");
        proxy.pass(6);
        assert_eq!((period(&proxy), proxy.polls(AGENT).len()), (IDLE, failure + 1), "it is asked again");
    }
    assert_eq!(proxy.polls(AGENT).len(), 9);
    proxy.agent("{}");
    assert_eq!(proxy.polls(AGENT).len(), 10);
}

#[test]
fn a_call_that_the_host_refuses_is_tried_again() {
    let mut proxy = Proxy::new(ASKS);
    proxy.process.is_connected.set(false);
    proxy.agent_says("503", "");
    proxy.pass(10);
    assert_eq!(proxy.polls(AGENT).len(), 1);
    proxy.process.is_connected.set(true);
    proxy.pass(10);
    assert_eq!(proxy.polls(AGENT).len(), 2);
}
