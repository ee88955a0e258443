//! The requests of node agents. Both may be answered with
//!
//! - 400 for an invalid body, with path and value;
//! - 401 and 403 for a caller that is not the agent of that node;
//! - 408 for a body that does not arrive, 413 for a body above 96 KiB;
//! - 503 if there is no room for the body.

use crate::agents::leases::{self, Away};
use crate::http::bodies::{self, Unread};
use crate::http::context::{Context, refusal};
use crate::http::identity::{Identity, Peer, Refusal};
use axum::Json;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use bloc_daemon::cpu::{CpuAnswer, CpuMessage};
use std::sync::Arc;
use tokio::time::Instant;

/// The longest refusal, in characters.
const MOST_TEXT: usize = 500;

/// `POST /v1/cpu` with a [`CpuMessage`]. 204: accepted. 200 with a [`CpuAnswer`] if it asks for
/// response times. 503 also if there was no room for all of it; what fitted is kept.
pub async fn cpu(State(context): State<Context>, request: Request) -> Response {
    let caller = context.identity.caller(&request);
    let said = async {
        let (_, body) = read(&context, request, &caller).await?;
        let message = CpuMessage::read(&body)?;
        context.store.receive_cpu(&message).ok_or(Unread::NoRoom)
    };
    let (result, answer) = match said.await {
        Ok(answers) if answers.is_empty() => ("accepted", StatusCode::NO_CONTENT.into_response()),
        Ok(answers) => {
            let replica = context.store.replica().to_owned();
            ("accepted", Json(CpuAnswer { replica, answers }).into_response())
        }
        Err(Unread::NoRoom) => ("no_room", refuse(&context, &caller, Unread::NoRoom)),
        Err(refused) => ("refused", refuse(&context, &caller, refused)),
    };
    context.metrics.count_agent_message(result);
    answer
}

/// `POST /v1/lease` with [`Asks`](bloc_leases::Asks). 200 with `Tolds`, without the applications
/// whose record could not be written. A late ask is answered with the life and number of the node
/// in the record. 404 if no store is configured. 503 also if the records have not been read yet.
pub async fn lease(State(context): State<Context>, request: Request) -> Response {
    let caller = context.identity.caller(&request);
    let Some(leases) = &context.agents.leases else {
        return refusal(StatusCode::NOT_FOUND, "no leases: no store is configured");
    };
    let said = async {
        let (headers, body) = read(&context, request, &caller).await?;
        // Its memory counts until the whole message is answered, waits for writes included.
        let _memory = context.transit.take(Arc::clone(&caller), 2 * body.len())?;
        let asks = leases::read(&body)?;
        if let Some(tokens) = context.agents.tokens.as_ref().filter(|_| context.identity != Identity::None) {
            tokens.check(&bearer(&headers)?, &asks.node).await?;
        }
        let tolds = leases.ask(asks).await.map_err(|Away| {
            let why = "the lease records have not been read from the Kubernetes API yet";
            Unread::Refused(StatusCode::SERVICE_UNAVAILABLE, why.to_owned())
        })?;
        Ok(bodies::answer(&context.transit, &caller, &tolds).await?)
    };
    said.await.unwrap_or_else(|unread| {
        context.metrics.count_lease_ask("refused");
        refuse(&context, &caller, unread)
    })
}

/// The headers and body of a node agent's request.
async fn read(context: &Context, request: Request, caller: &Arc<str>) -> Result<(HeaderMap, Vec<u8>), Unread> {
    let peer = request.extensions().get::<Peer>().copied();
    let spiffe = context.identity.of(request.headers(), peer)?;
    context.agents.account.check(spiffe.as_deref())?;
    let headers = request.headers().clone();
    Ok((headers, bodies::read(request, context.transit.share(Arc::clone(caller))).await?))
}

fn bearer(headers: &HeaderMap) -> Result<String, Refusal> {
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

fn refuse(context: &Context, caller: &Arc<str>, unread: Unread) -> Response {
    let (status, why) = match unread {
        Unread::NoRoom => (StatusCode::SERVICE_UNAVAILABLE, "out of memory for node agents' messages".to_owned()),
        // It may quote the message, and the log remembers it.
        Unread::Refused(status, why) => (status, why.chars().take(MOST_TEXT).collect()),
    };
    if context.named.due(&format!("{caller}: {why}"), Instant::now()).is_some() {
        tracing::warn!(%caller, error = why, "refused a node agent's message");
    }
    refusal(status, &why)
}
