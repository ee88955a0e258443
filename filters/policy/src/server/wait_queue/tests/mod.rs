//! The wait queue ([`WaitQueue`]) in virtual time: several workers whose requests come, end and
//! give up, whose wake-ups come late or never, and which stall at any point for any time.

mod rules;

use super::*;
use crate::proxy::shared::Cas;
use crate::server::limiter::WORKER_TIMEOUT;
use proptest::prelude::*;
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, HashMap};

const SERVICE: &str = "service";
/// The time between ticks of a worker with something in the queue.
const TICK: u64 = 250;
/// How long a wake-up takes.
const WAKE: u64 = 1;

/// Shared data as in Envoy. Now and then another worker writes between a read and a write.
#[derive(Default)]
struct Data {
    values: RefCell<HashMap<String, (Vec<u8>, u32)>>,
    issued: Cell<u32>,
    rng: RefCell<fastrand::Rng>,
}

impl Shared for Data {
    fn get(&self, key: &str) -> (Option<Vec<u8>>, Cas) {
        let value = self.values.borrow().get(key).cloned();
        value.map_or((None, Cas::ABSENT), |(value, cas)| (Some(value), Cas::new(cas)))
    }

    fn set(&self, key: &str, value: &[u8], cas: Cas) -> bool {
        let mut values = self.values.borrow_mut();
        let there = values.get(key).map(|(_, there)| *there);
        if there.is_some_and(|there| there != cas.get()) {
            return false;
        }
        self.issued.set(self.issued.get() + 1);
        if there.is_some() && self.rng.borrow_mut().u32(0..10) == 0 {
            values.entry(key.to_owned()).and_modify(|value| value.1 = self.issued.get());
            return false;
        }
        values.insert(key.to_owned(), (value.to_vec(), self.issued.get()));
        true
    }

    fn overwrite(&self, _key: &str, _value: &[u8]) {
        unreachable!("a queue is never overwritten");
    }
}

#[derive(Clone, Copy, Debug)]
enum Event {
    Come { number: usize, worker: usize },
    End { number: usize, worker: usize },
    Vanish { number: usize, worker: usize },
    Tick(usize),
    Wake(usize),
}

impl Event {
    fn worker(self) -> usize {
        match self {
            Self::Come { worker, .. } | Self::End { worker, .. } | Self::Vanish { worker, .. } => worker,
            Self::Tick(worker) | Self::Wake(worker) => worker,
        }
    }
}

/// How long a worker stalls, in milliseconds.
#[derive(Clone, Copy, Debug)]
struct Stall {
    worker: usize,
    from: u64,
    until: u64,
}

#[derive(Clone, Debug)]
struct Request {
    at: u64,
    worker: usize,
    takes: u64,
    bound: u64,
    /// The concurrency of its configuration.
    concurrency: u32,
    /// When its client gives up, counted from its arrival.
    patience: Option<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum State {
    NotYet,
    Held,
    Inside,
    Over,
}

struct World<'a> {
    data: Data,
    requests: &'a [Request],
    stalls: &'a [Stall],
    lines: Vec<WaitQueue<usize>>,
    states: Vec<State>,
    /// Whether wake-ups are lost.
    loses_wakes: bool,
    queue: BTreeMap<(u64, usize), Event>,
    number: usize,
    /// When each worker last ran.
    ran: Vec<u64>,
    /// Whether the limit is never exceeded, not even after a stall.
    strict: bool,
}

fn at(millis: u64) -> Timestamp {
    Timestamp::from_nanos((1_000_000 + millis) * 1_000_000)
}

impl World<'_> {
    fn plan(&mut self, millis: u64, event: Event) {
        self.number += 1;
        self.queue.insert((millis, self.number), event);
    }

    fn inside_of(&self, worker: usize) -> usize {
        let inside =
            |(number, state): (usize, &State)| *state == State::Inside && self.requests[number].worker == worker;
        self.states.iter().enumerate().filter(|entry| inside((entry.0, entry.1))).count()
    }

    /// Requests inside that the other workers can rely on.
    fn known(&self, now: u64) -> usize {
        let alive = |worker: &usize| self.strict || now - self.ran[*worker] <= WORKER_TIMEOUT.as_millis() as u64;
        (0..self.lines.len()).filter(alive).map(|worker| self.inside_of(worker)).sum()
    }

    fn enter(&mut self, number: usize, now: u64) {
        let known = self.known(now);
        let limit = match self.states[number] {
            // Since the grant of its place, others may have entered under the concurrency of their
            // own configuration.
            State::Held => self.requests.iter().map(|request| request.concurrency).max().unwrap_or(0),
            _ => self.requests[number].concurrency,
        };
        assert!(known < limit as usize, "{known} inside when one more is let in");
        assert!([State::NotYet, State::Held].contains(&self.states[number]), "let in twice");
        self.states[number] = State::Inside;
        let Request { takes, worker, .. } = self.requests[number];
        self.plan(now + takes, Event::End { number, worker });
    }

    fn take(&mut self, worker: usize, turns: Turns<usize>, now: u64) {
        for vm in turns.wake {
            assert_ne!(vm as usize, worker + 1);
            if !self.loses_wakes {
                self.plan(now + WAKE, Event::Wake(vm as usize - 1));
            }
        }
        for number in turns.in_turn {
            self.enter(number, now);
            self.waited(number, now);
        }
        for number in turns.late {
            assert_eq!(self.states[number], State::Held);
            let held = now - self.requests[number].at;
            assert!(held >= self.requests[number].bound, "bounced after {held} ms");
            self.states[number] = State::Over;
            self.waited(number, now);
        }
    }

    /// Checks that a request waited at most for its limit, one tick, and its own worker's stalls.
    fn waited(&self, number: usize, now: u64) {
        let Request { at, worker, bound, .. } = self.requests[number];
        let stood = |stall: &Stall| stall.until.min(now).saturating_sub(stall.from.max(at));
        let stood: u64 = self.stalls.iter().filter(|stall| stall.worker == worker).map(stood).sum();
        assert!(now - at <= bound + TICK + stood, "held for {} ms, its worker stood for {stood}", now - at);
    }

    fn run(&mut self) {
        for (number, request) in self.requests.iter().enumerate() {
            self.plan(request.at, Event::Come { number, worker: request.worker });
        }
        for worker in 0..self.lines.len() {
            self.plan(0, Event::Tick(worker));
        }
        for _ in 0..1_000_000 {
            let Some(((millis, _), event)) = self.queue.pop_first() else { return };
            let worker = event.worker();
            let stall = |stall: &&Stall| stall.worker == worker && (stall.from..stall.until).contains(&millis);
            if let Some(stall) = self.stalls.iter().find(stall) {
                self.plan(stall.until, event);
                continue;
            }
            let now = at(millis);
            if let Event::Vanish { number, .. } = event
                && self.states[number] != State::Held
            {
                continue;
            }
            // A worker that was taken for dead counts again from its next step.
            self.ran[worker] = millis;
            if let Event::Tick(worker) = event
                && self.states.iter().any(|state| *state != State::Over)
            {
                self.plan(millis + TICK, Event::Tick(worker));
            }
            let queue = &mut self.lines[worker];
            let turns = match event {
                Event::Come { number, .. } => {
                    let places = Concurrency::new(self.requests[number].concurrency);
                    if queue.arrive(&self.data, places, now) {
                        self.enter(number, millis);
                    } else {
                        self.states[number] = State::Held;
                        queue.hold(number, places, at(self.requests[number].at + self.requests[number].bound));
                        if let Some(patience) = self.requests[number].patience {
                            self.plan(millis + patience, Event::Vanish { number, worker });
                        }
                    }
                    Turns::default()
                }
                Event::End { number, .. } => {
                    self.states[number] = State::Over;
                    queue.leave(&self.data, now)
                }
                Event::Vanish { number, .. } => {
                    self.states[number] = State::Over;
                    queue.cancel(&self.data, now, |held| *held == number)
                }
                Event::Tick(_) | Event::Wake(_) => queue.look(&self.data, now),
            };
            self.take(worker, turns, millis);
        }
        panic!("it goes on for ever");
    }
}

fn world<'a>(workers: usize, requests: &'a [Request], stalls: &'a [Stall], seed: u64) -> World<'a> {
    let data = Data { rng: RefCell::new(fastrand::Rng::with_seed(seed)), ..Data::default() };
    World {
        data,
        requests,
        stalls,
        lines: (1..=workers as u64).map(|vm| WaitQueue::new(SERVICE, vm)).collect(),
        states: vec![State::NotYet; requests.len()],
        loses_wakes: false,
        queue: BTreeMap::new(),
        number: 0,
        ran: vec![0; workers],
        strict: false,
    }
}

fn check(mut world: World) {
    world.run();
    let requests = world.requests;
    let waiting: Vec<usize> = (0..requests.len()).filter(|number| world.states[*number] != State::Over).collect();
    assert!(waiting.is_empty(), "{waiting:?} have no answer");
    assert!(world.lines.iter().all(WaitQueue::is_idle));
    let (bytes, _) = world.data.get(&key(SERVICE));
    let limiter = bytes.map_or_else(Limiter::default, |bytes| Limiter::decode(&bytes));
    assert_eq!((limiter.inside(), limiter.waiting()), (0, 0));
}

/// Requests of one configuration, or of two while a listener is updated.
fn requests(workers: usize) -> impl Strategy<Value = Vec<Request>> {
    let request =
        (0u64..8_000, 0..workers, 1u64..400, 50u64..12_000, any::<bool>(), prop::option::weighted(0.2, 0u64..3_000));
    (1u32..4, 1u32..4, prop::collection::vec(request, 1..60)).prop_map(|(one, other, requests)| {
        let request = |(at, worker, takes, bound, is_one, patience)| {
            let concurrency = if is_one { one } else { other };
            Request { at, worker, takes, bound, concurrency, patience }
        };
        requests.into_iter().map(request).collect()
    })
}

fn stalls(workers: usize) -> impl Strategy<Value = Vec<Stall>> {
    let stall = (0..workers, 0u64..8_000, prop_oneof![0u64..2_000, 0u64..10_000]);
    let some = prop::collection::vec(
        stall.prop_map(|(worker, from, time)| vec![Stall { worker, from, until: from + time }]),
        0..4,
    );
    // The whole process stalls. Each worker resumes at its own time.
    let all =
        (0u64..8_000, prop::collection::vec(0u64..10_000, workers), 0u64..300).prop_map(|(from, times, spread)| {
            let longest = times.iter().copied().max().unwrap_or(0);
            let until = |time: &u64| from + longest + time % (spread + 1);
            times.iter().enumerate().map(|(worker, time)| Stall { worker, from, until: until(time) }).collect()
        });
    prop_oneof![some.prop_map(|stalls| stalls.concat()), all]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn every_request_is_admitted_once_or_rejected_in_time_despite_stalls(
        requests in requests(3), stalls in stalls(3), loses: bool, seed: u64,
    ) {
        // The limit may be exceeded only after a stall of more than `WORKER_TIMEOUT`.
        let stands = |worker| stalls.iter().filter(|stall| stall.worker == worker).map(|stall| stall.until - stall.from).sum();
        let strict = (0..3).map(stands).all(|time: u64| time <= WORKER_TIMEOUT.as_millis() as u64);
        check(World { loses_wakes: loses, strict, ..world(3, &requests, &stalls, seed) });
    }
}
