//! `bloc.inbound`: admits, holds or bounces a request before the application sees it, and stamps the load on every answer.
//!
//! Which service the proxy stands in front of, the plugin configuration says; where it does not, Istio does: it writes the services into the
//! metadata of each inbound cluster, so one configuration serves every workload of a mesh, also one with several ports.
//!
//! The requests in flight are counted in a gauge that all threads of the Envoy share, from the request's headers to the end of the stream,
//! whatever ends it; [`bloc_policy::count`] puts it right when a VM is lost. On failure: open. A service without parameters, or a proxy without a service, passes everything. The route configuration takes our headers from what
//! the application gets and answers, after this filter has read the request's and before it writes the answer's.

use crate::crash;
use crate::headers::{BID, EXPECTED_TIMEOUT, LOAD, ORCA, REJECT, WHY};
use crate::host::{self, Data, Headers};
use crate::line::{Line, Turns, Waits};
use crate::message::Message;
use crate::metrics::{Counters, Gauge, InFlight, Total};
use crate::state;
use crate::why;
use crate::will;
use bloc_policy::config::ServiceParameters;
use bloc_policy::count::Count;
use bloc_policy::departures::{Flag, Totals};
use bloc_policy::server::Server;
use bloc_policy::sync::{ServiceEvents, ServiceLoad};
use bloc_policy::units::{Concurrency, Timestamp};
use bloc_policy::wire::bid::Caller;
use bloc_policy::wire::load_report::LoadReport;
use bloc_policy::wire::orca;
use bloc_policy::wire::reason::Reason;
use proxy_wasm::traits::{Context, HttpContext};
use proxy_wasm::types::Action;
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

/// How many headers an answer of Envoy's own has at most, before it has passed a filter: status, type and length. An application's has those that the router adds, too. To look
/// more closely costs a call to the host, which most answers are spared by this.
const LOCAL_REPLY: usize = 3;
const TOO_MANY_REQUESTS: u32 = 429;
const RESOURCE_EXHAUSTED: i32 = 8;

/// While the threads count their requests anew: several times within [`bloc_policy::hall::LIFE`].
const TICK_WHILE_COUNTING: Duration = Duration::from_millis(250);

const ADMITTED: usize = 0;
const REJECTED_CAPACITY: usize = 1;
const REJECTED_DEADLINE: usize = 2;
const CHIPS_GRANTED: usize = 3;
const CHIPS_WITHHELD: usize = 4;
const HELD: usize = 5;
/// Let in by a tick, not by the announcement that their place is free: as good as none while announcements arrive.
const RESCUED: usize = 6;
const REJECTED_BID: usize = 7;
/// Answered by Envoy because it could not reach the application.
const REJECTED_UNREACHABLE: usize = 8;
const COUNTERS: [&str; 9] = [
    "admitted",
    "rejected_capacity",
    "rejected_deadline",
    "chips_granted",
    "chips_withheld",
    "held",
    "rescued",
    "rejected_bid",
    "rejected_unreachable",
];

/// A service that this proxy stands in front of, as this thread sees it.
pub struct Inbound {
    service: String,
    server: Option<Server>,
    line: Line,
    in_flight: InFlight,
    count: Count,
    capacity_in_force: Gauge,
    /// Requests per 1000 s, because gauges are whole numbers; 0: not known.
    service_rate: Gauge,
    departed: Total,
    confident: Total,
    /// The capacity that the gauge shows.
    shown: Option<Concurrency>,
    /// Events to be counted.
    pub counters: Counters<9>,
}

impl Inbound {
    /// A service with these parameters (none: it passes everything), in the VM with this number.
    pub fn new(service: &str, parameters: Option<&ServiceParameters>, vm: u64) -> Self {
        let in_flight = InFlight::new(
            Gauge::define("inbound", service, "in_flight"),
            Gauge::define("inbound", service, "in_flight_recount"),
        );
        let count = Count::new(service, vm);
        will::serves(will::Service { name: service.to_owned(), vm, gauges: in_flight, own: count.own() });
        let mut inbound = Self {
            service: service.to_owned(),
            server: None,
            line: Line::new(service, vm),
            in_flight,
            count,
            capacity_in_force: Gauge::define("inbound", service, "capacity"),
            service_rate: Gauge::define("inbound", service, "service_rate_per_1000s"),
            departed: Total::define("inbound", service, "departed"),
            confident: Total::define("inbound", service, "departed_confident"),
            shown: None,
            counters: Counters::define("inbound", service, COUNTERS),
        };
        inbound.configure(parameters);
        // Before its first request is counted.
        inbound.look_at_count(host::now());
        inbound
    }

    /// New parameters; what has been measured stays.
    pub fn configure(&mut self, parameters: Option<&ServiceParameters>) {
        match (&mut self.server, parameters) {
            (Some(server), Some(parameters)) => server.configure(parameters),
            (server, parameters) => *server = parameters.map(Server::new),
        }
        self.show_capacity();
    }

    /// What the whole Envoy has to tell of its load: this thread may not have served anything.
    pub fn load(&self, service: &str) -> ServiceLoad {
        let known = |gauge: Gauge| Some(gauge.get()).filter(|value| *value > 0);
        ServiceLoad {
            service: service.to_owned(),
            in_flight: self.in_flight().get().into(),
            capacity: known(self.capacity_in_force).and_then(|capacity| u32::try_from(capacity).ok()),
            departed: self.departed.get(),
            service_rate: known(self.service_rate).map(|per_1000s| per_1000s as f64 / 1e3),
            events: ServiceEvents {
                departed_confident: self.confident.get(),
                chips_granted: self.counters.total(CHIPS_GRANTED),
                chips_withheld: self.counters.total(CHIPS_WITHHELD),
                rejected_capacity: self.counters.total(REJECTED_CAPACITY),
                rejected_bid: self.counters.total(REJECTED_BID),
                rejected_deadline: self.counters.total(REJECTED_DEADLINE),
            },
        }
    }

    /// How often it needs a tick, if it does.
    pub fn tick_period(&self, now: Timestamp) -> Option<Duration> {
        let counting = self.count.needs_looks(now).then_some(TICK_WHILE_COUNTING);
        self.line.tick_period(now).into_iter().chain(counting).min()
    }

    /// What is due a few times a second: ends the measuring interval, and looks after the count and the line in case an announcement was lost.
    pub fn tick(&mut self, now: Timestamp) -> Turns {
        self.tick_count(now);
        let turns = self.look(now);
        for _ in 0..turns.in_turn() {
            self.counters.count(RESCUED);
        }
        turns
    }

    /// Looks after the line.
    pub fn look(&mut self, now: Timestamp) -> Turns {
        self.measure(now);
        let places = self.places();
        if places.is_none() && self.line.is_idle() {
            return Turns::default();
        }
        self.line.look(places, now)
    }

    /// Does what the count of requests in flight asks for.
    pub fn look_at_count(&mut self, now: Timestamp) {
        let others = self.count.look(&Data, &self.in_flight, now);
        self.tell_to_count(others);
    }

    /// The same, if it is time.
    fn tick_count(&mut self, now: Timestamp) {
        let others = self.count.tick(&Data, &self.in_flight, now);
        self.tell_to_count(others);
    }

    fn tell_to_count(&self, others: Vec<u64>) {
        for vm in others {
            host::wake(vm, &Message::Count(&self.service).encode());
        }
    }

    /// How many requests the application may have at once; none: nobody is held.
    fn places(&self) -> Option<Concurrency> {
        self.server.as_ref().and_then(Server::places)
    }

    fn measure(&mut self, now: Timestamp) {
        let Some(server) = &mut self.server else { return };
        if server.is_due(now) {
            let totals = Totals { departed: self.departed.get(), confident: self.confident.get() };
            let executing = self.count.get(&self.in_flight) > Concurrency::new(0);
            server.measure(totals, executing, now);
            if let Some(rate) = server.service_rate() {
                self.service_rate.set((rate * 1e3) as u64);
            }
            self.show_capacity();
        }
    }

    /// Asks for the ticks that it needs; in the context of one of its requests.
    fn hurry(&self, now: Timestamp) {
        if let Some(period) = self.tick_period(now) {
            state::with(|state| state.hurry(period));
        }
    }

    fn show_capacity(&mut self) {
        let capacity = self.server.as_ref().and_then(Server::capacity);
        if self.shown != capacity {
            self.shown = capacity;
            self.capacity_in_force.set(capacity.map_or(0, |limit| u64::from(limit.get())));
        }
    }

    /// Requests in the server, over all threads.
    fn in_flight(&self) -> Concurrency {
        self.count.get(&self.in_flight)
    }

    /// Requests in the server besides one that is counted.
    fn others(&self) -> Concurrency {
        Concurrency::new(self.in_flight().get().saturating_sub(1))
    }

    /// A request of this thread has come (1) or gone (-1).
    fn add(&self, offset: i64) {
        self.count.add(&self.in_flight, offset);
    }
}

/// How many of them wait: those beyond what the application works on, or all if that is not known.
fn waiting(server: &Server, others: Concurrency) -> u32 {
    others.get().saturating_sub(server.concurrency().map_or(0, Concurrency::get))
}

/// One request, as the line and its own context share it.
struct Request {
    inbound: Rc<RefCell<Inbound>>,
    /// Whether the caller reads our headers. Others get none, since nobody would take them away before the calling application.
    speaks: bool,
    stage: Cell<Stage>,
}

#[derive(Clone, Copy)]
enum Stage {
    /// Not ours: no parameters, or not here yet.
    Untouched,
    /// In the line.
    Waiting { flag: Flag, others: Concurrency },
    /// Handed to the application at this time; in the hall or not.
    Inside { flag: Flag, others: Concurrency, since: Timestamp, hall: bool },
    /// Answered by the application.
    Answered { hall: bool },
    /// Answered by us, and no longer counted.
    Bounced,
}

impl Waits for Request {
    fn enter(&self, now: Timestamp) {
        if let Stage::Waiting { flag, others } = self.stage.get() {
            self.stage.set(Stage::Inside { flag, others, since: now, hall: true });
        }
    }

    fn give_up(&self) {
        let others = self.inbound.borrow().others();
        self.bounce(Reason::Deadline, others);
    }
}

impl Request {
    /// A request that is counted as in flight is answered by us.
    fn bounce(&self, why: Reason, others: Concurrency) {
        let mut inbound = self.inbound.borrow_mut();
        inbound.add(-1);
        self.stage.set(Stage::Bounced);
        let Some(server) = &inbound.server else {
            // Its parameters were taken away while it waited.
            host::respond(TOO_MANY_REQUESTS, RESOURCE_EXHAUSTED, "bloc_deadline", &[]);
            return;
        };
        let (report, orca) = (server.bare_report(others), server.orca());
        let explained = if self.speaks { None } else { why::for_stranger(server, why, &report) };
        let (counter, details) = match why {
            Reason::Capacity => (REJECTED_CAPACITY, "bloc_capacity"),
            Reason::Bid => (REJECTED_BID, "bloc_bid"),
            Reason::Deadline => (REJECTED_DEADLINE, "bloc_deadline"),
            Reason::Unreachable => (REJECTED_UNREACHABLE, "bloc_unreachable"),
        };
        inbound.counters.count(counter);
        let (mut load, mut utilization) = (String::new(), String::new());
        let mut headers = Vec::with_capacity(3);
        if self.speaks {
            report.encode(&mut load);
            headers.extend([(REJECT, why.as_str()), (LOAD, &*load)]);
        }
        if orca && orca::encode(&report, &mut utilization) {
            headers.push((ORCA, &utilization));
        }
        headers.extend(explained.as_deref().map(|text| (WHY, text)));
        host::respond(TOO_MANY_REQUESTS, RESOURCE_EXHAUSTED, details, &headers);
    }

    /// The report for an answer with this many headers that goes out, the application's or Envoy's; ours has one already. It is marked if it is as good as a rejection.
    fn answered(&self, headers: usize) -> Option<LoadReport> {
        match self.stage.get() {
            Stage::Inside { hall, .. } if self.speaks && headers <= LOCAL_REPLY && application_is_unreachable() => {
                self.stage.set(Stage::Answered { hall });
                host::set_header(Headers::Response, REJECT, Reason::Unreachable.as_str().as_bytes());
                self.unreached()
            }
            Stage::Inside { flag, others, since, hall } => {
                self.stage.set(Stage::Answered { hall });
                self.report(Some((flag, others, since)))
            }
            Stage::Waiting { .. } => self.report(None),
            // A request that came before the parameters is not counted, and reports nothing.
            Stage::Untouched | Stage::Answered { .. } | Stage::Bounced => None,
        }
    }

    /// The report for a request that never reached the application: nothing is measured, and no chip is given.
    fn unreached(&self) -> Option<LoadReport> {
        let mut inbound = self.inbound.borrow_mut();
        inbound.counters.count(REJECTED_UNREACHABLE);
        let others = inbound.others();
        inbound.server.as_ref().map(|server| server.bare_report(others))
    }

    /// The report for the answer of the application, which is measured by the way.
    fn report(&self, served: Option<(Flag, Concurrency, Timestamp)>) -> Option<LoadReport> {
        let mut borrowed = self.inbound.borrow_mut();
        let inbound = &mut *borrowed;
        let others = inbound.others();
        let server = inbound.server.as_mut()?;
        if let Some((flag, met, since)) = served {
            let now = host::now();
            let queue = waiting(server, others);
            inbound.departed.add(1);
            if server.depart(flag, met, now.since(since), queue) {
                inbound.confident.add(1);
            }
            inbound.measure(now);
        }
        let server = inbound.server.as_ref()?;
        if !self.speaks {
            return server.orca().then(|| server.bare_report(others));
        }
        let report = state::with(|state| server.report(others, &mut state.rng));
        inbound.counters.count(if report.chip { CHIPS_GRANTED } else { CHIPS_WITHHELD });
        Some(report)
    }
}

/// The context of one request on its way in.
pub struct InboundRequest {
    context: u32,
    /// The service that the plugin configuration names.
    named: Option<Rc<RefCell<Inbound>>>,
    /// None until its headers have come, and if it belongs to no service.
    request: Option<Rc<Request>>,
}

impl InboundRequest {
    /// A request to this service; none: to that of the cluster that it is routed to.
    pub fn new(context: u32, named: Option<Rc<RefCell<Inbound>>>) -> Self {
        Self { context, named, request: None }
    }

    /// The service that this request belongs to.
    fn service(&mut self) -> Option<Rc<RefCell<Inbound>>> {
        self.named.take().or_else(|| {
            let cluster = host::text_property("xds\0cluster_name")?;
            state::with(|state| state.inbound_behind(&cluster))
        })
    }

    /// Decides about a request that has come.
    fn arrive(&self, request: &Rc<Request>, bid: Option<Duration>) -> Action {
        if request.inbound.borrow().server.is_none() {
            return Action::Continue;
        }
        let now = host::now();
        state::with(|state| state.hand_over(now));
        let mut borrowed = request.inbound.borrow_mut();
        let inbound = &mut *borrowed;
        // A thread with traffic looks in time also if its ticks come late.
        inbound.tick_count(now);
        if inbound.count.needs_looks(now) {
            inbound.hurry(now);
        }
        inbound.add(1);
        crash::point("inbound.arrive");
        // Another thread may come in between: then both see the higher count, and at worst both are bounced, never one admitted too many.
        let others = inbound.others();
        let Some(server) = &mut inbound.server else { return Action::Continue };
        let deadline = deadline();
        let verdict = server.arrive(others, bid, deadline, now);
        let flag = server.flag(waiting(server, others));
        let (places, patience) = (server.places(), server.patience(deadline));
        inbound.show_capacity();
        if let Err(why) = verdict {
            drop(borrowed);
            request.bounce(why, others);
            return Action::Pause;
        }
        inbound.counters.count(ADMITTED);
        let hall = places.is_some();
        if places.is_none_or(|places| inbound.line.come(places, now)) {
            request.stage.set(Stage::Inside { flag, others, since: now, hall });
            inbound.hurry(now);
            return Action::Continue;
        }
        inbound.counters.count(HELD);
        request.stage.set(Stage::Waiting { flag, others });
        let waits: Rc<dyn Waits> = Rc::clone(request) as Rc<dyn Waits>;
        inbound.line.hold(self.context, &waits, now.after(patience));
        inbound.hurry(now);
        Action::Pause
    }
}

/// Whether this answer is Envoy's own, because it got no connection to the application: the application has not seen the request, so that it is safe elsewhere.
/// Without this a server whose application is gone would answer fastest of all, and draw the load of the others.
fn application_is_unreachable() -> bool {
    /// Response flags of Envoy: no healthy upstream, upstream connection failure, upstream overflow.
    const NEVER_SENT: u64 = 0x2 | 0x20 | 0x80;
    let number = |path| host::property(path).and_then(|bytes| bytes.try_into().ok()).map(u64::from_le_bytes);
    host::header(Headers::Response, ":status").as_deref() == Some(b"503")
        && number("response\0flags").is_some_and(|flags| flags & NEVER_SENT != 0 && flags & !NEVER_SENT == 0)
        // An earlier attempt may have been sent.
        && number("upstream\0request_attempt_count").is_none_or(|attempts| attempts <= 1)
}

/// How long the caller waits for its answer, if it says so.
pub fn deadline() -> Option<Duration> {
    let value = host::header(Headers::Request, EXPECTED_TIMEOUT)?;
    let millis: u64 = std::str::from_utf8(&value).ok()?.parse().ok()?;
    (millis > 0).then(|| Duration::from_millis(millis))
}

impl Context for InboundRequest {}

impl HttpContext for InboundRequest {
    fn on_http_request_headers(&mut self, _headers: usize, _end_of_stream: bool) -> Action {
        crash::request("inbound.request");
        let bid = host::header(Headers::Request, BID);
        let Some(inbound) = self.service() else { return Action::Continue };
        let caller = Caller::of(bid.as_deref());
        let request = Rc::new(Request { inbound, speaks: caller.speaks, stage: Cell::new(Stage::Untouched) });
        self.request = Some(Rc::clone(&request));
        self.arrive(&request, caller.bid)
    }

    fn on_http_response_headers(&mut self, headers: usize, _end_of_stream: bool) -> Action {
        crash::point("inbound.response");
        let Some(request) = &self.request else { return Action::Continue };
        let Some(report) = request.answered(headers) else { return Action::Continue };
        if request.speaks {
            state::with(|state| {
                report.encode(&mut state.text);
                host::set_header(Headers::Response, LOAD, state.text.as_bytes());
            });
        }
        let orca = request.inbound.borrow().server.as_ref().is_some_and(Server::orca);
        if orca {
            state::with(|state| {
                if orca::encode(&report, &mut state.text) {
                    host::set_header(Headers::Response, ORCA, state.text.as_bytes());
                }
            });
        }
        Action::Continue
    }
}

impl Drop for InboundRequest {
    /// The stream has ended, whatever ended it: the request is counted out, once, and its place passed on.
    fn drop(&mut self) {
        crash::point("inbound.done");
        let Some(request) = &self.request else { return };
        let (counted, hall) = match request.stage.get() {
            Stage::Untouched | Stage::Bounced => (false, false),
            Stage::Waiting { .. } => {
                let mut inbound = request.inbound.borrow_mut();
                let (now, places) = (host::now(), inbound.places());
                let turns = inbound.line.gone(self.context, places, now);
                drop(inbound);
                turns.take(now);
                (true, false)
            }
            Stage::Inside { hall, .. } | Stage::Answered { hall } => (true, hall),
        };
        let mut inbound = request.inbound.borrow_mut();
        if counted {
            inbound.add(-1);
        }
        if hall {
            let now = host::now();
            let places = inbound.places();
            let turns = inbound.line.leave(places, now);
            drop(inbound);
            turns.take(now);
        }
    }
}
