//! The application of the sample's frontends: passes every request on to `BACKEND`, and returns the
//! answer.

use anyhow::{Context, Result};
use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::header::{CONNECTION, HOST, TRANSFER_ENCODING};
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use std::convert::Infallible;
use tokio::net::TcpListener;

/// Serves on port 8080 until the process ends.
///
/// # Errors
/// `BACKEND` is not set, or the port is taken.
pub async fn serve() -> Result<()> {
    let backend = std::env::var("BACKEND").context("BACKEND")?;
    let client = reqwest::Client::new();
    let listener = TcpListener::bind("0.0.0.0:8080").await?;
    loop {
        let Ok((stream, _)) = listener.accept().await else { continue };
        let (backend, client) = (backend.clone(), client.clone());
        tokio::spawn(async move {
            let service = service_fn(|request| async {
                let answer = pass(&client, &backend, request).await;
                Ok::<_, Infallible>(answer.unwrap_or_else(|error| {
                    let mut answer = Response::new(Full::from(format!("{error:#}\n")));
                    *answer.status_mut() = StatusCode::BAD_GATEWAY;
                    answer
                }))
            });
            let _ = hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
        });
    }
}

async fn pass(client: &reqwest::Client, backend: &str, request: Request<Incoming>) -> Result<Response<Full<Bytes>>> {
    let (parts, body) = request.into_parts();
    let path = parts.uri.path_and_query().map_or("/", |path| path.as_str());
    let mut headers = parts.headers;
    for name in [HOST, CONNECTION, TRANSFER_ENCODING] {
        headers.remove(name);
    }
    let body = body.collect().await?.to_bytes();
    let answer =
        client.request(parts.method, format!("http://{backend}{path}")).headers(headers).body(body).send().await?;
    let mut passed = Response::builder().status(answer.status());
    for (name, value) in answer.headers().iter().filter(|(name, _)| ![CONNECTION, TRANSFER_ENCODING].contains(name)) {
        passed = passed.header(name, value);
    }
    Ok(passed.body(Full::from(answer.bytes().await?))?)
}
