//! The queue in front of an application: holds requests (pause) and lets them go (resume) when it
//! is their turn. [`bloc_policy::server::wait_queue`] decides whose turn it is, and how long each
//! may wait.

use crate::crash_recovery::{CrashRecovery, Step};
use crate::held::Held;
use crate::host::{Host, Stream};
use crate::message::Message;
use crate::parameters::PluginId;
use bloc_policy::server::wait_queue::{self, WaitQueue};
use bloc_policy::units::{Concurrency, Timestamp};
use std::rc::{Rc, Weak};
use std::time::Duration;

/// A request that has waited too long is found within this time.
const TICK_WHEN_ONE_IS_LATE_SOON: Duration = Duration::from_millis(50);
/// A sign of life for the limiter several times within
/// [`bloc_policy::server::limiter::WORKER_TIMEOUT`].
const TICK_WHILE_INSIDE: Duration = Duration::from_millis(250);
/// The rest of a body that has not come at once takes a round trip on the network, or a few.
const TICK_WHILE_READING: Duration = Duration::from_millis(1);
/// How many times per second, at most, a thread asks whether a body has come.
const ASKS_PER_SECOND: u32 = 20_000;
/// How long a rejected request may take to send the rest of its body.
const UNTIL_READ: Duration = Duration::from_secs(1);
/// No request is held for longer.
const LAST: Timestamp = Timestamp::from_nanos(u64::MAX);
/// Quick ticks begin when a request's wait ends within this time.
const SOON: Duration = Duration::from_millis(300);

/// A request that waits.
pub trait Waits {
    /// It is its turn.
    fn enter(&self, now: Timestamp);
    /// Whether its body may turn out to be too large to be held.
    fn may_grow(&self) -> bool;
    /// Whether its body is too large; called in its own context.
    fn has_grown(&self) -> bool;
    /// Whether its body has come; called in its own context.
    fn has_come(&self) -> bool;
    /// It has waited too long; called in its own context.
    fn give_up(self: Rc<Self>);
}

struct Waiting<H: Host> {
    plugin: PluginId,
    held: Held<H::Stream>,
    request: Weak<dyn Waits>,
}

impl<H: Host> Waiting<H> {
    /// Asks a request in its own context.
    fn ask(&self, what: impl Fn(&dyn Waits) -> bool) -> bool {
        let Some(request) = self.request.upgrade() else { return true };
        let mut answer = false;
        self.held.stream().in_own_context(|| answer = what(&*request));
        answer
    }

    fn has_come(&self) -> bool {
        self.ask(|request| request.has_come())
    }

    fn has_grown(&self) -> bool {
        self.request.upgrade().is_some_and(|request| request.may_grow()) && self.ask(|request| request.has_grown())
    }
}

/// One thread's part of the queue of one service.
pub struct Queue<H: Host> {
    host: H,
    vm: u64,
    service: Rc<str>,
    wait_queue: WaitQueue<Waiting<H>>,
    /// Rejected requests, which are answered when their bodies have come, or at a fixed time. They
    /// have no place in the queue.
    unread: Vec<Unread<H>>,
    /// When all of `unread` were last asked.
    asked: Timestamp,
    /// When the held requests were last asked for their sizes.
    sized: Timestamp,
    /// Whether this thread's message to itself is under way.
    told: bool,
}

/// A request that was rejected and whose body is on its way.
struct Unread<H: Host> {
    until: Timestamp,
    waiting: Waiting<H>,
    /// Not asked yet.
    is_new: bool,
}

impl<H: Host> Queue<H> {
    /// The queue of a service, as the VM with this number sees it.
    pub fn new(host: &H, service: &str, vm: u64, recovery: &CrashRecovery) -> Self {
        let (wait_queue, unread, asked) = (WaitQueue::new(service, vm), Vec::new(), Timestamp::ZERO);
        let queue = Self {
            host: host.clone(),
            vm,
            service: service.into(),
            wait_queue,
            unread,
            asked,
            sized: asked,
            told: false,
        };
        let (host, service) = (host.clone(), Rc::clone(&queue.service));
        recovery.register(Step::Resign, move || {
            // The others are told that there may be free places.
            for other in wait_queue::resign(&host, &service, vm) {
                host.wake(other, &Message::Turn(&service).encode());
            }
        });
        queue
    }

    /// A request has come. Returns whether there is a place for it at once; if not, it must be
    /// [held](Self::hold) next.
    pub fn arrive(&mut self, concurrency: Concurrency, now: Timestamp) -> bool {
        self.wait_queue.arrive(&self.host, concurrency, now)
    }

    /// Holds a request of this configuration, which found no place among `concurrency`, until
    /// `until` at the latest.
    pub fn hold(
        &mut self,
        plugin: PluginId,
        held: Held<H::Stream>,
        request: &Rc<dyn Waits>,
        concurrency: Concurrency,
        until: Timestamp,
    ) {
        let waiting = Waiting { plugin, held, request: Rc::downgrade(request) };
        self.wait_queue.hold(waiting, concurrency, until);
    }

    /// Lets a request in, whether there is a place for it or not: it counts as inside.
    pub fn enter_over_limit(&mut self, now: Timestamp) -> Turns<H> {
        let turns = self.wait_queue.enter_over_limit(&self.host, now);
        self.announced(turns)
    }

    /// A rejected request waits for the rest of its body, for at most a second, and then [gives
    /// up](Waits::give_up). The body has mostly come when this thread reads its messages.
    pub fn read(&mut self, plugin: PluginId, held: Held<H::Stream>, request: &Rc<dyn Waits>, now: Timestamp) {
        let waiting = Waiting { plugin, held, request: Rc::downgrade(request) };
        self.unread.push(Unread { until: now.after(UNTIL_READ), waiting, is_new: true });
        if !std::mem::replace(&mut self.told, true) {
            self.host.wake(self.vm, &Message::Turn(&self.service).encode());
        }
    }

    /// This rejected request has ended.
    pub fn stop_reading(&mut self, stream: &H::Stream) {
        self.unread.retain(|unread| unread.waiting.held.stream() != stream);
    }

    /// Applies new configurations: how many requests the application may have at once; none: the
    /// queue holds no request.
    pub fn configure(&mut self, places: impl Fn(PluginId) -> Option<Concurrency>) {
        self.wait_queue.configure(|waiting| places(waiting.plugin));
    }

    /// A request that was inside has ended: its place is passed on.
    pub fn leave(&mut self, now: Timestamp) -> Turns<H> {
        let turns = self.wait_queue.leave(&self.host, now);
        self.announced(turns)
    }

    /// Takes the places granted to this thread, gives a sign of life, and finds requests that have
    /// waited too long. One whose body has turned out too large to be held enters: its caller could
    /// not repeat it.
    pub fn look(&mut self, now: Timestamp) -> Turns<H> {
        self.wait_queue.release(now, Waiting::has_grown);
        let turns = self.wait_queue.look(&self.host, now);
        self.announced(turns)
    }

    /// Adds the requests whose bodies have turned out too large to be held. On ticks only: it costs
    /// some host calls for each request that may grow.
    pub fn look_at_sizes(&mut self, turns: &mut Turns<H>, now: Timestamp) {
        if now.since(self.sized) < TICK_WHEN_ONE_IS_LATE_SOON {
            return;
        }
        self.sized = now;
        if self.wait_queue.release(LAST, Waiting::has_grown) {
            let Turns(more) = self.look(now);
            turns.0.in_turn.extend(more.in_turn);
            turns.0.late.extend(more.late);
        }
    }

    /// Adds the rejected requests whose bodies have come or take too long.
    pub fn look_at_unread(&mut self, turns: &mut Turns<H>, now: Timestamp) {
        self.told = false;
        let all = now.since(self.asked) >= self.reading_period();
        if all {
            self.asked = now;
        }
        let is_over = |unread: &mut Unread<H>| {
            let asks = std::mem::take(&mut unread.is_new) || all;
            unread.until <= now || (asks && unread.waiting.has_come())
        };
        turns.0.late.extend(self.unread.extract_if(.., is_over).map(|unread| unread.waiting));
    }

    /// How often to ask for bodies that have not come at once.
    fn reading_period(&self) -> Duration {
        let all = u32::try_from(self.unread.len()).unwrap_or(u32::MAX);
        (all * (Duration::from_secs(1) / ASKS_PER_SECOND)).max(TICK_WHILE_READING)
    }

    /// This request, which waited, has ended.
    pub fn cancel(&mut self, stream: &H::Stream, now: Timestamp) -> Turns<H> {
        let turns = self.wait_queue.cancel(&self.host, now, |waiting| waiting.held.stream() == stream);
        self.announced(turns)
    }

    /// Whether it needs looks: a request of this thread waits or is inside, or another thread may
    /// be dead.
    pub fn needs_looks(&self) -> bool {
        self.wait_queue.needs_looks()
    }

    /// How often it needs a tick, if it does.
    pub fn tick_period(&self, now: Timestamp) -> Option<Duration> {
        if !self.unread.is_empty() {
            return Some(self.reading_period().min(TICK_WHEN_ONE_IS_LATE_SOON));
        }
        match self.wait_queue.next_late() {
            Some(late) if late <= now.after(SOON) => Some(TICK_WHEN_ONE_IS_LATE_SOON),
            None if !self.wait_queue.needs_looks() => None,
            _ => Some(TICK_WHILE_INSIDE),
        }
    }

    fn announced(&self, turns: wait_queue::Turns<Waiting<H>>) -> Turns<H> {
        for vm in &turns.wake {
            self.host.wake(*vm, &Message::Turn(&self.service).encode());
        }
        Turns(turns)
    }
}

/// What to do once the queue is no longer borrowed.
#[must_use]
pub struct Turns<H: Host>(wait_queue::Turns<Waiting<H>>);

impl<H: Host> Default for Turns<H> {
    fn default() -> Self {
        Self(wait_queue::Turns::default())
    }
}

impl<H: Host> Turns<H> {
    /// How many may go.
    pub fn in_turn(&self) -> usize {
        self.0.in_turn.len()
    }

    /// Resumes the requests whose turn it is, and answers those that have waited too long.
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
