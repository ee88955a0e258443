//! Counts what polls report: load, latencies and CPU.

use super::decide::State;
use crate::agents::cpu::pod_of;
use crate::latency::LatencyReport;
use crate::load::{Report, Signals};
use tokio::time::Instant;

impl State {
    /// The signals of a service, over the servers that count here.
    pub fn signals(&self, service: &str, now: Instant) -> Option<Signals> {
        self.loads.signals(service, |proxy, at| self.proxies.count_here(proxy, at), now)
    }

    /// Feeds the predictions the arrival rates of the last tick.
    pub fn observe(&mut self, now: Instant) {
        self.loads.observe(|proxy, at| self.proxies.count_here(proxy, at), now);
    }

    /// Counts what the poll of `proxy` reported. Called for exactly those answers after which the
    /// proxy restarts its counters.
    pub(crate) fn count(&mut self, proxy: &str, now: Instant) {
        let Some(record) = self.proxies.get_mut(proxy) else { return };
        let reported = record.seen;
        (record.held, record.seen) = (None, now);
        record.window.answer(now);
        if let Some(pod) = pod_of(proxy) {
            if let Some(span) = record.span {
                let departed = record.load.iter().fold(0, |sum: u64, load| sum.saturating_add(load.departed));
                self.cpus.count(pod, departed, span, reported);
            }
            self.cpus.asks.add(pod, &record.load);
        }
        let report = Report { proxy, load: &record.load, span: record.span };
        let in_force = |name: &str| self.catalog.get(name).is_some();
        self.loads.count(report, in_force, now);
        let caller = record.workload(proxy);
        let report = LatencyReport { proxy, caller: &caller, load: &record.load, calls: &record.calls };
        self.latencies.count(report, in_force, now);
        // Nobody needs these again.
        record.calls = Vec::new();
        record.load.iter_mut().for_each(|load| load.latency = None);
    }
}
