//! A fake host: the state that Envoy's threads share, and streams whose headers a test can see.

use bloc_engine::host::{HeaderMap, Host, MetricKind, NumberAttribute, Post, Reply, Stream, TextAttribute};
use bloc_policy::proxy::shared::{Cas, Shared};
use bloc_policy::units::Timestamp;
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::hash::{Hash, Hasher};
use std::rc::Rc;
use std::time::Duration;

/// The state that the threads of one proxy share.
pub struct Process {
    now: Cell<Timestamp>,
    entropy: RefCell<fastrand::Rng>,
    data: RefCell<HashMap<String, (Vec<u8>, u32)>>,
    numbers: Cell<u32>,
    metrics: RefCell<Vec<(String, i64)>>,
    /// Their positions, by name.
    defined: RefCell<HashMap<String, usize>>,
    messages: RefCell<BTreeMap<u64, VecDeque<Vec<u8>>>>,
    /// Whether calls are sent, and the bodies of those sent.
    pub is_connected: Cell<bool>,
    pub calls: RefCell<Vec<Vec<u8>>>,
    /// Their headers.
    pub call_headers: RefCell<Vec<BTreeMap<String, String>>>,
    /// Another thread writes first to this key, once.
    pub lost_race: RefCell<Option<&'static str>>,
    /// The tick period of each root context.
    pub periods: RefCell<BTreeMap<u32, Duration>>,
    /// The size of each thread's memory.
    pub pages: Cell<u64>,
}

/// One thread of the proxy.
#[derive(Clone)]
pub struct FakeHost(pub Rc<Process>);

impl Process {
    pub fn new(seed: u64) -> Rc<Self> {
        Rc::new(Self {
            now: Cell::new(Timestamp::ZERO.after(Duration::from_secs(1))),
            entropy: RefCell::new(fastrand::Rng::with_seed(seed)),
            data: RefCell::default(),
            numbers: Cell::new(0),
            metrics: RefCell::default(),
            defined: RefCell::default(),
            messages: RefCell::default(),
            is_connected: Cell::default(),
            calls: RefCell::default(),
            call_headers: RefCell::default(),
            lost_race: RefCell::default(),
            periods: RefCell::default(),
            pages: Cell::default(),
        })
    }

    pub fn advance(&self, time: Duration) {
        self.now.set(self.now.get().after(time));
    }

    pub fn now(&self) -> Timestamp {
        self.now.get()
    }

    /// The keys of the shared data.
    pub fn keys(&self) -> Vec<String> {
        self.data.borrow().keys().cloned().collect()
    }

    /// A message for the thread with this number.
    pub fn message(&self, vm: u64) -> Option<Vec<u8>> {
        self.messages.borrow_mut().get_mut(&vm)?.pop_front()
    }

    /// The metric with this name; none if it was not defined.
    pub fn metric(&self, name: &str) -> Option<i64> {
        self.metrics.borrow().iter().find(|(known, _)| known == name).map(|(_, value)| *value)
    }

    /// The metrics whose names have this ending.
    pub fn metrics(&self, end: &str) -> Vec<(String, i64)> {
        self.metrics.borrow().iter().filter(|(name, _)| name.ends_with(end)).cloned().collect()
    }
}

impl Shared for FakeHost {
    fn get(&self, key: &str) -> (Option<Vec<u8>>, Cas) {
        match self.0.data.borrow().get(key) {
            Some((value, number)) => (Some(value.clone()), Cas::new(*number)),
            None => (None, Cas::ABSENT),
        }
    }

    fn set(&self, key: &str, value: &[u8], cas: Cas) -> bool {
        if self.0.lost_race.borrow_mut().take_if(|lost| *lost == key).is_some() {
            return false;
        }
        let mut data = self.0.data.borrow_mut();
        let is_still = data.get(key).is_none_or(|(_, number)| *number == cas.get());
        if is_still {
            self.0.numbers.set(self.0.numbers.get() + 1);
            data.insert(key.to_owned(), (value.to_vec(), self.0.numbers.get()));
        }
        is_still
    }

    fn overwrite(&self, key: &str, value: &[u8]) {
        self.0.numbers.set(self.0.numbers.get() + 1);
        self.0.data.borrow_mut().insert(key.to_owned(), (value.to_vec(), self.0.numbers.get()));
    }
}

impl Host for FakeHost {
    type Stream = FakeStream;
    type Metric = usize;

    fn now(&self) -> Timestamp {
        self.0.now.get()
    }

    fn entropy(&self) -> u64 {
        self.0.entropy.borrow_mut().u64(..)
    }

    fn memory_pages(&self) -> u64 {
        self.0.pages.get()
    }

    fn node(&self) -> String {
        "node".to_owned()
    }

    fn define_metric(&self, _kind: MetricKind, name: &str) -> Option<usize> {
        let mut metrics = self.0.metrics.borrow_mut();
        let place = *self.0.defined.borrow_mut().entry(name.to_owned()).or_insert(metrics.len());
        if place == metrics.len() {
            metrics.push((name.to_owned(), 0));
        }
        Some(place)
    }

    fn add_to_metric(&self, metric: usize, offset: i64) {
        self.0.metrics.borrow_mut()[metric].1 += offset;
    }

    fn set_metric(&self, metric: usize, value: u64) {
        self.0.metrics.borrow_mut()[metric].1 = value.cast_signed();
    }

    fn metric(&self, metric: usize) -> u64 {
        self.0.metrics.borrow()[metric].1.cast_unsigned()
    }

    fn register_queue(&self, _root: u32, vm: u64) {
        self.0.messages.borrow_mut().entry(vm).or_default();
    }

    fn wake(&self, vm: u64, message: &[u8]) {
        if let Some(queue) = self.0.messages.borrow_mut().get_mut(&vm) {
            queue.push_back(message.to_vec());
        }
    }

    fn post(&self, post: Post<'_>) -> Option<u32> {
        let mut calls = self.0.calls.borrow_mut();
        let token = calls.len() as u32 + 1;
        self.0.is_connected.get().then(|| {
            calls.push(post.body.to_vec());
            let headers = post.headers.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
            self.0.call_headers.borrow_mut().push(headers.collect());
            token
        })
    }

    fn set_tick_period(&self, root: u32, period: Duration) {
        self.0.periods.borrow_mut().insert(root, period);
    }
}

/// Headers by name, in lower case.
pub type Headers = Rc<RefCell<BTreeMap<String, Vec<u8>>>>;

/// An answer of a filter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Local {
    pub status: u32,
    pub details: String,
    pub headers: Vec<(String, String)>,
}

/// What a filter sees of a stream.
#[derive(Default)]
pub struct Seen {
    /// One map for all attempts of a request, as in Envoy.
    pub request: Headers,
    pub response: RefCell<Option<Headers>>,
    pub trailers: Headers,
    /// The cluster that it is routed to; none: `backend`.
    pub cluster: Option<String>,
    /// The service that Istio names.
    pub service: Option<String>,
    pub address: Option<String>,
    pub attempts: Option<u64>,
    /// Envoy's response flags.
    pub flags: u64,
    /// The bytes of the request that have come.
    pub bytes: Cell<u64>,
    pub reply: RefCell<Option<Local>>,
    pub resumed: Cell<bool>,
    /// How often something ran in its own context.
    pub visits: Cell<u32>,
}

/// A stream; equal only to itself.
#[derive(Clone)]
pub struct FakeStream(pub Rc<Seen>);

impl PartialEq for FakeStream {
    fn eq(&self, other: &Self) -> bool {
        Rc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for FakeStream {}

impl Hash for FakeStream {
    fn hash<S: Hasher>(&self, state: &mut S) {
        Rc::as_ptr(&self.0).hash(state);
    }
}

impl FakeStream {
    fn map(&self, map: HeaderMap) -> Headers {
        match map {
            HeaderMap::Request => Rc::clone(&self.0.request),
            HeaderMap::Response => self.0.response.borrow().clone().expect("no response yet"),
            HeaderMap::Trailers => Rc::clone(&self.0.trailers),
        }
    }
}

impl Stream for FakeStream {
    type Bytes<'a> = Vec<u8>;

    fn add_header(&self, map: HeaderMap, name: &str, value: &[u8]) {
        let headers = self.map(map);
        let mut headers = headers.borrow_mut();
        let present = headers.entry(name.to_owned()).or_default();
        if !present.is_empty() {
            present.push(b',');
        }
        present.extend(value);
    }

    fn header(&self, map: HeaderMap, name: &str) -> Option<Vec<u8>> {
        self.map(map).borrow().get(name).cloned()
    }

    fn set_header(&self, map: HeaderMap, name: &str, value: &[u8]) {
        self.map(map).borrow_mut().insert(name.to_owned(), value.to_vec());
    }

    fn remove_header(&self, map: HeaderMap, name: &str) {
        self.map(map).borrow_mut().remove(name);
    }

    fn text(&self, text: TextAttribute) -> Option<Vec<u8>> {
        match text {
            TextAttribute::ClusterName => {
                Some(self.0.cluster.clone().unwrap_or_else(|| "backend".to_owned()).into_bytes())
            }
            TextAttribute::UpstreamAddress => self.0.address.clone().map(String::into_bytes),
            TextAttribute::Protocol => Some(b"HTTP/1.1".to_vec()),
            TextAttribute::IstioService => self.0.service.clone().map(String::into_bytes),
            TextAttribute::IstioRoute => None,
        }
    }

    fn number(&self, number: NumberAttribute) -> Option<u64> {
        match number {
            NumberAttribute::ResponseFlags => Some(self.0.flags),
            NumberAttribute::Attempts => self.0.attempts,
            NumberAttribute::RequestHeaderBytes => Some(0),
            NumberAttribute::RequestBytes | NumberAttribute::ResponseBytes => Some(self.0.bytes.get()),
        }
    }

    fn reply(&self, reply: Reply<'_>) {
        let headers = reply.headers.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        let local = Local { status: reply.status, details: reply.details.to_owned(), headers };
        assert!(self.0.reply.replace(Some(local)).is_none(), "answered twice");
    }

    fn resume(&self) {
        assert!(!self.0.resumed.replace(true), "let in twice");
    }

    fn in_own_context(&self, work: impl FnOnce()) {
        self.0.visits.set(self.0.visits.get() + 1);
        work();
    }
}
