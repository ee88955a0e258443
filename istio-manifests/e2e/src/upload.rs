//! A slow request, like an upload. The filters that it came to stay alive until it ends, even if
//! others have replaced them.

use anyhow::{Context, Result, ensure};
use std::path::Path;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep, timeout};

const BODY: &str = "the end";
const POLL: Duration = Duration::from_millis(50);

/// Posts [`BODY`] to `/echo` at `to`, `HOST:PORT`, and ends the body once the file `until` exists;
/// returns the status of the answer.
///
/// # Errors
/// No answer, another body, or no file for too long.
pub async fn send(to: &str, until: &Path) -> Result<u16> {
    let mut stream = TcpStream::connect(to).await?;
    let length = BODY.len();
    let head = format!("POST /echo HTTP/1.1\r\nhost: {to}\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n");
    stream.write_all(head.as_bytes()).await?;
    let began = Instant::now();
    while !until.exists() {
        ensure!(began.elapsed() < crate::api::PATIENCE, "there is no {}", until.display());
        sleep(POLL).await;
    }
    stream.write_all(BODY.as_bytes()).await?;
    let mut answer = String::new();
    let read = timeout(crate::api::PATIENCE, stream.read_to_string(&mut answer)).await;
    read.context(crate::mesh::HUNG)??;
    let status = answer.split(' ').nth(1).and_then(|status| status.parse().ok()).context("no status")?;
    ensure!(status != 200 || answer.ends_with(BODY), "not the body: {answer}");
    Ok(status)
}
