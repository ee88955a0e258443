//! [`Endpoints`] against an oracle that keeps every endpoint in a plain map and finds out who qualifies by looking at each.

use super::*;
use crate::routing::{Bloc, LeastRequest, Routing};
use proptest::prelude::*;
use std::collections::BTreeMap;

const RESET: Duration = Duration::from_millis(200);
const MAX_CHIPS: u32 = 3;

fn at(millis: u64) -> Timestamp {
    Timestamp::ZERO.after(Duration::from_millis(millis))
}

fn report(chip: bool) -> LoadReport {
    LoadReport { chip, queue: Some(7), service: Some(if chip { 10.0 } else { 20.0 }), ..LoadReport::default() }
}

#[derive(Clone, Debug)]
enum Step {
    Wait(u64),
    Add(usize),
    Remove(usize),
    Send,
    Answer(usize, u8),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        2 => (0u64..300).prop_map(Step::Wait),
        1 => (0usize..8).prop_map(Step::Add),
        1 => (0usize..8).prop_map(Step::Remove),
        6 => Just(Step::Send),
        6 => (any::<prop::sample::Index>(), 0u8..4).prop_map(|(i, kind)| Step::Answer(i.index(1000), kind)),
    ];
    prop::collection::vec(step, 1..200)
}

#[derive(Default)]
struct Naive {
    chips: u32,
    clock: u64,
    pending: u32,
}

impl Naive {
    fn qualifies(&self, now: u64) -> bool {
        self.chips > 0 || now - self.clock >= RESET.as_millis() as u64
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn agrees_with_a_naive_table(steps in steps(), seed: u64) {
        let mut rng = fastrand::Rng::with_seed(seed);
        let mut endpoints = Endpoints::new(RESET, MAX_CHIPS);
        let mut naive: BTreeMap<String, Naive> = BTreeMap::new();
        let mut under_way: Vec<(String, EndpointId)> = Vec::new();
        let mut list = Vec::new();
        let mut now = 0;
        for step in steps {
            match step {
                Step::Wait(millis) => now += millis,
                Step::Add(i) => {
                    endpoints.add(&format!("s{i}"), at(now));
                    naive.entry(format!("s{i}")).or_insert(Naive { chips: 1, clock: now, pending: 0 });
                }
                Step::Remove(i) => {
                    if let Some(id) = endpoints.find(&format!("s{i}")) {
                        endpoints.remove(id);
                    }
                    naive.remove(&format!("s{i}"));
                }
                Step::Send => {
                    Bloc.choose(&mut endpoints, 4, at(now), &mut rng, &mut list);
                    let names: Vec<String> = list.iter().map(|&id| endpoints.get(id).unwrap().address().to_owned()).collect();
                    let distinct: BTreeSet<&String> = names.iter().collect();
                    prop_assert_eq!(distinct.len(), names.len(), "a server twice in {:?}", &names);
                    prop_assert_eq!(names.len(), naive.len().min(4));
                    // The qualified come first, then the others by the end of their interval.
                    let qualified = naive.values().filter(|n| n.qualifies(now)).count();
                    for (place, name) in names.iter().enumerate() {
                        prop_assert_eq!(naive[name].qualifies(now), place < qualified, "place {} of {:?}", place, &names);
                    }
                    let clocks: Vec<u64> = names.iter().skip(qualified).map(|name| naive[name].clock).collect();
                    prop_assert!(clocks.is_sorted(), "{:?}", clocks);
                    let earliest = naive.values().filter(|n| !n.qualifies(now)).map(|n| n.clock).min();
                    prop_assert!(clocks.first().is_none_or(|&first| Some(first) == earliest));

                    if let (Some(name), Some(&id)) = (names.first(), list.first()) {
                        let right = endpoints.begin(id, at(now));
                        let entry = naive.get_mut(name).unwrap();
                        entry.pending += 1;
                        let expected = if entry.chips > 0 {
                            entry.chips -= 1;
                            Right::Chip
                        } else {
                            let probe = entry.qualifies(now);
                            entry.clock = now;
                            if probe { Right::Probe } else { Right::Forced }
                        };
                        prop_assert_eq!(right, Some(expected));
                        under_way.push((name.clone(), id));
                    }
                }
                Step::Answer(i, kind) => {
                    if under_way.is_empty() { continue; }
                    let (name, id) = under_way.swap_remove(i % under_way.len());
                    let answer = match kind {
                        0 => Answer::Served(report(true)),
                        1 => Answer::Served(report(false)),
                        2 => Answer::Rejected(report(false)),
                        _ => Answer::Failed,
                    };
                    endpoints.answer(id, answer, at(now));
                    endpoints.end(id);
                    // A server that left and came back is a new one: nothing of the old attempt holds.
                    if endpoints.get(id).is_some() {
                        let entry = naive.get_mut(&name).unwrap();
                        entry.clock = now;
                        entry.pending -= 1;
                        match kind {
                            0 => entry.chips = (entry.chips + 1).min(MAX_CHIPS),
                            2 => entry.chips = 0,
                            _ => {}
                        }
                    }
                }
            }
            // A draw from all of them moves them about.
            LeastRequest.choose(&mut endpoints, 2, at(now), &mut rng, &mut list);
            prop_assert_eq!(endpoints.standings().len(), naive.len());
            for (place, standing) in endpoints.standings().iter().enumerate() {
                let endpoint = endpoints.at(place).and_then(|id| endpoints.get(id)).unwrap();
                prop_assert_eq!(*standing, endpoint.estimate().standing(endpoint.pending()), "at {}", place);
            }
            prop_assert_eq!(endpoints.len(), naive.len());
            for (_, endpoint) in endpoints.iter() {
                let expected = &naive[endpoint.address()];
                prop_assert_eq!(endpoint.chips(), expected.chips);
                prop_assert_eq!(endpoint.pending(), expected.pending);
                prop_assert!(endpoint.chips() <= MAX_CHIPS);
            }
        }
    }
}

#[test]
fn a_rejected_server_is_left_alone_for_the_interval_and_then_probed_once() {
    let mut rng = fastrand::Rng::with_seed(11);
    let mut endpoints = Endpoints::new(RESET, MAX_CHIPS);
    let rejecting = endpoints.add("rejecting", at(0));
    endpoints.add("open", at(0));
    endpoints.begin(rejecting, at(0));
    endpoints.answer(rejecting, Answer::Rejected(report(false)), at(0));
    endpoints.end(rejecting);
    let mut list = Vec::new();
    let mut probes = Vec::new();
    for millis in 1..1000 {
        Bloc.choose(&mut endpoints, 1, at(millis), &mut rng, &mut list);
        let id = list[0];
        let right = endpoints.begin(id, at(millis)).unwrap();
        if id == rejecting {
            assert_eq!(right, Right::Probe);
            probes.push(millis);
        } else {
            endpoints.answer(id, Answer::Served(report(true)), at(millis));
        }
        endpoints.end(id);
    }
    assert!(probes[0] >= 200, "probed within the interval: {probes:?}");
    assert!(probes.windows(2).all(|pair| pair[1] - pair[0] >= 200), "{probes:?}");
    // Each probe goes out soon after its interval has passed: four in a second.
    assert_eq!(probes.len(), 4, "{probes:?}");
}

#[test]
fn with_nobody_qualified_the_servers_take_turns() {
    let mut endpoints = Endpoints::new(RESET, MAX_CHIPS);
    let ids: Vec<EndpointId> = (0u64..3).map(|i| endpoints.add(&format!("s{i}"), at(i))).collect();
    for (millis, &id) in (3..).zip(&ids) {
        endpoints.begin(id, at(millis));
        endpoints.answer(id, Answer::Rejected(report(false)), at(millis));
    }
    let mut list = Vec::new();
    let mut turns = Vec::new();
    for millis in 10..16 {
        Bloc.choose(&mut endpoints, 1, at(millis), &mut fastrand::Rng::with_seed(1), &mut list);
        assert_eq!(endpoints.begin(list[0], at(millis)), Some(Right::Forced));
        turns.push(ids.iter().position(|&id| id == list[0]).unwrap());
    }
    assert_eq!(turns, [0, 1, 2, 0, 1, 2]);
}

#[test]
fn chips_neither_underflow_nor_grow_without_bound() {
    let mut endpoints = Endpoints::new(RESET, MAX_CHIPS);
    let id = endpoints.add("s", at(0));
    for millis in 0..20 {
        endpoints.answer(id, Answer::Served(report(true)), at(millis));
    }
    assert_eq!(endpoints.get(id).map(Endpoint::chips), Some(MAX_CHIPS));
    for millis in 20..40 {
        endpoints.begin(id, at(millis));
    }
    assert_eq!(endpoints.get(id).map(Endpoint::chips), Some(0));
    assert_eq!(endpoints.get(id).map(Endpoint::pending), Some(20));
}

#[test]
fn replacing_keeps_the_state_of_those_that_stay() {
    let mut endpoints = Endpoints::new(RESET, MAX_CHIPS);
    let stays = endpoints.add("stays", at(0));
    let goes = endpoints.add("goes", at(0));
    endpoints.begin(stays, at(1));
    endpoints.replace(["comes", "stays"], at(2));
    assert_eq!(endpoints.len(), 2);
    assert_eq!(endpoints.find("stays"), Some(stays));
    assert_eq!(endpoints.get(stays).map(Endpoint::pending), Some(1));
    assert!(endpoints.get(goes).is_none() && endpoints.find("goes").is_none());
    // What is still under way to the one that left changes nothing.
    endpoints.answer(goes, Answer::Served(report(true)), at(3));
    endpoints.end(goes);
    assert_eq!(endpoints.len(), 2);
}

#[test]
fn a_bounce_gives_the_chip_back() {
    let mut endpoints = Endpoints::new(RESET, MAX_CHIPS);
    let id = endpoints.add("s", at(0));
    assert_eq!(endpoints.begin(id, at(1)), Some(Right::Chip));
    endpoints.answer(id, Answer::Bounced(report(false)), at(1));
    endpoints.end(id);
    assert_eq!(
        endpoints.begin(id, at(2)),
        Some(Right::Chip),
        "or bouncing servers would look worse than those that take everything"
    );
}

#[test]
fn a_server_that_speaks_orca_keeps_its_chip_and_its_numbers_count() {
    let mut endpoints = Endpoints::new(RESET, MAX_CHIPS);
    let id = endpoints.add("s", at(0));
    endpoints.begin(id, at(1));
    endpoints.answer(id, Answer::Orca(crate::wire::orca::decode(b"TEXT cpu_utilization=0.5,rps=20").unwrap()), at(1));
    let endpoint = endpoints.get(id).unwrap();
    assert_eq!((endpoint.chips(), endpoint.estimate().standing(0).service_rate()), (1, 40.0));
}

#[test]
fn a_silent_server_keeps_its_chip_and_a_missing_one_loses_it() {
    let mut endpoints = Endpoints::new(RESET, MAX_CHIPS);
    let id = endpoints.add("s", at(0));
    endpoints.begin(id, at(1));
    endpoints.answer(id, Answer::Silent, at(1));
    assert_eq!(endpoints.get(id).map(Endpoint::chips), Some(1));
    endpoints.missing(id, at(2));
    assert_eq!(endpoints.get(id).map(Endpoint::chips), Some(0));
    assert_eq!(endpoints.begin(id, at(3)), Some(Right::Forced));
}
