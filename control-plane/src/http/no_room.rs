//! The answer to a poll without room: keep the last state, and come back at a random moment within
//! 30 s. A poll has no room if there is none
//!
//! - for its body,
//! - for the record of its proxy, also if that is evicted while the poll is held,
//! - for the response, within 5 s.

use crate::metrics::Metrics;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use bloc_daemon::throttle::Throttle;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// The time within which the proxy comes back, in seconds.
const WITHIN: &str = "30";
/// How often one caller is named in the log.
const LOG_EVERY: Duration = Duration::from_secs(60);

/// When the log names a caller.
pub fn named() -> Throttle {
    Throttle::once(LOG_EVERY)
}

/// The response to a proxy of `caller`, without a body. It does not name this replica, which tells
/// the proxy that its report was not counted. Where only the response has no room, the report was
/// counted; there [`sync`](super::sync) adds the name. The connection is closed, because idle ones
/// of refused proxies would take memory.
pub fn no_room(metrics: &Metrics, named: &Throttle, caller: &Arc<str>) -> Response {
    metrics.count_no_room();
    if named.due(caller, Instant::now()).is_some() {
        tracing::warn!(%caller, "no memory left for this caller: it has too many proxies, or reads answers too slowly; proxies without room keep their last state");
    }
    let headers = [(header::RETRY_AFTER, WITHIN), (header::CONNECTION, "close")];
    (StatusCode::NOT_MODIFIED, headers).into_response()
}
