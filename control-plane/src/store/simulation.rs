//! The sync protocol under everything that a network and its ends can do, with the code of both: [`State`] of two replicas, and [`Follower`] of every thread of some proxies.
//!
//! Each seed is one run: changes of the source, replicas that read them late and each watch for itself, list anew and restart; polls and answers that are lost, doubled and overtaken; waits that are over;
//! threads that come in between any two accesses of another one to their shared data, that crash, and proxies that restart. Whatever a thread puts in force is what the source said at that version's revisions, and no
//! version in force in a proxy ever goes back. When all that ends, every thread of every proxy soon has the state of the source.
//!
//! 10,000 seeds; `BLOC_SEEDS=1000000` for more, `BLOC_SEED=17` for one.

use super::poll::Poll;
use super::polls::{PollId, Wake};
use super::state::{Arrival, State};
use super::version::{Progress, Reach, Version};
use super::{Outcome, StoreError};
use crate::load::ReportInterval;
use crate::snapshot::Snapshot;
use bloc_policy::config::{ConfigError, Services};
use bloc_policy::follower::{Follower, News, Shared, Stamp};
use bloc_policy::rng::Rng;
use bloc_policy::sync::SyncRequest;
use bloc_policy::units::Timestamp;
use std::cell::{Cell, RefCell};
use std::collections::{HashMap, VecDeque};
use std::time::Duration;
use tokio::sync::oneshot::{Receiver, error::TryRecvError};
use tokio::time::Instant;

const REPLICAS: usize = 2;
const PROXIES: usize = 2;
const THREADS: usize = 3;
/// What the source is watched for: the parameters of the service `a`, and of `b`, which may not exist.
const KINDS: usize = 2;
const NAMES: [&str; KINDS] = ["a", "b"];
const STEPS: usize = 60;
/// Rounds in which everything works, until everybody must have the state.
const ROUNDS: usize = 12;

/// What the source says: for each kind the revisions of its changes and the `retries` since then (none: no such service).
struct Source {
    revision: u64,
    changes: [Vec<(u64, Option<u32>)>; KINDS],
}

impl Source {
    fn new() -> Self {
        Self { revision: 1, changes: [vec![(1, Some(0))], vec![(1, None)]] }
    }

    fn change(&mut self, kind: usize, retries: Option<u32>) {
        self.revision += 1;
        self.changes[kind].push((self.revision, retries));
    }

    /// The last change of a kind up to `revision`.
    fn at(&self, kind: usize, revision: u64) -> (u64, Option<u32>) {
        *self.changes[kind].iter().rev().find(|(changed, _)| *changed <= revision).unwrap()
    }
}

/// What a source publishes that reads this; read once, because that is what would take most of the time.
fn snapshot(retries: [Option<u32>; KINDS]) -> Snapshot {
    thread_local! {
        static READ: RefCell<HashMap<[Option<u32>; KINDS], Snapshot>> = RefCell::default();
    }
    let read = || {
        let specs = NAMES.iter().zip(retries).filter_map(|(name, retries)| Some((name, retries?)));
        let specs: Vec<String> = specs.map(|(name, retries)| format!("{name}: {{retries: {retries}}}")).collect();
        Snapshot::from_yaml(&format!("services: {{{}}}", specs.join(", "))).unwrap()
    };
    READ.with(|all| all.borrow_mut().entry(retries).or_insert_with(read).clone())
}

/// A poll that a replica holds.
struct Held {
    poll: Poll,
    id: PollId,
    woken: Receiver<Wake>,
    from: Return,
}

/// Where an answer goes: proxy, thread, and the thread's number of the question.
#[derive(Clone, Copy, PartialEq)]
struct Return(usize, usize, u64);

/// A replica, and how far its watches have read.
struct Replica {
    state: State,
    read: [u64; KINDS],
    changed: [u64; KINDS],
    held: Vec<Held>,
}

impl Replica {
    /// Starts with a list.
    fn start(source: &Source) -> Self {
        let all = [source.revision; KINDS];
        let mut replica =
            Self { state: State::new(ReportInterval::default()), read: all, changed: all, held: Vec::new() };
        replica.publish(source);
        replica
    }

    fn publish(&mut self, source: &Source) {
        let snapshot = snapshot([0, 1].map(|kind| source.at(kind, self.read[kind]).1));
        let reach = Reach { known: Progress::new(self.read), changed: Progress::new(self.changed) };
        self.state.publish(snapshot, reach);
    }

    /// The watch of a kind reads its next change, if there is one.
    fn read_on(&mut self, source: &Source, kind: usize) {
        let next = source.changes[kind].iter().find(|(revision, _)| *revision > self.read[kind]);
        if let Some((revision, _)) = next {
            (self.read[kind], self.changed[kind]) = (*revision, *revision);
            self.publish(source);
        }
    }

    /// The watch of a kind reads everything, and hears up to where.
    fn catch_up(&mut self, source: &Source, kind: usize) {
        while source.at(kind, source.revision).0 > self.read[kind] {
            self.read_on(source, kind);
        }
        self.read[kind] = source.revision;
        self.state.advance(Progress::new(self.read));
    }

    /// A list of a kind, because a proxy has seen more than we have.
    fn list(&mut self, source: &Source, kind: usize, now: Instant) {
        if self.state.wants_at(kind) {
            self.catch_up(source, kind);
            self.state.listed(kind, source.revision, now);
        }
    }

    fn hear(&mut self, poll: Poll, from: Return, now: Instant) -> Option<Reply> {
        match self.state.arrive(&poll, now) {
            Ok(Arrival::Answered(outcome)) => Some(reply(outcome)),
            Ok(Arrival::Held(id, woken)) => {
                self.held.push(Held { poll, id, woken, from });
                None
            }
            Err(StoreError::TooManyProxies | StoreError::NotYours) => Some(None),
        }
    }

    /// What the polls that were woken are answered.
    fn answers(&mut self, now: Instant) -> Vec<(Return, Reply)> {
        let mut answers = Vec::new();
        for mut held in std::mem::take(&mut self.held) {
            let outcome = match held.woken.try_recv() {
                Err(TryRecvError::Empty) => {
                    self.held.push(held);
                    continue;
                }
                Ok(Wake::Moved) => match self.state.resume(&held.poll, held.id, now) {
                    Arrival::Answered(outcome) => outcome,
                    Arrival::Held(id, woken) => {
                        self.held.push(Held { id, woken, ..held });
                        continue;
                    }
                },
                Ok(Wake::Superseded | Wake::Closing) | Err(TryRecvError::Closed) => Outcome::Unchanged,
            };
            self.state.leave(&held.poll, held.id, now);
            answers.push((held.from, reply(outcome)));
        }
        answers
    }

    /// The wait of a held poll is over.
    fn end_wait(&mut self, nth: usize, now: Instant) -> (Return, Reply) {
        let held = self.held.swap_remove(nth);
        self.state.leave(&held.poll, held.id, now);
        (held.from, None)
    }
}

/// The body of a 200; none: anything else.
type Reply = Option<Vec<u8>>;

fn reply(outcome: Outcome) -> Reply {
    match outcome {
        Outcome::Changed(answer) => Some(serde_json::to_vec(&answer).unwrap()),
        Outcome::Unchanged | Outcome::Superseded | Outcome::Closing { .. } => None,
    }
}

/// A thread of a proxy: what of its agent matters here.
struct Thread {
    follower: Follower,
    in_force: Services,
    question: u64,
    asked: Option<(u64, Stamp)>,
    inbox: VecDeque<(u64, Reply)>,
}

impl Thread {
    fn new(vm: u64) -> Self {
        let follower = Follower::new(vm);
        Self { follower, in_force: Services::new(), question: 0, asked: None, inbox: VecDeque::new() }
    }
}

struct Proxy {
    threads: Vec<RefCell<Thread>>,
    data: RefCell<HashMap<String, (Vec<u8>, u32)>>,
    cas: Cell<u32>,
    /// How many threads are amid something, one within the other.
    depth: Cell<u32>,
    /// The changes that are in force in each thread, and then in the shared data; empty: nothing yet.
    reached: RefCell<Vec<Vec<u64>>>,
}

/// A proxy's shared data as Envoy has it, between any two accesses to which other threads may run.
struct Data<'a>(&'a World, usize);

impl Shared for Data<'_> {
    fn get(&self, key: &str) -> Option<(Vec<u8>, u32)> {
        self.0.interrupt(self.1);
        self.0.proxies[self.1].data.borrow().get(key).cloned()
    }

    fn set(&self, key: &str, value: &[u8], cas: u32) -> bool {
        self.0.interrupt(self.1);
        let proxy = &self.0.proxies[self.1];
        let mut data = proxy.data.borrow_mut();
        if cas != 0 && data.get(key).is_some_and(|(_, guard)| *guard != cas) {
            return false;
        }
        proxy.cas.set(proxy.cas.get() + 1);
        data.insert(key.to_owned(), (value.to_vec(), proxy.cas.get()));
        true
    }
}

enum Message {
    Question(usize, Return, Vec<u8>),
    Answer(Return, Reply),
}

struct World {
    seed: u64,
    rng: RefCell<fastrand::Rng>,
    start: Instant,
    millis: Cell<u64>,
    source: RefCell<Source>,
    replicas: Vec<RefCell<Replica>>,
    proxies: Vec<Proxy>,
    network: RefCell<Vec<Message>>,
    vms: Cell<u64>,
    interrupts: Cell<bool>,
}

impl World {
    fn new(seed: u64, start: Instant) -> Self {
        let source = Source::new();
        let replicas = (0..REPLICAS).map(|_| RefCell::new(Replica::start(&source))).collect();
        let mut world = Self {
            seed,
            rng: RefCell::new(fastrand::Rng::with_seed(seed)),
            start,
            millis: Cell::new(0),
            source: RefCell::new(source),
            replicas,
            proxies: Vec::new(),
            network: RefCell::default(),
            vms: Cell::new(0),
            interrupts: Cell::new(true),
        };
        for _ in 0..PROXIES {
            let proxy = Proxy {
                threads: (0..THREADS).map(|_| RefCell::new(Thread::new(world.next_vm()))).collect(),
                data: RefCell::default(),
                cas: Cell::new(0),
                depth: Cell::new(0),
                reached: RefCell::new(vec![Vec::new(); THREADS + 1]),
            };
            world.proxies.push(proxy);
        }
        (0..PROXIES).for_each(|nth| world.join(nth));
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

    /// All threads make a place for the state before any of them asks.
    fn join(&self, nth: usize) {
        self.interrupts.set(false);
        self.proxies[nth].threads.iter().for_each(|thread| thread.borrow().follower.join(&Data(self, nth)));
        self.interrupts.set(true);
    }

    /// Perhaps another thread of this proxy comes in between, or it takes so long that another one leads, asks and is answered.
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

    /// A thread takes an answer or looks, unless it is amid that.
    fn run(&self, nth: usize, thread: usize) {
        let proxy = &self.proxies[nth];
        let Ok(mut now) = proxy.threads[thread].try_borrow_mut() else { return };
        proxy.depth.set(proxy.depth.get() + 1);
        let data = Data(self, nth);
        let news = match now.inbox.pop_front() {
            Some((question, reply)) => match now.asked.take_if(|(asked, _)| *asked == question) {
                Some((_, stamp)) => reply.map(|body| now.follower.answered(&data, stamp, &body).unwrap()),
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

    /// What has just been put in force is what the source said there, and not older than what was in force in this thread.
    fn check(&self, proxy: &Proxy, thread: usize, now: &Thread) {
        let version: Version = now.follower.version().parse().unwrap();
        let (seed, source) = (self.seed, self.source.borrow());
        let revisions = version.progress.revisions().to_vec();
        for kind in 0..KINDS {
            let said = source.at(kind, revisions[kind]).1;
            let has = now.in_force.get(NAMES[kind]).map(|service| service.retries());
            assert_eq!(has, said, "seed {seed}: {} at {version}", NAMES[kind]);
        }
        self.reach(proxy, thread, &version);
        // The state that the threads share does not go back either, and with it no thread that is new.
        self.check_shared(proxy);
    }

    /// A version is in force, here or (after the last thread) in the shared data. Of a revision only the last change before it counts: a replica that began with a list
    /// stamps with the list's revision what another one stamps with that of the change.
    fn reach(&self, proxy: &Proxy, place: usize, version: &Version) {
        let source = self.source.borrow();
        let revisions = version.progress.revisions().iter().enumerate();
        let changes: Vec<u64> = revisions.map(|(kind, revision)| source.at(kind, *revision).0).collect();
        let before = std::mem::replace(&mut proxy.reached.borrow_mut()[place], changes.clone());
        let back = before.iter().zip(&changes).any(|(before, now)| now < before);
        assert!(!back, "seed {}, place {place}: from {before:?} back to {changes:?}", self.seed);
    }

    fn check_shared(&self, proxy: &Proxy) {
        let data = proxy.data.borrow();
        let body = data.get("bloc/state").and_then(|(value, _)| value.get(size_of::<Stamp>()..)).unwrap_or_default();
        let Ok(answer) = serde_json::from_slice::<serde_json::Value>(body) else { return };
        let version: Version = answer["version"].as_str().unwrap().parse().unwrap();
        self.reach(proxy, THREADS, &version);
    }

    /// A tick of a thread: it looks, and asks if it leads and has not.
    fn tick(&self, nth: usize, thread: usize) {
        self.run(nth, thread);
        let Ok(mut now) = self.proxies[nth].threads[thread].try_borrow_mut() else { return };
        let time = Timestamp::ZERO.after(Duration::from_millis(self.millis.get()));
        if !now.follower.leads(&Data(self, nth), time) || now.asked.is_some() {
            return;
        }
        let request = SyncRequest {
            proxy: format!("proxy-{nth}"),
            version: now.follower.version().to_owned(),
            services: NAMES.map(str::to_owned).to_vec(),
            ..SyncRequest::default()
        };
        now.question += 1;
        now.asked = Some((now.question, now.follower.stamp()));
        let back = Return(nth, thread, now.question);
        let message = Message::Question(self.below(REPLICAS), back, serde_json::to_vec(&request).unwrap());
        self.network.borrow_mut().push(message);
    }

    /// A message arrives.
    fn deliver(&self, nth: usize) {
        let message = self.network.borrow_mut().swap_remove(nth);
        match message {
            Message::Question(replica, from, body) => {
                let request: SyncRequest = ConfigError::read_json(&body).unwrap();
                let poll = Poll::try_from(request).unwrap();
                let answer = self.replicas[replica].borrow_mut().hear(poll, from, self.now());
                self.network.borrow_mut().extend(answer.map(|reply| Message::Answer(from, reply)));
            }
            Message::Answer(Return(proxy, thread, question), reply) => {
                // Lost if it comes while the thread is amid something: a thread hears of it only between two callbacks.
                if let Ok(mut thread) = self.proxies[proxy].threads[thread].try_borrow_mut() {
                    thread.inbox.push_back((question, reply));
                }
            }
        }
    }

    /// What was woken at the replicas goes out.
    fn flush(&self) {
        for replica in &self.replicas {
            let answers = replica.borrow_mut().answers(self.now());
            self.network.borrow_mut().extend(answers.into_iter().map(|(to, reply)| Message::Answer(to, reply)));
        }
    }

    fn step(&self) {
        let (proxy, thread, kind) = (self.below(PROXIES), self.below(THREADS), self.below(KINDS));
        let (replica, messages) = (&self.replicas[self.below(REPLICAS)], self.network.borrow().len());
        match self.below(100) {
            0..8 => {
                let retries = (kind == 0 || self.below(3) > 0).then(|| self.below(4) as u32);
                self.source.borrow_mut().change(kind, retries);
            }
            8..18 => replica.borrow_mut().read_on(&self.source.borrow(), kind),
            18..20 => replica.borrow_mut().catch_up(&self.source.borrow(), kind),
            20..25 => replica.borrow_mut().list(&self.source.borrow(), kind, self.now()),
            25 => {
                let mut replica = replica.borrow_mut();
                replica.state.close();
                let answers = replica.answers(self.now());
                self.network.borrow_mut().extend(answers.into_iter().map(|(to, reply)| Message::Answer(to, reply)));
                *replica = Replica::start(&self.source.borrow());
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
            // The call has failed, or its time is over.
            84..87 => self.proxies[proxy].threads[thread].borrow_mut().asked = None,
            87 => self.crash(&self.proxies[proxy], thread),
            88 => {
                let nth = proxy;
                let proxy = &self.proxies[nth];
                (0..THREADS).for_each(|thread| self.crash(proxy, thread));
                proxy.data.borrow_mut().clear();
                proxy.reached.borrow_mut()[THREADS].clear();
                self.join(nth);
            }
            89..94 => self.run(proxy, thread),
            _ => self.millis.set(self.millis.get() + [1, 100, 1_000, 4_000][self.below(4)]),
        }
        self.flush();
    }

    /// A thread has a new VM, which has nothing.
    fn crash(&self, proxy: &Proxy, thread: usize) {
        let question = proxy.threads[thread].borrow().question;
        // Answers to the VM before are not given to this one.
        *proxy.threads[thread].borrow_mut() = Thread { question, ..Thread::new(self.next_vm()) };
        proxy.reached.borrow_mut()[thread].clear();
    }

    /// From now on everything works: until everybody has the state. Returns how many rounds that took.
    fn settle(&self) -> usize {
        self.interrupts.set(false);
        for round in 0..ROUNDS {
            if self.is_settled() {
                return round;
            }
            for replica in &self.replicas {
                for kind in 0..KINDS {
                    replica.borrow_mut().catch_up(&self.source.borrow(), kind);
                    replica.borrow_mut().list(&self.source.borrow(), kind, self.now());
                }
            }
            self.flush();
            for (nth, thread) in (0..PROXIES).flat_map(|nth| (0..THREADS).map(move |thread| (nth, thread))) {
                self.tick(nth, thread);
            }
            while !self.network.borrow().is_empty() {
                self.deliver(0);
                self.flush();
            }
            // A question whose answer was lost is given up, and a leader that is gone replaced.
            self.millis.set(self.millis.get() + 4_000);
            for (nth, thread) in (0..PROXIES).flat_map(|nth| (0..THREADS).map(move |thread| (nth, thread))) {
                while !self.proxies[nth].threads[thread].borrow().inbox.is_empty() {
                    self.run(nth, thread);
                }
                if round % 2 == 1 {
                    self.proxies[nth].threads[thread].borrow_mut().asked = None;
                }
            }
        }
        panic!("seed {}: not everybody has the state after {ROUNDS} rounds", self.seed);
    }

    fn is_settled(&self) -> bool {
        let source = self.source.borrow();
        let wanted = [0, 1].map(|kind| source.at(kind, source.revision).1);
        let has = |thread: &RefCell<Thread>| {
            let thread = thread.borrow();
            [0, 1].map(|kind| thread.in_force.get(NAMES[kind]).map(|service| service.retries())) == wanted
        };
        self.proxies.iter().flat_map(|proxy| &proxy.threads).all(has)
    }
}

fn setting(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().unwrap())
}

#[test]
fn versions_never_go_back_and_every_proxy_converges() {
    let seeds = match setting("BLOC_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..setting("BLOC_SEEDS").unwrap_or(10_000),
    };
    let (start, mut rounds, mut versions) = (Instant::now(), [0; ROUNDS], 0);
    for seed in seeds {
        let world = World::new(seed, start);
        (0..STEPS).for_each(|_| world.step());
        versions += world.source.borrow().revision;
        rounds[world.settle()] += 1;
    }
    println!("{versions} versions; settled after so many rounds: {rounds:?}");
}
