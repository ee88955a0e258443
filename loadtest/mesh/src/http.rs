//! One request over plain HTTP/1.1, for admin interfaces and readiness.

use http_body_util::{BodyExt, Empty};
use hyper::body::Bytes;
use hyper::{Method, Request, Response, StatusCode, header};
use hyper_util::rt::TokioIo;
use std::net::SocketAddr;
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::time::timeout;

/// Why there was no answer.
#[derive(Debug, thiserror::Error)]
pub enum HttpError {
    /// No connection.
    #[error("cannot connect to {address}: {source}")]
    Connect {
        /// The server.
        address: SocketAddr,
        /// Why not.
        source: std::io::Error,
    },
    /// The exchange was cut off.
    #[error("http://{address}{path}: {source}")]
    Exchange {
        /// The server.
        address: SocketAddr,
        /// The path that was requested.
        path: String,
        /// Why.
        source: hyper::Error,
    },
    /// The path is invalid.
    #[error("not a path: {0}")]
    Path(#[from] hyper::http::Error),
    /// It took too long.
    #[error("http://{address}{path}: no answer within {limit:?}")]
    Late {
        /// The server.
        address: SocketAddr,
        /// The path that was requested.
        path: String,
        /// The limit.
        limit: Duration,
    },
}

/// Gets `path` (with its query) from `address`, on its own connection, within `limit`.
///
/// # Errors
/// No complete answer; any status is an answer.
pub async fn get(address: SocketAddr, path: &str, limit: Duration) -> Result<(StatusCode, Bytes), HttpError> {
    Ok(plain(request(Method::GET, address, path, &[], limit).await?))
}

/// Like [`get`], with more headers in the request. The answer includes its headers.
///
/// # Errors
/// No complete answer; any status is an answer.
pub async fn fetch(
    address: SocketAddr,
    path: &str,
    headers: &[(&str, &str)],
    limit: Duration,
) -> Result<Response<Bytes>, HttpError> {
    request(Method::GET, address, path, headers, limit).await
}

/// Posts an empty body to `path`, otherwise like [`get`].
///
/// # Errors
/// No complete answer; any status is an answer.
pub async fn post(address: SocketAddr, path: &str, limit: Duration) -> Result<(StatusCode, Bytes), HttpError> {
    Ok(plain(request(Method::POST, address, path, &[], limit).await?))
}

fn plain(response: Response<Bytes>) -> (StatusCode, Bytes) {
    (response.status(), response.into_body())
}

async fn request(
    method: Method,
    address: SocketAddr,
    path: &str,
    headers: &[(&str, &str)],
    limit: Duration,
) -> Result<Response<Bytes>, HttpError> {
    let late = |_| HttpError::Late { address, path: path.to_owned(), limit };
    timeout(limit, exchange(method, address, path, headers)).await.map_err(late)?
}

async fn exchange(
    method: Method,
    address: SocketAddr,
    path: &str,
    headers: &[(&str, &str)],
) -> Result<Response<Bytes>, HttpError> {
    let broken = |source| HttpError::Exchange { address, path: path.to_owned(), source };
    let plain = Request::builder()
        .method(method)
        .uri(path)
        .header(header::HOST, address.to_string())
        .header(header::CONNECTION, "close");
    let request = headers
        .iter()
        .fold(plain, |request, (name, value)| request.header(*name, *value))
        .body(Empty::<Bytes>::new())?;
    let stream = TcpStream::connect(address).await.map_err(|source| HttpError::Connect { address, source })?;
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.map_err(broken)?;
    let answer = async {
        let (parts, body) = sender.send_request(request).await?.into_parts();
        Ok(Response::from_parts(parts, body.collect().await?.to_bytes()))
    };
    // The connection makes progress only while it is polled. It belongs to this exchange and ends
    // with it.
    let mut connection = std::pin::pin!(connection);
    let mut answer = std::pin::pin!(answer);
    tokio::select! {
        biased;
        answer = &mut answer => answer.map_err(broken),
        ended = &mut connection => {
            ended.map_err(broken)?;
            answer.await.map_err(broken)
        }
    }
}
