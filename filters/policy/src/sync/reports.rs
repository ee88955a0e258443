//! What a poll reports of the load: what happened since the reports that the control plane has
//! counted.
//!
//! Each event must count once, whichever thread polls and whichever replica of the control plane
//! answers. The threads share a ledger for each control plane: how much of each counter was
//! counted, and how much the polls under way carry.
//!
//! ```text
//! report = counter - counted - under way
//! ```
//!
//! | the poll ends with | its part | the last answer |
//! |---|---|---|
//! | an answer with [`REPLICA_HEADER`](crate::sync::REPLICA_HEADER) | is counted | this one |
//! | anything else, or nothing until its time is over | is in the next report again | none, if no poll has begun since |
//!
//! The time that the reports cover is counted in the same way, as one more counter. Polls that a
//! newer one has superseded end by the same table, because another replica does not know that they
//! are superseded.
//!
//! # When an event counts twice, or not at all
//!
//! Twice: the control plane has counted a report, and its answer does not reach the proxy, because
//! the connection broke, or because the leader's VM or root context ended with the poll under way.
//! Not at all: a metric was reset before its last events were reported, or the ledger cannot be
//! read (a module of another version has written it), so that all counts as counted. A counter that
//! falls was reset, together with all of its service: they count from zero again.
//!
//! Cold start: nothing is counted. Cost: a read and a write of the ledger, some
//! 100 bytes for each service and report, when a poll begins and when it ends. Not in the papers.

use crate::proxy::shared::{Cas, Shared};
pub use crate::sync::ledger::{End, ReportId};
use crate::sync::ledger::{Ledger, without_events};
use crate::sync::{Last, ServiceLoad};
use crate::units::Timestamp;

const KEY: &str = "bloc/reports";
/// How often a step is tried when other threads write in between.
const TRIES: usize = 1000;

/// The reports to one control plane.
#[derive(Clone, Debug)]
pub struct Reports {
    key: String,
}

impl Reports {
    /// The reports to the control plane in this cluster. Each control plane gets all of them.
    pub fn to(cluster: &str) -> Self {
        Self { key: format!("{KEY}/{cluster}") }
    }

    /// A poll begins. Returns what it reports of the load, and of the polls before it. After
    /// `until` it gets no answer. `load` reads the counters as they are since the start of the
    /// proxy; it is called again if another thread writes in between.
    pub fn begin(
        &self,
        shared: &impl Shared,
        id: ReportId,
        (now, until): (Timestamp, Timestamp),
        mut load: impl FnMut() -> Vec<ServiceLoad>,
    ) -> (Vec<ServiceLoad>, Last) {
        for _ in 0..TRIES {
            // Before the counters, which are then at least what the reports in the ledger carry.
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

    /// A poll is over.
    pub fn end(&self, shared: &impl Shared, id: ReportId, end: End<'_>, now: Timestamp) {
        for _ in 0..TRIES {
            let (Some(mut ledger), cas) = self.read(shared) else { return };
            ledger.end(id, end, now);
            if self.write(shared, &ledger, cas) {
                return;
            }
        }
    }

    /// None if there is a ledger that cannot be read.
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
