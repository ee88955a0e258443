//! What the leader reports with its polls: the load of all services that this proxy stands in front
//! of, whichever thread has served them. [`Reports`] decides which part of it to send, and what
//! becomes of it.
//!
//! The leader has often served nothing: Envoy's main thread never does. So it reads the metrics
//! that the threads share, and makes no [`Service`](crate::service::Service) for that.

use crate::host::{Host, PostAnswer};
use crate::service_metrics::ServiceMetrics;
use bloc_policy::polls;
use bloc_policy::reports::{End, ReportId, Reports};
use bloc_policy::sync::{Last, ServiceLoad};
use bloc_policy::units::Timestamp;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

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
}

/// The report of one poll.
pub struct Report {
    to: Reports,
    id: ReportId,
    /// No answer comes after this.
    until: Timestamp,
}

impl<H: Host> Reporter<H> {
    /// The reporter of the VM with this number.
    pub fn new(host: &H, vm: u64) -> Self {
        Self { host: host.clone(), vm, metrics: BTreeMap::new(), under_way: BTreeMap::new(), made: 0 }
    }

    /// What a poll to this cluster reports of these services, and of the polls before it.
    pub fn begin(
        &mut self,
        cluster: &str,
        serves: &BTreeSet<String>,
        wait: Duration,
        now: Timestamp,
    ) -> (Report, Vec<ServiceLoad>, Option<Last>) {
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
        };
        let loads = || serves.iter().filter_map(|name| Some(self.metrics.get(name)?.load(&self.host, name))).collect();
        let (load, last) = report.to.begin(&self.host, report.id, (now, report.until), loads);
        (report, load, last)
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

impl Report {
    fn end(self, host: &impl Host, end: End<'_>) {
        self.to.end(host, self.id, end, host.now());
    }
}
