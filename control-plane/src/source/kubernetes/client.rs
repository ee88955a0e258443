//! The client of the API server.

use axum::body::{Body, Bytes, HttpBody, to_bytes};
use axum::http::header::RETRY_AFTER;
use axum::http::{HeaderMap, Response};
use kube::client::ClientBuilder;
use kube::{Client, Config};
use serde_json::{Value, json};
use std::time::Duration;
use tower::BoxError;
use tower::util::AndThenLayer;

/// A connection to the API server is given up after this silence: a watch lists again earlier.
const SILENCE: Duration = Duration::from_secs(150);
/// The longest body of an error that is read, in bytes.
const MOST_ERROR: usize = 64 << 10;

/// A client for a source.
///
/// # Errors
/// If no client can be made from `config`.
pub fn client(mut config: Config) -> Result<Client, kube::Error> {
    config.read_timeout = Some(SILENCE);
    // The watches have their own pauses, and failures must be visible.
    config.default_retry = false;
    Ok(ClientBuilder::try_from(config)?.with_layer(&AndThenLayer::new(with_retry_after)).build())
}

/// Copies the header `Retry-After` of an error into its body: kube does not return headers.
pub(super) async fn with_retry_after<B>(response: Response<B>) -> Result<Response<Body>, BoxError>
where
    B: HttpBody<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    let (parts, body) = response.into_parts();
    let (code, body) = (parts.status, Body::new(body));
    let seconds = seconds(&parts.headers).filter(|_| code.is_client_error() || code.is_server_error());
    let Some(seconds) = seconds else { return Ok(Response::from_parts(parts, body)) };
    let text = to_bytes(body, MOST_ERROR).await.unwrap_or_default();
    let mut status = serde_json::from_slice(&text)
        .ok()
        .filter(Value::is_object)
        .unwrap_or_else(|| json!({"status": "Failure", "message": String::from_utf8_lossy(&text)}));
    status["code"] = code.as_u16().into();
    if !status["details"].is_object() {
        status["details"] = json!({});
    }
    status["details"]["retryAfterSeconds"] = seconds.into();
    Ok(Response::from_parts(parts, status.to_string().into()))
}

fn seconds(headers: &HeaderMap) -> Option<u32> {
    headers.get(RETRY_AFTER)?.to_str().ok()?.parse().ok()
}
