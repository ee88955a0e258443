//! The line in front of an application: holds requests (Proxy-Wasm pause) and lets them go (resume)
//! when it is their turn. Whose turn it is, and how long each may wait, [`bloc_policy::line`]
//! decides.

use crate::host::{self, Data};
use crate::message::Message;
use crate::will;
use bloc_policy::line;
use bloc_policy::units::{Concurrency, Timestamp};
use std::rc::{Rc, Weak};
use std::time::Duration;

/// Who has waited too long is found within this time.
const TICK_WHEN_ONE_IS_LATE_SOON: Duration = Duration::from_millis(50);
/// A sign of life for the hall several times within [`bloc_policy::hall::LIFE`].
const TICK_WHILE_INSIDE: Duration = Duration::from_millis(250);
/// One that is late within this time is found by a quick tick.
const SOON: Duration = Duration::from_millis(300);

/// A request that waits.
pub trait Waits {
    /// It is its turn.
    fn enter(&self, now: Timestamp);
    /// It has waited too long.
    fn give_up(&self);
}

struct Held {
    context: u32,
    request: Weak<dyn Waits>,
}

/// Takes the VM with this number out of the hall of a service, and tells the others that there may
/// be free places.
pub fn resign(service: &str, vm: u64) {
    for other in line::resign(&Data, service, vm) {
        host::wake(other, &Message::Turn(service).encode());
    }
}

/// One thread's part of the line of one service.
pub struct Line {
    service: String,
    line: line::Line<Held>,
}

impl Line {
    /// The line of a service, as the VM with this number sees it.
    pub fn new(service: &str, vm: u64) -> Self {
        Self { service: service.to_owned(), line: line::Line::new(service, vm) }
    }

    /// A request has come: whether there is a place for it at once. If not, it is to be held next.
    pub fn come(&mut self, concurrency: Concurrency, now: Timestamp) -> bool {
        self.line.come(&Data, concurrency, now)
    }

    /// Holds the request of the current context, for which there was no place, until then at the
    /// latest.
    pub fn hold(&mut self, context: u32, request: &Rc<dyn Waits>, until: Timestamp) {
        will::answer(context);
        self.line.hold(Held { context, request: Rc::downgrade(request) }, until);
    }

    /// A request that was inside is over: its place is passed on.
    pub fn leave(&mut self, concurrency: Option<Concurrency>, now: Timestamp) -> Turns {
        let turns = self.line.leave(&Data, concurrency, now);
        self.announced(turns)
    }

    /// Looks what has been granted to this thread, gives a sign of life, and finds those that have
    /// waited too long.
    pub fn look(&mut self, concurrency: Option<Concurrency>, now: Timestamp) -> Turns {
        let turns = self.line.look(&Data, concurrency, now);
        self.announced(turns)
    }

    /// The request of this context, which waited, is gone.
    pub fn gone(&mut self, context: u32, concurrency: Option<Concurrency>, now: Timestamp) -> Turns {
        will::need_not_answer(context);
        let turns = self.line.gone(&Data, concurrency, now, |held| held.context == context);
        self.announced(turns)
    }

    /// Whether nothing of this thread waits or is inside.
    pub fn is_idle(&self) -> bool {
        self.line.is_idle()
    }

    /// How often it needs a tick, if it does.
    pub fn tick_period(&self, now: Timestamp) -> Option<Duration> {
        match self.line.next_late() {
            Some(late) if late <= now.after(SOON) => Some(TICK_WHEN_ONE_IS_LATE_SOON),
            None if !self.line.needs_looks() => None,
            _ => Some(TICK_WHILE_INSIDE),
        }
    }

    fn announced(&self, turns: line::Turns<Held>) -> Turns {
        for vm in &turns.wake {
            host::wake(*vm, &Message::Turn(&self.service).encode());
        }
        Turns(turns)
    }
}

/// What is to be done once the line is no longer borrowed.
#[derive(Default)]
#[must_use]
pub struct Turns(line::Turns<Held>);

impl Turns {
    /// How many may go.
    pub fn in_turn(&self) -> usize {
        self.0.in_turn.len()
    }

    /// Lets go whose turn it is, and answers who has waited too long.
    pub fn take(self, now: Timestamp) {
        for Held { context, request } in self.0.in_turn {
            will::need_not_answer(context);
            if let Some(request) = request.upgrade() {
                request.enter(now);
                host::resume_request(context);
            }
        }
        for Held { context, request } in self.0.late {
            will::need_not_answer(context);
            if let Some(request) = request.upgrade() {
                host::in_context(context, || request.give_up());
            }
        }
    }
}
