//! What all handlers need: shared state and error responses.

use super::identity::Identity;
use crate::agents::Agents;
use crate::metrics::Metrics;
use crate::store::Store;
use axum::Json;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use bloc_daemon::shares::Shares;
use bloc_daemon::throttle::Throttle;
use std::sync::Arc;
use std::time::Duration;

/// What the handlers share.
#[derive(Clone)]
pub struct Context {
    pub store: Store,
    pub metrics: Arc<Metrics>,
    pub identity: Identity,
    pub agents: Agents,
    /// Bodies and responses in transit.
    pub transit: Shares,
    /// Whether to name a caller in the log, by caller and reason.
    pub named: Arc<Throttle>,
}

/// Bytes of bodies and responses in transit.
const IN_TRANSIT: usize = 64 << 20;
/// How often one caller is named in the log.
const LOG_EVERY: Duration = Duration::from_secs(60);

impl Context {
    pub fn new(store: Store, metrics: Arc<Metrics>, identity: Identity, agents: Agents) -> Self {
        let (transit, named) = (Shares::fair(IN_TRANSIT), Arc::new(Throttle::once(LOG_EVERY)));
        Self { store, metrics, identity, agents, transit, named }
    }
}

/// The longest error message, in characters. It may contain the caller's text.
const MAX_MESSAGE: usize = 1_000;

/// An error response.
pub fn refusal(status: StatusCode, message: &str) -> Response {
    let message: String = message.chars().take(MAX_MESSAGE).collect();
    (status, Json(serde_json::json!({ "error": message }))).into_response()
}
