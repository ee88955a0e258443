//! The agent: which thread polls the control plane, when, and how often a thread ticks.

use crate::host::{FakeHost, Process};
use crate::thread::{SECOND, Thread};
use bloc_engine::host::PostAnswer;
use bloc_engine::root::Root;
use bloc_policy::proxy::roster;
use std::rc::Rc;
use std::time::Duration;

const ASKS: &str = r#"{"service":"s","controlPlane":{"cluster":"a","wait":"30s"}}"#;
const COUNTS: [(&str, &str); 2] =
    [("bloc.inbound", r#"{"service":"s","services":{"s":{}}}"#), ("bloc.outbound", r#"{"services":{"backend":{}}}"#)];
const IDLE: Duration = Duration::from_secs(5);
const LEAST: Duration = Duration::from_millis(900);

fn connected() -> Rc<Process> {
    let process = Process::new(1);
    process.is_connected.set(true);
    process
}

fn asks(thread: &Thread, context: u32) -> Root<FakeHost> {
    thread.plug(context, "bloc.inbound", ASKS)
}

fn calls(process: &Process) -> usize {
    process.calls.borrow().len()
}

fn period(process: &Process, context: u32) -> Duration {
    process.periods.borrow()[&context]
}

/// A control plane without news.
fn nothing_new(carrier: &Root<FakeHost>, process: &Process, retry_after: Option<&str>) {
    let retry_after = retry_after.map(|value| value.as_bytes().to_vec());
    let answer = PostAnswer { status: b"304".to_vec(), retry_after, ..PostAnswer::default() };
    carrier.call_answered(calls(process) as u32, Some(&answer));
}

#[test]
fn leaves_the_control_plane_alone_as_long_as_it_asks() {
    let process = connected();
    let thread = Thread::of(&process);
    let mut carrier = asks(&thread, 1);
    thread.tick(&mut carrier);
    process.advance(SECOND * 20);
    nothing_new(&carrier, &process, None);
    assert_eq!(calls(&process), 2, "the next poll follows at once");
    assert_eq!(period(&process, 1), IDLE);
    process.advance(SECOND * 20);
    nothing_new(&carrier, &process, Some("30"));
    assert_eq!(calls(&process), 2);
    assert_eq!(period(&process, 1), SECOND, "a tick makes the next one");
    (0..30).for_each(|_| thread.tick(&mut carrier));
    assert_eq!(calls(&process), 3);
}

#[test]
fn another_thread_polls_at_once_when_the_leader_is_removed() {
    let process = connected();
    let [here, there] = [Thread::of(&process), Thread::of(&process)];
    let (mut leader, mut other) = (asks(&here, 1), asks(&there, 1));
    here.tick(&mut leader);
    there.tick(&mut other);
    there.observe(&other);
    assert_eq!(calls(&process), 1, "one poll for the process");
    drop(leader);
    there.observe(&other);
    assert_eq!(calls(&process), 2);
    assert_eq!(roster::vms(&there.host), [there.engine.vm().number], "nobody tells the one that is gone");
}

#[test]
fn a_leader_stays_the_leader_when_the_root_context_of_its_poll_is_removed() {
    let process = connected();
    let [here, there] = [Thread::of(&process), Thread::of(&process)];
    let (mut carrier, next, mut other) = (asks(&here, 1), asks(&here, 2), asks(&there, 1));
    here.tick(&mut carrier);
    there.tick(&mut other);
    drop(carrier);
    there.observe(&other);
    assert_eq!(calls(&process), 1, "the other thread has nothing to do");
    here.observe(&next);
    assert_eq!(calls(&process), 2, "the poll was lost");
}

#[test]
fn an_idle_thread_ticks_every_five_seconds() {
    let process = connected();
    let thread = Thread::of(&process);
    let mut carrier = asks(&thread, 1);
    thread.tick(&mut carrier);
    thread.tick(&mut carrier);
    assert_eq!(period(&process, 1), IDLE);
}

/// A write that another thread's write prevented is made a second later.
#[test]
fn a_lost_race_is_made_up_for_with_the_next_tick() {
    for key in ["bloc/served", "bloc/seen", "bloc/vms"] {
        let process = connected();
        let thread = Thread::of(&process);
        let mut carrier = asks(&thread, 1);
        *process.lost_race.borrow_mut() = Some(key);
        thread.tick(&mut carrier);
        assert_eq!(*process.lost_race.borrow(), None, "{key}");
        assert_eq!(period(&process, 1), SECOND, "{key}");
        thread.tick(&mut carrier);
        thread.tick(&mut carrier);
        assert_eq!(period(&process, 1), IDLE, "{key}");
        let [seen, served] = [roster::seen(&thread.host), roster::served(&thread.host)];
        assert!(seen.contains("s") && served.contains("s"), "{key}");
        assert_eq!(roster::vms(&thread.host), [thread.engine.vm().number], "{key}");
    }
}

/// A message, not a tick, brings the news of a service.
#[test]
fn a_race_that_is_lost_on_a_message_is_made_up_for_within_a_second() {
    for (lost, then) in [(None, IDLE), (Some("bloc/seen"), SECOND)] {
        let process = connected();
        let thread = Thread::of(&process);
        let mut carrier = thread.plug(1, "bloc.outbound", ASKS);
        (0..3).for_each(|_| thread.tick(&mut carrier));
        drop(crate::thread::arrived(&carrier));
        *process.lost_race.borrow_mut() = lost;
        thread.observe(&carrier);
        assert_eq!(period(&process, 1), then, "{lost:?}");
    }
}

#[test]
fn works_on_ticks_that_are_at_least_900_ms_apart() {
    let process = connected();
    let thread = Thread::of(&process);
    let mut carrier = thread.plug(1, COUNTS[0].0, COUNTS[0].1);
    let ticks = |carrier: &mut Root<FakeHost>, after: Duration| {
        drop(crate::thread::arrived(carrier));
        process.advance(after);
        carrier.tick();
        thread.metric("admitted")
    };
    assert_eq!(ticks(&mut carrier, SECOND / 10), Some(1));
    assert_eq!(ticks(&mut carrier, LEAST - Duration::from_nanos(1)), Some(1));
    assert_eq!(ticks(&mut carrier, Duration::from_nanos(1)), Some(3));
}

#[test]
fn a_tick_that_comes_too_early_hurries_only_if_something_was_counted() {
    for ((id, configuration), counts) in COUNTS.into_iter().flat_map(|plugin| [(plugin, false), (plugin, true)]) {
        let process = connected();
        let thread = Thread::of(&process);
        let mut carrier = thread.plug(1, id, configuration);
        drop(crate::thread::arrived(&carrier));
        (0..3).for_each(|_| thread.tick(&mut carrier));
        assert_eq!(period(&process, 1), IDLE);
        if counts {
            drop(crate::thread::arrived(&carrier));
        }
        process.advance(SECOND / 10);
        carrier.tick();
        assert_eq!(period(&process, 1), if counts { SECOND } else { IDLE }, "{id}");
    }
}

/// Then requests hand the counters over.
#[test]
fn a_thread_with_enough_traffic_ticks_as_seldom_as_an_idle_one() {
    for (id, configuration) in COUNTS {
        let process = connected();
        let thread = Thread::of(&process);
        let mut carrier = thread.plug(1, id, configuration);
        let mut ticks = |before: Duration, after: Duration| {
            process.advance(before);
            drop(crate::thread::arrived(&carrier));
            process.advance(after);
            carrier.tick();
            period(&process, 1)
        };
        assert_eq!(ticks(SECOND, LEAST), IDLE, "{id}: the request has handed over what there was");
        assert_eq!(ticks(Duration::ZERO, LEAST), SECOND, "{id}: it came too soon for that");
    }
}

#[test]
fn only_one_root_context_works_on_its_ticks() {
    let process = connected();
    let thread = Thread::of(&process);
    let (id, configuration) = COUNTS[0];
    let [mut carrier, mut other] = [1, 2].map(|context| thread.plug(context, id, configuration));
    drop(crate::thread::arrived(&other));
    thread.tick(&mut other);
    assert_eq!(thread.metric("admitted"), Some(0));
    carrier.tick();
    assert_eq!(thread.metric("admitted"), Some(1));
}

#[test]
fn a_poll_goes_on_when_another_root_context_is_removed() {
    let process = connected();
    let thread = Thread::of(&process);
    let (mut carrier, other) = (asks(&thread, 1), asks(&thread, 2));
    thread.tick(&mut carrier);
    thread.observe(&carrier);
    drop(other);
    assert!(thread.messages().is_empty(), "there is nothing to look at");
    thread.tick(&mut carrier);
    assert_eq!(calls(&process), 1);
}

#[test]
fn a_host_without_memory_of_its_own_shows_no_memory() {
    let name = "bloc.guest.vm.memory_pages";
    let process = connected();
    let thread = Thread::of(&process);
    let mut carrier = asks(&thread, 1);
    thread.tick(&mut carrier);
    assert_eq!(process.metric(name), None);
    for (pages, shown) in [(20, 20), (30, 30), (25, 30)] {
        process.pages.set(pages);
        thread.tick(&mut carrier);
        assert_eq!(process.metric(name), Some(shown));
    }
}
