//! `POST /v1/sync` with a [`SyncRequest`] as body. Answers:
//!
//! - 200 with a [`SyncResponse`](bloc_policy::sync::SyncResponse), at once or when something
//!   changes.
//! - 200 with `version` and `cpu` alone if only the CPU of the proxy's pod is news, see
//!   [`cpu`](crate::cpu).
//! - 304 without a body when the wait is over or a newer poll of the same proxy arrives; when the
//!   control plane shuts down, with a `retry-after`.
//! - 304 with a `retry-after` if there is no room, see [`no_room`](super::no_room).
//! - 400 for a body that is not a `SyncRequest`, 401 and 403 for a caller who may not ask this (see
//!   [`identity`]), 408 for a body that does not arrive, 413 for a body above 96 KiB.
//!
//! If this replica has counted what the poll reported, the answer names it in [`REPLICA_HEADER`].
//! That includes the 304 of a poll whose report was counted, but whose response has no room. The
//! other answers without room do not name it. Every answer names our features in
//! [`FEATURES_HEADER`].

use super::bodies::{self, Unread};
use super::caller;
use super::context::{Context, refusal};
use super::identity::{self, Peer};
use super::no_room::no_room;
use super::transit::NoRoom;
use crate::store::{Module, Outcome, Poll, StoreError};
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use bloc_policy::config::ConfigError;
use bloc_policy::features::{FEATURES_HEADER, Features, MODULE_HEADER};
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
    let caller = caller::of(&context.identity, request.headers(), request.extensions().get::<Peer>().copied());
    let version = request.version();
    let poll = match read(context, request).await {
        Ok(poll) => poll,
        Err(Unread::NoRoom) => return no_room(&context.metrics, &context.named, &caller),
        Err(Unread::Refused(status, message)) => {
            context.metrics.count_refused();
            tracing::debug!(%status, message, "refused an invalid poll");
            return refusal(status, &message);
        }
    };
    match context.store.sync(poll).await {
        Ok(outcome) => {
            let no_room = || no_room(&context.metrics, &context.named, &caller);
            let count = || context.metrics.count_outcome(&outcome);
            // The reports of this poll are counted, so the proxy has to count anew.
            let counted = || [(REPLICA_HEADER, context.store.replica().to_owned())];
            let sent = |answer: Result<Response, NoRoom>| match answer {
                Ok(answer) => {
                    count();
                    (counted(), answer).into_response()
                }
                Err(NoRoom) => (counted(), no_room()).into_response(),
            };
            let transit = &context.transit;
            match &outcome {
                Outcome::NoRoom => no_room(),
                Outcome::Changed(answer) => sent(bodies::answer(transit, &caller, version, answer).await),
                Outcome::Cpu(answer) => sent(bodies::answer(transit, &caller, version, answer).await),
                Outcome::Unchanged => {
                    count();
                    (StatusCode::NOT_MODIFIED, counted()).into_response()
                }
                Outcome::Superseded => {
                    count();
                    StatusCode::NOT_MODIFIED.into_response()
                }
                Outcome::Closing { within } => {
                    count();
                    let seconds = [(header::RETRY_AFTER, within.as_secs().to_string())];
                    (StatusCode::NOT_MODIFIED, seconds).into_response()
                }
            }
        }
        Err(error) => {
            context.metrics.count_refused();
            if context.named.due(&format!("{caller}: {error}"), Instant::now()).is_some() {
                tracing::warn!(%caller, %error, "refused a poll");
            }
            let status = match error {
                StoreError::NotYours => StatusCode::FORBIDDEN,
            };
            refusal(status, &error.to_string())
        }
    }
}

fn module(headers: &HeaderMap) -> Module {
    let value = |name| headers.get(name).map(HeaderValue::as_bytes);
    Module::of(value(MODULE_HEADER), value(FEATURES_HEADER))
}

async fn read(context: &Context, request: Request) -> Result<Poll, Unread> {
    let peer = request.extensions().get::<Peer>().copied();
    let refused = |(status, why)| Unread::Refused(status, why);
    let spiffe = context.identity.of(request.headers(), peer).map_err(refused)?;
    let payer = caller::of(&context.identity, request.headers(), peer);
    let module = module(request.headers());
    // Whatever the content type is: not every Proxy-Wasm host sets one.
    let body = bodies::read(request, context.transit.passage(Arc::clone(&payer))).await?;
    // There is no `await` from here to the store. So there is at most one body per thread that is
    // decoded but not yet checked or charged, of at most some twenty times its length.
    let bad_request = |error: ConfigError| refused((StatusCode::BAD_REQUEST, error.to_string()));
    let mut request: SyncRequest = ConfigError::read_json(&body).map_err(bad_request)?;
    if let Some(spiffe) = &spiffe {
        let foreign = identity::confine(spiffe, &mut request).map_err(refused)?;
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
    Ok(Poll::try_from(request).map_err(bad_request)?.from(spiffe).run_by(module).paid_by(payer))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Clock;
    use crate::http::identity::{Identity, NodeAgent};
    use crate::http::transit::Transit;
    use crate::load::ReportInterval;
    use crate::snapshot::Snapshot;
    use crate::store::{Reach, Store};
    use axum::body::Body;

    /// The reports of a poll are counted when its answer is decided on. If there is no room for
    /// that answer, the proxy must not report them again.
    #[tokio::test(start_paused = true)]
    async fn tells_a_poll_without_room_for_its_answer_that_its_report_counted() {
        let store = Store::new("test", Clock::system(), ReportInterval::default());
        let endpoints: Vec<String> = (0..2_000).map(|i| format!("10.0.{}.{}:80", i / 200, i % 200)).collect();
        let services = serde_json::json!({"services": {"a": {"endpoints": endpoints}}});
        store.publish(Snapshot::from_yaml(&services.to_string()).unwrap(), Reach::default());
        let context = |bytes| Context {
            store: store.clone(),
            metrics: Arc::default(),
            identity: Identity::None,
            node_agent: NodeAgent::default(),
            tokens: None,
            leases: None,
            transit: Transit::of(bytes),
            named: Arc::new(crate::http::no_room::named()),
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
