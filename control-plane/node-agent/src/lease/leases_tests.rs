//! What is held, step by step.

use super::file::Contents;
use super::leases::{Leases, Use};
use bloc_leases::{Ask, Grantor, Lease, Part, Record, Told};
use std::collections::BTreeMap;
use std::time::Duration;

const A: &str = "shop/a";

fn part(part: u32) -> Part {
    Part::millionths(part)
}

fn lease(of: u32, goal: u32) -> Lease {
    Lease { part: part(of), goal: part(goal) }
}

fn saved(life: u64, parts: &[(&str, u32)]) -> Contents {
    Contents { life, parts: parts.iter().map(|(name, of)| ((*name).to_owned(), part(*of))).collect() }
}

fn used(held: u32, under: Lease) -> BTreeMap<String, Use> {
    let of = Use { wants: part(400), least: part(100), own: Some(part(900)), held: part(held), under };
    BTreeMap::from([(A.to_owned(), of)])
}

/// The answer to this request.
fn told(ask: &Ask, life: u64, of: u32, goal: u32) -> Told {
    Told { name: ask.name.clone(), life, number: ask.number, part: part(of), goal: part(goal) }
}

/// All replicas answer the present requests with this.
fn tell(leases: &Leases, replicas: &[(u32, u32)]) {
    let due = leases.due();
    let answer = |(of, goal): &(u32, u32)| {
        Some(due.asks.iter().map(|ask| told(ask, due.contents.life, *of, *goal)).collect::<Vec<_>>())
    };
    leases.receive(&replicas.iter().map(answer).collect::<Vec<_>>());
}

/// Number, part and needs of the present requests.
fn asked(leases: &Leases) -> Vec<(u64, u32, u32, u32)> {
    let numbers = |ask: &Ask| (ask.number, ask.part.get(), ask.wants.get(), ask.least.get());
    leases.due().asks.iter().map(numbers).collect()
}

#[test]
fn a_life_is_later_than_the_last_one_whatever_the_clock_says() {
    let clock = Leases::new(&saved(7, &[])).due().contents.life;
    assert!(clock > 1_700_000_000_000, "{clock}: milliseconds");
    let future = 9_000_000_000_000;
    assert_eq!(Leases::new(&saved(future, &[])).due().contents.life, future + 1);
    assert_eq!(Leases::new(&saved(u64::MAX, &[])).due().contents.life, u64::MAX);
}

#[test]
fn what_falls_is_lowered_with_the_step_and_has_a_number_of_its_own() {
    let leases = Leases::new(&saved(0, &[]));
    leases.settle(used(0, lease(0, 0)), || false);
    assert_eq!(asked(&leases), [(0, 0, 400, 100)]);
    tell(&leases, &[(500, 500)]);
    assert_eq!(leases.lease(A), lease(500, 500));
    leases.settle(used(500, lease(500, 500)), || false);
    tell(&leases, &[(500, 200)]);
    // The quotas have not fallen yet.
    leases.settle(used(500, lease(500, 200)), || false);
    assert_eq!((asked(&leases), leases.lease(A)), (vec![(0, 500, 400, 100)], lease(500, 200)));
    leases.settle(used(300, lease(500, 200)), || false);
    assert_eq!((asked(&leases), leases.lease(A)), (vec![(1, 300, 400, 100)], lease(300, 300)));
    assert_eq!(leases.due().contents.parts, BTreeMap::from([(A.to_owned(), part(300))]));
    // More is in force than it holds; this raises nothing.
    leases.settle(used(350, lease(300, 300)), || false);
    assert_eq!(asked(&leases), [(1, 300, 400, 100)]);
}

#[test]
fn what_was_heard_during_a_step_counts_from_the_next_one_on() {
    let leases = Leases::new(&saved(0, &[(A, 500)]));
    leases.settle(used(500, lease(500, 500)), || false);
    tell(&leases, &[(500, 200)]);
    let under = leases.lease(A);
    tell(&leases, &[(700, 700)]);
    leases.settle(used(200, under), || false);
    assert_eq!((leases.lease(A), asked(&leases)[0].0), (lease(700, 700), 0));
}

#[test]
fn what_was_said_before_a_fall_is_not_taken_up_again() {
    let leases = Leases::new(&saved(0, &[(A, 500)]));
    leases.settle(used(500, lease(500, 500)), || false);
    let before = leases.due();
    tell(&leases, &[(500, 200)]);
    leases.settle(used(200, lease(500, 200)), || false);
    leases.receive(&[Some(vec![told(&before.asks[0], before.contents.life, 500, 500)])]);
    assert_eq!(leases.lease(A), lease(200, 200));
}

#[test]
fn what_is_left_is_given_back_until_all_replicas_know() {
    let leases = Leases::new(&saved(0, &[(A, 500)]));
    assert_eq!(asked(&leases), [], "nobody knows yet who runs here");
    leases.settle(BTreeMap::new(), || false);
    assert_eq!(asked(&leases), [(1, 0, 0, 0)]);
    assert_eq!(leases.due().contents.parts, BTreeMap::from([(A.to_owned(), Part::ZERO)]));
    leases.receive(&[]);
    leases.receive(&[None]);
    leases.receive(&[Some(vec![])]);
    tell(&leases, &[(0, 0), (500, 500)]);
    leases.settle(BTreeMap::new(), || false);
    assert_eq!(asked(&leases), [(2, 0, 0, 0)], "one replica has said that it holds something");
    let due = leases.due();
    let knows = told(&due.asks[0], due.contents.life, 0, 0);
    leases.receive(&[Some(vec![knows.clone()]), None]);
    leases.receive(&[Some(vec![Told { number: 1, ..knows.clone() }])]);
    leases.receive(&[Some(vec![Told { life: 1, ..knows }])]);
    assert_eq!(asked(&leases).len(), 1);
    tell(&leases, &[(0, 0), (0, 0)]);
    assert_eq!((asked(&leases), leases.due().contents.parts), (vec![], BTreeMap::new()));
}

#[test]
fn the_next_start_goes_on_to_give_back() {
    let leases = Leases::new(&saved(0, &[(A, 0)]));
    assert_eq!(asked(&leases), [(0, 0, 0, 0)]);
    // The control plane does not know yet: the first number of a life gives nothing back.
    tell(&leases, &[(500, 500)]);
    leases.settle(BTreeMap::new(), || false);
    assert_eq!(asked(&leases), [(1, 0, 0, 0)]);
}

#[test]
fn who_comes_back_is_not_left() {
    let leases = Leases::new(&saved(0, &[(A, 500)]));
    leases.settle(BTreeMap::new(), || false);
    leases.settle(used(0, lease(0, 0)), || false);
    assert_eq!(asked(&leases), [(1, 0, 400, 100)]);
    tell(&leases, &[(0, 0)]);
    assert_eq!(asked(&leases), [(1, 0, 400, 100)]);
}

#[test]
fn an_agent_that_has_lost_its_disk_begins_a_later_life() {
    let leases = Leases::new(&saved(0, &[]));
    leases.settle(used(0, lease(0, 0)), || false);
    let life = leases.due().contents.life;
    leases.receive(&[Some(vec![told(&leases.due().asks[0], life + 9, 0, 0)])]);
    assert!(leases.due().contents.life > life + 9);
}

#[tokio::test]
async fn a_fall_is_due_at_once_and_nothing_else_is() {
    let leases = Leases::new(&saved(0, &[]));
    let falls = async |millis| tokio::time::timeout(Duration::from_millis(millis), leases.fall()).await.is_ok();
    leases.settle(used(0, lease(0, 0)), || false);
    tell(&leases, &[(500, 200)]);
    leases.settle(used(500, lease(500, 200)), || false);
    assert!(!falls(50).await);
    leases.settle(used(200, lease(500, 200)), || false);
    assert!(falls(60_000).await);
    leases.settle(BTreeMap::new(), || false);
    assert!(falls(60_000).await);
    assert!(!falls(50).await);
}

#[tokio::test]
async fn at_the_end_all_is_given_back_if_somebody_hears_it() {
    let leases = Leases::new(&saved(0, &[(A, 500)]));
    leases.settle(used(500, lease(500, 500)), || false);
    assert!(!leases.give_back(Duration::from_millis(50)).await);
    let answering = leases.clone();
    let answer = async { tell(&answering, &[(0, 0)]) };
    let (given, ()) = tokio::join!(leases.give_back(Duration::from_secs(60)), answer);
    assert!(given && leases.lease(A) == lease(0, 0));
}

#[test]
fn the_least_goal_of_those_who_know_the_largest_part_counts_in_any_order() {
    for answers in [[(500, 200), (500, 500), (400, 100)], [(400, 100), (500, 500), (500, 200)]] {
        let leases = Leases::new(&saved(0, &[(A, 300)]));
        leases.settle(used(300, lease(300, 300)), || false);
        tell(&leases, &answers);
        assert_eq!(leases.lease(A), lease(500, 200), "{answers:?}");
    }
}

#[test]
fn a_later_life_is_followed_in_any_order() {
    for later in [0, 1] {
        let leases = Leases::new(&saved(0, &[(A, 300)]));
        leases.settle(used(300, lease(300, 300)), || false);
        let due = leases.due();
        let life = due.contents.life;
        let answer = |nth| told(&due.asks[0], if nth == later { life + 9 } else { life }, 500, 500);
        leases.receive(&[Some(vec![answer(0)]), Some(vec![answer(1)])]);
        assert!(leases.due().contents.life > life + 9);
    }
}

#[test]
fn what_is_in_use_elsewhere_does_not_fall() {
    let leases = Leases::new(&saved(0, &[(A, 500)]));
    leases.settle(used(200, lease(500, 500)), || true);
    leases.settle(BTreeMap::new(), || true);
    assert_eq!(leases.lease(A), lease(500, 500));
    leases.settle(BTreeMap::new(), || false);
    assert_eq!(leases.lease(A), lease(0, 0));
}

/// Asks until nothing is left to report. Returns how often.
fn until_all_is_said(leases: &Leases, record: &mut Record) -> usize {
    let mut grantor = Grantor::default();
    for round in 0..10_u64 {
        leases.settle(BTreeMap::new(), || false);
        leases.meet([A].into_iter());
        let due = leases.due();
        if due.asks.is_empty() {
            return round as usize;
        }
        let now = Duration::from_secs(100 + round);
        let receive = |ask| grantor.receive(record, "n1", due.contents.life, ask, now);
        leases.receive(&[Some(due.asks.iter().filter_map(receive).collect())]);
    }
    panic!("{record:?}");
}

#[test]
fn a_part_that_a_record_has_for_a_node_without_containers_is_given_back() {
    let entry = |life: u64| {
        let node = serde_json::json!({"life": life, "number": 3, "part": 300, "over": 0});
        serde_json::from_value::<Record>(serde_json::json!({"nodes": {"n1": node}})).unwrap()
    };
    // An older life, and a later one, which the agent follows.
    for life in [7, 9_000_000_000_000] {
        let mut record = entry(life);
        let leases = Leases::new(&saved(0, &[]));
        until_all_is_said(&leases, &mut record);
        assert!(record.is_empty(), "{record:?}");
        // It asks once in a life.
        assert_eq!(until_all_is_said(&leases, &mut record), 0);
    }
    assert_eq!(until_all_is_said(&Leases::new(&saved(0, &[])), &mut Record::default()), 1);
}

#[test]
fn in_a_later_life_applications_without_containers_are_asked_about_again() {
    const B: &str = "shop/b";
    let leases = Leases::new(&saved(0, &[]));
    let names = |leases: &Leases| leases.due().asks.into_iter().map(|ask| ask.name).collect::<Vec<_>>();
    leases.meet([B].into_iter());
    tell(&leases, &[(0, 0)]);
    leases.settle(used(0, lease(0, 0)), || false);
    leases.meet([B].into_iter());
    assert_eq!(names(&leases), [A]);
    let due = leases.due();
    leases.receive(&[Some(vec![told(&due.asks[0], due.contents.life + 1, 0, 0)])]);
    leases.meet([B].into_iter());
    assert_eq!(names(&leases), [A, B]);
}
