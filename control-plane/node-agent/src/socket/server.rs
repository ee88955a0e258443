//! The connections of a socket, and their requests.
//!
//! A loop over hyper instead of `axum::serve`, which limits neither the time of a head nor the
//! number of connections.

use super::poll::Known;
use super::question::Question;
use axum::body::Body;
use axum::http::{HeaderValue, Method, Request, Response, StatusCode, header};
use hyper::body::Incoming;
use hyper::server::conn::http1::Builder;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::net::UnixListener;
use tokio::sync::Mutex;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};

/// The path of a question.
const PATH: &str = "/v1/self";
/// The most connections of a socket; further ones are closed at once. A sidecar has one, and some
/// while its threads change places.
pub(super) const MOST_CONNECTIONS: usize = 16;
/// The longest head of a request, in bytes: hyper has no smaller buffer.
const MOST_HEAD: usize = 8 << 10;
/// How long a connection without a request is kept, and how long a head may take. A sidecar asks
/// again at once, or 5 s after a failure.
const IDLE: Duration = Duration::from_secs(70);
/// The shortest time between two requests of a socket, and between two connections: a pod that does
/// nothing but ask must not use the node's CPU outside of its quota. A sidecar that waits for
/// changes asks five times a second at most.
pub(super) const PACE: Duration = Duration::from_millis(50);

/// What is counted of all sockets.
#[derive(Debug, Default)]
pub struct Counts {
    open: AtomicU64,
    answers: AtomicU64,
}

impl Counts {
    /// With these values.
    #[cfg(test)]
    pub(crate) fn of(open: u64, answers: u64) -> Self {
        Self { open: open.into(), answers: answers.into() }
    }

    /// The sockets now.
    pub fn open(&self) -> u64 {
        self.open.load(Ordering::Relaxed)
    }

    /// The questions that were answered since the start.
    pub fn answers(&self) -> u64 {
        self.answers.load(Ordering::Relaxed)
    }

    pub(super) fn set_open(&self, open: usize) {
        self.open.store(open as u64, Ordering::Relaxed);
    }
}

/// Who asks at a socket, one after the other.
#[derive(Debug, Default)]
struct Turns(Mutex<Option<Instant>>);

impl Turns {
    /// Waits for the next turn.
    async fn next(&self) {
        let mut last = self.0.lock().await;
        if let Some(last) = *last {
            sleep_until(last + PACE).await;
        }
        *last = Some(Instant::now());
    }
}

/// Answers all who ask at a socket; does not end.
pub(super) async fn accept(listener: UnixListener, known: Arc<Known>, counts: Arc<Counts>) {
    let mut builder = Builder::new();
    builder.timer(TokioTimer::new()).header_read_timeout(IDLE).max_buf_size(MOST_HEAD);
    let (turns, visits) = (Arc::new(Turns::default()), Turns::default());
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            // First who has left, to know who is there.
            biased;
            Some(_) = connections.join_next() => {}
            accepted = listener.accept() => {
                match accepted {
                    Ok((stream, _)) if connections.len() < MOST_CONNECTIONS => {
                        let (turns, known, counts) = (Arc::clone(&turns), Arc::clone(&known), Arc::clone(&counts));
                        let service = service_fn(move |request| {
                            let (turns, known, counts) = (Arc::clone(&turns), Arc::clone(&known), Arc::clone(&counts));
                            async move {
                                turns.next().await;
                                Ok::<_, Infallible>(answer(&request, &known, &counts).await)
                            }
                        });
                        connections.spawn(builder.serve_connection(TokioIo::new(stream), service));
                    }
                    Ok(_) => {}
                    // Usually too many open files.
                    Err(error) => tracing::debug!(%error, "a connection of a sidecar cannot be accepted"),
                }
                visits.next().await;
            }
        }
    }
}

async fn answer(request: &Request<Incoming>, known: &Known, counts: &Counts) -> Response<Body> {
    if request.uri().path() != PATH {
        return refusal(StatusCode::NOT_FOUND, "no such path");
    }
    if request.method() != Method::GET {
        let mut response = refusal(StatusCode::METHOD_NOT_ALLOWED, "method not allowed");
        response.headers_mut().insert(header::ALLOW, HeaderValue::from_static("GET"));
        return response;
    }
    let question = match Question::read(request.uri()) {
        Ok(question) => question,
        Err(error) => return refusal(StatusCode::BAD_REQUEST, &error.to_string()),
    };
    let Some(cpu) = known.answer(question).await else {
        let mut response = Response::new(Body::empty());
        *response.status_mut() = StatusCode::NOT_MODIFIED;
        return response;
    };
    counts.answers.fetch_add(1, Ordering::Relaxed);
    json(StatusCode::OK, serde_json::to_string(&cpu).unwrap_or_else(|_| "{}".to_owned()))
}

fn refusal(status: StatusCode, error: &str) -> Response<Body> {
    json(status, serde_json::json!({"error": error}).to_string())
}

fn json(status: StatusCode, body: String) -> Response<Body> {
    let mut response = Response::new(Body::from(body));
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}
