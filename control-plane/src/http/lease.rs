//! `POST /v1/lease` of node agents, with [`Asks`] as body. Answers:
//!
//! - 200 with `Tolds`. An application that is not among them: its record could not be written. An
//!   ask that was late is answered with the record's life and number of that node.
//! - 400 for a body that is no such message, with path and value; 401 and 403 for a caller who is
//!   not the agent of that node, 408 for a body that does not arrive, 413 for a body above 96 KiB.
//! - 404 if no store is configured.
//! - 503 if there is no room for the body, or the API server is away.

use super::bodies::{self, Unread};
use super::caller;
use super::context::{Context, refusal};
use super::identity::{Identity, Peer};
use super::transit::Passage;
use crate::leases::{self, Away, Leases};
use axum::extract::{Request, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use bloc_leases::Asks;
use std::sync::Arc;
use tokio::time::Instant;

pub async fn lease(State(context): State<Context>, request: Request) -> Response {
    let peer = request.extensions().get::<Peer>().copied();
    let caller = caller::of(&context.identity, request.headers(), peer);
    let Some(leases) = context.leases.clone() else { return refusal(StatusCode::NOT_FOUND, "no such path") };
    let version = request.version();
    let said = match read(&context, request, &caller).await {
        // Its memory counts until all of it is answered, also while it waits for a write.
        Ok((asks, _passage)) => answer(&leases, asks).await,
        Err(unread) => Err(unread),
    };
    let said = match said {
        Ok(tolds) => bodies::answer(&context.transit, &caller, version, &tolds).await.map_err(Unread::from),
        Err(unread) => Err(unread),
    };
    let (status, why) = match said {
        Ok(answer) => return answer,
        Err(Unread::NoRoom) => (StatusCode::SERVICE_UNAVAILABLE, "out of memory for messages in transit".to_owned()),
        Err(Unread::Refused(status, why)) => (status, why),
    };
    context.metrics.count_lease_ask("refused");
    if context.named.due(&format!("{caller}: {why}"), Instant::now()).is_some() {
        tracing::warn!(%caller, error = why, "refused a node agent's request for leases");
    }
    let answer = refusal(status, &why);
    if status == StatusCode::SERVICE_UNAVAILABLE {
        return ([(header::RETRY_AFTER, "1")], answer).into_response();
    }
    answer
}

async fn answer(leases: &Leases, asks: Asks) -> Result<bloc_leases::Tolds, Unread> {
    leases.ask(asks).await.map_err(|Away| {
        let why = "who holds what was not read from the Kubernetes API yet";
        Unread::Refused(StatusCode::SERVICE_UNAVAILABLE, why.to_owned())
    })
}

async fn read(context: &Context, request: Request, caller: &Arc<str>) -> Result<(Asks, Passage), Unread> {
    let refused = |(status, why)| Unread::Refused(status, why);
    let peer = request.extensions().get::<Peer>().copied();
    let spiffe = context.identity.of(request.headers(), peer).map_err(refused)?;
    context.node_agent.check(spiffe.as_deref()).map_err(refused)?;
    let tokens = context.tokens.as_ref().filter(|_| context.identity != Identity::None);
    let token = tokens.map(|tokens| Ok((tokens, bearer(request.headers())?))).transpose().map_err(refused)?;
    let body = bodies::read(request, context.transit.passage(Arc::clone(caller))).await?;
    let mut passage = context.transit.passage(Arc::clone(caller));
    passage.grow(2 * body.len())?;
    let asks = leases::read(&body).map_err(|error| Unread::Refused(StatusCode::BAD_REQUEST, error.to_string()))?;
    if let Some((tokens, token)) = token {
        tokens.check(&token, &asks.node).await.map_err(refused)?;
    }
    Ok((asks, passage))
}

/// The token of a request.
fn bearer(headers: &HeaderMap) -> Result<String, (StatusCode, String)> {
    let value = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
    let token =
        value.and_then(|value| value.split_once(' ')).filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"));
    let token = token.map(|(_, token)| token.trim().to_owned()).filter(|token| !token.is_empty());
    token.ok_or_else(|| {
        let why =
            format!("no token; allowed: Authorization: Bearer TOKEN, for the audience {:?}", leases::tokens::AUDIENCE);
        (StatusCode::UNAUTHORIZED, why)
    })
}
