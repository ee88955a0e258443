//! What operators see of leases.

use super::nodes::Nodes;
use bloc_leases::{Part, Record};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// The records at a moment.
#[derive(Clone, Debug, Default)]
pub struct LeaseView {
    /// By name; at most 1,000.
    pub apps: BTreeMap<Arc<str>, AppLease>,
    /// Lease records that cannot be used.
    pub unread: usize,
}

/// Who holds an application's limit, as ratios of it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AppLease {
    /// What nodes hold.
    pub held: f64,
    /// What nodes hold from which this replica has heard nothing for 10 s.
    pub silent: f64,
    /// How many those are.
    pub silent_nodes: usize,
}

impl AppLease {
    /// The view of a record, given what is known of its nodes.
    pub(super) fn of(record: &Record, nodes: &Nodes, now: Duration) -> Self {
        let silent = || record.nodes().filter(|(node, _)| nodes.is_silent(node, now));
        let part: Part = silent().map(|(_, entry)| entry.part).sum();
        Self { held: record.held().times(1.0), silent: part.times(1.0), silent_nodes: silent().count() }
    }
}
