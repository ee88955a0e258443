//! The line in front of an application: holds requests (Proxy-Wasm pause) and lets them go (resume) when it is their turn.
//!
//! Whose turn it is, [`Hall`] decides; its bytes live in the shared data, and every step is a read, a decision and a compare-and-swap. A place that is passed on to
//! another thread's request is announced through that thread's shared queue. The announcement is only a hint: what a thread may let in it reads from the hall,
//! so an announcement that comes late, twice or not at all does no harm, and each tick looks again.

use crate::host;
use crate::will;
use bloc_policy::hall::{Entrance, Hall, Worker};
use bloc_policy::units::{Concurrency, Timestamp};
use std::collections::VecDeque;
use std::rc::{Rc, Weak};
use std::time::Duration;

/// How often a step is tried when other threads come in between. Each failure means that another thread got on.
const TRIES: usize = 1000;

/// A request that waits.
pub trait Waits {
    /// It is its turn.
    fn enter(&self, now: Timestamp);
    /// It has waited too long.
    fn give_up(&self);
}

struct Held {
    context: u32,
    since: Timestamp,
    patience: Option<Duration>,
    request: Weak<dyn Waits>,
}

fn key(service: &str) -> String {
    format!("bloc/hall/{service}")
}

/// Takes the VM with this number out of the hall of a service, and tells the others that there may be free places.
pub fn resign(service: &str, vm: u64) {
    let (key, mut new) = (key(service), Vec::new());
    for _ in 0..TRIES {
        let Some((bytes, cas)) = host::shared_data(&key) else { return };
        let mut hall = Hall::decode(&bytes);
        hall.resign(vm);
        hall.encode(&mut new);
        if host::set_shared_data(&key, &new, cas) {
            hall.ids().for_each(|other| host::wake(other, service.as_bytes()));
            return;
        }
    }
}

/// One thread's part of the line of one service.
pub struct Line {
    service: String,
    key: String,
    vm: u64,
    held: VecDeque<Held>,
    /// Requests of this thread inside.
    inside: u32,
    bytes: Vec<u8>,
}

impl Line {
    /// The line of a service, as the VM with this number sees it.
    pub fn new(service: &str, vm: u64) -> Self {
        let mut line = Self {
            service: service.to_owned(),
            key: key(service),
            vm,
            held: VecDeque::new(),
            inside: 0,
            bytes: Vec::new(),
        };
        will::resign(service, vm);
        if host::shared_data(&line.key).is_none() {
            // Before the first request, so no count can be lost if two threads do this at once.
            Hall::default().encode(&mut line.bytes);
            host::set_shared_data(&line.key, &line.bytes, 0);
        }
        line
    }

    /// Takes a step in the hall; none if it cannot be taken (the host has no shared data, or too many threads).
    fn step<T>(&mut self, now: Timestamp, step: impl Fn(&mut Hall, Worker) -> T) -> Option<T> {
        for _ in 0..TRIES {
            let (bytes, cas) = host::shared_data(&self.key)?;
            let mut hall = Hall::decode(&bytes);
            let worker = hall.join(self.vm, now)?;
            let result = step(&mut hall, worker);
            hall.encode(&mut self.bytes);
            if host::set_shared_data(&self.key, &self.bytes, cas) {
                return Some(result);
            }
        }
        None
    }

    /// A request has come: whether there is a place for it at once. If the hall cannot be reached it is let in: on failure, open.
    pub fn come(&mut self, concurrency: Concurrency, now: Timestamp) -> bool {
        let entrance = self.step(now, |hall, worker| hall.enter(worker, concurrency)).unwrap_or(Entrance::Inside);
        let inside = entrance == Entrance::Inside;
        self.inside += u32::from(inside);
        inside
    }

    /// Holds the request of the current context, for which there was no place.
    pub fn hold(&mut self, context: u32, request: &Rc<dyn Waits>, patience: Option<Duration>, now: Timestamp) {
        will::answer(context);
        self.held.push_back(Held { context, since: now, patience, request: Rc::downgrade(request) });
    }

    /// A request that was inside is over: its place is passed on.
    pub fn leave(&mut self, concurrency: Option<Concurrency>, now: Timestamp) -> Turns {
        self.inside = self.inside.saturating_sub(1);
        self.pass_on(concurrency, now, true)
    }

    fn pass_on(&mut self, concurrency: Option<Concurrency>, now: Timestamp, mut leaves: bool) -> Turns {
        // Without a concurrency any more nobody is to be held.
        let concurrency = concurrency.unwrap_or(Concurrency::new(u32::MAX));
        let mut turns = Turns::default();
        for _ in 0..TRIES {
            let passed = self.step(now, |hall, worker| {
                if leaves {
                    hall.leave(worker);
                }
                let mut others = Vec::new();
                while let Some(granted) = hall.grant(concurrency) {
                    if granted != worker {
                        others.extend(hall.id(granted));
                    }
                }
                (others, hall.inside_of(worker))
            });
            let Some((others, granted)) = passed else { break };
            for vm in others {
                host::wake(vm, self.service.as_bytes());
            }
            while self.inside < granted
                && let Some(held) = self.held.pop_front()
            {
                self.inside += 1;
                turns.in_turn.push((held.context, held.request));
            }
            if self.inside >= granted {
                break;
            }
            // A place for somebody who has given up meanwhile: it goes to the next one, in whatever thread.
            leaves = true;
        }
        turns
    }

    /// Looks what has been granted to this thread, gives a sign of life, and finds those that have waited too long.
    pub fn look(&mut self, concurrency: Option<Concurrency>, now: Timestamp) -> Turns {
        let dead = self.step(now, |hall, _| hall.bury(now));
        if dead.is_none() {
            return Turns::default();
        }
        let mut turns = self.pass_on(concurrency, now, false);
        while let Some(place) = self.held.iter().position(|held| held.is_late(now)) {
            if let Some(late) = self.remove(place, now) {
                turns.late.push((late.context, late.request));
            }
        }
        turns
    }

    /// The request of this context, which waited, is gone.
    pub fn gone(&mut self, context: u32, now: Timestamp) {
        if let Some(place) = self.held.iter().position(|held| held.context == context) {
            self.remove(place, now);
        }
        will::need_not_answer(context);
    }

    /// Whether nothing of this thread waits or is inside.
    pub fn is_idle(&self) -> bool {
        self.held.is_empty() && self.inside == 0
    }

    /// Whether a request of this thread waits that does not wait for ever.
    pub fn anybody_may_give_up(&self) -> bool {
        self.held.iter().any(|held| held.patience.is_some())
    }

    fn remove(&mut self, place: usize, now: Timestamp) -> Option<Held> {
        let own = self.held.len();
        self.step(now, |hall, worker| hall.give_up(worker, place, own));
        self.held.remove(place)
    }
}

impl Held {
    fn is_late(&self, now: Timestamp) -> bool {
        self.patience.is_some_and(|patience| now.since(self.since) >= patience)
    }
}

/// What is to be done once the line is no longer borrowed.
#[derive(Default)]
pub struct Turns {
    in_turn: Vec<(u32, Weak<dyn Waits>)>,
    late: Vec<(u32, Weak<dyn Waits>)>,
}

impl Turns {
    /// How many may go.
    pub fn in_turn(&self) -> usize {
        self.in_turn.len()
    }

    /// Lets go whose turn it is, and answers who has waited too long.
    pub fn take(self, now: Timestamp) {
        for (context, request) in self.in_turn {
            will::need_not_answer(context);
            if let Some(request) = request.upgrade() {
                request.enter(now);
                host::resume_request(context);
            }
        }
        for (context, request) in self.late {
            will::need_not_answer(context);
            if let Some(request) = request.upgrade() {
                host::in_context(context, || request.give_up());
            }
        }
    }
}
