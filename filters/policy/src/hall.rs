//! The hall in front of an application: who is inside, who waits, and whose turn it is.
//!
//! An application works on `concurrency` requests at once; further ones wait in the sidecar, in one line over all of its threads, so that the line is
//! FIFO as a whole and hence fair across threads. A place is never free while somebody waits: whoever leaves passes the place on to the
//! head of the line, as a *grant* to that request's worker. The place counts as taken from the moment of the grant, so no wake-up can be lost, only be late.
//!
//! The state is shared by the threads as a few bytes under compare-and-swap: each worker's number, count and sign of life, then the line, a byte for each
//! waiting request. A worker that gave no sign of life for [`LIFE`] is dead: its requests, inside or waiting, are dropped, so a crash cannot keep places for ever.
//!
//! Cost: copying the bytes, 21 for each worker and one for each waiting request. Not in the paper, whose queue proxy is a single process.

use crate::units::{Concurrency, Timestamp};
use std::collections::VecDeque;
use std::time::Duration;

/// A worker without a sign of life for this long is dead. Workers give one every quarter of a second.
pub const LIFE: Duration = Duration::from_secs(2);
/// More threads than this do not take part.
const MAX_WORKERS: usize = 255;
const WORKER_BYTES: usize = 21;

/// A worker's place in the hall's list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Worker(u8);

#[derive(Clone, Debug, PartialEq, Eq)]
struct State {
    /// The worker's own number; 0: nobody.
    id: u64,
    inside: u32,
    seen: Timestamp,
    /// Reserved for a layout change: bytes of another version are not read.
    version: u8,
}

const VERSION: u8 = 1;

/// What becomes of a request that comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entrance {
    /// There is a place.
    Inside,
    /// It stands in the line.
    Waits,
}

/// The hall.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Hall {
    workers: Vec<State>,
    line: VecDeque<u8>,
}

impl Hall {
    /// Reads the shared bytes; an empty hall if they are not what [`encode`](Self::encode) writes.
    pub fn decode(bytes: &[u8]) -> Self {
        let parse = || {
            let (&count, rest) = bytes.split_first()?;
            let (states, line) = rest.split_at_checked(usize::from(count) * WORKER_BYTES)?;
            let mut workers = Vec::with_capacity(usize::from(count));
            for state in states.chunks_exact(WORKER_BYTES) {
                workers.push(State {
                    id: u64::from_le_bytes(state.get(..8)?.try_into().ok()?),
                    seen: Timestamp::from_nanos(u64::from_le_bytes(state.get(8..16)?.try_into().ok()?)),
                    inside: u32::from_le_bytes(state.get(16..20)?.try_into().ok()?),
                    version: *state.last().filter(|version| **version == VERSION)?,
                });
            }
            let known = line.iter().all(|&worker| worker < count);
            known.then(|| Self { workers, line: line.iter().copied().collect() })
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
            into.push(state.version);
        }
        into.extend(&self.line);
    }

    /// Requests that the application works on, granted ones included.
    pub fn inside(&self) -> u32 {
        self.workers.iter().map(|state| state.inside).sum()
    }

    /// Requests of one worker that the application works on, granted ones included.
    pub fn inside_of(&self, worker: Worker) -> u32 {
        self.workers.get(usize::from(worker.0)).map_or(0, |state| state.inside)
    }

    /// Requests in the line.
    pub fn waiting(&self) -> usize {
        self.line.len()
    }

    /// Requests of one worker in the line; it may have more waiting: those whose grant is on its way.
    pub fn waiting_of(&self, worker: Worker) -> usize {
        self.line.iter().filter(|&&other| other == worker.0).count()
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
            None => self.workers.push(State { id, inside: 0, seen: now, version: VERSION }),
        }
        Some(Worker(place as u8))
    }

    /// The number under which a worker joined.
    pub fn id(&self, worker: Worker) -> Option<u64> {
        self.workers.get(usize::from(worker.0)).map(|state| state.id).filter(|id| *id != 0)
    }

    /// Drops the dead.
    pub fn bury(&mut self, now: Timestamp) {
        for (place, state) in self.workers.iter_mut().enumerate() {
            if state.id != 0 && now.since(state.seen) > LIFE {
                (state.id, state.inside) = (0, 0);
                self.line.retain(|&worker| usize::from(worker) != place);
            }
        }
    }

    /// Drops the worker with this number, which knows that it is about to end.
    pub fn resign(&mut self, id: u64) {
        let Some(place) = self.workers.iter().position(|state| state.id == id) else { return };
        if let Some(state) = self.workers.get_mut(place) {
            (state.id, state.inside) = (0, 0);
        }
        self.line.retain(|&worker| usize::from(worker) != place);
    }

    /// The numbers of the workers that take part.
    pub fn ids(&self) -> impl Iterator<Item = u64> {
        self.workers.iter().map(|state| state.id).filter(|id| *id != 0)
    }

    /// A request has come to `worker`.
    pub fn enter(&mut self, worker: Worker, concurrency: Concurrency) -> Entrance {
        if self.line.is_empty() && self.inside() < concurrency.get() {
            self.take(worker);
            Entrance::Inside
        } else {
            self.line.push_back(worker.0);
            Entrance::Waits
        }
    }

    /// A request of `worker` that was inside is over.
    pub fn leave(&mut self, worker: Worker) {
        if let Some(state) = self.workers.get_mut(usize::from(worker.0)) {
            state.inside = state.inside.saturating_sub(1);
        }
    }

    /// A waiting request of `worker` gives up: the one before which `before` of its own requests wait. `own` are all of its waiting requests, this one included,
    /// whether they stand in the line or their grant is on its way.
    pub fn give_up(&mut self, worker: Worker, before: usize, own: usize) {
        // The first ones have been granted already; the grant of one that gives up goes to the next one of this worker, which then leaves the line.
        let granted = own.saturating_sub(self.waiting_of(worker));
        let nth = before.saturating_sub(granted);
        let place =
            self.line.iter().enumerate().filter(|(_, other)| **other == worker.0).map(|(place, _)| place).nth(nth);
        if let Some(place) = place {
            self.line.remove(place);
        }
    }

    /// Gives the next free place to the head of the line; the worker whose first waiting request it is.
    pub fn grant(&mut self, concurrency: Concurrency) -> Option<Worker> {
        if self.inside() >= concurrency.get() {
            return None;
        }
        let worker = Worker(self.line.pop_front()?);
        self.take(worker);
        Some(worker)
    }

    fn take(&mut self, worker: Worker) {
        if let Some(state) = self.workers.get_mut(usize::from(worker.0)) {
            state.inside = state.inside.saturating_add(1);
        }
    }
}

#[cfg(test)]
#[path = "hall_tests.rs"]
mod tests;
