//! `POST /v1/sync`: body [`SyncRequest`], answer 200 with a [`SyncResponse`](bloc_policy::sync::SyncResponse) at once or when
//! something changes, 304 without a body when the wait is over, a newer poll of the same proxy arrives, or the control plane
//! shuts down. 400 for what is no such body, 408 for one that does not arrive, 413 above 64 KiB, 503 when too many proxies ask.

use super::{Context, refusal};
use crate::store::{Outcome, Poll};
use axum::Json;
use axum::body::Bytes;
use axum::extract::{FromRequest, Request, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use bloc_policy::config::ConfigError;
use bloc_policy::sync::SyncRequest;
use std::time::Duration;
use tokio::time::timeout;

/// How long a body may take to arrive: a proxy sends it in one go.
const BODY_TIMEOUT: Duration = Duration::from_secs(10);

pub async fn sync(State(context): State<Context>, request: Request) -> Response {
    let poll = match read(request).await {
        Ok(poll) => poll,
        Err((status, message)) => {
            context.metrics.count_refused();
            tracing::debug!(%status, message, "not a poll");
            return refusal(status, &message);
        }
    };
    match context.store.sync(poll).await {
        Ok(outcome) => {
            context.metrics.count_outcome(&outcome);
            match outcome {
                Outcome::Changed(answer) => Json(answer).into_response(),
                Outcome::Unchanged | Outcome::Superseded | Outcome::Closing => StatusCode::NOT_MODIFIED.into_response(),
            }
        }
        Err(error) => {
            context.metrics.count_refused();
            tracing::warn!(%error, "poll refused");
            refusal(StatusCode::SERVICE_UNAVAILABLE, &error.to_string())
        }
    }
}

async fn read(request: Request) -> Result<Poll, (StatusCode, String)> {
    // Whatever the content type says: not every Proxy-Wasm host sets one.
    let body = timeout(BODY_TIMEOUT, Bytes::from_request(request, &()))
        .await
        .map_err(|_| (StatusCode::REQUEST_TIMEOUT, "the body did not arrive within 10s".to_owned()))?
        .map_err(|rejection| (rejection.status(), rejection.body_text()))?;
    let bad_request = |error: ConfigError| (StatusCode::BAD_REQUEST, error.to_string());
    let request: SyncRequest = ConfigError::read_json(&body).map_err(bad_request)?;
    Poll::try_from(request).map_err(bad_request)
}
