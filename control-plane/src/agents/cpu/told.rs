//! The CPU of a proxy's pod: which proxy is told, and when.
//!
//! A poll says how many cores its proxy knows of. It is answered when that [differs] from what is
//! known here, or when this is no longer known, but at most every [`GAP`]. A proxy is told nothing
//! about a pod never heard of here: another replica may know it. Nobody needs to remember what a
//! proxy was told, so it may ask any replica, and a lost answer is repeated. The answer has the
//! version that the proxy presented: it says nothing about the state. A poll whose wait is over
//! gets what is known instead of 304, because use and cost change without the cores.
//!
//! If an agent asks for the response times of a pod, its proxy's polls are held for at most
//! [`ASKED_EVERY`], so that reports come in time. A poll held already is not shortened.

use super::{ASKED_EVERY, CpuMessage, GAP, Known, differs, pod_of};
use crate::store::decide::State;
use crate::store::proxies::Record;
use crate::store::publish::Store;
use bloc_daemon::cpu::PodAnswers;
use bloc_policy::sync::{Last, ServerCpu};
use std::time::Duration;
use tokio::time::Instant;

/// What is known of the CPU of a proxy's pod, and until when that holds.
pub struct CpuOf(Known, Option<Instant>);

impl CpuOf {
    /// What to tell a proxy that has these cores; `None`: nothing, also if neither has any.
    pub fn known(&self, has: Option<f64>) -> Option<ServerCpu> {
        match self.0 {
            Known::Is(cpu) => has.or(cpu.cores).map(|_| cpu),
            Known::Silent => has.map(|_| ServerCpu::default()),
            Known::Unheard => None,
        }
    }

    /// Whether to tell the proxy now.
    pub fn is_news(&self, record: &Record, now: Instant) -> bool {
        self.differs(record) && record.may_be_told() <= Some(now)
    }

    /// When to look again, unless a message comes first.
    pub fn again(&self, record: &Record) -> Option<Instant> {
        if self.differs(record) { record.may_be_told() } else { self.1.filter(|_| record.cpu.is_some()) }
    }

    fn differs(&self, record: &Record) -> bool {
        self.known(record.cpu).is_some_and(|cpu| differs(record.cpu, cpu.cores))
    }
}

impl Record {
    /// The poll says when another replica answered the proxy, perhaps about CPU.
    pub fn told_elsewhere(&mut self, last: Option<&Last>, own: &str, now: Instant) {
        let elsewhere = last.filter(|last| !last.replica.is_empty() && last.replica != own);
        let at = elsewhere.and_then(|last| now.checked_sub(Duration::from_millis(last.answered_ms)));
        self.told = self.told.max(at);
    }

    /// When it may next be told its cores; `None`: at any time.
    fn may_be_told(&self) -> Option<Instant> {
        self.told.map(|told| told + GAP)
    }
}

impl State {
    /// What is known of the CPU of a proxy's pod.
    pub fn cpu_of(&self, proxy: &str, now: Instant) -> CpuOf {
        let (known, until) = match pod_of(proxy) {
            Some(pod) => self.cpus.of(pod, now),
            None => (Known::Unheard, None),
        };
        CpuOf(known, until)
    }

    /// Answers the poll of `proxy`: counts what it reported, and returns the CPU to tell it. The
    /// reports count first, because the cost of a request follows from them.
    pub fn count_and_tell(&mut self, proxy: &str, now: Instant) -> Option<ServerCpu> {
        self.count(proxy, now);
        let record = self.proxies.get(proxy)?;
        let cpu = self.cpu_of(proxy, now).known(record.cpu)?;
        self.proxies.get_mut(proxy)?.told = Some(now);
        Some(cpu)
    }

    /// How long to hold the poll of a proxy that serves something: `usually`, or less if an agent
    /// asks for the response times of its pod.
    pub fn report_within(&self, proxy: &str, usually: Duration, now: Instant) -> Duration {
        let is_asked = pod_of(proxy).is_some_and(|pod| self.cpus.asks.is_asked(pod, now));
        if is_asked { ASKED_EVERY } else { usually }
    }

    /// Takes a node agent's message and wakes the polls that it concerns. Returns what it asks for;
    /// `None` if there was no room for all of it.
    pub fn receive_cpu(&mut self, message: &CpuMessage, now: Instant) -> Option<Vec<PodAnswers>> {
        let room = self.cpus.receive(message, now);
        for pod in message.pods.iter().map(|pod| pod.key()) {
            if let (Known::Is(cpu), _) = self.cpus.of(&pod, now) {
                self.polls.wake_pod(&pod, |has| differs(has, cpu.cores));
            }
        }
        room.then(|| self.cpus.asks.answers(&message.asks))
    }
}

impl Store {
    /// Takes a checked message of a node agent. Returns what it asks for; `None` if there was no
    /// room for all of it.
    pub fn receive_cpu(&self, message: &CpuMessage) -> Option<Vec<PodAnswers>> {
        self.lock().state.receive_cpu(message, Instant::now())
    }
}
