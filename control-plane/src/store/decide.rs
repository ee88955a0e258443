//! The decisions of the store, without locks, waiting or I/O: time is passed in.
//!
//! A poll is answered or held. This is decided when it arrives and again whenever something
//! changes:
//! 1. Before the first snapshot it is held: nothing is known yet, and an empty answer would take
//!    services away.
//! 2. If it presents the digest of its subscription in force, it is up to date, and held.
//! 3. If its version has a greater stamp of a kind of object than we have read, we are behind: an
//!    answer might take the proxy back to an older state. It is held until we have read as far, for
//!    at most [`PATIENCE`]. Then it is answered anyway, because the version may be of another
//!    history (a restored etcd) or made up. But if the source has delivered nothing of that kind
//!    since the proxy came, we may be cut off. Then its state counts as unchanged.
//! 4. Otherwise it is answered, with the digest and the stamps.
//!
//! A poll that would be held is answered if its proxy has outdated CPU values
//! ([`told`](crate::agents::cpu)). That answer says nothing about the state.
//!
//! A proxy may ask any replica, and a lost answer is given again. Decisions need no memory of a
//! proxy, except since when it has known more than we do.

use super::charge;
use super::outcome::{Answer, CpuAnswer, Outcome, StoreError};
use super::poll::Poll;
use super::proxies::{Gone, PollId, Proxies, Record};
use super::subscription::Subscription;
use super::version::{Kind, Reach, Version};
use crate::agents::cpu::{Cpus, pod_of};
use crate::latency::Latencies;
use crate::load::{Loads, Report};
use crate::snapshot::{Catalog, Snapshot};
use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::oneshot;
use tokio::time::Instant;

/// How many proxies per second may come back after we close. A replica serves some thousands on one
/// core.
const RECONNECTS_PER_SECOND: u64 = 1_000;
/// The longest time over which they are spread, in seconds; meanwhile they miss changes.
const MOST_SPREAD: u64 = 15;

/// How long a proxy that knows more than we do waits for us to catch up. Watches lag by
/// milliseconds.
const PATIENCE: Duration = Duration::from_secs(3);

/// The decision on a poll.
pub enum Arrival {
    /// It is answered at once.
    Answered(Outcome),
    /// It is held until the receiver gets the reason to end it, or its wait is over. At this
    /// moment, if any, it must be decided again.
    Held(PollId, oneshot::Receiver<Wake>, Option<Instant>),
}

/// The state of the store.
#[derive(Debug, Default)]
pub struct State {
    pub catalog: Catalog,
    pub proxies: Proxies,
    pub polls: Polls,
    pub loads: Loads,
    pub latencies: Latencies,
    pub cpus: Cpus,
    pub closing: bool,
    /// The name by which proxies know this replica.
    pub replica: String,
    /// The time within which proxies come back after we have closed.
    pub spread: Duration,
    /// How far the source has read.
    reach: Reach,
}

impl State {
    /// The empty state of a replica with this name.
    pub fn new(replica: String, loads: Loads, cpus: Cpus) -> Self {
        Self { replica, loads, cpus, ..Self::default() }
    }

    /// Decides on a poll that arrives.
    pub fn arrive(&mut self, poll: &Poll, now: Instant) -> Result<Arrival, StoreError> {
        if self.closing {
            return Ok(Arrival::Answered(Outcome::Closing { within: self.spread }));
        }
        if self.proxies.is_of_another(poll) {
            return Err(StoreError::NotYours);
        }
        let charge = charge::of(poll, |name| self.catalog.get(name).is_some());
        let room = self.proxies.make_room(poll, charge, now);
        self.drop_gone();
        if !room {
            return Ok(Arrival::Answered(Outcome::NoRoom));
        }
        let record = self.proxies.note(poll, charge, now);
        if let Some(older) = record.held.take() {
            self.polls.wake(older, Wake::Superseded);
        }
        record.window.arrive(poll.last.as_ref(), &self.replica, now);
        record.told_elsewhere(poll.last.as_ref(), &self.replica, now);
        self.drop_gone();
        let report = Report { proxy: &poll.proxy, load: &poll.load, span: poll.span() };
        let counts = |proxy: &str, at| self.proxies.count_here(proxy, at);
        self.loads.receive(report, |name| self.catalog.get(name).is_some(), counts, now);
        Ok(self.decide(&poll.proxy, now))
    }

    /// Ends the polls of evicted proxies, and drops their loads.
    fn drop_gone(&mut self) {
        for Gone { proxy, held, left } in self.proxies.gone() {
            if let Some(id) = held {
                self.polls.wake(id, Wake::NoRoom);
            }
            for name in left {
                self.loads.forget(&proxy, &name.text);
                self.latencies.forget(&proxy, &name.text);
            }
        }
    }

    /// Decides again on the poll of `proxy` held as `id`, after something changed.
    pub fn resume(&mut self, proxy: &str, id: PollId, now: Instant) -> Arrival {
        if self.closing {
            return Arrival::Answered(Outcome::Closing { within: self.spread });
        }
        // If only the time to look again has come, nobody has woken it.
        self.polls.release(id);
        match self.proxies.get(proxy) {
            Some(record) if record.held == Some(id) => self.decide(proxy, now),
            _ => Arrival::Answered(Outcome::Superseded),
        }
    }

    /// Decides from the proxy's record, which keeps everything in the poll.
    fn decide(&mut self, proxy: &str, now: Instant) -> Arrival {
        let Some(record) = self.proxies.get(proxy) else { return Arrival::Answered(Outcome::Superseded) };
        let (digest, current) = (self.digest_for(record), self.is_current(record));
        let mut lacks = Vec::new();
        // Whether each of these kinds was heard after the proxy came.
        let (since, mut told) = (record.ahead.unwrap_or(record.seen), true);
        for (kind, stamp) in self.lacks(record).filter(|_| !current) {
            lacks.push((kind.name, stamp));
            told &= kind.told > Some(since);
        }
        let waited = since + PATIENCE <= now;
        if self.catalog.is_published() && !current && (lacks.is_empty() || waited && told) {
            let answer = self.answer(record, digest);
            if let Some(record) = self.proxies.get_mut(proxy) {
                record.behind.get_or_insert(now);
                record.ahead = None;
            }
            let answer = Answer { cpu: self.count_and_tell(proxy, now), ..answer };
            return Arrival::Answered(Outcome::Changed(answer));
        }
        let ahead = (!lacks.is_empty()).then_some(since);
        let look = if waited { record.seen } else { since } + PATIENCE;
        if ahead.is_some() && look <= now {
            return Arrival::Answered(self.unchanged(proxy, now));
        }
        let cpu = self.cpu_of(proxy, now);
        let again = match record.version.clone() {
            Some(version) if cpu.is_news(record, now) => {
                if let Some(record) = self.proxies.get_mut(proxy) {
                    (record.behind, record.ahead) = (None, ahead);
                }
                let cpu = self.count_and_tell(proxy, now).unwrap_or_default();
                return Arrival::Answered(Outcome::Cpu(CpuAnswer { version, cpu }));
            }
            Some(_) => cpu.again(record),
            // The first state will include it.
            None => None,
        };
        let again = again.into_iter().chain(ahead.map(|_| look)).min();
        let cores = record.cpu;
        let of_pod = pod_of(proxy).map(|pod| OfPod { pod: pod.into(), cores });
        let (id, woken) = self.polls.hold(Arc::clone(&record.subscription), lacks, of_pod);
        if let Some(record) = self.proxies.get_mut(proxy) {
            (record.held, record.behind, record.ahead) = (Some(id), None, ahead);
        }
        Arrival::Held(id, woken, again)
    }

    /// The wait of the poll of `proxy` held as `id` is over.
    pub fn end_wait(&mut self, proxy: &str, id: PollId, now: Instant) -> Outcome {
        if self.closing {
            return Outcome::Closing { within: self.spread };
        }
        match self.proxies.get(proxy) {
            Some(record) if record.held == Some(id) => self.unchanged(proxy, now),
            _ => Outcome::Superseded,
        }
    }

    /// The answer to a proxy that keeps its state.
    fn unchanged(&mut self, proxy: &str, now: Instant) -> Outcome {
        let version = self.proxies.get(proxy).and_then(|record| record.version.clone());
        let cpu = self.count_and_tell(proxy, now);
        version.zip(cpu).map_or(Outcome::Unchanged, |(version, cpu)| Outcome::Cpu(CpuAnswer { version, cpu }))
    }

    /// The version of everything.
    pub fn version(&self) -> Version {
        Version::new(self.catalog.digest(), &self.reach)
    }

    /// Whether a newer state exists than the proxy has. If it has seen more of the source than we
    /// have, it is not behind: we are.
    pub fn is_behind(&self, record: &Record) -> bool {
        self.catalog.is_published() && !self.is_current(record) && self.lacks(record).next().is_none()
    }

    /// Whether a proxy has the state in force of its subscription.
    pub fn is_current(&self, record: &Record) -> bool {
        record.version.as_ref().is_some_and(|version| version.digest == self.digest_for(record))
    }

    /// The digest in force of a proxy's subscription; computed once per generation of the catalog.
    fn digest_for(&self, record: &Record) -> u64 {
        let generation = self.catalog.generation();
        match record.digest.get() {
            Some((of, digest)) if of == generation => digest,
            _ => {
                let digest = self.catalog.digest_of(record.subscription.texts(), &record.module.features);
                record.digest.set(Some((generation, digest)));
                digest
            }
        }
    }

    /// The kinds in which a proxy's version is ahead, each with the stamp that we lack.
    fn lacks<'a>(&'a self, record: &'a Record) -> impl Iterator<Item = (&'a Kind, u64)> {
        record.version.iter().flat_map(|version| self.reach.lacks(version))
    }

    /// The poll of `proxy` held as `id` has ended, for whatever reason.
    pub fn leave(&mut self, proxy: &str, id: PollId, now: Instant) {
        self.polls.release(id);
        if let Some(record) = self.proxies.get_mut(proxy)
            && record.held == Some(id)
        {
            record.held = None;
            record.seen = now;
            record.window.leave(now);
        }
    }

    /// Puts a snapshot in force: the source's state at `reach`. Returns the names that changed and
    /// the number of polls woken.
    pub fn publish(&mut self, snapshot: Snapshot, reach: Reach) -> (BTreeSet<String>, usize) {
        let first = !self.catalog.is_published();
        let changes = self.catalog.replace(snapshot);
        self.loads.retain(|name| self.catalog.get(name).is_some());
        self.latencies.retain(|name| self.catalog.get(name).is_some());
        let woken = if first { self.polls.wake_all(Wake::Moved) } else { self.wake_subscribers(&changes) };
        (changes, woken + self.advance(reach))
    }

    fn wake_subscribers(&mut self, changes: &BTreeSet<String>) -> usize {
        self.polls.wake_subscribers(changes.iter().filter_map(|name| self.proxies.name_id(name)))
    }

    /// The source has read on without a change. Returns the number of polls woken.
    pub fn advance(&mut self, reach: Reach) -> usize {
        self.reach = reach;
        self.polls.wake_reached(&self.reach)
    }

    /// Ends all polls and holds none from now on.
    pub fn close(&mut self) -> usize {
        self.closing = true;
        let seconds = u64::try_from(self.polls.len()).unwrap_or(u64::MAX) / RECONNECTS_PER_SECOND;
        self.spread = Duration::from_secs(seconds.clamp(1, MOST_SPREAD));
        self.polls.wake_all(Wake::Closing)
    }

    fn answer(&self, record: &Record, digest: u64) -> Answer {
        let services = self.catalog.fitted(record.subscription.texts(), &record.module.features);
        let services = services.map(|(name, service)| (name.clone(), service)).collect();
        Answer { version: Version::new(digest, &self.reach), services, cpu: None }
    }
}

/// Why a held poll ends before its wait is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wake {
    /// Something has changed: decide on the poll again.
    Moved,
    /// The same proxy has sent a newer poll.
    Superseded,
    /// Its proxy was evicted to make room.
    NoRoom,
    /// The control plane shuts down.
    Closing,
}

/// The held polls, indexed by service, so that a change wakes only the polls that subscribed to it.
/// Cost: two numbers for each name of each held poll.
#[derive(Debug, Default)]
pub struct Polls {
    next: PollId,
    held: HashMap<PollId, Held>,
    /// By the id of the name. One set for all names, because a set per name would take more memory
    /// than the names.
    subscribers: BTreeSet<(u64, PollId)>,
    /// Polls of proxies that know more of a kind than we do, by the kind and the stamp that we
    /// lack.
    behind: BTreeSet<(char, u64, PollId)>,
    /// Polls of proxies that follow the CPU of their pods, by pod.
    of_pods: BTreeSet<(Arc<str>, PollId)>,
}

#[derive(Debug)]
struct Held {
    wake: oneshot::Sender<Wake>,
    subscription: Arc<Subscription>,
    lacks: Vec<(char, u64)>,
    of_pod: Option<OfPod>,
}

/// A proxy's pod, and the cores that the proxy knows of.
#[derive(Clone, Debug)]
pub struct OfPod {
    /// `POD.NAMESPACE`.
    pub pod: Arc<str>,
    /// The cores; none: unknown to the proxy.
    pub cores: Option<f64>,
}

impl Polls {
    /// The number of held polls.
    pub fn len(&self) -> usize {
        self.held.len()
    }

    /// Holds a poll; the receiver gets the reason why it ends. A caller that drops the receiver
    /// must [`release`](Self::release) the id. `lacks`: the poll also waits until these stamps are
    /// reached; `of_pod`: it also waits for the CPU of this pod to change.
    pub fn hold(
        &mut self,
        subscription: Arc<Subscription>,
        lacks: Vec<(char, u64)>,
        of_pod: Option<OfPod>,
    ) -> (PollId, oneshot::Receiver<Wake>) {
        let id = self.next;
        self.next += 1;
        self.behind.extend(lacks.iter().map(|(name, stamp)| (*name, *stamp, id)));
        self.subscribers.extend(subscription.iter().map(|name| (name.id, id)));
        self.of_pods.extend(of_pod.iter().map(|of| (Arc::clone(&of.pod), id)));
        let (wake, woken) = oneshot::channel();
        self.held.insert(id, Held { wake, subscription, lacks, of_pod });
        (id, woken)
    }

    /// Wakes the polls that subscribed to any name with these ids. Returns their number.
    pub fn wake_subscribers(&mut self, names: impl IntoIterator<Item = u64>) -> usize {
        let of = |name| self.subscribers.range((name, 0)..=(name, PollId::MAX)).map(|(_, id)| *id);
        let ids: HashSet<PollId> = names.into_iter().flat_map(of).collect();
        ids.iter().for_each(|&id| self.wake(id, Wake::Moved));
        ids.len()
    }

    /// Wakes the polls whose stamp is now reached. Returns their number.
    pub fn wake_reached(&mut self, reach: &Reach) -> usize {
        let of = |kind: &Kind| self.behind.range((kind.name, 0, 0)..=(kind.name, kind.known, PollId::MAX));
        let ids: HashSet<PollId> = reach.0.iter().flat_map(of).map(|(.., id)| *id).collect();
        ids.iter().for_each(|&id| self.wake(id, Wake::Moved));
        ids.len()
    }

    /// Wakes the polls of a pod's proxies for whose cores `news` is true.
    pub fn wake_pod(&mut self, pod: &str, news: impl Fn(Option<f64>) -> bool) {
        let pod: Arc<str> = pod.into();
        let ids = self.of_pods.range((Arc::clone(&pod), 0)..=(pod, PollId::MAX)).map(|(_, id)| *id);
        let has = |id: &PollId| self.held.get(id).and_then(|held| held.of_pod.as_ref()).and_then(|of| of.cores);
        let ids: Vec<PollId> = ids.filter(|id| news(has(id))).collect();
        ids.into_iter().for_each(|id| self.wake(id, Wake::Moved));
    }

    /// Ends all polls. Returns their number.
    pub fn wake_all(&mut self, why: Wake) -> usize {
        self.subscribers.clear();
        self.behind.clear();
        self.of_pods.clear();
        let count = self.held.len();
        for (_, held) in self.held.drain() {
            // If the receiver is gone, the client has left.
            let _ = held.wake.send(why);
        }
        count
    }

    /// Ends one poll, if it is still held.
    pub fn wake(&mut self, id: PollId, why: Wake) {
        if let Some(held) = self.take(id) {
            let _ = held.wake.send(why);
        }
    }

    /// Forgets a poll whose wait is over or whose client has left.
    pub fn release(&mut self, id: PollId) {
        self.take(id);
    }

    fn take(&mut self, id: PollId) -> Option<Held> {
        let held = self.held.remove(&id)?;
        for (name, stamp) in &held.lacks {
            self.behind.remove(&(*name, *stamp, id));
        }
        if let Some(of) = &held.of_pod {
            self.of_pods.remove(&(Arc::clone(&of.pod), id));
        }
        for name in held.subscription.iter() {
            self.subscribers.remove(&(name.id, id));
        }
        Some(held)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::names::Names;

    fn to(names: &mut Names, texts: &[&str]) -> Arc<Subscription> {
        names.subscribe(&texts.iter().map(ToString::to_string).collect::<Vec<_>>(), &[])
    }

    #[test]
    fn a_change_wakes_its_subscribers_once() {
        let (mut polls, mut names) = (Polls::default(), Names::default());
        let (_, mut both) = polls.hold(to(&mut names, &["a", "b"]), Vec::new(), None);
        let (_, mut other) = polls.hold(to(&mut names, &["b", "c"]), vec![('e', 7), ('s', 9)], None);
        assert_eq!(polls.wake_subscribers(["a", "d"].iter().filter_map(|name| names.id(name))), 1);
        assert_eq!(both.try_recv(), Ok(Wake::Moved));
        assert!(other.try_recv().is_err());
        assert_eq!(polls.len(), 1);
        let mut wake = |name, known| polls.wake_reached(&Reach(vec![Kind { known, ..Kind::new(name) }]));
        assert_eq!([wake('e', 6), wake('s', 8), wake('e', 7), wake('s', 9)], [0, 0, 1, 0]);
        assert_eq!(other.try_recv(), Ok(Wake::Moved));
    }

    #[test]
    fn polls_that_end_leave_nothing_in_the_index() {
        let (mut polls, a) = (Polls::default(), to(&mut Names::default(), &["a"]));
        let is_empty = |polls: &Polls| {
            let Polls { held, subscribers, behind, of_pods, .. } = polls;
            held.is_empty() && subscribers.is_empty() && behind.is_empty() && of_pods.is_empty()
        };
        let of = || Some(OfPod { pod: "p.shop".into(), cores: None });
        let (id, woken) = polls.hold(Arc::clone(&a), vec![('e', 7)], of());
        drop(woken);
        polls.release(id);
        polls.release(id);
        let (id, mut superseded) = polls.hold(Arc::clone(&a), vec![('e', 7)], of());
        polls.wake(id, Wake::Superseded);
        assert_eq!(superseded.try_recv(), Ok(Wake::Superseded));
        assert!(is_empty(&polls));
        let (_, mut closed) = polls.hold(Arc::clone(&a), vec![('e', 7)], of());
        assert_eq!(polls.wake_all(Wake::Closing), 1);
        assert_eq!(closed.try_recv(), Ok(Wake::Closing));
        assert!(is_empty(&polls));
    }

    #[test]
    fn a_pods_cores_wake_its_own_polls_that_have_others() {
        let (mut polls, a) = (Polls::default(), to(&mut Names::default(), &["a"]));
        let mut hold = |pod: &str, cores| {
            let of_pod = Some(OfPod { pod: pod.into(), cores });
            polls.hold(Arc::clone(&a), Vec::new(), of_pod).1
        };
        let mut woken =
            [hold("p.shop", None), hold("p.shop", Some(2.0)), hold("p.shop", Some(3.0)), hold("q.shop", None)];
        polls.wake_pod("p.shop", |has| has != Some(2.0));
        assert_eq!(
            woken.each_mut().map(|woken| woken.try_recv().ok()),
            [Some(Wake::Moved), None, Some(Wake::Moved), None]
        );
        assert_eq!((polls.len(), polls.of_pods.len()), (2, 2));
    }
}
