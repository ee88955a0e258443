//! A sidecar for tests: one connection.

use serde_json::Value;
use std::io;
use std::path::Path;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::time::timeout;

/// Longer than an idle connection is kept.
const PATIENCE: Duration = Duration::from_secs(90);

pub(super) struct Sidecar(UnixStream);

impl Sidecar {
    pub(super) async fn connect(socket: &Path) -> io::Result<Self> {
        // An address has less room than a path.
        let directory = std::fs::File::open(socket.parent().unwrap())?;
        let short = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&directory));
        Ok(Self(UnixStream::connect(Path::new(&short).join(socket.file_name().unwrap())).await?))
    }

    pub(super) async fn send(&mut self, text: &str) -> io::Result<()> {
        self.0.write_all(text.as_bytes()).await
    }

    /// The status and the body of the next response, null with 304; none: the connection is closed.
    pub(super) async fn answer(&mut self) -> Option<(u16, Value)> {
        let mut text = Vec::new();
        loop {
            let read = timeout(PATIENCE, self.0.read_buf(&mut text)).await.expect("nothing comes").unwrap_or(0);
            let answer = String::from_utf8_lossy(&text);
            if answer.starts_with("HTTP/1.1 304 ") && answer.ends_with("\r\n\r\n") {
                return Some((304, Value::Null));
            }
            if let Some((head, body)) = answer.split_once("\r\n\r\n")
                && let Ok(body) = serde_json::from_str(body)
            {
                return Some((head.split(' ').nth(1).unwrap().parse().unwrap(), body));
            }
            if read == 0 {
                return None;
            }
        }
    }

    pub(super) async fn ask(&mut self, line: &str) -> Option<(u16, Value)> {
        self.send(&format!("{line} HTTP/1.1\r\nHost: agent\r\n\r\n")).await.ok()?;
        self.answer().await
    }

    /// Asks for the CPU, and does not wait.
    pub(super) async fn cpu(&mut self) -> Option<Value> {
        Some(self.ask("GET /v1/self").await?.1)
    }

    /// Whether the connection is closed.
    pub(super) async fn is_closed(&mut self) -> bool {
        timeout(PATIENCE, self.0.read(&mut [0])).await.expect("it stays open").unwrap_or(0) == 0
    }
}
