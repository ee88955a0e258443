//! Configurations that come and go: each test repeats one bug that was seen on real Envoys. The
//! random histories in `histories.rs` combine them.

use crate::proxy::{ControlPlane, Proxy};
use crate::support::process;
use bloc_testhost::history::{Configuration, Direction, SERVICES, SLOTS, Services, Slot, TERMS, Terms};
use bloc_testhost::{Flow, Stream, VmOptions};
use serde_json::json;
use std::time::Duration;

const ALPHA: &str = SERVICES[0];
const GAMMA: &str = SERVICES[2];
const IN1: Slot = SLOTS[0];
const OUT1: Slot = SLOTS[1];
const IN2: Slot = SLOTS[2];
const SECOND: Duration = Duration::from_secs(1);
const DRAIN: Duration = Duration::from_secs(5);
/// A request that waits too long is found within this time.
const TICK: Duration = SECOND;

fn configuration(number: usize) -> Configuration {
    Configuration::of(Direction::Inbound, number)
}

fn outbound(number: usize) -> Configuration {
    Configuration::of(Direction::Outbound, number)
}

fn proxy(seed: u64) -> Proxy {
    Proxy::new(seed, 2, DRAIN)
}

impl Proxy {
    fn passes(&mut self, time: Duration) {
        self.advance(time).unwrap();
    }
}

/// The result of a burst of twenty.
struct Burst {
    inside: Vec<Stream>,
    held: Vec<Stream>,
    rejected: usize,
}

fn burst(proxy: &Proxy, slot: Slot) -> Burst {
    let mut burst = Burst { inside: Vec::new(), held: Vec::new(), rejected: 0 };
    for n in 0..20 {
        match proxy.request(slot, n % 2) {
            (stream, Flow::Continue) => burst.inside.push(stream),
            (stream, Flow::Pause) => burst.held.push(stream),
            (_, Flow::Reply(_)) => burst.rejected += 1,
            (_, Flow::Reset) => panic!("reset"),
        }
    }
    burst
}

impl Burst {
    /// Admitted at once, held, rejected.
    fn counts(&self) -> (usize, usize, usize) {
        (self.inside.len(), self.held.len(), self.rejected)
    }

    /// Ends the requests inside. Messages alone must then let in the held ones, in no virtual time.
    fn serve_at_once(mut self, proxy: &Proxy) {
        for _ in 0..100 {
            self.inside.drain(..).for_each(Stream::done);
            proxy.process.deliver();
            let (inside, held) = self.held.into_iter().partition(Stream::is_resumed);
            (self.inside, self.held) = (inside, held);
        }
        assert_eq!(self.held.len(), 0, "these are held although nobody is inside");
    }

    /// No request inside ends: the held ones are answered when their time is over.
    fn wait_in_vain(self, proxy: &mut Proxy, terms: Terms) {
        proxy.passes(terms.max_queue_wait + TICK);
        let answered = self.held.iter().filter(|stream| stream.reply().is_some()).count();
        assert_eq!(answered, self.held.len(), "of those held are answered");
    }
}

/// The result of a burst at an idle server.
fn expected(terms: Terms) -> (usize, usize, usize) {
    let (capacity, concurrency) = (terms.capacity.min(20) as usize, terms.concurrency as usize);
    (concurrency, capacity - concurrency, 20 - capacity)
}

fn in_flight(proxy: &Proxy) -> Option<u64> {
    proxy.process.metric(&format!("bloc.inbound.{ALPHA}.in_flight"))
}

fn polls(proxy: &mut Proxy, limit: Duration) {
    let since = proxy.process.now();
    proxy.passes(limit);
    let ControlPlane { asked, .. } = proxy.control_plane;
    assert!(asked > since, "nobody asks the control plane any more");
    assert_eq!(proxy.process.http_calls().len(), 1);
}

/// Checks that both workers have these terms: requests are held, and no tick has to let one in.
fn holds_well(proxy: &mut Proxy, slot: Slot, terms: Terms) {
    let first = burst(proxy, slot);
    assert_eq!(first.counts(), expected(terms));
    first.serve_at_once(proxy);
    let second = burst(proxy, slot);
    assert_eq!(second.counts(), expected(terms));
    second.wait_in_vain(proxy, terms);
    proxy.passes(SECOND);
    assert_eq!(in_flight(proxy), Some(0));
}

#[test]
fn a_rollback_during_the_drain_takes_effect_and_lasts() {
    let mut proxy = proxy(1);
    proxy.control_plane.lenient = true;
    let (a, b) = (configuration(0), configuration(1));
    proxy.set(IN1, &a);
    proxy.passes(SECOND * 5);
    proxy.set(IN1, &b);
    proxy.passes(SECOND * 2);
    proxy.set(IN1, &a);
    proxy.passes(SECOND);
    holds_well(&mut proxy, IN1, TERMS[0]);
    // The drain of B has ended, and nothing else happens while a request waits.
    proxy.passes(DRAIN);
    holds_well(&mut proxy, IN1, TERMS[0]);
    polls(&mut proxy, SECOND * 20);
    assert_eq!(proxy.process.orphaned_ticks(), 0);
}

#[test]
fn removing_the_newest_inbound_listener_leaves_the_others_working() {
    let mut proxy = proxy(2);
    proxy.set(IN1, &configuration(0));
    proxy.set(IN2, &configuration(1));
    proxy.passes(SECOND * 3);
    proxy.remove(IN2);
    proxy.passes(DRAIN + SECOND);
    holds_well(&mut proxy, IN1, TERMS[0]);
    polls(&mut proxy, SECOND * 20);
    assert_eq!(proxy.process.orphaned_ticks(), 0);
}

#[test]
fn removing_the_outbound_listener_leaves_inbound_and_polls_working() {
    let mut proxy = proxy(3);
    proxy.set(IN1, &configuration(0));
    proxy.set(OUT1, &outbound(0));
    proxy.passes(SECOND * 3);
    proxy.remove(OUT1);
    proxy.passes(DRAIN + SECOND);
    holds_well(&mut proxy, IN1, TERMS[0]);
    assert_eq!(proxy.process.metric(&format!("bloc.inbound.{ALPHA}.rescued")).unwrap_or(0), 0, "let in by a tick");
    polls(&mut proxy, SECOND * 20);
    proxy.control_plane.services = Services::from([(ALPHA, TERMS[3])]);
    proxy.passes(SECOND * 10);
    holds_well(&mut proxy, IN1, TERMS[3]);
    assert_eq!(proxy.process.orphaned_ticks(), 0);
}

#[test]
fn each_inbound_listener_has_its_own_configuration() {
    let mut proxy = proxy(4);
    proxy.set(IN1, &configuration(2));
    proxy.set(IN2, &configuration(4));
    proxy.passes(SECOND * 3);
    for _ in 0..2 {
        let (alpha, beta) = (burst(&proxy, IN1), burst(&proxy, IN2));
        assert_eq!(alpha.counts(), expected(TERMS[2]));
        assert_eq!(beta.counts(), expected(TERMS[4]));
        alpha.serve_at_once(&proxy);
        beta.serve_at_once(&proxy);
    }
    // Two listeners of one service share its count, but not the limits.
    proxy.set(IN2, &configuration(1));
    proxy.passes(SECOND);
    let few = burst(&proxy, IN2);
    assert_eq!(few.counts(), expected(TERMS[1]));
    let more = burst(&proxy, IN1);
    assert_eq!((more.inside.len(), more.rejected), (0, 20 - (12 - 5)), "five are there already");
    drop((few, more));
    proxy.remove(IN2);
    proxy.passes(DRAIN + SECOND);
    holds_well(&mut proxy, IN1, TERMS[2]);
    assert_eq!(proxy.process.orphaned_ticks(), 0);
}

/// Requests are held under the control plane's terms, which then end; the listener has none of its
/// own.
fn held_under_terms_that_go(seed: u64, then: Services) {
    let mut proxy = proxy(seed);
    proxy.control_plane.services = Services::from([(ALPHA, TERMS[0])]);
    proxy.set(IN1, &configuration(5));
    proxy.passes(SECOND * 10);
    let burst = burst(&proxy, IN1);
    assert_eq!(burst.counts(), expected(TERMS[0]));
    proxy.control_plane.services = then;
    // Well before any of them has waited too long.
    proxy.passes(SECOND * 2);
    let entered = burst.held.iter().filter(|stream| stream.is_resumed()).count();
    assert_eq!(entered, burst.held.len(), "of those held are let in");
    drop(burst);
    proxy.passes(SECOND * 5);
    assert_eq!(in_flight(&proxy), Some(0));
}

#[test]
fn admits_held_requests_when_the_service_is_deleted() {
    held_under_terms_that_go(5, Services::new());
}

#[test]
fn admits_held_requests_when_the_service_is_renamed() {
    held_under_terms_that_go(6, Services::from([(GAMMA, TERMS[0])]));
}

/// Likewise by plugin configuration: another service, or the same without parameters.
#[test]
fn no_request_stays_held_when_its_service_leaves_the_configuration() {
    for (seed, number) in [(9, 3), (10, 5)] {
        let mut proxy = proxy(seed);
        proxy.control_plane.lenient = true;
        proxy.set(IN1, &configuration(0));
        proxy.passes(SECOND * 3);
        let stuck = burst(&proxy, IN1);
        assert_eq!(stuck.counts(), expected(TERMS[0]));
        proxy.set(IN1, &configuration(number));
        // No admitted request ends, but the drain does: every held request is answered in time.
        let (waits, none) = (stuck.held.len(), Stream::is_paused);
        proxy.passes(TERMS[0].max_queue_wait + TICK);
        assert_eq!(stuck.held.iter().filter(|stream| none(stream)).count(), 0, "of {waits} are held for ever");
        drop(stuck);
        proxy.passes(DRAIN + SECOND);
        assert_eq!(in_flight(&proxy), Some(0));
        assert_eq!(proxy.process.orphaned_ticks(), 0);
    }
}

/// Requests end one after the other while others of the service wait in another thread.
#[test]
fn admits_requests_held_in_either_thread_when_the_service_is_deleted() {
    let mut proxy = proxy(11);
    proxy.control_plane.services = Services::from([(ALPHA, TERMS[0])]);
    proxy.set(IN1, &configuration(5));
    proxy.passes(SECOND * 10);
    let mut burst = burst(&proxy, IN1);
    proxy.control_plane.services = Services::new();
    // The polling thread learns it first; admitted requests end meanwhile, and messages are lost.
    for _ in 0..40 {
        proxy.control_plane.answer(&proxy.process).unwrap();
        proxy.process.lose_wakeups();
        proxy.passes(Duration::from_millis(50));
        burst.inside.pop();
    }
    let waiting = burst.held.iter().filter(|stream| stream.is_paused()).count();
    assert_eq!(waiting, 0, "are still held");
}

/// As the next test, but either thread may look first.
#[test]
fn only_one_poll_runs_when_either_thread_names_the_control_plane_again() {
    let mut proxy = proxy(13);
    proxy.set(IN1, &configuration(4));
    for _ in 0..10 {
        proxy.set(OUT1, &outbound(3));
        proxy.passes(SECOND * 4);
        proxy.remove(OUT1);
        proxy.passes(DRAIN + SECOND / 10);
        for thread in [0, 1] {
            proxy.set(IN2, &configuration(5));
            let held: Vec<Stream> = (0..8).map(|_| proxy.request(IN1, thread).0).collect();
            proxy.passes(SECOND * 3 / 2);
            drop(held);
            proxy.remove(IN2);
            proxy.passes(DRAIN + SECOND / 10);
        }
    }
}

/// A poll cannot be cancelled, so it counts again if the control plane is named again.
#[test]
fn only_one_poll_runs_when_the_control_plane_is_named_again() {
    let drain = SECOND * 8;
    let mut proxy = Proxy::new(12, 2, drain);
    for n in 0..10 {
        proxy.set(IN1, &configuration(0));
        proxy.passes(SECOND * 3 + SECOND / 3 * n);
        // The agent moves to this listener's root context, and polls from there until the drain
        // ends.
        proxy.set(IN1, &configuration(2));
        proxy.passes(drain + SECOND / 2);
    }
    proxy.set(IN1, &configuration(0));
    polls(&mut proxy, SECOND * 20);
}

/// A warning in the log names both.
#[test]
fn polls_the_control_plane_that_was_configured_last() {
    let process = process(14).with_cluster("one").with_cluster("two");
    let threads = [0, 1].map(|_| process.vm(VmOptions::default()));
    let asked = || process.http_calls().into_iter().map(|call| call.cluster).collect::<Vec<_>>();
    let listen = |root_id: &str, cluster: &str| {
        let json = json!({"service": ALPHA, "controlPlane": {"cluster": cluster, "wait": "5s"}}).to_string();
        threads.each_ref().map(|vm| vm.listen(root_id, root_id, &json).expect("a valid configuration"))
    };
    let one = listen("bloc.inbound", "one");
    process.advance(SECOND * 20);
    assert_eq!(asked(), ["one"]);
    assert_eq!(process.take_log().iter().filter(|line| line.level == 3 && line.text.contains("two")).count(), 0);
    let two = listen("bloc.outbound", "two");
    let log = process.take_log();
    let warned = |cluster: &str| log.iter().any(|line| line.level == 3 && line.text.contains(&format!("{cluster:?}")));
    assert!(warned("one") && warned("two"), "{log:?}");
    process.advance(SECOND * 30);
    assert_eq!(asked(), ["two"]);
    two.into_iter().for_each(|listener| process.drain(listener, DRAIN));
    process.advance(DRAIN + SECOND * 20);
    assert_eq!(asked(), ["one"]);
    drop(one);
}

/// The plugin configuration changes: held requests keep the limits that they arrived under.
#[test]
fn held_requests_keep_the_limits_of_a_removed_configuration() {
    let mut proxy = proxy(7);
    proxy.set(IN1, &configuration(0));
    proxy.passes(SECOND * 3);
    let first = burst(&proxy, IN1);
    assert_eq!(first.counts(), expected(TERMS[0]));
    // Another service, and one without its own terms.
    for number in [3, 5] {
        proxy.set(IN1, &configuration(number));
        proxy.passes(Duration::from_millis(200));
    }
    first.serve_at_once(&proxy);
    proxy.set(IN1, &configuration(0));
    proxy.passes(SECOND);
    let second = burst(&proxy, IN1);
    assert_eq!(second.counts(), expected(TERMS[0]));
    proxy.set(IN1, &configuration(3));
    second.wait_in_vain(&mut proxy, TERMS[0]);
    proxy.passes(DRAIN + SECOND);
    assert_eq!(in_flight(&proxy), Some(0));
    assert_eq!(proxy.process.orphaned_ticks(), 0);
}

#[test]
fn no_ticks_polls_or_contexts_remain_without_listeners() {
    let mut proxy = proxy(8);
    for round in 0..3 {
        proxy.set(IN1, &configuration(0));
        proxy.set(OUT1, &outbound(0));
        proxy.passes(SECOND * 3);
        holds_well(&mut proxy, IN1, TERMS[0]);
        polls(&mut proxy, SECOND * 20);
        proxy.remove_all();
        proxy.passes(DRAIN + SECOND);
        let ticks = proxy.process.ticks();
        proxy.passes(SECOND * 20);
        assert_eq!((proxy.process.ticks(), proxy.process.http_calls().len()), (ticks, 0), "round {round}");
        assert_eq!(proxy.process.orphaned_ticks(), 0);
        assert!(proxy.threads().iter().all(|vm| vm.contexts() == 0));
    }
}
