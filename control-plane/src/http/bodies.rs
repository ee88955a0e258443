//! Request and response bodies, within the memory for bytes in transit: bodies while they are read,
//! and responses until the client has taken them. A slow client holds its bytes for long.

use super::context::{Context, refusal};
use super::identity::Refusal;
use axum::body::{Body, Bytes, HttpBody, to_bytes};
use axum::extract::{Request, State};
use axum::http::{StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use bloc_daemon::shares::{NoRoom, Share, Shares};
use bloc_policy::config::ConfigError;
use futures_util::StreamExt;
use serde::Serialize;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::timeout;

/// The largest body of a request, 96 KiB: enough for a proxy that calls 1,000 services with names
/// of 50 bytes, and 32 KiB of latencies.
const MAX_BODY_BYTES: usize = 96 << 10;
/// How long a body may take to arrive. A proxy sends it in one go.
const BODY_TIMEOUT: Duration = Duration::from_secs(10);
/// Memory of a request while its body is read, besides the body: connection, buffer, task.
const REQUEST: usize = 16 << 10;

/// Why a body was not read.
pub enum Unread {
    /// There is no room for it in transit.
    NoRoom,
    /// The request is refused, with this status and reason.
    Refused(StatusCode, String),
}

impl From<NoRoom> for Unread {
    fn from(_: NoRoom) -> Self {
        Self::NoRoom
    }
}

impl From<Refusal> for Unread {
    fn from((status, why): Refusal) -> Self {
        Self::Refused(status, why)
    }
}

impl From<ConfigError> for Unread {
    fn from(error: ConfigError) -> Self {
        Self::Refused(StatusCode::BAD_REQUEST, error.to_string())
    }
}

/// Reads the body of a request, at most [`MAX_BODY_BYTES`]. The bytes that have arrived count, not
/// the length that the request states.
pub async fn read(request: Request, mut memory: Share) -> Result<Vec<u8>, Unread> {
    let too_long = || {
        let why = format!("the body is too large; allowed: up to {MAX_BODY_BYTES} bytes");
        Unread::Refused(StatusCode::PAYLOAD_TOO_LARGE, why)
    };
    if request.body().size_hint().lower() > MAX_BODY_BYTES as u64 {
        return Err(too_long());
    }
    memory.grow(REQUEST)?;
    let read = async {
        let (mut chunks, mut body) = (request.into_body().into_data_stream(), Vec::new());
        while let Some(chunk) = chunks.next().await {
            let chunk = chunk.map_err(|error| Unread::Refused(StatusCode::BAD_REQUEST, error.to_string()))?;
            if body.len() + chunk.len() > MAX_BODY_BYTES {
                return Err(too_long());
            }
            // Doubled, because a growing buffer takes up to twice its content.
            memory.grow(2 * chunk.len())?;
            body.extend_from_slice(&chunk);
        }
        Ok(body)
    };
    let late = |_| Unread::Refused(StatusCode::REQUEST_TIMEOUT, "the body did not arrive within 10 s".to_owned());
    timeout(BODY_TIMEOUT, read).await.map_err(late)?
}

/// The response to a poll with this body, once there is room for it.
pub async fn answer(transit: &Shares, caller: &Arc<str>, answer: &impl Serialize) -> Result<Response, NoRoom> {
    // The JSON is written only if there is room. Its length is counted first, without storing it.
    let mut length = Length(0);
    let _ = serde_json::to_writer(&mut length, answer);
    let content_type = [(header::CONTENT_TYPE, "application/json")];
    let mut memory = transit.share(Arc::clone(caller));
    memory.grow_later(length.0).await?;
    let mut response = (content_type, carry(memory, json(answer).into())).into_response();
    response.extensions_mut().insert(IsCounted);
    Ok(response)
}

fn json(value: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(value).unwrap_or_default()
}

/// A writer that only counts bytes.
struct Length(usize);

impl std::io::Write for Length {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0 += bytes.len();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// Shorter responses, such as those to probes, do not count: a replica must not be restarted
/// because its memory is taken.
const SMALL: usize = 64;

/// Marks a response that is already counted.
#[derive(Clone, Copy)]
struct IsCounted;

/// Middleware that counts responses until the client has taken them.
pub async fn count_answers(State(context): State<Context>, request: Request, next: Next) -> Response {
    let caller = context.identity.caller(&request);
    let (parts, body) = next.run(request).await.into_parts();
    let length = body.size_hint().exact().and_then(|bytes| usize::try_from(bytes).ok());
    let length = length.filter(|bytes| *bytes > SMALL && parts.extensions.get::<IsCounted>().is_none());
    let Some(length) = length else { return Response::from_parts(parts, body) };
    let mut memory = context.transit.share(caller);
    if memory.grow(length).is_err() {
        return refusal(StatusCode::SERVICE_UNAVAILABLE, "too many responses are in transit");
    }
    match to_bytes(body, length).await {
        Ok(bytes) => Response::from_parts(parts, carry(memory, bytes)),
        Err(error) => refusal(StatusCode::INTERNAL_SERVER_ERROR, &error.to_string()),
    }
}

/// A body that counts until its last byte is written.
fn carry(memory: Share, bytes: Bytes) -> Body {
    Body::from(Bytes::from_owner(Counted { bytes, _memory: memory }))
}

struct Counted {
    bytes: Bytes,
    _memory: Share,
}

impl AsRef<[u8]> for Counted {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}
