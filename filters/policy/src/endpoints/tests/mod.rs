//! Compares [`Endpoints`] with a model that keeps every endpoint in a plain map, and checks each
//! one to find out which qualify.

mod client_errors;
mod failing;
mod rules;

use super::attempts::MAX_CHIPS;
use super::*;
use crate::endpoints::failures::{Failures, Peers};
use crate::routing::{Bloc, LeastRequest, Routing};
use crate::wire::load_report::LoadReport;
use proptest::prelude::*;
use std::collections::BTreeMap;

const RESET: Duration = Duration::from_millis(200);

fn at(millis: u64) -> Timestamp {
    Timestamp::ZERO.after(Duration::from_millis(millis))
}

fn is_any_shut(endpoints: &Endpoints) -> bool {
    endpoints.iter().any(|(_, endpoint)| endpoint.is_shut())
}

fn report(chip: bool) -> LoadReport {
    LoadReport {
        chip,
        queue: Some(7),
        capacity: Some(99),
        service: Some(if chip { 10.0 } else { 20.0 }),
        ..LoadReport::default()
    }
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
        6 => (any::<prop::sample::Index>(), 0u8..7).prop_map(|(i, kind)| Step::Answer(i.index(1000), kind)),
    ];
    prop::collection::vec(step, 1..200)
}

#[derive(Default)]
struct Naive {
    chips: u32,
    owed: u32,
    last_event: u64,
    pending: u32,
    unheard: u32,
    unheard_since: u64,
    heard: u64,
    failures: Failures,
    /// Failures that count since the server last served, and the time of the last one.
    strikes: u32,
    struck: u64,
    /// Until when it is left out, and whether it is probed.
    shut: Option<(u64, bool)>,
}

impl Naive {
    fn new(now: u64, others: &BTreeMap<String, Naive>) -> Self {
        let mean = others.values().map(|one| one.chips + one.pending).sum::<u32>() / others.len().max(1) as u32;
        let mut new = Self { chips: 1, owed: mean.saturating_sub(1), last_event: now, heard: now, ..Self::default() };
        new.failures.compare(true, &mut Peers::default());
        new
    }

    /// When its interval starts: the more attempts are unanswered, the later.
    fn asked(&self, now: u64) -> u64 {
        now + RESET.as_millis() as u64 * u64::from(self.unheard.clamp(1, 8) - 1)
    }

    fn qualifies(&self, now: u64) -> bool {
        self.chips > 0 || now >= self.last_event + RESET.as_millis() as u64
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn matches_a_naive_model_over_random_steps(steps in steps(), seed: u64) {
        let mut rng = fastrand::Rng::with_seed(seed);
        let mut endpoints = Endpoints::new(RESET);
        let mut naive: BTreeMap<String, Naive> = BTreeMap::new();
        let reset = RESET.as_millis() as u64;
        let mut under_way: Vec<(String, EndpointId, Permit)> = Vec::new();
        let mut list = Vec::new();
        let mut now = 0;
        for step in steps {
            match step {
                Step::Wait(millis) => now += millis,
                Step::Add(i) => {
                    endpoints.add(&format!("s{i}"), at(now));
                    let new = Naive::new(now, &naive);
                    naive.entry(format!("s{i}")).or_insert(new);
                }
                Step::Remove(i) => {
                    if let Some(id) = endpoints.find(&format!("s{i}")) {
                        endpoints.remove(id);
                    }
                    naive.remove(&format!("s{i}"));
                }
                Step::Send => {
                    Bloc::default().choose(&mut endpoints, 4, at(now), &mut rng, &mut list);
                    let names: Vec<String> = list.iter().map(|&id| endpoints.get(id).unwrap().address().to_owned()).collect();
                    let distinct: BTreeSet<&String> = names.iter().collect();
                    prop_assert_eq!(distinct.len(), names.len(), "a server twice in {:?}", &names);
                    prop_assert_eq!(names.len(), naive.len().min(4));
                    // Those that qualify come first, then those that are not shut.
                    let qualified = naive.values().filter(|n| n.qualifies(now)).count();
                    for (place, name) in names.iter().enumerate() {
                        prop_assert_eq!(naive[name].qualifies(now), place < qualified, "place {} of {:?}", place, &names);
                    }
                    let order = |n: &Naive| (n.shut.is_some(), n.last_event);
                    let orders: Vec<(bool, u64)> = names.iter().skip(qualified).map(|name| order(&naive[name])).collect();
                    prop_assert!(orders.is_sorted(), "{:?}", orders);
                    let earliest = naive.values().filter(|n| !n.qualifies(now)).map(order).min();
                    prop_assert!(orders.first().is_none_or(|&first| Some(first) == earliest));

                    if let (Some(name), Some(&id)) = (names.first(), list.first()) {
                        let permit = endpoints.begin(id, at(now));
                        let entry = naive.get_mut(name).unwrap();
                        entry.pending += 1;
                        if entry.unheard == 0 {
                            entry.unheard_since = now;
                        }
                        entry.unheard += 1;
                        let asked = entry.asked(now);
                        if entry.shut.is_some() {
                            entry.shut = Some((asked + reset, true));
                        }
                        let expected = if entry.chips > 0 {
                            entry.chips -= 1;
                            Permit::Chip
                        } else {
                            let probe = entry.qualifies(now);
                            entry.last_event = asked;
                            if probe { Permit::Probe } else { Permit::Forced }
                        };
                        prop_assert_eq!(permit, Some(expected));
                        under_way.push((name.clone(), id, expected));
                    }
                }
                Step::Answer(i, kind) => {
                    if under_way.is_empty() { continue; }
                    let (name, id, permit) = under_way.swap_remove(i % under_way.len());
                    let answer = match kind {
                        0 => Answer::Served(report(true)),
                        1 => Answer::Served(report(false)),
                        2 => Answer::Rejected(report(false)),
                        3 => Answer::Bounced(report(false)),
                        4 => Answer::GivenUp,
                        5 => Answer::Erred(Some(report(true))),
                        _ => Answer::Failed,
                    };
                    endpoints.answer(id, permit, answer, at(now));
                    endpoints.end(id);
                    // A server that came back is a new one: the old attempt does not count.
                    if endpoints.get(id).is_some() {
                        let mut peers = Peers::default();
                        peers.renew(naive.values().map(|other| &other.failures));
                        let entry = naive.get_mut(&name).unwrap();
                        let silent = entry.unheard >= entry.pending && now >= entry.unheard_since + reset;
                        let hangs = kind == 4 && silent;
                        let since = if entry.unheard >= entry.pending { entry.unheard_since } else { entry.heard };
                        let times_out = kind == 6 && now >= since + reset / 4;
                        entry.pending -= 1;
                        if kind != 4 {
                            (entry.last_event, entry.unheard) = (now, 0);
                        }
                        if matches!(kind, 0 | 1 | 5) {
                            entry.heard = now;
                        }
                        let is_probed = entry.shut.is_some_and(|(_, is_probed)| is_probed);
                        if kind < 2 {
                            entry.failures.served(&mut peers);
                            entry.strikes = 0;
                        }
                        let counts = kind >= 5 && entry.failures.failed(&mut peers);
                        let chip = kind == 0;
                        if chip || is_probed && kind != 2 && kind != 4 && !counts {
                            entry.shut = None;
                        }
                        let spent = u32::from(permit == Permit::Chip && entry.shut.is_none());
                        if counts {
                            if entry.strikes == 0 || now > entry.struck + reset / 100 {
                                entry.strikes += 1;
                            }
                            entry.struck = now;
                        }
                        let again = counts && (entry.strikes > 1 || times_out);
                        if kind == 2 || counts {
                            let earlier = entry.shut.map_or(0, |(until, _)| until.saturating_sub(reset));
                            let from = if again { now + 7 * reset } else { now };
                            let from = if counts { from.max(earlier) } else { from };
                            (entry.last_event, entry.shut) = (from, Some((from + reset, false)));
                        }
                        if hangs {
                            entry.last_event = entry.asked(now);
                            entry.shut = Some((entry.last_event + reset, false));
                        }
                        entry.failures.compare(entry.shut.is_none(), &mut peers);
                        let earned = match kind {
                            0 | 5 => 1,
                            4 if hangs => 0,
                            3 | 4 => spent,
                            6 if !counts => spent,
                            _ => 0,
                        };
                        let extra = if kind == 0 { entry.owed.min(1) } else { 0 };
                        let lost = permit == Permit::Chip && earned == 0 && (kind == 4 || kind == 6);
                        entry.owed = (entry.owed + u32::from(lost) - extra).min(MAX_CHIPS);
                        entry.chips = (entry.chips + earned + extra).min(MAX_CHIPS);
                        let taken = match kind {
                            2 => {
                                (entry.chips, entry.owed) = (0, 0);
                                0
                            }
                            _ if again => entry.chips,
                            5 if counts => entry.chips.min(1),
                            _ => 0,
                        };
                        entry.chips -= taken;
                        entry.owed += taken;
                    }
                }
            }
            // LeastRequest reorders the servers as it draws.
            LeastRequest.choose(&mut endpoints, 2, at(now), &mut rng, &mut list);
            for place in 0..endpoints.len() {
                let endpoint = endpoints.at(place).and_then(|id| endpoints.get(id)).unwrap();
                let shut = naive[endpoint.address()].shut.map(|(until, _)| at(until));
                prop_assert_eq!((endpoint.place(), endpoint.shut_until()), (place, shut));
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
