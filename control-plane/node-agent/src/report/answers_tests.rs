//! Which reports of replicas count, in virtual time.

use super::answers::{Bases, put};
use super::{Heard, PodName};
use crate::qos::Answers;
use bloc_daemon::cpu::CpuAnswer;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

fn pod(name: &str) -> PodName {
    PodName { namespace: "shop".to_owned(), name: name.to_owned() }
}

fn asks(names: &[&str]) -> BTreeSet<PodName> {
    names.iter().map(|name| pod(name)).collect()
}

/// A replica's report about pods: answers and seconds.
fn said(replica: &str, pods: &[(&str, u64, f64)]) -> CpuAnswer {
    let of = |(name, count, seconds): &(&str, u64, f64)| json!({"namespace": "shop", "name": name, "count": count, "seconds": seconds});
    let answers: Vec<Value> = pods.iter().map(of).collect();
    CpuAnswer::read(json!({"replica": replica, "answers": answers}).to_string().as_bytes()).unwrap()
}

fn more(name: &str, count: u64, millis: u64) -> (PodName, Answers) {
    (pod(name), Answers { count, time: Duration::from_millis(millis) })
}

/// Replicas, and what was heard about `a` and `b`.
#[derive(Default)]
struct World(Bases);

impl World {
    fn receive(&mut self, seconds: u64, said: Vec<CpuAnswer>) -> Vec<(PodName, Answers)> {
        self.0.receive(said, &asks(&["a", "b"]), Duration::from_secs(seconds)).into_iter().collect()
    }
}

#[test]
fn what_all_replicas_grow_by_adds_up() {
    let mut world = World::default();
    let first = vec![said("r", &[("a", 1_000, 500.0), ("b", 7, 1.0)]), said("s", &[("a", 5, 5.0)])];
    assert_eq!(world.receive(0, first), [], "the first sums are a base");
    let next = vec![said("r", &[("a", 1_010, 501.5), ("b", 7, 1.0)]), said("s", &[("a", 6, 5.25)])];
    assert_eq!(world.receive(1, next), [more("a", 11, 1_750)]);
    assert_eq!(world.receive(2, vec![]), []);
    let next = vec![said("s", &[("a", 6, 5.25)]), said("r", &[("a", 1_010, 501.5), ("b", 9, 1.125)])];
    assert_eq!(world.receive(3, next), [more("b", 2, 125)], "what was missed is in the next answer");
}

#[test]
fn another_name_of_a_replica_is_a_new_base() {
    let mut world = World::default();
    world.receive(0, vec![said("r", &[("a", 10, 1.0)])]);
    assert_eq!(world.receive(1, vec![said("q", &[("a", 30, 3.0)])]), []);
    assert_eq!(world.receive(2, vec![said("q", &[("a", 31, 3.5)])]), [more("a", 1, 500)]);
}

#[test]
fn sums_that_fall_are_a_new_base() {
    for fallen in [("a", 9, 2.0), ("a", 11, 0.5)] {
        let mut world = World::default();
        world.receive(0, vec![said("r", &[("a", 10, 1.0)])]);
        assert_eq!(world.receive(1, vec![said("r", &[fallen])]), [], "{fallen:?}");
        assert_eq!(world.receive(2, vec![said("r", &[("a", 12, 2.5)])]), {
            let millis = if fallen.1 == 9 { 500 } else { 2_000 };
            [more("a", 12 - fallen.1, millis)]
        });
    }
}

#[test]
fn a_base_counts_for_10_seconds() {
    let mut world = World::default();
    world.receive(0, vec![said("r", &[("a", 10, 1.0), ("b", 10, 1.0)])]);
    assert_eq!(world.receive(9, vec![said("r", &[("a", 15, 2.0)])]), [more("a", 5, 1_000)]);
    assert_eq!(world.receive(10, vec![said("r", &[("b", 15, 2.0)])]), [], "the replica may have begun anew");
    assert_eq!(world.receive(18, vec![said("r", &[("a", 16, 3.0)])]), [more("a", 1, 1_000)]);
    assert_eq!(world.0.len(), 2);
    world.receive(20, vec![]);
    assert_eq!(world.0.len(), 1);
    world.receive(28, vec![]);
    assert_eq!(world.0.len(), 0, "of a replica that is gone, nothing is left");
}

#[test]
fn a_replica_with_two_addresses_counts_once() {
    let mut world = World::default();
    let twice = |counts: [u64; 2]| counts.map(|count| said("r", &[("a", count, count as f64)])).to_vec();
    assert_eq!(world.receive(0, twice([10, 12])), []);
    assert_eq!(world.receive(1, twice([15, 14])), [more("a", 3, 3_000)], "whichever was asked first");
    assert_eq!(world.receive(2, twice([15, 16])), [more("a", 1, 1_000)]);
}

#[test]
fn only_pods_that_are_asked_for_count() {
    let mut world = World::default();
    world.receive(0, vec![said("r", &[("a", 1, 1.0), ("c", 1, 1.0)])]);
    assert_eq!(world.0.len(), 1);
    assert_eq!(world.receive(1, vec![said("r", &[("c", 2, 2.0), ("a", 2, 1.5)])]), [more("a", 1, 500)]);
    assert_eq!(world.receive(2, vec![said("r", &[("a", 2, 9.0)])]), [], "time without answers");
}

#[test]
fn times_that_cannot_be_are_passed_over() {
    let mut world = World::default();
    world.receive(0, vec![said("r", &[("a", 10, 1.0)])]);
    for seconds in [-1.0, -1e-3, 1e300, f64::MAX] {
        assert_eq!(world.receive(1, vec![said("r", &[("a", 20, seconds)])]), [], "{seconds}");
    }
    assert_eq!(world.receive(2, vec![said("r", &[("a", 20, 2.0)])]), [more("a", 10, 1_000)]);
    let huge = vec![said("r", &[("a", u64::MAX, 1e19)]), said("s", &[("a", 0, 0.0)])];
    assert_eq!(world.receive(3, huge).len(), 1);
    let both = vec![said("r", &[("a", 0, 0.0)]), said("s", &[("a", u64::MAX, 1e19)])];
    assert_eq!(
        world.receive(4, both)[0].1,
        Answers { count: u64::MAX, time: Duration::from_secs(10_000_000_000_000_000_000) }
    );
    let again = vec![said("r", &[("a", u64::MAX, 1e19)]), said("s", &[("a", u64::MAX, 1e19)])];
    let most = Answers { count: u64::MAX, time: Duration::from_secs(10_000_000_000_000_000_000) };
    assert_eq!(world.receive(5, again)[0].1, most);
}

#[test]
fn sums_end_at_the_largest_number() {
    let mut world = World::default();
    world.receive(0, vec![said("r", &[("a", 0, 0.0)]), said("s", &[("a", 0, 0.0)])]);
    let huge = vec![said("r", &[("a", u64::MAX, 1e19)]), said("s", &[("a", u64::MAX, 1e19)])];
    assert_eq!(world.receive(1, huge)[0].1, Answers { count: u64::MAX, time: Duration::MAX });
}

#[test]
fn what_was_heard_waits_until_it_is_taken_unless_nobody_asks_any_more() {
    let heard = Heard::default();
    let put = |pods: &[(PodName, Answers)], names: &[&str]| put(&heard, pods.iter().cloned().collect(), &asks(names));
    put(&[more("a", 1, 10), more("b", 2, 20)], &["a", "b"]);
    put(&[more("a", 3, 30)], &["a", "b"]);
    let expected: BTreeMap<_, _> = [more("a", 4, 40), more("b", 2, 20)].into();
    assert_eq!(*heard.lock().unwrap(), expected);
    put(&[more("a", u64::MAX, 1)], &["a"]);
    assert_eq!(*heard.lock().unwrap(), [more("a", u64::MAX, 41)].into());
}
