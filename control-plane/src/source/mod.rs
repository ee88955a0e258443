//! Where services come from.
//!
//! A source is a task that reads something, validates it as a whole and hands every new reading to its [`Publisher`]. It says
//! nothing as long as nothing changes, and it ends when its future is dropped. The first reading happens before the
//! server listens, so that bad content at the start is an exit, not an empty mesh.

mod file;

pub use file::{FileSource, ReadError};

use crate::metrics::Metrics;
use crate::snapshot::Snapshot;
use crate::store::Store;
use std::fmt::Display;
use std::sync::Arc;

/// Names of changed services in one line of the log at most.
const LOGGED_NAMES: usize = 10;

/// What a source reports to: the store, the metrics and the log.
#[derive(Clone)]
pub struct Publisher {
    store: Store,
    metrics: Arc<Metrics>,
}

impl Publisher {
    /// Publishes into `store` and counts in `metrics`.
    pub fn new(store: Store, metrics: Arc<Metrics>) -> Self {
        Self { store, metrics }
    }

    /// Puts a snapshot in force.
    pub fn accept(&self, snapshot: Snapshot) {
        let published = self.store.publish(snapshot);
        self.metrics.count_accepted();
        let (version, woken) = (published.version, published.woken);
        if published.changed.is_empty() {
            tracing::info!(version, "services read again, nothing changed");
        } else {
            let (changed, some) = (published.changed.len(), published.changed.get(..LOGGED_NAMES));
            let names = some.unwrap_or(&published.changed).join(",");
            tracing::info!(version, changed, names, woken, "services in force");
        }
    }

    /// Notes a reading that was refused; what is in force stays.
    pub fn refuse(&self, reason: &impl Display) {
        let message = reason.to_string();
        tracing::error!(reason = message, "services refused, the last good ones stay in force");
        self.metrics.count_rejected();
        self.store.refuse(message);
    }
}
