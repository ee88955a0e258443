//! `POST /v1/sync` with a [`SyncRequest`] as body. Answers:
//!
//! - 200 with a [`SyncResponse`](bloc_policy::sync::SyncResponse), at once or when something
//!   changes.
//! - 200 with only `version` and `cpu` if the proxy gets nothing but the CPU of its pod, see
//!   [`cpu`](crate::agents::cpu).
//! - 304 without a body when the wait is over or a newer poll of the same proxy arrives; during a
//!   shutdown, with a `retry-after`.
//! - 304 with a `retry-after` if there is no room for its body, for the record of its proxy (also
//!   if that is evicted while the poll is held), or within 5 s for the response.
//! - 400 for a body that is not a `SyncRequest`, 401 and 403 for a caller who may not ask this (see
//!   [`identity`]), 408 for a body that does not arrive, 413 for a body above 96 KiB.
//!
//! If this replica has counted what the poll reported, the answer names it in [`REPLICA_HEADER`].
//! This includes a 304 for a counted poll whose response has no room. Other answers without room do
//! not name it. Every answer names our features in [`FEATURES_HEADER`].

use super::bodies::{self, Unread};
use super::context::{Context, refusal};
use super::identity::{self, Peer};
use crate::store::{Module, Outcome, Poll, StoreError};
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use bloc_daemon::shares::NoRoom;
use bloc_policy::config::ConfigError;
use bloc_policy::config::features::{FEATURES_HEADER, Features, MODULE_HEADER};
use bloc_policy::sync::{REPLICA_HEADER, SyncRequest};
use std::sync::Arc;
use tokio::time::Instant;

pub async fn sync(State(context): State<Context>, request: Request) -> Response {
    let mut response = answer(&context, request).await;
    if let Ok(features) = HeaderValue::from_str(&Features::own().to_string()) {
        response.headers_mut().insert(FEATURES_HEADER, features);
    }
    response
}

async fn answer(context: &Context, request: Request) -> Response {
    let caller = context.identity.caller(&request);
    let poll = match read(context, request, &caller).await {
        Ok(poll) => poll,
        Err(Unread::NoRoom) => return no_room(context, &caller),
        Err(Unread::Refused(status, message)) => {
            context.metrics.count_answer("refused");
            tracing::debug!(%status, message, "refused an invalid poll");
            return refusal(status, &message);
        }
    };
    let outcome = match context.store.sync(poll).await {
        Ok(outcome) => outcome,
        Err(error @ StoreError::NotYours) => {
            context.metrics.count_answer("refused");
            if context.named.due(&format!("{caller}: {error}"), Instant::now()).is_some() {
                tracing::warn!(%caller, %error, "refused a poll");
            }
            return refusal(StatusCode::FORBIDDEN, &error.to_string());
        }
    };
    let (transit, unchanged) = (&context.transit, StatusCode::NOT_MODIFIED);
    let answer = match &outcome {
        Outcome::NoRoom => return no_room(context, &caller),
        Outcome::Changed(answer) => bodies::answer(transit, &caller, answer).await,
        Outcome::Cpu(answer) => bodies::answer(transit, &caller, answer).await,
        Outcome::Unchanged | Outcome::Superseded => Ok(unchanged.into_response()),
        Outcome::Closing { within } => {
            Ok((unchanged, [(header::RETRY_AFTER, within.as_secs().to_string())]).into_response())
        }
    };
    let answer = answer.map_or_else(
        |NoRoom| no_room(context, &caller),
        |answer| {
            context.metrics.count_outcome(&outcome);
            answer
        },
    );
    if matches!(outcome, Outcome::Superseded | Outcome::Closing { .. }) {
        return answer;
    }
    // The reports of this poll are counted, so the proxy must start again at 0.
    ([(REPLICA_HEADER, context.store.replica().to_owned())], answer).into_response()
}

fn module(headers: &HeaderMap) -> Module {
    let value = |name| headers.get(name).map(HeaderValue::as_bytes);
    Module::of(value(MODULE_HEADER), value(FEATURES_HEADER))
}

/// The answer if a proxy of `caller` has no room, without a body. The proxy keeps its last state,
/// and comes back at a random moment within 30 s. The answer does not name this replica, so the
/// proxy knows that its report was not counted. The connection is closed, because idle ones take
/// memory.
fn no_room(context: &Context, caller: &Arc<str>) -> Response {
    context.metrics.count_answer("no_room");
    if context.named.due(caller, Instant::now()).is_some() {
        tracing::warn!(%caller, "out of memory for this caller: too many proxies, or slow reads; proxies without room keep their last state");
    }
    let headers = [(header::RETRY_AFTER, "30"), (header::CONNECTION, "close")];
    (StatusCode::NOT_MODIFIED, headers).into_response()
}

async fn read(context: &Context, request: Request, payer: &Arc<str>) -> Result<Poll, Unread> {
    let peer = request.extensions().get::<Peer>().copied();
    let spiffe = context.identity.of(request.headers(), peer)?;
    let module = module(request.headers());
    // Ignores the content type: not every Proxy-Wasm host sets one.
    let body = bodies::read(request, context.transit.share(Arc::clone(payer))).await?;
    // No `await` follows until the store. Each thread thus has at most one decoded body that is not
    // yet checked or charged, of at most some twenty times its length.
    let mut request: SyncRequest = ConfigError::read_json(&body)?;
    if let Some(spiffe) = &spiffe {
        let foreign = identity::confine(spiffe, &mut request)?;
        if let Some(service) = foreign.first()
            && context.named.due(&format!("{payer}: reports"), Instant::now()).is_some()
        {
            let proxy = &request.proxy;
            tracing::warn!(
                proxy,
                service,
                "ignored the load of services in other namespaces; the rest of the poll counts"
            );
        }
    }
    Ok(Poll::try_from(request)?.from(spiffe).run_by(module).paid_by(Arc::clone(payer)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agents::Agents;
    use crate::clock::Clock;
    use crate::http::identity::Identity;
    use crate::load::ReportInterval;
    use crate::snapshot::Snapshot;
    use crate::store::{Reach, Store};
    use axum::body::Body;
    use bloc_daemon::shares::Shares;

    /// The reports of a poll count when its answer is decided. If there is no room for that answer,
    /// the proxy must not report them again.
    #[tokio::test(start_paused = true)]
    async fn tells_a_poll_without_room_for_its_answer_that_its_report_counted() {
        let store = Store::new("test", Clock::system(), ReportInterval::default());
        let endpoints: Vec<String> = (0..2_000).map(|i| format!("10.0.{}.{}:80", i / 200, i % 200)).collect();
        let services = serde_json::json!({"services": {"a": {"endpoints": endpoints}}});
        store.publish(Snapshot::from_yaml(&services.to_string()).unwrap(), Reach::default());
        let context = |bytes| Context {
            transit: Shares::fair(bytes),
            ..Context::new(store.clone(), Arc::default(), Identity::None, Agents::default())
        };
        let poll = async |context: &Context| {
            let body = r#"{"proxy": "p", "serves": ["a"], "load": [{"service": "a", "inFlight": 1, "departed": 5, "arrived": 5}],
                "last": {"answeredMs": 0, "reportedMs": 5000}}"#;
            let answer = sync(State(context.clone()), Request::new(Body::from(body))).await;
            let header = |name| answer.headers().get(name).map(|value| value.to_str().unwrap().to_owned());
            (answer.status().as_u16(), header(REPLICA_HEADER), header("retry-after"))
        };
        let replica = || Some(store.replica().to_owned());
        let arrivals = || store.signals()["a"].1.arrivals;
        assert_eq!(poll(&context(40_000)).await, (304, replica(), Some("30".to_owned())));
        assert_eq!(arrivals(), 5);
        assert_eq!(poll(&context(400_000)).await, (200, replica(), None));
        assert_eq!(arrivals(), 10);
        assert_eq!(
            poll(&context(10_000)).await,
            (304, None, Some("30".to_owned())),
            "no room for its body, so nothing is counted"
        );
        assert_eq!(arrivals(), 10);
    }
}
