//! A client: each request on a connection of its own.

use super::PATIENCE;
use bloc_policy::wire::load_report::LoadReport;
use http_body_util::{BodyExt, Full};
use hyper::body::Bytes;
use hyper::header::HeaderMap;
use hyper::{Request, StatusCode, http::request::Builder};
use hyper_util::rt::{TokioExecutor, TokioIo};
use std::net::SocketAddr;
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::time::timeout;

/// A complete answer.
#[derive(Debug)]
pub struct Answer {
    pub status: StatusCode,
    pub headers: HeaderMap,
    pub body: Bytes,
}

impl Answer {
    /// The application that answered; none: another answered.
    pub fn app(&self) -> Option<&str> {
        self.header("x-app")
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).and_then(|value| value.to_str().ok())
    }

    /// The server's load report: chip, queue and capacity.
    pub fn load(&self) -> Option<(bool, Option<u32>, Option<u32>)> {
        let report = LoadReport::decode(self.headers.get("x-bloc-load")?.as_bytes()).expect("a load report");
        Some((report.chip, report.queue, report.capacity))
    }

    /// Names of our headers.
    pub fn ours(&self) -> Vec<String> {
        self.headers.keys().map(ToString::to_string).filter(|name| name.starts_with("x-bloc")).collect()
    }
}

/// A builder of a GET for `path`.
pub fn request(path: &str) -> Builder {
    Request::get(path).header("host", "backend")
}

/// The same as from a sidecar with our filters, which reads the answer's load report.
pub fn from_sidecar(path: &str) -> Builder {
    request(path).header("x-bloc-bid", bloc_policy::wire::bid::ANY)
}

/// Sends a request over HTTP/1.1 and waits for the whole answer.
pub async fn send(to: SocketAddr, request: Builder, body: &'static str) -> Result<Answer, String> {
    let request = request.body(Full::new(Bytes::from(body))).unwrap();
    let exchange = async {
        let stream = TcpStream::connect(to).await.map_err(|e| e.to_string())?;
        let (mut sender, connection) =
            hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.map_err(|e| e.to_string())?;
        // It is dropped with the task's handle when the exchange is given up: then the client has
        // gone.
        let connection = AbortOnDrop(tokio::spawn(connection));
        let answer = collect(sender.send_request(request).await).await;
        drop(connection);
        answer
    };
    timeout(PATIENCE, exchange).await.map_err(|_| "timed out".to_owned())?
}

/// A connection, which stays with the worker that accepted it.
pub struct Connection {
    sender: hyper::client::conn::http1::SendRequest<Full<Bytes>>,
    _open: AbortOnDrop<hyper::Result<()>>,
}

impl Connection {
    pub async fn open(to: SocketAddr) -> Self {
        let stream = TcpStream::connect(to).await.unwrap();
        let (sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.unwrap();
        Self { sender, _open: AbortOnDrop(tokio::spawn(connection)) }
    }

    /// Sends and waits for the whole answer.
    pub async fn send(&mut self, request: Builder, body: &'static str) -> Result<Answer, String> {
        self.send_within(PATIENCE, request, body).await
    }

    /// The same, with this much patience.
    pub async fn send_within(
        &mut self,
        patience: Duration,
        request: Builder,
        body: &'static str,
    ) -> Result<Answer, String> {
        let request = request.body(Full::new(Bytes::from(body))).unwrap();
        let exchange = async {
            self.sender.ready().await.map_err(|e| e.to_string())?;
            collect(self.sender.send_request(request).await).await
        };
        timeout(patience, exchange).await.map_err(|_| "timed out".to_owned())?
    }
}

/// Sends a gRPC request over HTTP/2.
pub async fn grpc(to: SocketAddr, path: &str) -> Result<Answer, String> {
    let request = Request::post(format!("http://backend{path}"))
        .header("content-type", "application/grpc")
        .header("te", "trailers")
        .header("x-bloc-bid", bloc_policy::wire::bid::ANY);
    send_http2(to, request, Bytes::from_static(&[0; 5])).await
}

/// Sends a request over HTTP/2 and waits for the whole answer.
pub async fn send_http2(to: SocketAddr, request: Builder, body: Bytes) -> Result<Answer, String> {
    let request = request.body(Full::new(body)).unwrap();
    let exchange = async {
        let stream = TcpStream::connect(to).await.map_err(|e| e.to_string())?;
        let handshake = hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream));
        let (mut sender, connection) = handshake.await.map_err(|e| e.to_string())?;
        let connection = AbortOnDrop(tokio::spawn(connection));
        let answer = collect(sender.send_request(request).await).await;
        drop(connection);
        answer
    };
    timeout(PATIENCE, exchange).await.map_err(|_| "timed out".to_owned())?
}

async fn collect(response: hyper::Result<hyper::Response<hyper::body::Incoming>>) -> Result<Answer, String> {
    let (parts, body) = response.map_err(|e| e.to_string())?.into_parts();
    let body = body.collect().await.map_err(|e| e.to_string())?.to_bytes();
    Ok(Answer { status: parts.status, headers: parts.headers, body })
}

struct AbortOnDrop<T>(tokio::task::JoinHandle<T>);

impl<T> Drop for AbortOnDrop<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}
