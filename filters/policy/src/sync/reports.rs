//! What a poll reports of the load: `counter - counted - under way`, so that each event counts
//! once, whichever thread polls and whichever replica answers. The threads share a ledger per
//! control plane.
//!
//! | the poll ends with | its part | the last answer |
//! |---|---|---|
//! | an answer with [`REPLICA_HEADER`](crate::sync::REPLICA_HEADER) | is counted | this one |
//! | anything else, or nothing until its time is over | is in the next report again | none, if no poll has begun since |
//!
//! An event counts twice if an answer is lost after its report was counted. It is lost if a metric
//! is reset before its last events are reported, or if another version wrote the ledger. A counter
//! that falls was reset, with all counters of its service. Cost per start and end of a poll: a read
//! and a write of about 100 bytes per service and report.

use crate::proxy::shared::{Cas, Shared};
pub use crate::sync::ledger::{End, ReportId};
use crate::sync::ledger::{Ledger, without_events};
use crate::sync::{Last, ServiceLoad};
use crate::units::Timestamp;

const KEY: &str = "bloc/reports";
/// How often to retry a step when other threads write in between.
const TRIES: usize = 1000;

/// The reports to one control plane.
#[derive(Clone, Debug)]
pub struct Reports {
    key: String,
}

impl Reports {
    /// The reports to the control plane in this cluster. Each control plane gets all events.
    pub fn to(cluster: &str) -> Self {
        Self { key: format!("{KEY}/{cluster}") }
    }

    /// A poll begins. Returns the load to report, and what became of earlier polls. The poll gets
    /// no answer after `until`. `load` reads the counters since the start of the proxy; it runs
    /// again if another thread writes in between.
    pub fn begin(
        &self,
        shared: &impl Shared,
        id: ReportId,
        (now, until): (Timestamp, Timestamp),
        mut load: impl FnMut() -> Vec<ServiceLoad>,
    ) -> (Vec<ServiceLoad>, Last) {
        for _ in 0..TRIES {
            // Read the ledger before the counters, so that they are not below its reports.
            let (ledger, cas) = self.read(shared);
            let mut load = load();
            let mut ledger = ledger.unwrap_or_else(|| Ledger::as_if_counted(&load, now));
            let last = ledger.begin(id, (now, until), &mut load);
            if self.write(shared, &ledger, cas) {
                return (load, last);
            }
        }
        let mut load = load();
        let last = without_events(&mut load);
        (load, last)
    }

    /// A poll ended.
    pub fn end(&self, shared: &impl Shared, id: ReportId, end: End<'_>, now: Timestamp) {
        for _ in 0..TRIES {
            let (Some(mut ledger), cas) = self.read(shared) else { return };
            ledger.end(id, end, now);
            if self.write(shared, &ledger, cas) {
                return;
            }
        }
    }

    /// None if the ledger cannot be read.
    fn read(&self, shared: &impl Shared) -> (Option<Ledger>, Cas) {
        let (value, cas) = shared.get(&self.key);
        (value.map_or_else(|| Some(Ledger::default()), |value| Ledger::decode(&value)), cas)
    }

    fn write(&self, shared: &impl Shared, ledger: &Ledger, cas: Cas) -> bool {
        shared.set(&self.key, &ledger.encode(), cas)
    }
}

#[cfg(test)]
#[path = "reports_tests.rs"]
mod tests;
