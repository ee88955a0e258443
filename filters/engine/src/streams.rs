//! Answers that have begun and not ended. One that carries no bytes for long enough does not count
//! as work, neither at the server nor at the sender, until it carries some again.
//!
//! The filters are not called for bodies. So a tick asks the proxy, in each stream's own context,
//! how many bytes it has carried; [`bloc_policy::proxy::activity`] decides whether it is idle. An
//! ordinary answer ends before any tick looks: it costs an entry in a table, and no call to the
//! proxy.
//!
//! Each thread has one table of open answers. About once a second a tick, or a request that hands
//! the counters over, notes which answers were already there the last time. Only if there are any
//! does the thread tick faster, and look at these.
//!
//! A request whose answer has not begun is work, however long that takes: it is never idle.

use crate::clusters;
use crate::host::{Host, NumberAttribute, Stream};
use crate::names::TICK;
use crate::parameters::PluginId;
use crate::queue::Turns;
use crate::services;
use bloc_policy::endpoints::EndpointId;
use bloc_policy::proxy::activity::{Activity, Carried, Change};
use bloc_policy::units::Timestamp;
use slotmap::{SlotMap, new_key_type};
use std::cell::{Cell, RefCell};
use std::time::Duration;

/// How soon a thread looks after it has found long streams. Its streams then set its ticks.
pub const FIRST_LOOK: Duration = Duration::from_millis(500);
/// The most streams that a thread looks at in a second: with more, it looks less often. Each costs
/// some calls to the proxy, together about a microsecond.
const LOOKS_PER_SECOND: f64 = 4_000.0;
/// The shortest period of ticks.
const LEAST_PERIOD: Duration = Duration::from_millis(1);

new_key_type! {
    /// Names an answer that has begun, as long as it is in the table.
    pub struct AnswerId;
}

/// Where a stream counts.
pub enum Counted<H: Host> {
    /// At the server.
    Inbound {
        /// The service that it came for.
        service: services::Shared<H>,
        /// Its configuration.
        plugin: PluginId,
        /// Whether it has a place in the limiter.
        place: bool,
    },
    /// At the sender.
    Attempt {
        /// The cluster that it went to.
        cluster: clusters::Shared<H>,
        /// The server.
        endpoint: EndpointId,
    },
}

impl<H: Host> Counted<H> {
    /// It stops counting after so long without bytes; none: its configuration is gone.
    fn idle_after(&self) -> Option<Duration> {
        match self {
            Self::Inbound { service, plugin, .. } => {
                service.borrow().servers.get(*plugin).map(|server| server.parameters().stream_idle())
            }
            Self::Attempt { cluster, .. } => Some(cluster.borrow().sender.parameters().stream_idle()),
        }
    }

    /// It does not count from now on.
    fn leave(&self, now: Timestamp) -> Option<Turns<H>> {
        match self {
            Self::Inbound { service, place, .. } => {
                let mut service = service.borrow_mut();
                service.add(-1);
                place.then(|| service.queue.leave(now))
            }
            Self::Attempt { cluster, endpoint } => {
                cluster.borrow_mut().sender.idle(*endpoint);
                None
            }
        }
    }

    /// It counts again. The application has it already, so it does not wait for a place.
    fn come_back(&self, now: Timestamp) -> Option<Turns<H>> {
        match self {
            Self::Inbound { service, place, .. } => {
                let mut service = service.borrow_mut();
                service.add(1);
                place.then(|| service.queue.enter_over_limit(now))
            }
            Self::Attempt { cluster, endpoint } => {
                cluster.borrow_mut().sender.resume(*endpoint);
                None
            }
        }
    }
}

struct Answer<H: Host> {
    stream: H::Stream,
    counted: Counted<H>,
    /// How many times it was there when answers were noted.
    noted: u8,
    /// Made at the first look, to keep ordinary answers small.
    activity: Option<Box<Activity>>,
}

impl<H: Host> Answer<H> {
    fn is_long(&self) -> bool {
        self.noted > 1
    }

    fn look(&mut self, idle_after: Duration, now: Timestamp) -> Change {
        let mut carried = None;
        self.stream.in_own_context(|| {
            let number = |number| self.stream.number(number);
            carried = number(NumberAttribute::RequestBytes).zip(number(NumberAttribute::ResponseBytes));
        });
        let Some((request, response)) = carried else { return Change::None };
        self.activity.get_or_insert_default().look(Carried { request, response }, idle_after, now)
    }
}

/// The answers of one thread that have begun and not ended.
pub struct Streams<H: Host> {
    answers: RefCell<SlotMap<AnswerId, Answer<H>>>,
    noted: Cell<Timestamp>,
    /// When to look next, even if the thread ticks earlier.
    due: Cell<Timestamp>,
}

impl<H: Host> Streams<H> {
    /// None yet.
    pub fn new(now: Timestamp) -> Self {
        Self { answers: RefCell::default(), noted: Cell::new(now), due: Cell::new(now) }
    }

    /// An answer has begun.
    pub fn begin(&self, stream: &H::Stream, counted: Counted<H>) -> AnswerId {
        let answer = Answer { stream: stream.clone(), counted, noted: 0, activity: None };
        self.answers.borrow_mut().insert(answer)
    }

    /// It has ended; returns whether it counted until now.
    pub fn end(&self, answer: AnswerId) -> bool {
        let answer = self.answers.borrow_mut().remove(answer);
        !answer.and_then(|answer| answer.activity).is_some_and(|activity| activity.is_idle())
    }

    /// Notes which answers are there, if that is due. Returns whether there are long ones.
    pub fn note(&self, now: Timestamp) -> bool {
        let mut answers = self.answers.borrow_mut();
        let is_due = now.since(self.noted.get()) >= TICK;
        if is_due {
            self.noted.set(now);
            answers.values_mut().for_each(|answer| answer.noted = answer.noted.saturating_add(1));
        }
        answers.values().any(Answer::is_long)
    }

    /// Looks at the long answers, on a tick. Returns how soon to look again, if there are any, and
    /// what to do once nothing is borrowed.
    pub fn look(&self, now: Timestamp) -> (Option<Duration>, Vec<Turns<H>>) {
        if !self.note(now) {
            return (None, Vec::new());
        }
        let due = self.due.get();
        if now < due {
            return (Some(due.since(now).max(LEAST_PERIOD)), Vec::new());
        }
        let (mut looks, mut shortest, mut all) = (0_u32, None::<Duration>, Vec::new());
        for answer in self.answers.borrow_mut().values_mut().filter(|answer| answer.is_long()) {
            let Some(idle_after) = answer.counted.idle_after() else { continue };
            looks += 1;
            shortest = Some(shortest.map_or(idle_after, |shortest| shortest.min(idle_after)));
            let turns = match answer.look(idle_after, now) {
                Change::None => None,
                Change::Idle => answer.counted.leave(now),
                Change::Active => answer.counted.come_back(now),
            };
            all.extend(turns);
        }
        let at_least = Duration::from_secs_f64(f64::from(looks) / LOOKS_PER_SECOND);
        let period = shortest.map(|idle_after| (idle_after / 2).max(at_least));
        // A stream may become long in the meantime and need a shorter period.
        self.due.set(now.after(period.map_or(Duration::ZERO, |period| period.min(FIRST_LOOK.max(at_least)))));
        (period, all)
    }
}
