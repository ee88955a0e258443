//! One request from a client's point of view.

use super::outcome::{ErrorKind, Outcome};
use crate::backend::{APP_HEADER, answer};
use http_body_util::{BodyExt, Full};
use hyper::body::Bytes;
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::{Method, Request, StatusCode, header};
use hyper_util::rt::TokioIo;
use std::net::SocketAddr;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::task::JoinHandle;
use tokio::time::timeout;

/// Sends requests to one address, on kept or on new connections.
#[derive(Debug)]
pub struct Client {
    target: SocketAddr,
    path: String,
    keep_alive: bool,
    timeout: Duration,
    body: Bytes,
    idle: Mutex<Vec<Connection>>,
}

#[derive(Debug)]
struct Connection {
    sender: SendRequest<Full<Bytes>>,
    driver: JoinHandle<()>,
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.driver.abort();
    }
}

impl Client {
    /// A client of `target` that asks for `path`.
    pub fn new(target: SocketAddr, path: &str, keep_alive: bool, timeout: Duration) -> Self {
        let (path, body) = (path.to_owned(), Bytes::new());
        Self { target, path, keep_alive, timeout, body, idle: Mutex::default() }
    }

    /// The same with a body of `size` bytes in each request, which is then a POST; 0: a GET.
    #[must_use]
    pub fn with_body(self, size: usize) -> Self {
        Self { body: Bytes::from(vec![b'x'; size]), ..self }
    }

    /// One request, from connecting to the last byte of the answer.
    pub async fn request(&self) -> Outcome {
        match timeout(self.timeout, self.exchange()).await {
            Ok(Ok(outcome)) => outcome,
            Ok(Err(kind)) => Outcome::Error(kind),
            Err(_) => Outcome::Error(ErrorKind::Timeout),
        }
    }

    async fn exchange(&self) -> Result<Outcome, ErrorKind> {
        let mut connection = match self.kept() {
            Some(connection) => connection,
            None => self.connect().await?,
        };
        let method = if self.body.is_empty() { Method::GET } else { Method::POST };
        let mut request = Request::builder().method(method).uri(&self.path).header(header::HOST, "backend.mesh");
        if !self.keep_alive {
            request = request.header(header::CONNECTION, "close");
        }
        let request = request.body(Full::new(self.body.clone())).map_err(|_| ErrorKind::Broken)?;
        let response = connection.sender.send_request(request).await.map_err(|_| ErrorKind::Broken)?;
        let (head, body) = response.into_parts();
        let body = body.collect().await.map_err(|_| ErrorKind::Broken)?.to_bytes();
        if self.keep_alive {
            self.idle.lock().unwrap_or_else(PoisonError::into_inner).push(connection);
        }
        let app = head.headers.get(APP_HEADER).map(|name| String::from_utf8_lossy(name.as_bytes()).into_owned());
        Ok(judge(head.status, app.as_deref(), head.headers.contains_key(header::RETRY_AFTER), &body))
    }

    fn kept(&self) -> Option<Connection> {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        while let Some(connection) = idle.pop() {
            if connection.sender.is_ready() {
                return Some(connection);
            }
        }
        None
    }

    async fn connect(&self) -> Result<Connection, ErrorKind> {
        let stream = TcpStream::connect(self.target).await.map_err(|_| ErrorKind::Connect)?;
        let _ = stream.set_nodelay(true);
        let (sender, connection) = handshake(TokioIo::new(stream)).await.map_err(|_| ErrorKind::Connect)?;
        let driver = tokio::spawn(async move {
            let _ = connection.await;
        });
        Ok(Connection { sender, driver })
    }
}

fn judge(status: StatusCode, app: Option<&str>, retry_after: bool, body: &[u8]) -> Outcome {
    match app {
        Some(name) if status.is_success() && body == answer(name).as_bytes() => Outcome::Ok,
        Some(_) if status.is_success() => Outcome::Error(ErrorKind::Body),
        None if status == StatusCode::TOO_MANY_REQUESTS => Outcome::Shed,
        None if status == StatusCode::SERVICE_UNAVAILABLE && retry_after => Outcome::Shed,
        _ => Outcome::Error(ErrorKind::Status(status.as_u16())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distinguishes_application_responses_from_mesh_responses() {
        let error = |kind| Outcome::Error(kind);
        assert_eq!(judge(StatusCode::OK, Some("b1"), false, b"served by b1\n"), Outcome::Ok);
        assert_eq!(judge(StatusCode::OK, Some("b1"), false, b"served by b2\n"), error(ErrorKind::Body));
        assert_eq!(judge(StatusCode::OK, None, false, b"served by b1\n"), error(ErrorKind::Status(200)));
        assert_eq!(judge(StatusCode::TOO_MANY_REQUESTS, None, false, b""), Outcome::Shed);
        assert_eq!(judge(StatusCode::TOO_MANY_REQUESTS, Some("b1"), false, b""), error(ErrorKind::Status(429)));
        assert_eq!(judge(StatusCode::SERVICE_UNAVAILABLE, None, false, b""), error(ErrorKind::Status(503)));
        assert_eq!(judge(StatusCode::SERVICE_UNAVAILABLE, None, true, b""), Outcome::Shed);
        assert_eq!(judge(StatusCode::SERVICE_UNAVAILABLE, Some("b1"), true, b""), error(ErrorKind::Status(503)));
    }

    #[tokio::test]
    async fn reuses_its_connection_only_with_keep_alive() {
        for (keep_alive, connections) in [(true, 1), (false, 3)] {
            let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
            let client = Client::new(listener.local_addr().unwrap(), "/", keep_alive, Duration::from_secs(5));
            let answers = tokio::spawn(async move {
                let mut accepted = 0;
                loop {
                    let Ok(accept) = timeout(Duration::from_millis(300), listener.accept()).await else {
                        return accepted;
                    };
                    accepted += 1;
                    let service = hyper::service::service_fn(|_| async {
                        hyper::Response::builder().status(429).body(Full::<Bytes>::default())
                    });
                    let io = TokioIo::new(accept.unwrap().0);
                    tokio::spawn(hyper::server::conn::http1::Builder::new().serve_connection(io, service));
                }
            });
            for _ in 0..3 {
                assert_eq!(client.request().await, Outcome::Shed);
            }
            assert_eq!(answers.await.unwrap(), connections);
        }
    }
}
