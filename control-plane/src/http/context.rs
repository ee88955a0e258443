//! What all handlers need: what they share, and how they refuse.

use super::identity::Identity;
use super::no_room::Named;
use super::transit::Transit;
use crate::metrics::Metrics;
use crate::store::Store;
use axum::Json;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use std::sync::Arc;

/// What the handlers share.
#[derive(Clone)]
pub struct Context {
    pub store: Store,
    pub metrics: Arc<Metrics>,
    pub identity: Identity,
    /// Bodies and answers on their way.
    pub transit: Transit,
    /// Who was told lately that there is no room.
    pub named: Arc<Named>,
}

/// The longest message, in characters: it may name what the caller has sent.
const MAX_MESSAGE: usize = 1_000;

/// An error as the interface says it.
pub fn refusal(status: StatusCode, message: &str) -> Response {
    let message: String = message.chars().take(MAX_MESSAGE).collect();
    (status, Json(serde_json::json!({ "error": message }))).into_response()
}
