//! One thread's view of the queue in front of an application: the requests it holds and lets in.
//! The [`Limiter`], shared by all threads, decides who enters next.
//!
//! Each step is a read, a decision and a compare-and-swap. The message that wakes a thread with a
//! grant is only a hint: every [look](WaitQueue::look) reads the grants from the limiter.
//!
//! Each request is held until a time that is fixed on arrival. The next look then lets it in if it
//! has a grant, or rejects it. Reasons: `filters/adr/0004-the-queue-in-shared-data.md`.

use crate::proxy::shared::Shared;
use crate::proxy::stall::StallDetector;
use crate::server::limiter::{Entrance, Limiter, Worker};
use crate::units::{Concurrency, Timestamp};
use std::collections::VecDeque;

/// Attempts at a step. Each failure means that another thread has made progress.
const TRIES: usize = 1000;

fn key(service: &str) -> String {
    // Two versions of the module may be loaded, so each layout of the bytes has its own key.
    format!("bloc/hall3/{service}")
}

/// Removes a VM from a service's limiter. Returns the VMs to wake: they may have grants now.
pub fn resign(shared: &impl Shared, service: &str, vm: u64) -> Vec<u64> {
    let (key, mut new) = (key(service), Vec::new());
    for _ in 0..TRIES {
        let (Some(bytes), cas) = shared.get(&key) else { return Vec::new() };
        let mut limiter = Limiter::decode(&bytes);
        limiter.resign(vm);
        limiter.encode(&mut new);
        if shared.set(&key, &new, cas) {
            return limiter.ids().collect();
        }
    }
    Vec::new()
}

struct Held<T> {
    until: Timestamp,
    /// The concurrency of its configuration; none: the next look lets it in.
    concurrency: Option<Concurrency>,
    request: T,
}

impl<T> Held<T> {
    fn leaves(&self, now: Timestamp) -> bool {
        self.until <= now || self.concurrency.is_none()
    }

    fn limit(&self) -> Concurrency {
        self.concurrency.unwrap_or(Concurrency::new(u32::MAX))
    }
}

/// One thread's view of the queue of one service.
pub struct WaitQueue<T> {
    key: String,
    vm: u64,
    held: VecDeque<Held<T>>,
    inside: u32,
    stalls: StallDetector,
    /// Whether another thread with places or waiting requests is silent.
    doubts: bool,
    bytes: Vec<u8>,
}

/// What to do after a step.
#[must_use]
pub struct Turns<T> {
    /// Requests to let in.
    pub in_turn: Vec<T>,
    /// Requests to reject, because they have waited too long.
    pub late: Vec<T>,
    /// VMs to wake; they must look.
    pub wake: Vec<u64>,
}

impl<T> Default for Turns<T> {
    fn default() -> Self {
        Self { in_turn: Vec::new(), late: Vec::new(), wake: Vec::new() }
    }
}

impl<T> WaitQueue<T> {
    /// The queue of a service, as seen by the VM with this number (not 0).
    pub fn new(service: &str, vm: u64) -> Self {
        Self {
            key: key(service),
            vm,
            held: VecDeque::new(),
            inside: 0,
            stalls: StallDetector::default(),
            doubts: false,
            bytes: Vec::new(),
        }
    }

    /// Takes a step in the limiter after reporting this thread's requests. None on failure: no
    /// shared data, too many threads, or too many concurrent writes.
    fn step<R>(&mut self, shared: &impl Shared, now: Timestamp, step: impl Fn(&mut Limiter, Worker) -> R) -> Option<R> {
        for _ in 0..TRIES {
            let (bytes, cas) = shared.get(&self.key);
            let mut limiter = bytes.map_or_else(Limiter::default, |bytes| Limiter::decode(&bytes));
            let worker = limiter.join(self.vm, now)?;
            limiter.report(worker, self.inside, self.held.iter().map(Held::limit));
            let result = step(&mut limiter, worker);
            limiter.encode(&mut self.bytes);
            if shared.set(&self.key, &self.bytes, cas) {
                return Some(result);
            }
        }
        None
    }

    /// A request arrives. Returns whether it has a place at once; if not, [hold](Self::hold) it
    /// next. If the limiter cannot be reached, the request enters (fail-open).
    pub fn arrive(&mut self, shared: &impl Shared, concurrency: Concurrency, now: Timestamp) -> bool {
        self.stalls.look(now);
        let entrance = self.step(shared, now, |limiter, worker| limiter.enter(worker, concurrency));
        let inside = entrance.unwrap_or(Entrance::Inside) == Entrance::Inside;
        self.inside += u32::from(inside);
        inside
    }

    /// Lets in a request even without a free place. Nobody else enters until a place is free again.
    pub fn enter_over_limit(&mut self, shared: &impl Shared, now: Timestamp) -> Turns<T> {
        self.inside += 1;
        self.pass_on(shared, &[], now)
    }

    /// Holds a request without a place, until `until` at the latest.
    pub fn hold(&mut self, request: T, concurrency: Concurrency, until: Timestamp) {
        self.held.push_back(Held { until, concurrency: Some(concurrency), request });
    }

    /// Updates the `concurrency` of each held request. None: the next look lets it in.
    pub fn configure(&mut self, concurrency: impl Fn(&T) -> Option<Concurrency>) {
        for held in &mut self.held {
            held.concurrency = concurrency(&held.request);
        }
    }

    /// Marks requests to be let in at the next look, among those held until `until` at the latest.
    /// Returns whether there were any.
    pub fn release(&mut self, until: Timestamp, which: impl Fn(&T) -> bool) -> bool {
        let mut any = false;
        for held in self.held.iter_mut().filter(|held| held.until <= until && which(&held.request)) {
            held.concurrency = None;
            any = true;
        }
        any
    }

    /// A request inside has ended and passes its place on.
    pub fn leave(&mut self, shared: &impl Shared, now: Timestamp) -> Turns<T> {
        self.inside = self.inside.saturating_sub(1);
        self.pass_on(shared, &[], now)
    }

    /// A held request has gone away.
    pub fn cancel(&mut self, shared: &impl Shared, now: Timestamp, is: impl Fn(&T) -> bool) -> Turns<T> {
        let Some(gone) = self.held.iter().position(|held| is(&held.request)) else { return Turns::default() };
        if let Some(held) = self.held.get_mut(gone) {
            // A request that is gone must not be let in.
            held.concurrency.get_or_insert_default();
        }
        let mut turns = self.pass_on(shared, &[gone], now);
        turns.late.clear();
        turns
    }

    /// Gives a sign of life, lets in what has a grant, and finds the requests that have waited too
    /// long. Such a request enters if it has a place by now, even if the message was lost.
    pub fn look(&mut self, shared: &impl Shared, now: Timestamp) -> Turns<T> {
        let mut turns = self.pass_on(shared, &[], now);
        let leaves = |(place, held): (usize, &Held<T>)| held.leaves(now).then_some(place);
        let leaving: Vec<usize> = self.held.iter().enumerate().filter_map(leaves).collect();
        if !leaving.is_empty() {
            let more = self.pass_on(shared, &leaving, now);
            turns.in_turn.extend(more.in_turn);
            turns.late = more.late;
            turns.wake.extend(more.wake);
        }
        turns
    }

    /// Grants free places in queue order, after the requests at the indices `leaving` have left.
    fn pass_on(&mut self, shared: &impl Shared, leaving: &[usize], now: Timestamp) -> Turns<T> {
        let running_since = self.stalls.look(now);
        let passed = self.step(shared, now, |limiter, worker| {
            for place in leaving.iter().rev() {
                limiter.give_up(worker, *place);
            }
            limiter.remove_dead(running_since, now);
            let mut others = Vec::new();
            while let Some(granted) = limiter.grant() {
                if granted != worker {
                    others.extend(limiter.id(granted));
                }
            }
            ((others, limiter.take(worker)), limiter.somebody_may_be_dead(worker, now))
        });
        let mut turns = Turns::default();
        for place in leaving.iter().rev() {
            let Some(held) = self.held.remove(*place) else { continue };
            match held.concurrency {
                Some(_) => turns.late.push(held.request),
                // It enters even if no place is free: its configuration no longer limits places.
                None => {
                    self.inside += 1;
                    turns.in_turn.push(held.request);
                }
            }
        }
        turns.late.reverse();
        turns.in_turn.reverse();
        let ((wake, granted), doubts) = passed.unwrap_or_default();
        self.doubts = doubts;
        turns.wake = wake;
        for _ in 0..granted {
            let Some(held) = self.held.pop_front() else { break };
            self.inside += 1;
            turns.in_turn.push(held.request);
        }
        turns
    }

    /// Whether this thread has no request, waiting or inside.
    pub fn is_idle(&self) -> bool {
        self.held.is_empty() && self.inside == 0
    }

    /// Whether to look a few times a second: while this thread has requests, and while another
    /// thread may be dead, since only a thread that looks this often can tell.
    pub fn needs_looks(&self) -> bool {
        !self.is_idle() || self.doubts
    }

    /// When the next held request has waited too long, if there is one.
    pub fn next_late(&self) -> Option<Timestamp> {
        self.held.iter().map(|held| held.until).min()
    }
}

#[cfg(test)]
mod tests;
