//! The concurrency limiter of an application: which requests it works on, which ones wait, and
//! which one enters next.
//!
//! The application works on `concurrency` requests at once. Further requests wait in the sidecar,
//! in one queue for all of its threads, first come, first served. No place is free while a request
//! waits: a request that ends passes its place on to the first of the queue, as a *grant* to that
//! request's worker. The place counts as taken from the grant on, so a wake-up can be late, but not
//! lost.
//!
//! Each request has the `concurrency` of its own configuration. Two may be in force while a
//! listener is updated. Then a request enters when fewer than its own `concurrency` are inside, and
//! the first of the queue keeps those behind it waiting.
//!
//! The threads share the state as a few bytes under compare-and-swap: the number, the sign of life
//! and the counts of each worker, then the queue, five bytes for each request. What a worker holds
//! itself ([`crate::server::wait_queue`]) decides: with each step it [reports](Limiter::report)
//! that, and the shared bytes are put right. A worker that is missing in them is back with its next
//! step.
//!
//! A worker without a sign of life for longer than [`WORKER_TIMEOUT`] plus 0.5 s is dead: its
//! places and its entries in the queue are freed, so a crash cannot keep places for ever. A worker
//! that was only stopped for so long is back with its next step. Its requests inside may then be
//! too many, and nobody enters until there are fewer; its waiting requests go to the end of the
//! queue.
//!
//! Cost: copying the bytes, 24 for each worker and five for each waiting request. Not in the paper,
//! whose queue proxy is a single process.

use crate::units::{Concurrency, Timestamp};
use std::collections::VecDeque;
use std::time::Duration;

/// A worker that is stopped for this long does not count as dead.
pub const WORKER_TIMEOUT: Duration = Duration::from_secs(2);
/// How old the last sign of life may be when a worker is stopped: a tick, and what a busy machine
/// adds.
const SIGN_MAX_AGE: Duration = Duration::from_millis(500);
/// Threads beyond this number do not take part.
const MAX_WORKERS: usize = 255;
const WORKER_BYTES: usize = 24;
const TURN_BYTES: usize = 5;

/// A worker's place in the list of workers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Worker(u8);

#[derive(Clone, Debug, PartialEq, Eq)]
struct State {
    /// The worker's own number; 0: nobody.
    id: u64,
    seen: Timestamp,
    /// Requests that the worker has let in.
    inside: u32,
    /// Requests that it may let in.
    granted: u32,
}

impl State {
    fn taken(&self) -> u32 {
        self.inside.saturating_add(self.granted)
    }
}

/// A request in the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Turn {
    /// The place of its worker in the list.
    worker: u8,
    /// It may enter while fewer than these are inside.
    concurrency: Concurrency,
}

/// What happens to a request that arrives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entrance {
    /// There is a place.
    Inside,
    /// It waits in the queue.
    Waits,
}

/// The shared state.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Limiter {
    workers: Vec<State>,
    queue: VecDeque<Turn>,
}

impl Limiter {
    /// Reads the shared bytes; an empty limiter if they are not what [`encode`](Self::encode)
    /// writes.
    pub fn decode(bytes: &[u8]) -> Self {
        let parse = || {
            let (&count, rest) = bytes.split_first()?;
            let (states, queue) = rest.split_at_checked(usize::from(count) * WORKER_BYTES)?;
            let mut workers = Vec::with_capacity(usize::from(count));
            for state in states.chunks_exact(WORKER_BYTES) {
                workers.push(State {
                    id: u64::from_le_bytes(state.get(..8)?.try_into().ok()?),
                    seen: Timestamp::from_nanos(u64::from_le_bytes(state.get(8..16)?.try_into().ok()?)),
                    inside: u32::from_le_bytes(state.get(16..20)?.try_into().ok()?),
                    granted: u32::from_le_bytes(state.get(20..)?.try_into().ok()?),
                });
            }
            let (turns, []) = queue.as_chunks::<TURN_BYTES>() else { return None };
            let turn = |&[worker, a, b, c, d]: &[u8; TURN_BYTES]| {
                let concurrency = Concurrency::new(u32::from_le_bytes([a, b, c, d]));
                (worker < count).then_some(Turn { worker, concurrency })
            };
            Some(Self { workers, queue: turns.iter().map(turn).collect::<Option<_>>()? })
        };
        parse().unwrap_or_default()
    }

    /// Writes the shared bytes into `into`, which is emptied first.
    pub fn encode(&self, into: &mut Vec<u8>) {
        into.clear();
        into.push(self.workers.len() as u8);
        for state in &self.workers {
            into.extend(state.id.to_le_bytes());
            into.extend(state.seen.as_nanos().to_le_bytes());
            into.extend(state.inside.to_le_bytes());
            into.extend(state.granted.to_le_bytes());
        }
        for turn in &self.queue {
            into.push(turn.worker);
            into.extend(turn.concurrency.get().to_le_bytes());
        }
    }

    /// Requests that the application works on, granted ones included.
    pub fn inside(&self) -> u32 {
        self.workers.iter().fold(0, |sum: u32, state| sum.saturating_add(state.taken()))
    }

    /// Requests in the queue.
    pub fn waiting(&self) -> usize {
        self.queue.len()
    }

    fn waiting_of(&self, worker: Worker) -> usize {
        self.queue.iter().filter(|turn| turn.worker == worker.0).count()
    }

    /// The worker with this number (not 0), which gives a sign of life; none if there are too many.
    pub fn join(&mut self, id: u64, now: Timestamp) -> Option<Worker> {
        let known = self.workers.iter().position(|state| state.id == id);
        let vacant = || self.workers.iter().position(|state| state.id == 0);
        let place = known.or_else(vacant).unwrap_or(self.workers.len());
        if place >= MAX_WORKERS {
            return None;
        }
        match self.workers.get_mut(place) {
            Some(state) => (state.id, state.seen) = (id, now),
            None => self.workers.push(State { id, seen: now, inside: 0, granted: 0 }),
        }
        Some(Worker(place as u8))
    }

    /// The number under which a worker joined.
    pub fn id(&self, worker: Worker) -> Option<u64> {
        self.workers.get(usize::from(worker.0)).map(|state| state.id).filter(|id| *id != 0)
    }

    /// A worker reports how many requests it has let in, and the concurrency of each request that
    /// it holds. This corrects the shared state. Held requests that are missing there go to the end
    /// of the queue.
    pub fn report(&mut self, worker: Worker, inside: u32, held: impl ExactSizeIterator<Item = Concurrency>) {
        let Some(state) = self.workers.get_mut(usize::from(worker.0)) else { return };
        state.inside = inside;
        state.granted = state.granted.min(u32::try_from(held.len()).unwrap_or(u32::MAX));
        let mut held = held.skip(state.granted as usize);
        let mut surplus = 0;
        for turn in self.queue.iter_mut().filter(|turn| turn.worker == worker.0) {
            match held.next() {
                Some(concurrency) => turn.concurrency = concurrency,
                None => surplus += 1,
            }
        }
        self.queue.extend(held.map(|concurrency| Turn { worker: worker.0, concurrency }));
        for _ in 0..surplus {
            if let Some(last) = self.queue.iter().rposition(|turn| turn.worker == worker.0) {
                self.queue.remove(last);
            }
        }
    }

    /// Whether another worker has a place or a waiting request, and has been silent for longer than
    /// a living one.
    pub fn somebody_may_be_dead(&self, worker: Worker, now: Timestamp) -> bool {
        let mut others = self.workers.iter().enumerate().filter(|(place, state)| {
            *place != usize::from(worker.0) && state.id != 0 && now.since(state.seen) > SIGN_MAX_AGE
        });
        others.any(|(place, state)| state.taken() > 0 || self.waiting_of(Worker(place as u8)) > 0)
    }

    /// Drops dead workers. The caller has been awake since `awake`; before that it could not hear
    /// the others.
    pub fn remove_dead(&mut self, awake: Timestamp, now: Timestamp) {
        for (place, state) in self.workers.iter_mut().enumerate() {
            if state.id != 0 && now.since(state.seen.max(awake)) > WORKER_TIMEOUT + SIGN_MAX_AGE {
                (state.id, state.inside, state.granted) = (0, 0, 0);
                self.queue.retain(|turn| usize::from(turn.worker) != place);
            }
        }
    }

    /// Drops the worker with this number, which knows that it is about to end.
    pub fn resign(&mut self, id: u64) {
        let Some(place) = self.workers.iter().position(|state| state.id == id) else { return };
        if let Some(state) = self.workers.get_mut(place) {
            (state.id, state.inside, state.granted) = (0, 0, 0);
        }
        self.queue.retain(|turn| usize::from(turn.worker) != place);
    }

    /// The numbers of the workers that take part.
    pub fn ids(&self) -> impl Iterator<Item = u64> {
        self.workers.iter().map(|state| state.id).filter(|id| *id != 0)
    }

    /// A request arrives at `worker`, which has [reported](Self::report) what it had before.
    pub fn enter(&mut self, worker: Worker, concurrency: Concurrency) -> Entrance {
        if self.queue.is_empty()
            && self.inside() < concurrency.get()
            && let Some(state) = self.workers.get_mut(usize::from(worker.0))
        {
            state.inside = state.inside.saturating_add(1);
            return Entrance::Inside;
        }
        self.queue.push_back(Turn { worker: worker.0, concurrency });
        Entrance::Waits
    }

    /// A held request of `worker` gives up. `before`: how many held requests of this worker are
    /// before it.
    pub fn give_up(&mut self, worker: Worker, before: usize) {
        let Some(state) = self.workers.get_mut(usize::from(worker.0)) else { return };
        // The first held requests have grants already. If one of them gives up, its grant goes to
        // the next request of this worker, which then leaves the queue.
        let granted = state.granted as usize;
        let nth = before.saturating_sub(granted);
        let mut own = self.queue.iter().enumerate().filter(|(_, turn)| turn.worker == worker.0);
        match own.nth(nth).map(|(place, _)| place) {
            Some(place) => drop(self.queue.remove(place)),
            None => state.granted = state.granted.saturating_sub(1),
        }
    }

    /// Grants a free place to the head of the queue, and returns the worker of that request. None
    /// if no place is free for it.
    pub fn grant(&mut self) -> Option<Worker> {
        let inside = self.inside();
        let turn = *self.queue.front().filter(|turn| inside < turn.concurrency.get())?;
        self.queue.pop_front();
        if let Some(state) = self.workers.get_mut(usize::from(turn.worker)) {
            state.granted = state.granted.saturating_add(1);
        }
        Some(Worker(turn.worker))
    }

    /// The worker lets in the requests that have grants. Returns how many.
    pub fn take(&mut self, worker: Worker) -> u32 {
        let Some(state) = self.workers.get_mut(usize::from(worker.0)) else { return 0 };
        let granted = std::mem::take(&mut state.granted);
        state.inside = state.inside.saturating_add(granted);
        granted
    }
}

#[cfg(test)]
#[path = "limiter_tests.rs"]
mod tests;
