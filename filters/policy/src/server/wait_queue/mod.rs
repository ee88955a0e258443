//! The queue in front of an application, as one thread sees it: the requests that it holds, and how
//! many it has let in. The [`Limiter`], whose bytes all threads share, says which one enters next.
//!
//! Every step is a read, a decision and a compare-and-swap. A thread that is granted a place is
//! told by a message. The message is only a hint: a thread reads from the limiter what it may let
//! in, so a message that is late, doubled or lost does no harm, and each tick
//! [looks](WaitQueue::look) again.
//!
//! Each request is held until a time that is fixed when it comes. Then the next look lets it in if
//! it has a place by then, and else gives it up, whatever the shared data says. So it waits no
//! longer than that, one tick, and as long as its own thread stands still.

use crate::proxy::awake::Awake;
use crate::proxy::shared::Shared;
use crate::server::limiter::{Entrance, Limiter, Worker};
use crate::units::{Concurrency, Timestamp};
use std::collections::VecDeque;

/// How often a step is tried when other threads write in between. Each failure means that another
/// thread has made progress.
const TRIES: usize = 1000;

fn key(service: &str) -> String {
    // Bytes of another layout need another key: two versions of the module may be loaded. The name
    // is that of the first version.
    format!("bloc/hall3/{service}")
}

/// Removes the VM with this number from the limiter of a service. Returns the other VMs, which must
/// be woken: they may have free places now.
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
    /// The concurrency of its configuration; none: it need not be held any more.
    concurrency: Option<Concurrency>,
    request: T,
}

impl<T> Held<T> {
    /// Whether it leaves with the next look, wherever it is in the queue.
    fn leaves(&self, now: Timestamp) -> bool {
        self.until <= now || self.concurrency.is_none()
    }

    fn limit(&self) -> Concurrency {
        self.concurrency.unwrap_or(Concurrency::new(u32::MAX))
    }
}

/// The queue of one service, as one thread sees it.
pub struct WaitQueue<T> {
    key: String,
    vm: u64,
    held: VecDeque<Held<T>>,
    inside: u32,
    awake: Awake,
    /// Whether another thread has a place or a waiting request, and is silent.
    doubts: bool,
    bytes: Vec<u8>,
}

/// What to do after a step.
#[must_use]
pub struct Turns<T> {
    /// Requests to let in.
    pub in_turn: Vec<T>,
    /// Requests that have waited too long.
    pub late: Vec<T>,
    /// VMs to wake, so that they look.
    pub wake: Vec<u64>,
}

impl<T> Default for Turns<T> {
    fn default() -> Self {
        Self { in_turn: Vec::new(), late: Vec::new(), wake: Vec::new() }
    }
}

impl<T> WaitQueue<T> {
    /// The queue of a service, as the VM with this number (not 0) sees it.
    pub fn new(service: &str, vm: u64) -> Self {
        Self {
            key: key(service),
            vm,
            held: VecDeque::new(),
            inside: 0,
            awake: Awake::default(),
            doubts: false,
            bytes: Vec::new(),
        }
    }

    /// Takes a step in the limiter, after a report of what this thread has; none if that fails (the
    /// host has no shared data, or too many threads take part or write in between).
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

    /// A request arrives. Returns whether there is a place for it at once. If not, it must be
    /// [held](Self::hold) next. If the limiter cannot be reached, the request is let in
    /// (fail-open).
    pub fn arrive(&mut self, shared: &impl Shared, concurrency: Concurrency, now: Timestamp) -> bool {
        self.awake.look(now);
        let entrance = self.step(shared, now, |limiter, worker| limiter.enter(worker, concurrency));
        let inside = entrance.unwrap_or(Entrance::Inside) == Entrance::Inside;
        self.inside += u32::from(inside);
        inside
    }

    /// Lets in a request for which there may be no place. No other request enters until fewer are
    /// inside than there are places.
    pub fn enter_over_limit(&mut self, shared: &impl Shared, now: Timestamp) -> Turns<T> {
        self.inside += 1;
        self.pass_on(shared, &[], now)
    }

    /// Holds a request for which there was no place, until `until` at the latest.
    pub fn hold(&mut self, request: T, concurrency: Concurrency, until: Timestamp) {
        self.held.push_back(Held { until, concurrency: Some(concurrency), request });
    }

    /// The configurations have changed: `concurrency` is what each held request has now. None: it
    /// is held no longer, and the next look lets it in.
    pub fn configure(&mut self, concurrency: impl Fn(&T) -> Option<Concurrency>) {
        for held in &mut self.held {
            held.concurrency = concurrency(&held.request);
        }
    }

    /// These of the requests that are held until `until` at the latest are held no longer, and the
    /// next look lets them in. Returns whether there are any.
    pub fn release(&mut self, until: Timestamp, which: impl Fn(&T) -> bool) -> bool {
        let mut any = false;
        for held in self.held.iter_mut().filter(|held| held.until <= until && which(&held.request)) {
            held.concurrency = None;
            any = true;
        }
        any
    }

    /// A request that was inside is over. Its place is passed on.
    pub fn leave(&mut self, shared: &impl Shared, now: Timestamp) -> Turns<T> {
        self.inside = self.inside.saturating_sub(1);
        self.pass_on(shared, &[], now)
    }

    /// A held request is gone.
    pub fn cancel(&mut self, shared: &impl Shared, now: Timestamp, is: impl Fn(&T) -> bool) -> Turns<T> {
        let Some(gone) = self.held.iter().position(|held| is(&held.request)) else { return Turns::default() };
        if let Some(held) = self.held.get_mut(gone) {
            // It must not be let in any more.
            held.concurrency.get_or_insert_default();
        }
        let mut turns = self.pass_on(shared, &[gone], now);
        turns.late.clear();
        turns
    }

    /// Takes what has been granted to this thread, gives a sign of life, and finds the requests
    /// that have waited too long. One of these that has a place by now enters: without the message,
    /// the thread would not know of it, and the place would go to one that came later.
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

    /// Grants free places in the order of the queue, after the requests at these places in `held`
    /// have left.
    fn pass_on(&mut self, shared: &impl Shared, leaving: &[usize], now: Timestamp) -> Turns<T> {
        let awake = self.awake.look(now);
        let passed = self.step(shared, now, |limiter, worker| {
            for place in leaving.iter().rev() {
                limiter.give_up(worker, *place);
            }
            limiter.remove_dead(awake, now);
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
                // It enters even if no place is free: no places are kept any more.
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

    /// Whether this thread has no request waiting or inside.
    pub fn is_idle(&self) -> bool {
        self.held.is_empty() && self.inside == 0
    }

    /// Whether to look a few times a second: while a request of this thread waits or is inside, and
    /// while another thread may be dead, which only a thread that looks that often can tell.
    pub fn needs_looks(&self) -> bool {
        !self.is_idle() || self.doubts
    }

    /// When the next held request will have waited too long, if there is one.
    pub fn next_late(&self) -> Option<Timestamp> {
        self.held.iter().map(|held| held.until).min()
    }
}

#[cfg(test)]
mod tests;
