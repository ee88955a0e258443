//! A proxy with a control plane. Its listeners, the same in each thread, come and go.

use crate::support::{GET, module};
use bloc_policy::sync::SyncRequest;
use bloc_testhost::history::{Configuration, Direction, Services, Slot, services_json};
use bloc_testhost::{Flow, Headers, HttpCall, Listener, Process, Stream, Vm, VmOptions};
use serde_json::json;
use std::cell::Cell;
use std::collections::BTreeMap;
use std::time::Duration;

pub const CLUSTER: &str = "bloc-control-plane";
/// How long the listeners ask the control plane to wait.
const WAIT: Duration = Duration::from_secs(5);
/// The most answers at one moment; each may be followed by the next poll.
const MOST_ANSWERS: usize = 20;

/// A control plane that answers as the real one does.
#[derive(Default)]
pub struct ControlPlane {
    pub services: Services,
    /// When the waiting polls came.
    came: BTreeMap<u32, Duration>,
    /// When there was last a poll.
    pub asked: Duration,
    /// What it has announced, and when.
    pub said: Vec<(Duration, Services)>,
    /// Whether several polls at once are allowed, because the test does not check that.
    pub lenient: bool,
}

impl ControlPlane {
    /// Answers the polls that are due. Err: there is more than one poll.
    pub fn answer(&mut self, process: &Process) -> Result<(), String> {
        for _ in 0..MOST_ANSWERS {
            let calls = process.http_calls();
            self.came.retain(|token, _| calls.iter().any(|call| call.token() == *token));
            let Some((newest, older)) = calls.split_last() else { return Ok(()) };
            self.asked = process.now();
            for call in older {
                // A new service is asked for at once; the previous poll no longer counts.
                let (before, now) = (question(call), question(newest));
                let same = (&before.services, &before.serves) == (&now.services, &now.serves);
                if (call.vm() != newest.vm() || same) && !self.lenient {
                    let services = now.services;
                    return Err(format!("polls by threads {} and {} for {services:?}", call.vm(), newest.vm()));
                }
                process.answer(call, 304, &[], b"");
            }
            if !self.answer_one(process, newest) {
                return Ok(());
            }
        }
        Err(format!("{MOST_ANSWERS} polls at one moment"))
    }

    fn answer_one(&mut self, process: &Process, call: &HttpCall) -> bool {
        let asked = question(call);
        let of_it = |name: &str| asked.services.iter().chain(&asked.serves).any(|asked| asked == name);
        let services: Services =
            self.services.iter().filter(|(name, _)| of_it(name)).map(|(name, terms)| (*name, *terms)).collect();
        let state = services_json(&services);
        let version = format!("of {state}");
        if asked.version != version {
            let body = json!({"version": version, "services": state}).to_string();
            process.answer(call, 200, &[], body.as_bytes());
            self.said.push((process.now(), services));
            return true;
        }
        let came = *self.came.entry(call.token()).or_insert_with(|| process.now());
        let over = process.now() >= came + WAIT;
        if over {
            process.answer(call, 304, &[], b"");
        }
        over
    }
}

fn question(call: &HttpCall) -> SyncRequest {
    serde_json::from_slice(&call.body).expect("a question")
}

/// A listener in each thread.
struct Set {
    configuration: Configuration,
    filters: Vec<Listener>,
    /// `bloc.attempt`, which goes with it.
    others: Vec<Listener>,
}

/// A proxy.
pub struct Proxy {
    pub process: Process,
    pub control_plane: ControlPlane,
    /// How long a listener drains.
    pub drain: Duration,
    threads: Vec<Vm>,
    listeners: BTreeMap<Slot, Set>,
    /// How long something that names the control plane still lives, besides the present listeners.
    names_it: Duration,
    /// How many requests were sent.
    sent: Cell<usize>,
}

impl Proxy {
    /// A proxy without listeners, with so many threads.
    pub fn new(seed: u64, threads: usize, drain: Duration) -> Self {
        let process = Process::new(module(), seed).with_cluster(CLUSTER);
        let threads = (0..threads).map(|_| process.vm(VmOptions::default())).collect();
        let names_it = process.now();
        let control_plane = ControlPlane::default();
        Self { process, control_plane, drain, threads, listeners: BTreeMap::new(), names_it, sent: Cell::new(0) }
    }

    pub fn threads(&self) -> &[Vm] {
        &self.threads
    }

    /// Adds or updates a listener; the previous version drains.
    pub fn set(&mut self, slot: Slot, configuration: &Configuration) {
        let json = configuration.json(CLUSTER);
        let listen = |root_id: &str, json: &str| -> Vec<Listener> {
            let each = self.threads.iter().map(|vm| vm.listen(root_id, root_id, json));
            each.collect::<Result<_, _>>().expect("a valid configuration")
        };
        let (filters, others) = match slot.direction {
            Direction::Inbound => (listen("bloc.inbound", &json), Vec::new()),
            Direction::Outbound => (listen("bloc.outbound", &json), listen("bloc.attempt", "")),
        };
        self.remove(slot);
        self.listeners.insert(slot, Set { configuration: configuration.clone(), filters, others });
    }

    /// Removes a listener, which drains.
    pub fn remove(&mut self, slot: Slot) {
        let Some(Set { configuration, filters, others }) = self.listeners.remove(&slot) else { return };
        for listener in filters.into_iter().chain(others) {
            self.process.drain(listener, self.drain);
        }
        if configuration.control_plane {
            self.names_it = self.process.now() + self.drain;
        }
    }

    /// Removes all listeners.
    pub fn remove_all(&mut self) {
        for slot in self.slots() {
            self.remove(slot);
        }
    }

    pub fn slots(&self) -> Vec<Slot> {
        self.listeners.keys().copied().collect()
    }

    pub fn configuration(&self, slot: Slot) -> &Configuration {
        &self.listeners[&slot].configuration
    }

    /// Whether something that names the control plane still lives.
    pub fn names_the_control_plane(&self) -> bool {
        self.listeners.values().any(|set| set.configuration.control_plane) || self.names_it > self.process.now()
    }

    /// A request arrives at an inbound listener in this thread.
    pub fn request(&self, slot: Slot, thread: usize) -> (Stream, Flow) {
        let mut stream = self.listeners[&slot].filters[thread].stream();
        let flow = stream.request_headers(GET, true);
        (stream, flow)
    }

    /// Sends a request for this service through an outbound listener, and answers it. Returns the
    /// retries that Envoy is asked for, if any.
    pub fn send(&self, slot: Slot, thread: usize, service: &str) -> Option<u32> {
        let set = &self.listeners[&slot];
        let mut stream = set.filters[thread].stream().with_property("xds\0cluster_name", service);
        let request = Headers::new(&GET);
        assert!(stream.request_headers(&request, true).continues());
        let mut attempt = set.others[thread].attempt().with_property("xds\0cluster_name", service);
        // Two servers: with one, rejections are not retried.
        self.sent.set(self.sent.get() + 1);
        attempt.set_property("upstream\0address", ["10.0.0.1:80", "10.0.0.2:80"][self.sent.get() % 2]);
        attempt.set_property("upstream\0request_attempt_count", 1_u64.to_le_bytes());
        assert!(attempt.request_headers(&request, true).continues());
        for mut one in [attempt, stream] {
            assert!(one.response_headers([(":status", "200")], true).continues());
            one.done();
        }
        request.text("x-envoy-max-retries").and_then(|retries| retries.parse().ok())
    }

    /// Lets time pass, while the control plane answers.
    pub fn advance(&mut self, by: Duration) -> Result<(), String> {
        const STEP: Duration = Duration::from_millis(25);
        let end = self.process.now() + by;
        self.control_plane.answer(&self.process)?;
        while self.process.now() < end {
            self.process.advance((end - self.process.now()).min(STEP));
            self.control_plane.answer(&self.process)?;
        }
        Ok(())
    }
}
