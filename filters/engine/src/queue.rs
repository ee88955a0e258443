//! The queue in front of an application: holds requests (pause) and lets them go (resume) when it
//! is their turn. Whose turn it is, and how long each may wait, [`bloc_policy::line`] decides.

use crate::crash_recovery::{CrashRecovery, Step};
use crate::held::Held;
use crate::host::{Host, Stream};
use crate::message::Message;
use crate::parameters::PluginId;
use bloc_policy::line;
use bloc_policy::units::{Concurrency, Timestamp};
use std::rc::{Rc, Weak};
use std::time::Duration;

/// Who has waited too long is found within this time.
const TICK_WHEN_ONE_IS_LATE_SOON: Duration = Duration::from_millis(50);
/// A sign of life for the limiter several times within [`bloc_policy::hall::LIFE`].
const TICK_WHILE_INSIDE: Duration = Duration::from_millis(250);
/// One that is late within this time is found by a quick tick.
const SOON: Duration = Duration::from_millis(300);

/// A request that waits.
pub trait Waits {
    /// It is its turn.
    fn enter(&self, now: Timestamp);
    /// It has waited too long; called in its own context.
    fn give_up(&self);
}

struct Waiting<H: Host> {
    plugin: PluginId,
    held: Held<H::Stream>,
    request: Weak<dyn Waits>,
}

/// One thread's part of the queue of one service.
pub struct Queue<H: Host> {
    host: H,
    service: Rc<str>,
    line: line::Line<Waiting<H>>,
}

impl<H: Host> Queue<H> {
    /// The queue of a service, as the VM with this number sees it.
    pub fn new(host: &H, service: &str, vm: u64, recovery: &CrashRecovery) -> Self {
        let queue = Self { host: host.clone(), service: service.into(), line: line::Line::new(service, vm) };
        let (host, service) = (host.clone(), Rc::clone(&queue.service));
        recovery.register(Step::Resign, move || {
            // The others are told that there may be free places.
            for other in line::resign(&host, &service, vm) {
                host.wake(other, &Message::Turn(&service).encode());
            }
        });
        queue
    }

    /// A request has come: whether there is a place for it at once. If not, it is to be held next.
    pub fn come(&mut self, concurrency: Concurrency, now: Timestamp) -> bool {
        self.line.come(&self.host, concurrency, now)
    }

    /// Holds a request of this configuration, for which there was no place among so many, until
    /// then at the latest.
    pub fn hold(
        &mut self,
        plugin: PluginId,
        held: Held<H::Stream>,
        request: &Rc<dyn Waits>,
        concurrency: Concurrency,
        until: Timestamp,
    ) {
        let waiting = Waiting { plugin, held, request: Rc::downgrade(request) };
        self.line.hold(waiting, concurrency, until);
    }

    /// What the configurations say now: how many requests the application may have at once; none:
    /// nobody is held.
    pub fn configure(&mut self, places: impl Fn(PluginId) -> Option<Concurrency>) {
        self.line.configure(|waiting| places(waiting.plugin));
    }

    /// A request that was inside is over: its place is passed on.
    pub fn leave(&mut self, now: Timestamp) -> Turns<H> {
        let turns = self.line.leave(&self.host, now);
        self.announced(turns)
    }

    /// Looks what has been granted to this thread, gives a sign of life, and finds those that have
    /// waited too long.
    pub fn look(&mut self, now: Timestamp) -> Turns<H> {
        let turns = self.line.look(&self.host, now);
        self.announced(turns)
    }

    /// This request, which waited, is gone.
    pub fn gone(&mut self, stream: &H::Stream, now: Timestamp) -> Turns<H> {
        let turns = self.line.gone(&self.host, now, |waiting| waiting.held.stream() == stream);
        self.announced(turns)
    }

    /// Whether it is to be looked at: something of this thread waits or is inside, or another thread
    /// may be dead.
    pub fn needs_looks(&self) -> bool {
        self.line.needs_looks()
    }

    /// How often it needs a tick, if it does.
    pub fn tick_period(&self, now: Timestamp) -> Option<Duration> {
        match self.line.next_late() {
            Some(late) if late <= now.after(SOON) => Some(TICK_WHEN_ONE_IS_LATE_SOON),
            None if !self.line.needs_looks() => None,
            _ => Some(TICK_WHILE_INSIDE),
        }
    }

    fn announced(&self, turns: line::Turns<Waiting<H>>) -> Turns<H> {
        for vm in &turns.wake {
            self.host.wake(*vm, &Message::Turn(&self.service).encode());
        }
        Turns(turns)
    }
}

/// What is to be done once the queue is no longer borrowed.
#[must_use]
pub struct Turns<H: Host>(line::Turns<Waiting<H>>);

impl<H: Host> Default for Turns<H> {
    fn default() -> Self {
        Self(line::Turns::default())
    }
}

impl<H: Host> Turns<H> {
    /// How many may go.
    pub fn in_turn(&self) -> usize {
        self.0.in_turn.len()
    }

    /// Lets go whose turn it is, and answers who has waited too long.
    pub fn take(self, now: Timestamp) {
        for Waiting { held, request, .. } in self.0.in_turn {
            let stream = held.stream().clone();
            drop(held);
            if let Some(request) = request.upgrade() {
                request.enter(now);
                stream.resume();
            }
        }
        for Waiting { held, request, .. } in self.0.late {
            let stream = held.stream().clone();
            drop(held);
            if let Some(request) = request.upgrade() {
                stream.in_own_context(|| request.give_up());
            }
        }
    }
}
