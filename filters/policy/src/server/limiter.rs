//! The concurrency limiter of an application: which requests enter, and which wait.
//!
//! Waiting requests form one queue over all threads, first come, first served. A request that ends
//! passes its place to the head of the queue as a *grant*. The place counts as taken from then on,
//! so a wake-up may be late, but not lost. Each request is subject to its own configuration's
//! `concurrency`: two may be in force while a listener is updated.
//!
//! The threads share the state as bytes under compare-and-swap. Each step starts with a
//! [report](Limiter::report) of what the worker itself has, which corrects the bytes. Reasons:
//! `filters/adr/0004-the-queue-in-shared-data.md`.

use crate::units::{Concurrency, Timestamp};
use std::collections::VecDeque;
use std::time::Duration;

/// A worker that is stopped for this long is not yet dead.
pub const WORKER_TIMEOUT: Duration = Duration::from_secs(2);
/// Maximum age of a running worker's last sign of life: a tick, plus delays of a busy machine.
const SIGN_MAX_AGE: Duration = Duration::from_millis(500);
const MAX_WORKERS: usize = 255;
const WORKER_BYTES: usize = 24;
const TURN_BYTES: usize = 5;

/// A worker's place in the list of workers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Worker(u8);

#[derive(Clone, Debug, PartialEq, Eq)]
struct State {
    /// The worker's number; 0: vacant.
    id: u64,
    seen: Timestamp,
    inside: u32,
    /// Requests that may enter, but have not yet.
    granted: u32,
}

impl State {
    fn taken(&self) -> u32 {
        self.inside.saturating_add(self.granted)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Turn {
    worker: u8,
    /// It may enter while fewer than this many are inside.
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
    /// Reads the shared bytes; invalid bytes give an empty limiter.
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

    /// Replaces the content of `into` with the shared bytes.
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

    /// Requests inside the application, including granted ones.
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

    /// Records a sign of life of worker `id` (not 0); none if there are too many workers.
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

    /// Corrects the shared state: `inside` requests are in, and `held` has the concurrency of each
    /// waiting one. Held requests that the queue lacks go to its end.
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

    /// Whether another worker with places or waiting requests has been silent for too long.
    pub fn somebody_may_be_dead(&self, worker: Worker, now: Timestamp) -> bool {
        let mut others = self.workers.iter().enumerate().filter(|(place, state)| {
            *place != usize::from(worker.0) && state.id != 0 && now.since(state.seen) > SIGN_MAX_AGE
        });
        others.any(|(place, state)| state.taken() > 0 || self.waiting_of(Worker(place as u8)) > 0)
    }

    /// Drops dead workers. The caller may have missed signs of life before `running_since`. A
    /// worker that was only stopped is back with its next step; nobody else enters while too many
    /// are inside.
    pub fn remove_dead(&mut self, running_since: Timestamp, now: Timestamp) {
        for (place, state) in self.workers.iter_mut().enumerate() {
            if state.id != 0 && now.since(state.seen.max(running_since)) > WORKER_TIMEOUT + SIGN_MAX_AGE {
                (state.id, state.inside, state.granted) = (0, 0, 0);
                self.queue.retain(|turn| usize::from(turn.worker) != place);
            }
        }
    }

    /// Drops the worker with this number, which is about to end.
    pub fn resign(&mut self, id: u64) {
        let Some(place) = self.workers.iter().position(|state| state.id == id) else { return };
        if let Some(state) = self.workers.get_mut(place) {
            (state.id, state.inside, state.granted) = (0, 0, 0);
        }
        self.queue.retain(|turn| usize::from(turn.worker) != place);
    }

    /// The numbers of all workers.
    pub fn ids(&self) -> impl Iterator<Item = u64> {
        self.workers.iter().map(|state| state.id).filter(|id| *id != 0)
    }

    /// A request arrives at `worker`, which has just [reported](Self::report).
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

    /// A held request of `worker` gives up; `before` of this worker's held requests precede it.
    pub fn give_up(&mut self, worker: Worker, before: usize) {
        let Some(state) = self.workers.get_mut(usize::from(worker.0)) else { return };
        // The first held requests have grants already. If one of them gives up, its grant goes to
        // this worker's next request, which then leaves the queue.
        let granted = state.granted as usize;
        let nth = before.saturating_sub(granted);
        let mut own = self.queue.iter().enumerate().filter(|(_, turn)| turn.worker == worker.0);
        match own.nth(nth).map(|(place, _)| place) {
            Some(place) => drop(self.queue.remove(place)),
            None => state.granted = state.granted.saturating_sub(1),
        }
    }

    /// Grants a free place to the head of the queue. Returns its worker; none if it may not enter.
    pub fn grant(&mut self) -> Option<Worker> {
        let inside = self.inside();
        let turn = *self.queue.front().filter(|turn| inside < turn.concurrency.get())?;
        self.queue.pop_front();
        if let Some(state) = self.workers.get_mut(usize::from(turn.worker)) {
            state.granted = state.granted.saturating_add(1);
        }
        Some(Worker(turn.worker))
    }

    /// Takes all grants of `worker`, which lets in that many requests.
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
