//! `POST /v1/sync`: body [`SyncRequest`], answer 200 with a [`SyncResponse`](bloc_policy::sync::SyncResponse) at once or when
//! something changes, 304 without a body when the wait is over, a newer poll of the same proxy arrives, or the control plane
//! shuts down, then with a `retry-after`. An answer that counts what the poll reported names this replica in [`REPLICA_HEADER`]. 400 for what is no such body, 401 and 403 for who may not ask so (see [`identity`]), 408 for one that does not arrive, 413 above 64 KiB.
//! Who finds no room gets 304 with a `retry-after`, see [`no_room`](super::no_room).

use super::bodies::{self, Unread};
use super::caller;
use super::context::{Context, refusal};
use super::identity::{self, Peer};
use super::no_room::no_room;
use crate::store::{Outcome, Poll, StoreError};
use axum::Json;
use axum::extract::{Request, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use bloc_policy::config::ConfigError;
use bloc_policy::sync::{REPLICA_HEADER, SyncRequest};
use std::sync::Arc;

pub async fn sync(State(context): State<Context>, request: Request) -> Response {
    let caller = caller::of(&context.identity, request.headers(), request.extensions().get::<Peer>().copied());
    let poll = match read(&context, request).await {
        Ok(poll) => poll,
        Err(Unread::NoRoom) => return no_room(&context.metrics, &context.named, &caller),
        Err(Unread::Refused(status, message)) => {
            context.metrics.count_refused();
            tracing::debug!(%status, message, "not a poll");
            return refusal(status, &message);
        }
    };
    match context.store.sync(poll).await {
        Ok(outcome) => {
            if matches!(outcome, Outcome::NoRoom) {
                return no_room(&context.metrics, &context.named, &caller);
            }
            context.metrics.count_outcome(&outcome);
            // What the poll reported is counted here: the proxy begins anew.
            let counted = [(REPLICA_HEADER, context.store.replica().to_owned())];
            match outcome {
                Outcome::Changed(answer) => (counted, Json(answer)).into_response(),
                Outcome::Unchanged => (StatusCode::NOT_MODIFIED, counted).into_response(),
                Outcome::Superseded | Outcome::NoRoom => StatusCode::NOT_MODIFIED.into_response(),
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
                StoreError::NotYours => StatusCode::FORBIDDEN,
            };
            refusal(status, &error.to_string())
        }
    }
}

async fn read(context: &Context, request: Request) -> Result<Poll, Unread> {
    let peer = request.extensions().get::<Peer>().copied();
    let refused = |(status, why)| Unread::Refused(status, why);
    let spiffe = context.identity.of(request.headers(), peer).map_err(refused)?;
    let payer = caller::of(&context.identity, request.headers(), peer);
    // Whatever the content type says: not every Proxy-Wasm host sets one.
    let body = bodies::read(request, context.transit.passage(Arc::clone(&payer))).await?;
    // From here to the store nothing is waited for: what is decoded and not yet checked or charged exists once for each thread,
    // and is at most some twenty times the body.
    let bad_request = |error: ConfigError| refused((StatusCode::BAD_REQUEST, error.to_string()));
    let request: SyncRequest = ConfigError::read_json(&body).map_err(bad_request)?;
    if let Some(spiffe) = &spiffe {
        identity::check(spiffe, &request).map_err(refused)?;
    }
    Ok(Poll::try_from(request).map_err(bad_request)?.from(spiffe).paid_by(payer))
}
