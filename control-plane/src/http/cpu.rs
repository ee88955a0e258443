//! `POST /v1/cpu` of node agents, with a [`CpuMessage`] as body. Answers:
//!
//! - 204: it is known now. 200 with a [`CpuAnswer`] if it asks for response times.
//! - 400 for a body that is no such message, with path and value; 401 and 403 for a caller who is
//!   not the node agent, 408 for a body that does not arrive, 413 for a body above 96 KiB.
//! - 503 if there is no room for the body, or for all of what it says; what did fit is known.

use super::bodies::{self, Unread};
use super::caller;
use super::context::{Context, refusal};
use super::identity::Peer;
use axum::Json;
use axum::extract::{Request, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use bloc_daemon::cpu::{CpuAnswer, CpuMessage};
use std::sync::Arc;
use tokio::time::Instant;

pub async fn cpu(State(context): State<Context>, request: Request) -> Response {
    let peer = request.extensions().get::<Peer>().copied();
    let caller = caller::of(&context.identity, request.headers(), peer);
    let read = read(&context, request, &caller).await;
    let log = |error: &str| {
        if context.named.due(&format!("{caller}: {error}"), Instant::now()).is_some() {
            tracing::warn!(%caller, error, "refused a node agent's message");
        }
    };
    let answers = match read {
        Ok(message) => context.store.hear_cpu(&message).ok_or(Unread::NoRoom),
        Err(unread) => Err(unread),
    };
    match answers {
        Ok(answers) => {
            context.metrics.count_agent_message("accepted");
            if answers.is_empty() {
                return StatusCode::NO_CONTENT.into_response();
            }
            Json(CpuAnswer { replica: context.store.replica().to_owned(), answers }).into_response()
        }
        Err(Unread::NoRoom) => {
            context.metrics.count_agent_message("no_room");
            let why = "no memory left for all that node agents say";
            log(why);
            ([(header::RETRY_AFTER, "30")], refusal(StatusCode::SERVICE_UNAVAILABLE, why)).into_response()
        }
        Err(Unread::Refused(status, why)) => {
            context.metrics.count_agent_message("refused");
            log(&why);
            refusal(status, &why)
        }
    }
}

async fn read(context: &Context, request: Request, caller: &Arc<str>) -> Result<CpuMessage, Unread> {
    let peer = request.extensions().get::<Peer>().copied();
    let refused = |(status, why)| Unread::Refused(status, why);
    let spiffe = context.identity.of(request.headers(), peer).map_err(refused)?;
    context.node_agent.check(spiffe.as_deref()).map_err(refused)?;
    let body = bodies::read(request, context.transit.passage(Arc::clone(caller))).await?;
    CpuMessage::read(&body).map_err(|error| Unread::Refused(StatusCode::BAD_REQUEST, error.to_string()))
}
