//! A caller and its servers, with each request cut into steps. Anything may happen between two
//! steps of a request, where other filters and the network wait.

mod books;
mod server;

pub use books::Books;

use crate::host::{FakeHost, FakeStream, Headers, Process, Seen};
use bloc_engine::attempt::{Attempt, Recorded};
use bloc_engine::filter::{Filter, Flow};
use bloc_engine::inbound::InboundRequest;
use bloc_engine::outbound::OutboundRequest;
use bloc_engine::root::{Engine, NewFilter, Root};
use bloc_policy::units::Timestamp;
use server::{held, work};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

const SERVERS: usize = 3;

/// One configuration to test.
#[derive(Clone, Copy, Debug)]
pub struct Case {
    pub routing: &'static str,
    /// Whether the configuration names the servers.
    pub named: bool,
    /// Whether one named server is unknown to Envoy.
    pub missing: bool,
}

/// One proxy with one thread.
struct Proxy {
    process: Rc<Process>,
    engine: Rc<Engine<FakeHost>>,
    roots: Vec<Root<FakeHost>>,
}

impl Proxy {
    fn new(seed: u64, plugins: &[(&str, &str)]) -> Self {
        let process = Process::new(seed);
        let engine = Engine::new(FakeHost(Rc::clone(&process)));
        let plug = |(context, (id, json)): (usize, &(&str, &str))| {
            engine.plug(context as u32, id, json.as_bytes().to_vec()).expect("a valid configuration")
        };
        let roots = plugins.iter().enumerate().map(plug).collect();
        Self { process, engine, roots }
    }

    /// Delivers the pending messages.
    fn observe(&self) {
        let vm = self.engine.vm().number;
        let root = self.roots.first().expect("a plugin");
        root.messages(std::iter::from_fn(|| self.process.message(vm)));
    }

    fn tick(&mut self) {
        self.roots.iter_mut().for_each(Root::tick);
    }
}

/// Where a request is.
enum Step {
    Arrive,
    /// It waits in a filter between the choice of servers and the router.
    Route,
    /// On the way to the server.
    Knock,
    /// Held by the server's proxy.
    Held,
    Work,
    /// Its answer is on the way back; none: the connection broke.
    Return(Option<Headers>),
    /// Its answer waits in a filter of the caller.
    Back(Headers),
    Over,
}

/// Retries that the route allows.
const OWN: u32 = 1;
/// How much of a body Envoy buffers.
const LIMIT: u64 = 1 << 20;
/// None, small ones, and one that cannot be retried.
const BODIES: [Option<u64>; 4] = [None, Some(1), Some(LIMIT), Some(LIMIT + 1)];
/// The size of a request's headers in bytes.
const HEADERS: u64 = 100;

/// One request.
pub struct Request {
    step: Step,
    headers: Headers,
    /// The size of its body in bytes; none: no body.
    body: Option<u64>,
    outbound: Option<(OutboundRequest<FakeHost>, FakeStream)>,
    /// The list as Envoy reads it, once, and how many entries are used.
    list: Option<Vec<String>>,
    used: usize,
    attempt: Option<(Attempt<FakeHost>, FakeStream)>,
    attempts: u64,
    /// Attempts that followed anything but a rejection.
    own: u32,
    /// Whether the last attempt was rejected.
    rejected: bool,
    /// When the current attempt began.
    began: Timestamp,
    inbound: Option<(InboundRequest<FakeHost>, FakeStream, usize)>,
}

impl Request {
    fn new(body: Option<u64>) -> Self {
        let length = body.map(|body| ("content-length".to_owned(), body.to_string().into_bytes()));
        Self {
            step: Step::Arrive,
            headers: Rc::new(RefCell::new(length.into_iter().collect())),
            body,
            outbound: None,
            list: None,
            used: 0,
            attempt: None,
            attempts: 0,
            own: 0,
            rejected: false,
            began: Timestamp::ZERO,
            inbound: None,
        }
    }

    pub fn is_over(&self) -> bool {
        matches!(self.step, Step::Over)
    }
}

/// A caller, its servers, and the requests between them.
pub struct Mesh {
    caller: Proxy,
    servers: Vec<Proxy>,
    hosts: Vec<String>,
    next_host: usize,
    pub requests: Vec<Request>,
    pub books: Books,
    rng: fastrand::Rng,
}

fn address(server: usize) -> String {
    format!("10.0.0.{}:80", server + 1)
}

pub fn headers(of: &[(&str, &str)]) -> Headers {
    let own = |(name, value): &(&str, &str)| ((*name).to_owned(), value.as_bytes().to_vec());
    Rc::new(RefCell::new(of.iter().map(own).collect::<BTreeMap<_, _>>()))
}

impl Mesh {
    pub fn new(case: Case, requests: usize, seed: u64) -> Self {
        let hosts: Vec<String> = (0..SERVERS).map(address).collect();
        let mut named = hosts.clone();
        if case.missing {
            named.push("10.0.9.9:80".to_owned());
        }
        let endpoints =
            if case.named { format!(r#","endpoints":["{}"]"#, named.join(r#"",""#)) } else { String::new() };
        let limits = r#""capacity":{"estimator":"static","limit":2},"concurrency":1,"hold":true,"maxQueueWait":"1s""#;
        let service = format!(r#"{{"routing":"{}",{limits},"retries":1,"retryBudget":1{endpoints}}}"#, case.routing);
        let calling = format!(r#"{{"services":{{"backend":{service}}}}}"#);
        let serving = format!(r#"{{"service":"backend","services":{{"backend":{service}}}}}"#);
        let caller = Proxy::new(seed, &[("bloc.outbound", &calling), ("bloc.attempt", "")]);
        let server = |server| Proxy::new(seed ^ (server + 1), &[("bloc.inbound", &serving)]);
        Self {
            caller,
            servers: (0..SERVERS as u64).map(server).collect(),
            hosts,
            next_host: 0,
            requests: (0..requests).map(|number| Request::new(BODIES[number % BODIES.len()])).collect(),
            books: Books::default(),
            rng: fastrand::Rng::with_seed(seed),
        }
    }

    /// Makes one step of a request that has not ended, and perhaps something else.
    pub fn step(&mut self) {
        let pause = Duration::from_micros(self.rng.u64(0..20_000));
        for proxy in self.servers.iter().chain([&self.caller]) {
            proxy.process.advance(pause);
        }
        match self.rng.u32(0..8) {
            0 => self.caller.observe(),
            1 => self.caller.tick(),
            2 => {
                let server = self.rng.usize(..SERVERS);
                self.servers[server].tick();
            }
            3..6 => {
                let server = self.rng.usize(..SERVERS);
                self.servers[server].observe();
            }
            _ => {}
        }
        let going: Vec<usize> = (0..self.requests.len()).filter(|at| !self.requests[*at].is_over()).collect();
        let Some(&at) = going.get(self.rng.usize(..going.len().max(1))) else { return };
        let mut request = std::mem::replace(&mut self.requests[at], Request::new(None));
        self.go(&mut request);
        self.requests[at] = request;
        self.check();
    }

    fn go(&mut self, request: &mut Request) {
        // A client may go away at any time.
        if self.rng.u32(0..60) == 0 && !matches!(request.step, Step::Arrive) {
            self.end(request);
            return;
        }
        request.step = match std::mem::replace(&mut request.step, Step::Over) {
            Step::Arrive => self.arrive(request),
            Step::Route => self.route(request),
            Step::Knock => self.knock(request),
            Step::Held => {
                let comes = self.rng.bool();
                held(request, comes)
            }
            // Takes longer than the other steps, so that servers fill up.
            Step::Work if self.rng.u32(0..4) > 0 => Step::Work,
            Step::Work => {
                let fails = self.rng.u32(0..5) == 0;
                work(request, if fails { "500" } else { "200" })
            }
            Step::Return(response) => self.come_back(request, response),
            Step::Back(response) => self.hand_on(request, response),
            Step::Over => Step::Over,
        };
        if request.is_over() {
            self.end(request);
        }
    }

    fn is_unanswered(&self, request: &Request) -> bool {
        let answered = |(_, stream): &(Attempt<FakeHost>, FakeStream)| stream.0.response.borrow().is_some();
        request.attempt.as_ref().is_some_and(|attempt| !answered(attempt))
    }

    fn arrive(&mut self, request: &mut Request) -> Step {
        self.books.requests += 1;
        let stream = FakeStream(Rc::new(Seen { request: Rc::clone(&request.headers), ..Seen::default() }));
        let NewFilter::Outbound(mut filter) = self.caller.roots[0].filter(stream.clone()) else { panic!("outbound") };
        assert_eq!(filter.request_headers(request.body.is_none()), Flow::Continue);
        request.outbound = Some((filter, stream));
        Step::Route
    }

    /// Envoy's router: the next host of the list that the cluster has, else a host in turn.
    fn route(&mut self, request: &mut Request) -> Step {
        let list = request.list.get_or_insert_with(|| {
            let value = request.headers.borrow().get("x-bloc-endpoints").cloned().unwrap_or_default();
            String::from_utf8(value).expect("text").split(',').map(str::to_owned).collect()
        });
        let place = list.iter().skip(request.used).position(|host| self.hosts.contains(host));
        let host = match place {
            Some(place) => {
                request.used += place + 1;
                list[request.used - 1].clone()
            }
            None => {
                request.used = list.len();
                self.next_host += 1;
                self.hosts[self.next_host % self.hosts.len()].clone()
            }
        };
        (request.attempts, self.books.attempts) = (request.attempts + 1, self.books.attempts + 1);
        let stream = FakeStream(Rc::new(Seen {
            request: Rc::clone(&request.headers),
            address: Some(host),
            attempts: Some(request.attempts),
            ..Seen::default()
        }));
        let NewFilter::Attempt(mut filter) = self.caller.roots[1].filter(stream.clone()) else { panic!("attempt") };
        let flow = filter.request_headers(request.body.is_none());
        if let Some(reply) = stream.0.reply.borrow_mut().take() {
            assert_eq!((flow, request.own), (Flow::Pause, OWN), "it is not one too many");
            self.books.attempts -= 1;
            self.books.refused += 1;
            return Step::Back(headers(&[(":status", &reply.status.to_string())]));
        }
        assert_eq!(flow, Flow::Continue);
        let follows = request.attempts > 1 && !request.rejected;
        request.own += u32::from(follows);
        assert!(request.own <= OWN, "sent more often than its user allows");
        if request.body > Some(LIMIT) {
            let bid = request.headers.borrow().get("x-bloc-bid").cloned();
            assert_eq!(bid.as_deref(), Some(b"any".as_slice()), "it cannot be repeated, and bids");
        }
        request.attempt = Some((filter, stream));
        request.began = self.caller.process.now();
        Step::Knock
    }

    fn knock(&mut self, request: &mut Request) -> Step {
        if self.rng.u32(0..20) == 0 {
            return Step::Return(None);
        }
        let (_, attempt) = request.attempt.as_ref().expect("an attempt");
        let at = self.hosts.iter().position(|host| Some(host) == attempt.0.address.as_ref()).expect("a host");
        let sent = Rc::new(RefCell::new(request.headers.borrow().clone()));
        let listed = sent.borrow().get("x-bloc-endpoints").cloned().unwrap_or_default();
        assert!(!listed.contains(&b'.'), "an address leaves the proxy: {}", String::from_utf8_lossy(&listed));
        let bytes = HEADERS.into();
        let stream = FakeStream(Rc::new(Seen { request: sent, bytes, ..Seen::default() }));
        let NewFilter::Inbound(mut filter) = self.servers[at].roots[0].filter(stream.clone()) else {
            panic!("inbound")
        };
        let flow = filter.request_headers(request.body.is_none());
        let answered = stream.0.reply.borrow().is_some();
        request.inbound = Some((filter, stream, at));
        match (flow, answered) {
            (Flow::Continue, false) => Step::Work,
            (Flow::Pause, false) if request.body > Some(LIMIT) => panic!("held, and fills the window"),
            (Flow::Pause, _) => Step::Held,
            (Flow::Continue, true) => panic!("answered, and let in"),
        }
    }

    fn come_back(&mut self, request: &mut Request, response: Option<Headers>) -> Step {
        request.inbound = None;
        let (mut filter, stream) = request.attempt.take().expect("an attempt");
        let most: u64 = {
            let headers = request.headers.borrow();
            let most = headers.get("x-envoy-max-retries").expect("a bound of retries");
            std::str::from_utf8(most).expect("text").parse().expect("a number")
        };
        let may_retry = request.attempts <= most;
        request.rejected = false;
        let Some(response) = response else {
            self.books.failures += 1;
            drop(filter);
            if may_retry {
                return Step::Route;
            }
            return Step::Back(headers(&[(":status", "503")]));
        };
        *stream.0.response.borrow_mut() = Some(Rc::clone(&response));
        filter.response_headers(true);
        let rejected = response.borrow().contains_key("x-bloc-reject");
        self.books.rejected += i64::from(rejected);
        request.rejected = rejected;
        let failed = response.borrow().get(":status").is_some_and(|status| status == b"500");
        let marked = response.borrow().contains_key("x-envoy-ratelimited");
        self.books.ended += i64::from(failed && marked);
        if (rejected || failed) && !marked {
            assert!(may_retry, "the router cannot send it again");
            return Step::Route;
        }
        // The last attempt lives on while its answer is passed on.
        request.attempt = Some((filter, stream));
        Step::Back(response)
    }

    fn hand_on(&mut self, request: &mut Request, response: Headers) -> Step {
        let (filter, stream) = request.outbound.as_mut().expect("a request");
        *stream.0.response.borrow_mut() = Some(Rc::clone(&response));
        self.books.exhausted += i64::from(response.borrow().contains_key("x-bloc-reject"));
        filter.response_headers(true);
        for name in ["x-bloc-reject", "x-envoy-ratelimited"] {
            assert!(!response.borrow().contains_key(name), "the application sees {name}");
        }
        Step::Over
    }

    /// Ends the streams of a request, in some order.
    fn end(&mut self, request: &mut Request) {
        request.step = Step::Over;
        let is_unanswered = i64::from(self.is_unanswered(request));
        // Envoy ends the request's own filters first.
        if self.rng.bool() {
            request.outbound = None;
            self.books.given_up += is_unanswered;
        } else {
            self.books.failures += is_unanswered;
        }
        if self.rng.bool() {
            request.inbound = None;
        }
        (request.attempt, request.inbound, request.outbound) = (None, None, None);
    }
}
