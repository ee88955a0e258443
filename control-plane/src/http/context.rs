//! What all handlers need: shared state and error responses.

use super::identity::{Identity, NodeAgent};
use super::transit::Transit;
use crate::leases::{Leases, Tokens};
use crate::metrics::Metrics;
use crate::store::Store;
use axum::Json;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use bloc_daemon::throttle::Throttle;
use std::sync::Arc;

/// What the handlers share.
#[derive(Clone)]
pub struct Context {
    pub store: Store,
    pub metrics: Arc<Metrics>,
    pub identity: Identity,
    /// The only identity that counts as a node agent, if identities are required.
    pub node_agent: NodeAgent,
    /// Reviews the tokens that prove on which node an agent runs; `None`: agents need no token.
    pub tokens: Option<Tokens>,
    /// None: there is no store for leases.
    pub leases: Option<Leases>,
    /// Bodies and responses in transit.
    pub transit: Transit,
    /// Whether the log names a caller, with what it is named for.
    pub named: Arc<Throttle>,
}

/// The longest error message, in characters. It may contain text of the caller.
const MAX_MESSAGE: usize = 1_000;

/// An error response.
pub fn refusal(status: StatusCode, message: &str) -> Response {
    let message: String = message.chars().take(MAX_MESSAGE).collect();
    (status, Json(serde_json::json!({ "error": message }))).into_response()
}
