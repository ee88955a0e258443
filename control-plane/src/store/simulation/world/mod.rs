//! The whole simulated system, and the events in it.

mod settle;

use super::proxy::{Proxy, Thread};
use super::replica::{Replica, Reply, Return, Source, truth};
use super::{KINDS, NAMES, PROXIES, REPLICAS, THREADS};
use crate::agents::cpu::differs;
use crate::store::Module;
use crate::store::poll::Poll;
use crate::store::version::Version;
use bloc_policy::config::ConfigError;
use bloc_policy::proxy::shared::{Cas, Shared};
use bloc_policy::sync::SyncRequest;
use bloc_policy::sync::follower::{News, Stamp};
use bloc_policy::units::Timestamp;
use bloc_policy::units::rng::Rng;
use serde_json::Value;
use std::cell::{Cell, RefCell};
use std::time::Duration;
use tokio::time::Instant;

/// A proxy's shared data as in Envoy. Other threads may run between any two accesses.
struct Data<'a>(&'a World, usize);

impl Data<'_> {
    fn store(&self, key: &str, value: &[u8], cas: Option<Cas>) -> bool {
        self.0.interrupt(self.1);
        let proxy = &self.0.proxies[self.1];
        let mut data = proxy.data.borrow_mut();
        let guard = data.get(key).map(|(_, guard)| *guard);
        if cas.is_some_and(|cas| guard.is_some_and(|guard| guard != cas.get())) {
            return false;
        }
        proxy.cas.set(proxy.cas.get() + 1);
        data.insert(key.to_owned(), (value.to_vec(), proxy.cas.get()));
        true
    }
}

impl Shared for Data<'_> {
    fn get(&self, key: &str) -> (Option<Vec<u8>>, Cas) {
        self.0.interrupt(self.1);
        let found = self.0.proxies[self.1].data.borrow().get(key).cloned();
        found.map_or((None, Cas::ABSENT), |(value, guard)| (Some(value), Cas::new(guard)))
    }

    fn set(&self, key: &str, value: &[u8], cas: Cas) -> bool {
        self.store(key, value, Some(cas))
    }

    fn overwrite(&self, key: &str, value: &[u8]) {
        self.store(key, value, None);
    }
}

enum Message {
    Question(usize, Return, Vec<u8>),
    Answer(Return, Reply),
}

pub(super) struct World {
    seed: u64,
    rng: RefCell<fastrand::Rng>,
    start: Instant,
    millis: Cell<u64>,
    pub(super) source: RefCell<Source>,
    replicas: Vec<RefCell<Replica>>,
    proxies: Vec<Proxy>,
    /// The cores of the pod of each proxy.
    cores: RefCell<[f64; PROXIES]>,
    /// The only replica that each pod's agent reaches; none: it reaches all.
    only: [Option<usize>; PROXIES],
    network: RefCell<Vec<Message>>,
    vms: Cell<u64>,
    interrupts: Cell<bool>,
    /// How often a proxy was answered with an older state.
    pub(super) older: Cell<usize>,
    /// The round without faults; none: there still are faults.
    round: Cell<Option<usize>>,
}

impl World {
    pub(super) fn new(seed: u64, start: Instant) -> Self {
        let source = Source::new();
        let replicas = (0..REPLICAS).map(|_| RefCell::new(Replica::start(&source, start))).collect();
        let mut rng = fastrand::Rng::with_seed(seed);
        let only = [(); PROXIES].map(|()| (rng.below(2) == 0).then(|| rng.below(REPLICAS)));
        let mut world = Self {
            seed,
            rng: RefCell::new(rng),
            start,
            millis: Cell::new(0),
            source: RefCell::new(source),
            replicas,
            proxies: Vec::new(),
            cores: RefCell::new([1.0; PROXIES]),
            only,
            network: RefCell::default(),
            vms: Cell::new(0),
            interrupts: Cell::new(true),
            older: Cell::new(0),
            round: Cell::new(None),
        };
        for _ in 0..PROXIES {
            let proxy = Proxy {
                threads: (0..THREADS).map(|_| RefCell::new(Thread::new(world.next_vm()))).collect(),
                data: RefCell::default(),
                cas: Cell::new(0),
                cpu: Cell::new(None),
                moves: Cell::new(0),
                depth: Cell::new(0),
                reached: RefCell::new(vec![Vec::new(); THREADS + 1]),
                floor: Cell::new([u64::MAX; KINDS]),
            };
            world.proxies.push(proxy);
        }
        world
    }

    fn next_vm(&self) -> u64 {
        self.vms.set(self.vms.get() + 1);
        self.vms.get()
    }

    fn below(&self, n: usize) -> usize {
        self.rng.borrow_mut().below(n)
    }

    fn now(&self) -> Instant {
        self.start + Duration::from_millis(self.millis.get())
    }

    /// Perhaps interrupts a thread: another thread of this proxy runs, or enough time passes for
    /// another one to lead, ask and get an answer.
    fn interrupt(&self, nth: usize) {
        let depth = &self.proxies[nth].depth;
        if !self.interrupts.get() || depth.get() >= 3 || self.below(6) > 0 {
            return;
        }
        let thread = self.below(THREADS);
        self.run(nth, thread);
        if self.below(3) == 0 && self.proxies[nth].threads[thread].try_borrow().is_ok() {
            depth.set(depth.get() + 1);
            self.millis.set(self.millis.get() + 4_000);
            self.tick(nth, thread);
            let messages = self.network.borrow().len();
            for _ in 0..messages {
                self.deliver(0);
                self.flush();
            }
            self.run(nth, thread);
            depth.set(depth.get() - 1);
        }
    }

    /// A thread takes an answer or looks, unless it is already doing so.
    fn run(&self, nth: usize, thread: usize) {
        let proxy = &self.proxies[nth];
        let Ok(mut now) = proxy.threads[thread].try_borrow_mut() else { return };
        proxy.depth.set(proxy.depth.get() + 1);
        let data = Data(self, nth);
        let news = match now.inbox.pop_front() {
            Some((question, reply)) => match now.asked.take_if(|(asked, ..)| *asked == question) {
                Some((_, stamp, version)) => reply.and_then(|body| {
                    let has_state = self.take_cpu(proxy, &version, &body);
                    has_state.then(|| now.follower.answered(&data, stamp, &body).unwrap())
                }),
                None => None,
            },
            None => Some(now.follower.look(&data).unwrap()),
        };
        if let Some(Some(News { services, .. })) = news {
            now.in_force = services;
            self.check(proxy, thread, &now);
        }
        proxy.depth.set(proxy.depth.get() - 1);
    }

    /// A proxy takes the CPU from the answer to a question with `version`. Returns whether the
    /// answer has a state, too.
    fn take_cpu(&self, proxy: &Proxy, version: &str, body: &[u8]) -> bool {
        let answer: Value = serde_json::from_slice(body).unwrap();
        if let Some(cpu) = answer.get("cpu") {
            let cores = cpu["cores"].as_f64();
            proxy.moves.set(proxy.moves.get() + u32::from(differs(proxy.cpu.get(), cores)));
            proxy.cpu.set(cores);
        }
        let has_state = answer.get("services").is_some();
        assert!(has_state || answer["version"] == version, "seed {}: {answer} to {version}", self.seed);
        has_state
    }

    /// A pod's agent reports to a replica, if it reaches it.
    fn speak(&self, proxy: usize, replica: usize) {
        if self.only[proxy].is_none_or(|only| only == replica) {
            self.replicas[replica].borrow_mut().receive_agent(proxy, self.cores.borrow()[proxy], self.now());
        }
    }

    /// Asserts that the state just put in force is the source's at that version, and not older than
    /// the previous one in this thread.
    fn check(&self, proxy: &Proxy, thread: usize, now: &Thread) {
        let version: Version = now.follower.version().parse().unwrap();
        let (seed, source) = (self.seed, self.source.borrow());
        let truth = truth(&version).unwrap();
        for kind in 0..KINDS {
            let said = source.at(kind, truth[kind]).1;
            let has = now.in_force.get(NAMES[kind]).map(|service| service.retries());
            assert_eq!(has, said, "seed {seed}: {} at {version}", NAMES[kind]);
        }
        self.reach(proxy, thread, &version);
        // The state that the threads share does not go back either, so a new thread does not start
        // with an older one.
        self.check_shared(proxy);
    }

    /// A version is in force in a thread, or (`place` after the last thread) in the shared data.
    fn reach(&self, proxy: &Proxy, place: usize, version: &Version) {
        let changes = truth(version).unwrap().to_vec();
        let before = std::mem::replace(&mut proxy.reached.borrow_mut()[place], changes.clone());
        let floor = proxy.floor.get();
        let back = before.iter().zip(&changes).zip(floor).any(|((before, now), floor)| *now < floor.min(*before));
        assert!(!back, "seed {}, place {place}: from {before:?} back to {changes:?}", self.seed);
    }

    fn check_shared(&self, proxy: &Proxy) {
        let data = proxy.data.borrow();
        let body = data.get("bloc/state").and_then(|(value, _)| value.get(size_of::<Stamp>()..)).unwrap_or_default();
        let Ok(answer) = serde_json::from_slice::<serde_json::Value>(body) else { return };
        let version: Version = answer["version"].as_str().unwrap().parse().unwrap();
        self.reach(proxy, THREADS, &version);
    }

    /// A tick of a thread: it looks, and asks if it leads and has no question open.
    fn tick(&self, nth: usize, thread: usize) {
        self.run(nth, thread);
        let Ok(mut now) = self.proxies[nth].threads[thread].try_borrow_mut() else { return };
        let time = Timestamp::ZERO.after(Duration::from_millis(self.millis.get()));
        if !now.follower.try_lead(&Data(self, nth), time) || now.asked.is_some() {
            return;
        }
        let request = SyncRequest {
            proxy: format!("sidecar~10.0.0.1~proxy-{nth}.shop~x"),
            version: now.follower.version().to_owned(),
            services: NAMES.map(str::to_owned).to_vec(),
            cpu: self.proxies[nth].cpu.get(),
            ..SyncRequest::default()
        };
        now.question += 1;
        now.asked = Some((now.question, now.follower.stamp(), now.follower.version().to_owned()));
        let back = Return(nth, thread, now.question);
        // Without faults, a thread soon asks each replica.
        let replica = self.round.get().map_or_else(|| self.below(REPLICAS), |round| round / 2 % REPLICAS);
        let message = Message::Question(replica, back, serde_json::to_vec(&request).unwrap());
        self.network.borrow_mut().push(message);
    }

    /// A message is delivered.
    fn deliver(&self, nth: usize) {
        let message = self.network.borrow_mut().swap_remove(nth);
        match message {
            Message::Question(replica, from, body) => {
                let request: SyncRequest = ConfigError::read_json(&body).unwrap();
                let poll = Poll::try_from(request).unwrap().run_by(Module::of(None, Some(b"cpu")));
                let answer = self.replicas[replica].borrow_mut().receive(poll, from, self.now());
                self.lower(replica);
                self.network.borrow_mut().extend(answer.map(|reply| Message::Answer(from, reply)));
            }
            Message::Answer(Return(proxy, thread, question), reply) => {
                // The answer is lost if it arrives in the middle of a call, because a real thread
                // gets it only between two callbacks.
                if let Ok(mut thread) = self.proxies[proxy].threads[thread].try_borrow_mut() {
                    thread.inbox.push_back((question, reply));
                }
            }
        }
    }

    /// Sends the answers of woken polls.
    fn flush(&self) {
        for (nth, replica) in self.replicas.iter().enumerate() {
            let answers = replica.borrow_mut().answers(self.now());
            self.lower(nth);
            self.network.borrow_mut().extend(answers.into_iter().map(|(to, reply)| Message::Answer(to, reply)));
        }
    }

    /// Where a replica may answer with an older state, the proxy may go back to it.
    fn lower(&self, replica: usize) {
        for (proxy, truth) in std::mem::take(&mut self.replicas[replica].borrow_mut().older) {
            self.older.set(self.older.get() + 1);
            let floor = &self.proxies[proxy].floor;
            floor.set([0, 1].map(|kind| truth[kind].min(floor.get()[kind])));
        }
    }

    pub(super) fn step(&self) {
        let (proxy, thread, kind) = (self.below(PROXIES), self.below(THREADS), self.below(KINDS));
        let (replica, messages) = (&self.replicas[self.below(REPLICAS)], self.network.borrow().len());
        match self.below(100) {
            0..8 => {
                let retries = (kind == 0 || self.below(3) > 0).then(|| self.below(4) as u32);
                self.source.borrow_mut().change(kind, retries);
            }
            8..18 => replica.borrow_mut().read_on(&self.source.borrow(), kind, self.now()),
            18..20 => replica.borrow_mut().catch_up(&self.source.borrow(), kind, self.now()),
            20..25 => replica.borrow_mut().list(&self.source.borrow(), kind, self.now()),
            25 => {
                let mut replica = replica.borrow_mut();
                replica.state.close();
                let answers = replica.answers(self.now());
                self.network.borrow_mut().extend(answers.into_iter().map(|(to, reply)| Message::Answer(to, reply)));
                *replica = Replica::start(&self.source.borrow(), self.now());
            }
            26..50 => self.tick(proxy, thread),
            50..75 if messages > 0 => self.deliver(self.below(messages)),
            75..78 if messages > 0 => drop(self.network.borrow_mut().swap_remove(self.below(messages))),
            78..80 if messages > 0 => {
                let copy = match &self.network.borrow()[self.below(messages)] {
                    Message::Question(to, from, body) => Message::Question(*to, *from, body.clone()),
                    Message::Answer(to, reply) => Message::Answer(*to, reply.clone()),
                };
                self.network.borrow_mut().push(copy);
            }
            80..84 => {
                let held = replica.borrow().held.len();
                if held > 0 {
                    let (to, reply) = replica.borrow_mut().end_wait(self.below(held), self.now());
                    self.network.borrow_mut().push(Message::Answer(to, reply));
                }
            }
            // The call failed or timed out.
            84..87 => self.proxies[proxy].threads[thread].borrow_mut().asked = None,
            87 => self.crash(&self.proxies[proxy], thread),
            88 => {
                let nth = proxy;
                let proxy = &self.proxies[nth];
                (0..THREADS).for_each(|thread| self.crash(proxy, thread));
                proxy.data.borrow_mut().clear();
                proxy.reached.borrow_mut()[THREADS].clear();
            }
            89..94 => self.run(proxy, thread),
            94 => self.cores.borrow_mut()[proxy] = [1.0, 1.04, 2.0][self.below(3)],
            95 => self.speak(proxy, self.below(REPLICAS)),
            _ => self.millis.set(self.millis.get() + [1, 100, 1_000, 4_000][self.below(4)]),
        }
        self.flush();
    }

    /// A thread gets a new VM, which has no state.
    fn crash(&self, proxy: &Proxy, thread: usize) {
        let question = proxy.threads[thread].borrow().question;
        // The new VM does not get answers to the old one.
        *proxy.threads[thread].borrow_mut() = Thread { question, ..Thread::new(self.next_vm()) };
        proxy.reached.borrow_mut()[thread].clear();
    }
}
