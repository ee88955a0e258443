//! Failures of two replicas behind one address, one by one: what each proxy has in force, and when
//! it goes back to an older state. `-- --nocapture` prints this.
//!
//! Proxies ask a replica at random, and give up a question after a while. Watches lag by some 100
//! ms and send a bookmark every minute. [`Replica`] asserts that an answer is older than the
//! proxy's state only where `adr/0001-versions.md` allows it. Tests here assert which of these
//! cases happen, and that none happens once every replica has listed.

use super::replica::{Replica, Return, Source, Truth, truth};
use super::{KINDS, NAMES};
use crate::store::poll::Poll;
use crate::store::version::Version;
use bloc_policy::sync::{SyncRequest, SyncResponse};
use std::collections::VecDeque;
use std::time::Duration;
use tokio::time::Instant;

const PROXIES: usize = 6;
const STEP: u64 = 50;
/// The proxy's wait, and when it gives up a question.
const WAIT: u64 = 5_000;
const TIMEOUT: u64 = 8_000;
const BOOKMARK: u64 = 60_000;
const CHANGE: u64 = 1_500;
/// How long a watch may be silent before it lists.
const SILENCE: u64 = 120_000;

#[derive(Default)]
struct Proxy {
    version: String,
    /// When it asked, and which replica.
    asked: Option<(u64, usize)>,
    question: u64,
    /// Its states, and since when.
    states: Vec<(u64, Truth)>,
}

struct Node {
    replica: Replica,
    /// Questions that have arrived, and from where.
    inbox: VecDeque<(Poll, Return)>,
    /// When the waits of held polls are over.
    ends: Vec<(Return, u64)>,
    paused: bool,
    cut_off: bool,
    /// Its watches follow a history that etcd no longer has.
    lost: bool,
    heard: [u64; KINDS],
}

struct World {
    name: &'static str,
    rng: fastrand::Rng,
    start: Instant,
    millis: u64,
    source: Source,
    changing: bool,
    nodes: Vec<Node>,
    proxies: Vec<Proxy>,
}

impl World {
    fn new(name: &'static str) -> Self {
        let (source, start) = (Source::new(), Instant::now());
        let nodes = (0..2).map(|_| Node::new(&source, start, 0)).collect();
        let proxies = (0..PROXIES).map(|_| Proxy::default()).collect();
        let rng = fastrand::Rng::with_seed(7);
        Self { name, rng, start, millis: 0, source, changing: true, nodes, proxies }
    }

    fn now(&self) -> Instant {
        self.start + Duration::from_millis(self.millis)
    }

    fn run(&mut self, seconds: u64) {
        let end = self.millis + 1_000 * seconds;
        while self.millis < end {
            self.millis += STEP;
            if self.changing && self.millis.is_multiple_of(CHANGE) {
                let kind = usize::from(self.rng.u8(..3) == 0);
                // The object of the second kind comes and goes.
                let exists = kind == 0 || self.source.at(1, self.source.revision).1.is_none();
                let number = self.source.revision as u32 % 11;
                self.source.change(kind, exists.then_some(number));
            }
            (0..self.nodes.len()).for_each(|nth| self.read(nth));
            (0..self.nodes.len()).for_each(|nth| self.answer(nth));
            (0..PROXIES).for_each(|nth| self.ask(nth));
        }
    }

    fn read(&mut self, nth: usize) {
        let (now, millis, lag) = (self.now(), self.millis, self.rng.bool());
        let Node { replica, heard, lost, .. } = match &mut self.nodes[nth] {
            node if node.paused || node.cut_off => return,
            node => node,
        };
        let all_silent = heard.iter().all(|heard| millis - heard >= SILENCE);
        for (kind, heard) in heard.iter_mut().enumerate() {
            if *lost && !all_silent {
                continue;
            }
            if *lost {
                replica.list(&self.source, kind, now);
            } else if millis.is_multiple_of(BOOKMARK) {
                replica.catch_up(&self.source, kind, now);
            } else if lag && replica.kinds[kind].known < self.source.at(kind, self.source.revision).0 {
                replica.read_all(&self.source, kind, now);
            } else {
                continue;
            }
            *heard = millis;
        }
        *lost &= !all_silent;
    }

    fn answer(&mut self, nth: usize) {
        let (now, millis) = (self.now(), self.millis);
        let node = &mut self.nodes[nth];
        if node.paused {
            return;
        }
        let mut answers = Vec::new();
        while let Some((poll, from)) = node.inbox.pop_front() {
            match node.replica.receive(poll, from, now) {
                Some(reply) => answers.push((from, reply)),
                None => node.ends.push((from, millis + WAIT)),
            }
        }
        answers.extend(node.replica.answers(now));
        let over: Vec<Return> = node.ends.iter().filter(|(_, end)| *end <= millis).map(|(from, _)| *from).collect();
        for from in over {
            if let Some(held) = node.replica.held.iter().position(|held| held.from == from) {
                answers.push(node.replica.end_wait(held, now));
            }
        }
        node.ends.retain(|(_, end)| *end > millis);
        for (Return(proxy, _, question), reply) in answers {
            let proxy = &mut self.proxies[proxy];
            if proxy.question != question || proxy.asked.take().is_none() {
                continue;
            }
            if let Some(body) = reply {
                proxy.version = serde_json::from_slice::<SyncResponse>(&body).unwrap().version;
                let version: Version = proxy.version.parse().unwrap();
                proxy.states.push((millis, truth(&version).unwrap()));
            }
        }
    }

    fn ask(&mut self, nth: usize) {
        let (replica, proxy) = (self.rng.usize(..self.nodes.len()), &mut self.proxies[nth]);
        if proxy.asked.is_some_and(|(at, _)| self.millis - at < TIMEOUT) {
            return;
        }
        proxy.question += 1;
        proxy.asked = Some((self.millis, replica));
        let request = SyncRequest {
            proxy: format!("p{nth}"),
            version: proxy.version.clone(),
            services: NAMES.map(str::to_owned).to_vec(),
            ..SyncRequest::default()
        };
        self.nodes[replica].inbox.push_back((Poll::try_from(request).unwrap(), Return(nth, 0, proxy.question)));
    }

    /// A new replica replaces one; questions to the old one get no answer.
    fn replace(&mut self, nth: usize) {
        self.nodes[nth] = Node::new(&self.source, self.now(), self.millis);
        for proxy in &mut self.proxies {
            proxy.asked = proxy.asked.filter(|(_, replica)| *replica != nth);
        }
    }

    /// Stops the changes: in the end, every proxy has the state of the source. Prints what each
    /// had, and returns when proxies went back.
    fn end(mut self) -> Vec<u64> {
        self.changing = false;
        self.run(90);
        println!("{}: revisions of both objects, < is older than before", self.name);
        let wanted = [0, 1].map(|kind| self.source.history << 32 | self.source.at(kind, self.source.revision).0);
        let mut back = Vec::new();
        for (nth, proxy) in self.proxies.iter().enumerate() {
            let mut line = format!("  p{nth}:");
            for (i, (millis, now)) in proxy.states.iter().enumerate() {
                let is_older = i > 0 && (0..KINDS).any(|kind| now[kind] < proxy.states[i - 1].1[kind]);
                if is_older {
                    back.push(*millis);
                }
                let [a, b] = now.map(|revision| revision & u64::from(u32::MAX));
                let (older, history) = (if is_older { "<" } else { "" }, "'".repeat((now[0] >> 32) as usize));
                line += &format!(" {older}{a}.{b}{history}");
            }
            println!("{line}");
            // Its state of a missing object may be older, and mean the same.
            let (_, last) = proxy.states.last().unwrap();
            let exists = self.source.at(1, self.source.revision).1.is_some();
            assert!(last[0] == wanted[0] && (last[1] == wanted[1] || !exists), "p{nth} has {last:?}, not {wanted:?}");
        }
        back
    }
}

impl Node {
    fn new(source: &Source, now: Instant, millis: u64) -> Self {
        let replica = Replica::start(source, now);
        let (inbox, ends, heard) = (VecDeque::new(), Vec::new(), [millis; KINDS]);
        Self { replica, inbox, ends, heard, paused: false, cut_off: false, lost: false }
    }
}

#[test]
fn a_replica_that_is_cut_off_from_the_api_server_takes_no_proxy_back() {
    let mut world = World::new("one replica cut off for 100 s");
    world.run(10);
    world.nodes[1].cut_off = true;
    world.run(100);
    // The other replica still tells the proxies.
    let newest = world.source.at(0, world.source.revision).0;
    assert!(world.proxies.iter().all(|proxy| proxy.states.last().unwrap().1[0] + 20 > newest));
    world.nodes[1].cut_off = false;
    world.run(20);
    assert_eq!(world.end(), [0; 0]);
}

#[test]
fn a_replica_that_is_paused_takes_no_proxy_back() {
    for (name, seconds) in [("one replica paused for 2 s", 2), ("one replica paused for 60 s", 60)] {
        let mut world = World::new(name);
        for _ in 0..3 {
            world.run(10);
            world.nodes[1].paused = true;
            world.run(seconds);
            world.nodes[1].paused = false;
        }
        world.run(20);
        assert_eq!(world.end(), [0; 0], "{name}");
    }
}

#[test]
fn in_a_rolling_restart_only_a_deletion_may_come_back_for_a_moment() {
    let mut world = World::new("rolling restarts");
    let mut restarts = Vec::new();
    for round in 0..20 {
        world.changing = round % 2 == 0;
        world.source.change(1, Some(10));
        world.run(2);
        // The other one lags for a second, and an object is deleted meanwhile.
        world.nodes[1 - round % 2].cut_off = true;
        world.source.change(1, None);
        world.replace(round % 2);
        restarts.push(world.millis);
        world.run(1);
        world.nodes[1 - round % 2].cut_off = false;
    }
    world.run(20);
    let back = world.end();
    let is_near = |at: &u64| restarts.iter().any(|restart| (*restart..restart + 1_500).contains(at));
    assert!(back.iter().all(is_near) && !back.is_empty(), "{back:?} after {restarts:?}");
}

#[test]
fn a_restored_etcd_takes_every_proxy_back_once_all_replicas_have_listed() {
    let mut world = World::new("etcd put back");
    world.run(20);
    let backup = world.source.clone();
    world.run(40);
    world.source = Source { history: 1, ..backup };
    // One replica lists at once; the other one's watches only fall silent.
    world.nodes[1].lost = true;
    world.replace(0);
    world.run(140);
    assert!(!world.nodes[1].lost);
    let listed = world.millis;
    world.run(60);
    let back = world.end();
    assert!(back.iter().all(|at| *at < listed), "{back:?} after {listed}");
}
