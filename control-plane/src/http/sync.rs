//! `POST /v1/sync`: body [`SyncRequest`], answer 200 with a [`SyncResponse`](bloc_policy::sync::SyncResponse) at once or when
//! something changes, 304 without a body when the wait is over, a newer poll of the same proxy arrives, or the control plane
//! shuts down, then with a `retry-after`. An answer that counts what the poll reported names this replica in [`REPLICA_HEADER`]. 400 for what is no such body, 401 and 403 for who may not ask so (see [`identity`]), 408 for one that does not arrive, 413 above 64 KiB, 503 when too many proxies ask.

use super::context::{Context, refusal};
use super::identity::{self, Peer};
use crate::store::{Outcome, Poll, StoreError};
use axum::Json;
use axum::body::Bytes;
use axum::extract::{FromRequest, Request, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use bloc_policy::config::ConfigError;
use bloc_policy::sync::{REPLICA_HEADER, SyncRequest};
use std::time::Duration;
use tokio::time::timeout;

/// How long a body may take to arrive: a proxy sends it in one go.
const BODY_TIMEOUT: Duration = Duration::from_secs(10);

pub async fn sync(State(context): State<Context>, request: Request) -> Response {
    let poll = match read(&context, request).await {
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
            // What the poll reported is counted here: the proxy begins anew.
            let counted = [(REPLICA_HEADER, context.store.replica().to_owned())];
            match outcome {
                Outcome::Changed(answer) => (counted, Json(answer)).into_response(),
                Outcome::Unchanged => (StatusCode::NOT_MODIFIED, counted).into_response(),
                Outcome::Superseded => StatusCode::NOT_MODIFIED.into_response(),
                Outcome::Closing { within } => {
                    let seconds = [(header::RETRY_AFTER, within.as_secs().to_string())];
                    (StatusCode::NOT_MODIFIED, seconds).into_response()
                }
            }
        }
        Err(error) => {
            context.metrics.count_refused();
            tracing::warn!(%error, "poll refused");
            let status = match error {
                StoreError::TooManyProxies => StatusCode::SERVICE_UNAVAILABLE,
                StoreError::NotYours => StatusCode::FORBIDDEN,
            };
            refusal(status, &error.to_string())
        }
    }
}

async fn read(context: &Context, request: Request) -> Result<Poll, (StatusCode, String)> {
    let peer = request.extensions().get::<Peer>().copied();
    let spiffe = context.identity.of(request.headers(), peer)?;
    // Whatever the content type says: not every Proxy-Wasm host sets one.
    let body = timeout(BODY_TIMEOUT, Bytes::from_request(request, &()))
        .await
        .map_err(|_| (StatusCode::REQUEST_TIMEOUT, "the body did not arrive within 10s".to_owned()))?
        .map_err(|rejection| (rejection.status(), rejection.body_text()))?;
    let bad_request = |error: ConfigError| (StatusCode::BAD_REQUEST, error.to_string());
    let request: SyncRequest = ConfigError::read_json(&body).map_err(bad_request)?;
    if let Some(spiffe) = &spiffe {
        identity::check(spiffe, &request)?;
    }
    Ok(Poll::try_from(request).map_err(bad_request)?.from(spiffe))
}
