//! What all handlers need: what they share, and how they refuse.

use super::identity::Identity;
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
}

/// An error as the interface says it.
pub fn refusal(status: StatusCode, message: &str) -> Response {
    (status, Json(serde_json::json!({ "error": message }))).into_response()
}
