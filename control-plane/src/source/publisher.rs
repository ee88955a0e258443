//! The receiver of what a source has read.

use crate::metrics::Metrics;
use crate::snapshot::Snapshot;
use crate::store::{Reach, Store};
use std::fmt::Display;
use std::sync::Arc;

/// The most names of changed services in one log line.
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

    /// Puts a snapshot in force; the source had read up to `reach` for it.
    pub fn accept(&self, snapshot: Snapshot, reach: Reach) {
        let published = self.store.publish(snapshot, reach);
        self.metrics.count_accepted();
        let (version, woken) = (published.version.to_string(), published.woken);
        if published.changed.is_empty() {
            tracing::debug!(version, "read the services again: no change");
        } else {
            let (changed, some) = (published.changed.len(), published.changed.get(..LOGGED_NAMES));
            let names = some.unwrap_or(&published.changed).join(",");
            tracing::info!(version, changed, names, woken, "new services in force");
        }
    }

    /// Notes that the content of `origin` was refused; the state in force stays. `reason` contains
    /// path, value and allowed range.
    pub fn refuse(&self, origin: &str, reason: &impl Display) {
        let message = reason.to_string();
        tracing::error!(reason = message, "configuration refused; the last good state stays in force");
        self.metrics.count_rejected();
        self.store.refuse(origin, message);
    }

    /// Notes that the content of `origin` is good again, or gone.
    pub fn resolve(&self, origin: &str) {
        self.store.resolve(origin);
    }

    /// The store that this publishes into.
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// The metrics that a source counts in.
    pub fn metrics(&self) -> Arc<Metrics> {
        Arc::clone(&self.metrics)
    }
}
