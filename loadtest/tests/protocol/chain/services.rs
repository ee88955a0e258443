//! The services that the other filters wait for: an authorization, a processor and a page, each of
//! which answers after 0 to 20 ms.
//!
//! The first two are gRPC. Only the field that holds the answer matters, and an empty message means
//! yes, so the messages are written by hand. Envoy's protocol definitions take longer to compile
//! than all of these tests.

use http_body_util::channel::Channel;
use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Frame, Incoming};
use hyper::header::{HeaderMap, HeaderValue};
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::net::TcpListener;

type Body = http_body_util::combinators::BoxBody<Bytes, Infallible>;

/// How often each service has answered.
#[derive(Debug, Default)]
pub struct Calls {
    pub authorizations: AtomicUsize,
    pub processed: AtomicUsize,
    pub pages: AtomicUsize,
}

/// A server with all three services; it ends with the test.
pub struct Services {
    pub address: SocketAddr,
    pub calls: Arc<Calls>,
}

impl Services {
    pub async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let calls = Arc::<Calls>::default();
        let served = Arc::clone(&calls);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let calls = Arc::clone(&served);
                let service = service_fn(move |request| answer(Arc::clone(&calls), request));
                tokio::spawn(async move {
                    let _ =
                        auto::Builder::new(TokioExecutor::new()).serve_connection(TokioIo::new(stream), service).await;
                });
            }
        });
        Self { address, calls }
    }
}

async fn answer(calls: Arc<Calls>, request: Request<Incoming>) -> Result<Response<Body>, Infallible> {
    let path = request.uri().path().to_owned();
    let mut incoming = request.into_body();
    let grpc = Response::builder().header("content-type", "application/grpc");
    match path.as_str() {
        "/envoy.service.auth.v3.Authorization/Check" => {
            let _ = incoming.collect().await;
            wait().await;
            calls.authorizations.fetch_add(1, Ordering::SeqCst);
            // An empty CheckResponse is the status OK.
            let body = Full::new(message(&[])).with_trailers(async { Some(Ok(ok())) });
            Ok(grpc.body(body.boxed()).unwrap())
        }
        "/envoy.service.ext_proc.v3.ExternalProcessor/Process" => {
            let (mut answers, body) = Channel::<Bytes, Infallible>::new(4);
            tokio::spawn(async move {
                let mut received = Vec::new();
                while let Some(Ok(frame)) = incoming.frame().await {
                    received.extend_from_slice(frame.data_ref().map_or(&[], |data| data));
                    while let Some(request) = next_message(&mut received) {
                        wait().await;
                        calls.processed.fetch_add(1, Ordering::SeqCst);
                        let answer = message(&[response_to(&request), 0]);
                        if answers.send(Frame::data(answer)).await.is_err() {
                            return;
                        }
                    }
                }
                let _ = answers.send(Frame::trailers(ok())).await;
            });
            Ok(grpc.body(body.boxed()).unwrap())
        }
        _ => {
            wait().await;
            calls.pages.fetch_add(1, Ordering::SeqCst);
            Ok(Response::new(Full::new(Bytes::from_static(b"page")).boxed()))
        }
    }
}

async fn wait() {
    tokio::time::sleep(Duration::from_micros(fastrand::u64(0..20_000))).await;
}

fn ok() -> HeaderMap {
    HeaderMap::from_iter([(hyper::header::HeaderName::from_static("grpc-status"), HeaderValue::from_static("0"))])
}

/// A message as gRPC frames it.
fn message(content: &[u8]) -> Bytes {
    let length = u32::try_from(content.len()).unwrap().to_be_bytes();
    [&[0], &length[..], content].concat().into()
}

/// Takes the first message once it is complete.
fn next_message(received: &mut Vec<u8>) -> Option<Vec<u8>> {
    let length = received.get(1..5)?.try_into().ok().map(u32::from_be_bytes)?;
    let end = 5 + usize::try_from(length).unwrap();
    (received.len() >= end).then(|| received.drain(..end).skip(5).collect())
}

/// The tag of the field of a `ProcessingResponse` that answers this `ProcessingRequest`. Its empty
/// content means: continue unchanged. Only headers are sent to the processor.
fn response_to(request: &[u8]) -> u8 {
    /// Of `ProcessingRequest`: `request_headers = 2`, `response_headers = 3`, both a message.
    const REQUEST_HEADERS: u8 = 2 << 3 | 2;
    const RESPONSE_HEADERS: u8 = 3 << 3 | 2;
    /// Of `ProcessingResponse`: `request_headers = 1`, `response_headers = 2`.
    const ANSWERS: [(u8, u8); 2] = [(REQUEST_HEADERS, 1 << 3 | 2), (RESPONSE_HEADERS, 2 << 3 | 2)];
    let asked = request.first().copied().unwrap_or_default();
    ANSWERS.iter().find(|(question, _)| *question == asked).expect("a question about headers").1
}
