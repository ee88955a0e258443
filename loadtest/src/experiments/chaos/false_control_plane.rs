//! A lying control plane in place of the real one.
//!
//! Its answers, in turn: an older state without one of the servers, an empty list of servers, no
//! services at all, a refusal, invalid JSON, and a value that is not allowed. It holds each for a
//! moment, as the real one holds a poll. It can also be silent: it accepts each poll and never
//! answers.

use bloc_mesh::{Mesh, MeshError};
use bloc_policy::sync::SyncResponse;
use http_body_util::Full;
use hyper::body::Bytes;
use hyper::service::service_fn;
use hyper::{Response, StatusCode};
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio::time::sleep;

/// How long each answer is held.
const HOLD: Duration = Duration::from_millis(150);

/// What it answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answers {
    /// All of the answers above, in turn.
    All,
    /// Nothing.
    None,
}

/// A running false control plane.
#[derive(Debug)]
pub struct FalseControlPlane {
    task: JoinHandle<()>,
}

impl Drop for FalseControlPlane {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl FalseControlPlane {
    /// Takes the address of the control plane of `mesh`; none if the mesh has none.
    ///
    /// # Errors
    /// The address is in use.
    pub async fn in_the_place_of(mesh: &mut Mesh, what: Answers) -> Result<Option<Self>, MeshError> {
        let Some(at) = mesh.control_plane_address() else { return Ok(None) };
        mesh.crash_control_plane().await;
        let listener = TcpListener::bind(at).await.map_err(|source| MeshError::Address { at, source })?;
        let answers = Arc::new(answers(mesh, mesh.endpoints()));
        Ok(Some(Self { task: tokio::spawn(serve(listener, what, answers)) }))
    }

    /// Ends it and frees its address.
    pub async fn end(mut self) {
        self.task.abort();
        let _ = (&mut self.task).await;
    }
}

type Answer = (StatusCode, Bytes);

/// Its answers, in turn.
fn answers(mesh: &Mesh, endpoints: &[SocketAddr]) -> Vec<Answer> {
    let state = |version: &str, services| {
        let answer = SyncResponse { version: version.to_owned(), services, ..SyncResponse::default() };
        (StatusCode::OK, Bytes::from(serde_json::json!(answer).to_string()))
    };
    let older = endpoints.split_last().map_or(endpoints, |(_, rest)| rest);
    let not_allowed = r#"{"version":"v9","services":{"backend":{"retries":11}}}"#;
    vec![
        state("1", mesh.services(older)),
        state("2", mesh.services(&[])),
        state("0", [].into()),
        (StatusCode::INTERNAL_SERVER_ERROR, Bytes::from_static(b"no")),
        (StatusCode::OK, Bytes::from_static(b"{\"version\": [")),
        (StatusCode::OK, Bytes::from_static(not_allowed.as_bytes())),
    ]
}

async fn serve(listener: TcpListener, what: Answers, answers: Arc<Vec<Answer>>) {
    let asked = Arc::new(AtomicUsize::new(0));
    let mut connections = tokio::task::JoinSet::new();
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            sleep(HOLD).await;
            continue;
        };
        let (asked, answers) = (Arc::clone(&asked), Arc::clone(&answers));
        connections.spawn(async move {
            let service = service_fn(move |_request| {
                let (turn, answers) = (asked.fetch_add(1, Ordering::Relaxed), Arc::clone(&answers));
                async move {
                    if what == Answers::None {
                        std::future::pending::<()>().await;
                    }
                    sleep(HOLD).await;
                    let (status, body) = answers[turn % answers.len()].clone();
                    let mut response = Response::new(Full::new(body));
                    *response.status_mut() = status;
                    Ok::<_, Infallible>(response)
                }
            });
            let _ = auto::Builder::new(TokioExecutor::new()).serve_connection(TokioIo::new(stream), service).await;
        });
    }
}
