//! The answer to a poll without room: keep the last state, and come back at a random moment within
//! 30 s. A poll has no room if there is none
//!
//! - for its body,
//! - for the record of its proxy, also if that is evicted while the poll is held,
//! - for the response, within 5 s.

use crate::metrics::Metrics;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::time::Instant;

/// The time within which the proxy comes back, in seconds.
const WITHIN: &str = "30";
/// How often one caller is named in the log.
const LOG_EVERY: Duration = Duration::from_secs(60);
/// Callers that are remembered as named. While there are this many, no others are named.
const MAX_NAMED: usize = 1_000;

/// Callers that the log has named lately.
#[derive(Debug, Default)]
pub struct Named(Mutex<HashMap<Arc<str>, Instant>>);

impl Named {
    /// Whether to name `caller` now.
    pub fn is_due(&self, caller: &Arc<str>, now: Instant) -> bool {
        let mut named = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_recent = |at: &Instant| now.saturating_duration_since(*at) < LOG_EVERY;
        if named.get(caller).is_some_and(is_recent) {
            return false;
        }
        if named.len() >= MAX_NAMED {
            named.retain(|_, at| is_recent(at));
        }
        if named.len() >= MAX_NAMED {
            return false;
        }
        named.insert(Arc::clone(caller), now);
        true
    }
}

/// The response to a proxy of `caller`, without a body. It does not name this replica, which tells
/// the proxy that its report was not counted. Where only the response has no room, the report was
/// counted; there [`sync`](super::sync) adds the name. The connection is closed, because idle ones
/// of refused proxies would take memory.
pub fn no_room(metrics: &Metrics, named: &Named, caller: &Arc<str>) -> Response {
    metrics.count_no_room();
    if named.is_due(caller, Instant::now()) {
        tracing::warn!(%caller, "no memory left for this caller: it has too many proxies, or reads answers too slowly; proxies without room keep their last state");
    }
    let headers = [(header::RETRY_AFTER, WITHIN), (header::CONNECTION, "close")];
    (StatusCode::NOT_MODIFIED, headers).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_each_caller_once_a_minute_and_only_so_many_callers() {
        let (named, start) = (Named::default(), Instant::now());
        let due = |caller: &str, seconds| named.is_due(&caller.into(), start + Duration::from_secs(seconds));
        assert_eq!([due("a", 0), due("a", 59), due("b", 59), due("a", 60)], [true, false, true, true]);
        let many = (0..2 * MAX_NAMED).filter(|i| due(&i.to_string(), 61)).count();
        assert_eq!(many, MAX_NAMED - 2, "no more than the limit");
        assert!(due("c", 200));
        assert_eq!(named.0.lock().unwrap().len(), 1);
    }
}
