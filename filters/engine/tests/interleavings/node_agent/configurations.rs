//! Configurations that name the node agent come and go.

use super::*;
use bloc_policy::shared::Shared;

#[test]
fn of_another_cluster_nothing_is_known_until_it_answers() {
    let mut proxy = Proxy::with_cores("1");
    let old = proxy.asked().0;
    let first = proxy.threads[0].plug(9, "bloc.inbound", &ASKS.replace("self", "other"));
    assert_eq!(proxy.capacities(), [Some(16), Some(8)], "the other thread has not changed yet");
    proxy.tick();
    let asked = proxy.polls("other");
    assert_eq!(asked.iter().map(|(_, line)| &**line).collect::<Vec<_>>(), ["GET node-agent/v1/self?wait=10s"]);
    proxy.answered(0, old, "200", r#"{"cores":0.5}"#);
    assert_eq!(proxy.capacities()[0], Some(16), "the answer of the old one");
    proxy.answered(0, asked[0].0, "200", r#"{"cores":0.25}"#);
    assert_eq!(proxy.capacities()[0], Some(2));
    drop(first);
    assert_eq!(proxy.capacities()[0], Some(16), "rolled back");
    proxy.tick();
    assert_eq!(proxy.capacities(), [Some(8); 2], "its word still holds");
    assert_eq!(proxy.asked().1, "GET node-agent/v1/self?wait=10s&cores=1.0");
}

/// A listener is updated and keeps its old configuration until it has drained.
#[test]
fn the_newest_configuration_says_whether_the_agent_is_asked() {
    let mut proxy = Proxy::with_cores("1");
    let asks = |proxy: &Proxy| proxy.polls(AGENT).len();
    proxy.process.advance(SECOND);
    proxy.agent(r#"{"cores":0.5}"#);
    assert_eq!(proxy.capacities(), [Some(4); 2]);
    let updated = proxy.threads[0].plug(9, "bloc.inbound", WITHOUT);
    assert_eq!(proxy.capacities(), [Some(16), Some(4)], "also while the older one has streams");
    let (before, under_way) = (asks(&proxy), proxy.asked().0);
    proxy.pass(4);
    proxy.answered(0, under_way, "200", r#"{"cores":3}"#);
    proxy.pass(4);
    assert_eq!((asks(&proxy), proxy.capacities()[0]), (before, Some(16)));
    drop(updated);
    proxy.tick();
    assert_eq!((asks(&proxy), proxy.capacities()), (before + 1, [Some(4); 2]), "rolled back, its word still holds");
    let updated = proxy.threads[0].plug(10, "bloc.inbound", WITHOUT);
    proxy.pass(16);
    drop(updated);
    proxy.tick();
    assert_eq!(proxy.capacities(), [Some(16); 2], "it is too old");
}

/// It cannot be cancelled: there would be two.
#[test]
fn a_poll_under_way_goes_on_if_the_agent_is_removed_and_configured_again() {
    let thread = Thread::new();
    thread.process.is_connected.set(true);
    let mut carrier = thread.plug(1, "bloc.outbound", WITHOUT);
    let named = thread.plug(2, "bloc.inbound", ASKS);
    thread.tick(&mut carrier);
    let calls = || thread.process.calls.borrow().len() as u32;
    assert_eq!(calls(), 2);
    drop(named);
    thread.tick(&mut carrier);
    let again = thread.plug(3, "bloc.inbound", ASKS);
    thread.tick(&mut carrier);
    assert_eq!(calls(), 2);
    let answer = CallAnswer { status: b"200".to_vec(), body: br#"{"cores":0.5}"#.to_vec(), ..CallAnswer::default() };
    carrier.call_answered(2, Some(&answer));
    assert_eq!(thread.process.call_lines.borrow()[2][1], "GET node-agent/v1/self?wait=10s&cores=0.5");
    drop(again);
    carrier.call_answered(3, Some(&answer));
    thread.tick(&mut carrier);
    assert_eq!(calls(), 3);
}

/// Another thread that leads would ask at once, too.
#[test]
fn a_thread_gives_up_the_lead_when_no_poll_of_it_is_under_way_any_more() {
    for order in [[1, 2], [2, 1]] {
        let thread = Thread::new();
        thread.process.is_connected.set(true);
        let mut carrier = thread.plug(1, "bloc.outbound", "{}");
        let named = thread.plug(2, "bloc.inbound", ASKS);
        thread.tick(&mut carrier);
        let leads = || thread.host.get("bloc/leader").0.is_some_and(|lease| !lease.is_empty());
        drop(named);
        (0..4).for_each(|_| thread.tick(&mut carrier));
        for token in order {
            assert!(leads(), "{order:?}");
            carrier.call_answered(token, None);
        }
        assert!(!leads(), "{order:?}");
    }
}

#[test]
fn only_inbound_configurations_ask_and_none_without_an_agent() {
    let mut proxy = Proxy::new(WITHOUT);
    let _outbound = proxy.threads[0].plug(9, "bloc.outbound", ASKS);
    let _attempt = proxy.threads[0].plug(10, "bloc.attempt", ASKS);
    proxy.pass(20);
    assert_eq!(proxy.polls(AGENT), []);
    assert!(proxy.process.keys().iter().all(|key| !key.contains("node-agent")), "{:?}", proxy.process.keys());
}
