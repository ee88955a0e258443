//! The application of these tests: after 5 ms it answers with the request's body and the status
//! that the request asks for, and records its requests.

use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;

/// The header that numbers a request.
pub const NUMBER: &str = "x-test-number";
/// The header that asks for a status.
pub const STATUS: &str = "x-test-status";
/// The header that marks an answer of the application.
pub const APPLICATION: &str = "x-test-application";
/// How long it works on a request, and on how many at once.
const WORK: Duration = Duration::from_millis(5);
pub const CONCURRENCY: usize = 4;

/// What all applications of a stand have received.
#[derive(Debug, Default)]
pub struct Seen {
    /// How often each request arrived.
    pub requests: HashMap<u64, usize>,
    /// Headers that are ours.
    pub ours: Vec<String>,
}

/// Starts an application, which ends with the test.
pub async fn start(seen: &Arc<Mutex<Seen>>) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (seen, places) = (Arc::clone(seen), Arc::new(Semaphore::new(CONCURRENCY)));
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let (seen, places) = (Arc::clone(&seen), Arc::clone(&places));
            let service = service_fn(move |request| answer(Arc::clone(&seen), Arc::clone(&places), request));
            tokio::spawn(async move {
                let _ = auto::Builder::new(TokioExecutor::new()).serve_connection(TokioIo::new(stream), service).await;
            });
        }
    });
    address
}

async fn answer(
    seen: Arc<Mutex<Seen>>,
    places: Arc<Semaphore>,
    request: Request<Incoming>,
) -> Result<Response<Full<Bytes>>, hyper::Error> {
    let (head, body) = request.into_parts();
    let text = |name: &str| head.headers.get(name).and_then(|value| value.to_str().ok());
    {
        let mut seen = seen.lock().unwrap();
        let number = text(NUMBER).and_then(|number| number.parse().ok()).expect("a number");
        *seen.requests.entry(number).or_default() += 1;
        seen.ours.extend(head.headers.keys().map(ToString::to_string).filter(|name| name.starts_with("x-bloc")));
    }
    let body = body.collect().await?.to_bytes();
    let _place = places.acquire().await.unwrap();
    tokio::time::sleep(WORK).await;
    let status = text(STATUS).unwrap_or("200");
    Ok(Response::builder().status(status).header(APPLICATION, "yes").body(Full::new(body)).unwrap())
}
