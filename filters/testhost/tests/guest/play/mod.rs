//! Plays a history in a proxy of several threads, and checks what must hold at every moment.
//!
//! It is not known exactly which terms are in force in a thread: the control plane's news may come
//! with a tick. So each request is checked against all terms that may be in force in its thread.

mod end;

use crate::proxy::Proxy;
use bloc_testhost::history::{Configuration, Direction, History, SERVICES, SLOTS, Slot, Step, Terms, Timed};
use bloc_testhost::{Flow, Stream};
use std::collections::BTreeMap;
use std::time::Duration;

const SECOND: Duration = Duration::from_secs(1);
const STEP: Duration = Duration::from_millis(25);
/// A thread knows the control plane's news within this time: an idle thread's tick, with a margin.
const KNOWN: Duration = Duration::from_secs(6);
/// A request that waits too long, or could enter, is found within this time: the longest tick while
/// a request waits, with a margin.
const TICK: Duration = Duration::from_millis(1100);
/// A proxy asks again within this time, whichever thread led before: a lease and an idle thread's
/// tick, with a margin.
const ASKS: Duration = Duration::from_secs(20);
/// How long an impatient client waits.
const HURRIED: Duration = Duration::from_millis(300);
/// After this time everything has ended.
const LONGEST: Duration = Duration::from_secs(60);

type Outcome = Result<(), String>;

/// The terms that may apply to a request; none: it passes.
type Possible = Vec<Option<Terms>>;

struct Request {
    /// Its number, in the order of arrival.
    number: usize,
    stream: Stream,
    service: &'static str,
    configuration: Configuration,
    thread: usize,
    came: Duration,
    takes: Duration,
    leaves: Option<Duration>,
    stage: Stage,
}

#[derive(Clone, Copy, PartialEq)]
enum Stage {
    Held,
    /// `counted`: certainly counted, because it has a place.
    Inside {
        until: Duration,
        counted: bool,
    },
}

impl Request {
    fn is_held(&self) -> bool {
        self.stage == Stage::Held
    }

    fn told(&self, now: Duration) -> String {
        let Self { number, service, thread, .. } = self;
        format!("request {number} of {service} in thread {thread}, held for {:?},", now - self.came)
    }

    fn is_counted(&self) -> bool {
        matches!(self.stage, Stage::Inside { counted: true, .. })
    }
}

/// Plays a history and checks it.
pub struct Play {
    proxy: Proxy,
    rng: fastrand::Rng,
    requests: Vec<Request>,
    arrivals: usize,
    /// When each thread's VM was created.
    began: Vec<Option<Duration>>,
    /// Since when something has named the control plane without a gap, and when last nothing did.
    named: Option<Duration>,
    unnamed: Duration,
    /// Since when there has been a free place for the first request of the queue.
    free: BTreeMap<&'static str, Duration>,
    /// When a request was last bounced, by service and thread.
    bounced: BTreeMap<(&'static str, usize), Duration>,
}

impl Play {
    pub fn new(history: &History) -> Self {
        let mut rng = fastrand::Rng::with_seed(history.seed);
        // Envoy's main thread, too, has a VM, without traffic.
        let threads = 2 + usize::from(rng.bool());
        let proxy = Proxy::new(history.seed, threads, history.drain);
        let unnamed = proxy.process.now();
        Self {
            proxy,
            rng,
            requests: Vec::new(),
            arrivals: 0,
            began: vec![None; threads],
            named: None,
            unnamed,
            free: BTreeMap::new(),
            bounced: BTreeMap::new(),
        }
    }

    pub fn now(&self) -> Duration {
        self.proxy.process.now()
    }

    /// The terms that may have been in force in this thread after `since`.
    fn possible(&self, thread: usize, service: &str, configuration: &Configuration, since: Duration) -> Possible {
        let own = configuration.services.get(service).copied();
        let said = &self.proxy.control_plane.said;
        let from = since.saturating_sub(KNOWN);
        let until = |next: usize| said.get(next).map_or(Duration::MAX, |(at, _)| *at);
        let known = said.iter().enumerate().filter(|(number, _)| until(number + 1) >= from);
        let mut possible: Possible = known.map(|(_, (_, services))| services.get(service).copied().or(own)).collect();
        let fresh = self.began[thread].is_none_or(|began| began >= from);
        // What the control plane said may no longer apply once no listener names it.
        if fresh || self.unnamed >= from || said.first().is_none_or(|(at, _)| *at >= from) {
            possible.push(own);
        }
        possible
    }

    /// How many requests are certainly inside and counted, and how many may be.
    fn inside(&self, service: &str) -> (u32, u32) {
        let inside = || self.requests.iter().filter(|request| request.service == service && !request.is_held());
        (inside().filter(|request| request.is_counted()).count() as u32, inside().count() as u32)
    }

    fn held(&self, service: &str) -> u32 {
        self.requests.iter().filter(|request| request.service == service && request.is_held()).count() as u32
    }

    fn arrive(&mut self, slot: Slot, takes: Duration) -> Outcome {
        let thread = self.rng.usize(..2);
        let configuration = self.proxy.configuration(slot).clone();
        let Some(service) = configuration.service else {
            let service = SERVICES[self.rng.usize(..SERVICES.len())];
            let possible = self.possible(thread, service, &configuration, self.now());
            let retries = self.proxy.send(slot, thread, service);
            if possible.iter().any(|terms| terms.map(|terms| terms.retries) == retries) {
                return Ok(());
            }
            let name = slot.name;
            return Err(format!("a request at {name} to {service} asks for {retries:?} retries under {possible:?}"));
        };
        let possible = self.possible(thread, service, &configuration, self.now());
        let ((least, most), held) = (self.inside(service), self.held(service));
        let (stream, flow) = self.proxy.request(slot, thread);
        self.arrivals += 1;
        let some = possible.iter().flatten();
        let stage = match flow {
            Flow::Continue => {
                let may = possible.contains(&None)
                    || some.clone().any(|terms| least + held < terms.capacity && least < terms.concurrency);
                if !may {
                    return Err(self.wrong("let in", slot, &possible, (least, most, held)));
                }
                Stage::Inside { until: self.now() + takes, counted: !possible.contains(&None) }
            }
            Flow::Pause => {
                let may =
                    some.clone().any(|terms| least + held < terms.capacity && (most >= terms.concurrency || held > 0));
                if !may {
                    return Err(self.wrong("held", slot, &possible, (least, most, held)));
                }
                Stage::Held
            }
            Flow::Reply(reply) => {
                let may = some.clone().any(|terms| most + held >= terms.capacity);
                if !may || reply.status() != 429 || reply.details != "bloc_capacity" {
                    let what = format!("answered with {} {}", reply.status(), reply.details);
                    return Err(self.wrong(&what, slot, &possible, (least, most, held)));
                }
                return Ok(());
            }
            Flow::Reset => return Err("reset".to_owned()),
        };
        let leaves = (self.rng.u8(..8) == 0).then(|| self.now() + HURRIED);
        let (number, came) = (self.arrivals, self.now());
        self.requests.push(Request { number, stream, service, configuration, thread, came, takes, leaves, stage });
        Ok(())
    }

    fn wrong(&self, what: &str, slot: Slot, possible: &Possible, (least, most, held): (u32, u32, u32)) -> String {
        let name = slot.name;
        format!("a request at {name} is {what}, with {least} to {most} inside and {held} held, under {possible:?}")
    }

    /// Lets time pass.
    fn pass(&mut self, time: Duration) -> Outcome {
        let end = self.now() + time;
        self.settle()?;
        while self.now() < end {
            let ends = self.requests.iter().filter_map(|request| match request.stage {
                Stage::Inside { until, .. } => Some(until),
                Stage::Held => request.leaves,
            });
            let next = ends.chain([end, self.now() + STEP]).min().unwrap_or(end).max(self.now());
            self.proxy.advance(next - self.now())?;
            self.finish();
            self.settle()?;
        }
        Ok(())
    }

    /// Answers the requests that have been served; ends those whose clients leave.
    fn finish(&mut self) {
        let now = self.now();
        let over = |request: &mut Request| match request.stage {
            Stage::Inside { until, .. } => until <= now,
            Stage::Held => request.leaves.is_some_and(|at| at <= now) && !request.stream.is_resumed(),
        };
        let over: Vec<Request> = self.requests.extract_if(.., over).collect();
        for mut request in over {
            if !request.is_held() {
                request.stream.response_headers([(":status", "200")], true);
            }
            request.stream.done();
            // If a place is granted to a request that leaves at this moment, it goes to another
            // request of that thread, whichever is first in the queue.
            self.proxy.process.deliver();
        }
    }

    /// Finds out what has happened to held requests, and checks everything.
    fn settle(&mut self) -> Outcome {
        self.proxy.process.deliver();
        let now = self.now();
        for (thread, vm) in self.proxy.threads().iter().enumerate() {
            let has = vm.contexts() > 0;
            self.began[thread] = self.began[thread].or(Some(now)).filter(|_| has);
        }
        if !self.proxy.names_the_control_plane() {
            (self.named, self.unnamed) = (None, now);
        }
        let answered = |request: &mut Request| request.is_held() && request.stream.reply().is_some();
        for request in self.requests.extract_if(.., answered).collect::<Vec<_>>() {
            self.bounce(request)?;
        }
        for place in 0..self.requests.len() {
            if self.requests[place].is_held() {
                self.settle_one(place)?;
            }
        }
        for service in SERVICES {
            self.no_place_is_left_free(service)?;
        }
        self.asks()?;
        match self.proxy.process.take_log().into_iter().find(|line| line.level >= 4) {
            Some(line) => Err(format!("in the log: {}", line.text)),
            None => Ok(()),
        }
    }

    /// A held request has been answered: checks that its time was over.
    fn bounce(&mut self, request: Request) -> Outcome {
        let (held, reply) = (self.now() - request.came, request.stream.reply());
        let Some(reply) = reply else { return Ok(()) };
        let possible = self.possible(request.thread, request.service, &request.configuration, request.came);
        let least = possible.iter().flatten().map(|terms| terms.max_queue_wait).min().unwrap_or_default();
        if request.stream.is_resumed() || reply.details != "bloc_deadline" || held < least {
            let (status, details) = (reply.status(), &reply.details);
            return Err(format!("{} is answered with {status} {details} under {possible:?}", request.told(self.now())));
        }
        self.bounced.insert((request.service, request.thread), self.now());
        request.stream.done();
        Ok(())
    }

    /// Checks a request that was held when last seen.
    fn settle_one(&mut self, place: usize) -> Outcome {
        let now = self.now();
        let request = &self.requests[place];
        let Request { service, number, came, thread, .. } = *request;
        let possible = self.possible(thread, service, &request.configuration, came);
        let who = request.told(now);
        if !request.stream.is_resumed() {
            let most = possible.iter().flatten().map(|terms| terms.max_queue_wait).max().unwrap_or_default();
            return if now - came > most + TICK {
                Err(format!("{who} waits beyond its bound under {possible:?}"))
            } else {
                Ok(())
            };
        }
        let passes = possible.contains(&None);
        let (least, _) = self.inside(service);
        let first = self.requests.iter().find(|other| other.service == service && other.is_held());
        if !passes {
            if possible.iter().flatten().all(|terms| least >= terms.concurrency) {
                return Err(format!("{who} enters with {least} inside under {possible:?}"));
            }
            // As in `finish`: the place was granted to a request whose time is over.
            let inherits = self.bounced.get(&(service, thread)) == Some(&now);
            if let Some(first) = first.filter(|first| first.number != number && !inherits) {
                return Err(format!("{who} enters before number {}", first.number));
            }
        }
        let request = &mut self.requests[place];
        request.stage = Stage::Inside { until: now + request.takes, counted: !passes };
        Ok(())
    }

    fn no_place_is_left_free(&mut self, service: &'static str) -> Outcome {
        let now = self.now();
        let (_, most) = self.inside(service);
        let first = self.requests.iter().find(|request| request.service == service && request.is_held());
        let could = first.filter(|first| {
            let possible = self.possible(first.thread, service, &first.configuration, first.came);
            possible.iter().all(|terms| terms.is_none_or(|terms| most < terms.concurrency))
        });
        let Some(first) = could else {
            self.free.remove(service);
            return Ok(());
        };
        let since = *self.free.entry(service).or_insert(now);
        // A worker counts as dead, and its places as free, only after some seconds.
        if now - since.max(first.came) <= TICK {
            return Ok(());
        }
        Err(format!("request {} of {service} waits, with {most} inside, for {:?}", first.number, now - since))
    }

    /// Checks that the control plane is asked, if something names it.
    fn asks(&mut self) -> Outcome {
        let now = self.now();
        if !self.proxy.names_the_control_plane() {
            return Ok(());
        }
        let since = *self.named.get_or_insert(now);
        let last = self.proxy.control_plane.asked.max(since);
        if now - last <= ASKS {
            Ok(())
        } else {
            Err(format!("nobody has asked the control plane for {:?}", now - last))
        }
    }

    fn step(&mut self, step: &Step) -> Outcome {
        match step {
            Step::Set { slot, configuration } => {
                self.proxy.set(*slot, &Configuration::of(slot.direction, *configuration));
            }
            Step::Remove { slot } => self.proxy.remove(*slot),
            Step::Announce(services) => self.proxy.control_plane.services.clone_from(services),
            // While a history is being reduced, the listener may be missing.
            Step::Requests { slot, count, takes } if self.proxy.slots().contains(slot) => {
                for _ in 0..*count {
                    self.arrive(*slot, *takes)?;
                }
            }
            Step::Requests { .. } => {}
        }
        self.settle()
    }

    /// Plays all steps.
    pub fn run(&mut self, steps: &[Timed]) -> Outcome {
        let start = self.now();
        for Timed { at, step } in steps {
            self.pass((start + *at).saturating_sub(self.now()))?;
            self.step(step)?;
        }
        self.end()
    }
}
