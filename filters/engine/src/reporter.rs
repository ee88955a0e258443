//! What the leader reports with its polls: the load of all services that this proxy stands in front
//! of, whichever thread has served them. [`Reports`] decides which part of it to send, and what
//! becomes of it.
//!
//! The leader has often served nothing: Envoy's main thread never does. So it reads the metrics
//! that the threads share, and makes no [`Service`](crate::service::Service) for that.

use crate::host::{Host, PostAnswer};
use crate::service_metrics::ServiceMetrics;
use bloc_policy::sync::latency::store::{self, Side};
use bloc_policy::sync::latency::{BUCKETS, Calls, Growth, Histogram};
use bloc_policy::sync::polls;
use bloc_policy::sync::reports::{End, ReportId, Reports};
use bloc_policy::sync::{Last, ServerLatency, ServiceCalls, ServiceLoad};
use bloc_policy::units::Timestamp;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// The most bytes of latencies in a report, and the most that one service may take.
const ROOM: usize = 32 << 10;
const MOST: usize = 16 * BUCKETS;

/// What one VM reports while it leads.
pub struct Reporter<H: Host> {
    host: H,
    vm: u64,
    /// Those of the services that it has reported. Kept, since a host may give each definition an
    /// id.
    metrics: BTreeMap<String, ServiceMetrics<H>>,
    /// The reports under way, by the tokens of their polls.
    under_way: BTreeMap<u32, Report>,
    /// Reports made.
    made: u64,
    /// The called service whose latencies are reported first: one report may not hold all.
    next: String,
}

/// The report of one poll.
pub struct Report {
    to: Reports,
    id: ReportId,
    /// No answer comes after this.
    until: Timestamp,
    /// The services whose latencies it has taken.
    taken: Vec<(Side, String)>,
}

impl<H: Host> Reporter<H> {
    /// The reporter of the VM with this number.
    pub fn new(host: &H, vm: u64) -> Self {
        Self {
            host: host.clone(),
            vm,
            metrics: BTreeMap::new(),
            under_way: BTreeMap::new(),
            made: 0,
            next: String::new(),
        }
    }

    /// What a poll to this cluster reports of these services, and of the polls before it.
    pub fn begin(
        &mut self,
        cluster: &str,
        serves: &BTreeSet<String>,
        wait: Duration,
        now: Timestamp,
    ) -> (Report, Vec<ServiceLoad>, Last) {
        self.under_way.retain(|_, report| now < report.until);
        for service in serves {
            if !self.metrics.contains_key(service) {
                self.metrics.insert(service.clone(), ServiceMetrics::define(&self.host, service));
            }
        }
        self.made = self.made.saturating_add(1);
        let report = Report {
            to: Reports::to(cluster),
            id: ReportId { vm: self.vm, number: self.made },
            until: now.after(polls::longest(wait)),
            taken: Vec::new(),
        };
        let loads = || serves.iter().filter_map(|name| Some(self.metrics.get(name)?.load(&self.host, name))).collect();
        let (load, last) = report.to.begin(&self.host, report.id, (now, report.until), loads);
        (report, load, last)
    }

    /// Adds the latencies of the services that this proxy serves to their load, and returns those
    /// of as many of the `called` services as a report holds, in turn.
    pub fn latencies(
        &mut self,
        report: &mut Report,
        load: &mut [ServiceLoad],
        called: &BTreeSet<String>,
        now: Timestamp,
    ) -> Vec<ServiceCalls> {
        let mut room = ROOM;
        // In turn, too.
        let first = usize::try_from(self.made).unwrap_or(0) % load.len().max(1);
        load.rotate_left(first);
        for load in load.iter_mut() {
            if room < 2 * MOST {
                break;
            }
            let Some(growth) = report.take(&self.host, Side::Server, &load.service, now) else { continue };
            let Growth { numbers: arrivals, histograms } = growth;
            let [response, execution] = leading(histograms);
            room = room.saturating_sub(bytes(&load.service, &[&response, &execution]));
            load.latency = Some(ServerLatency { response, execution, arrivals });
        }
        load.rotate_right(first);
        let (before, after): (Vec<&String>, Vec<&String>) = called.iter().partition(|service| **service < self.next);
        let mut calls = Vec::new();
        for service in after.into_iter().chain(before) {
            self.next.clone_from(service);
            if room < MOST {
                return calls;
            }
            let Some(growth) = report.take(&self.host, Side::Caller, service, now) else { continue };
            let [latency] = leading(growth.histograms);
            room = room.saturating_sub(bytes(service, &[&latency]));
            calls.push(ServiceCalls::new(service, Calls::of(&growth.numbers), latency));
        }
        self.next.clear();
        calls
    }

    /// Whether the last report had no room for all, so that the next one should not be long in
    /// coming.
    pub fn has_more(&self) -> bool {
        !self.next.is_empty()
    }

    /// The poll was sent, with this token; none: it was not.
    pub fn sent(&mut self, report: Report, token: Option<u32>) {
        match token {
            Some(token) => {
                self.under_way.insert(token, report);
            }
            None => report.end(&self.host, End::NotCounted),
        }
    }

    /// The call with this token has ended. It may be a poll, even one that no longer counts, or
    /// another call.
    pub fn answered(&mut self, token: u32, answer: Option<&PostAnswer>) {
        let Some(report) = self.under_way.remove(&token) else { return };
        let end = answer.map_or(End::NotCounted, |answer| End::of(&answer.status, answer.replica.as_deref()));
        report.end(&self.host, end);
    }

    /// The answers to the polls under way will never come.
    pub fn lost(&mut self) {
        for report in std::mem::take(&mut self.under_way).into_values() {
            report.end(&self.host, End::NotCounted);
        }
    }
}

/// The first histograms of a list; what is missing is empty.
fn leading<const N: usize>(histograms: Vec<Histogram>) -> [Histogram; N] {
    let mut all = histograms.into_iter();
    std::array::from_fn(|_| all.next().unwrap_or_default())
}

/// About as many bytes of JSON as these histograms of a service take.
fn bytes(service: &str, histograms: &[&Histogram]) -> usize {
    const PAIR: usize = "[145,1000000],".len();
    service.len() + 150 + histograms.iter().map(|histogram| PAIR * histogram.counts.len()).sum::<usize>()
}

impl Report {
    fn take(&mut self, host: &impl Host, side: Side, service: &str, now: Timestamp) -> Option<Growth> {
        let growth = store::take(host, side, service, self.id, (now, self.until))?;
        self.taken.push((side, service.to_owned()));
        Some(growth)
    }

    fn end(self, host: &impl Host, end: End<'_>) {
        let now = host.now();
        self.to.end(host, self.id, end, now);
        let counted = matches!(end, End::Counted(_));
        for (side, service) in self.taken {
            store::settle(host, side, &service, self.id, counted);
        }
    }
}
