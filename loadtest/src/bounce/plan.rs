//! How much is asked, and of how busy servers.

use crate::envoy::BACK_OFF;
use serde::Serialize;
use std::fmt;
use std::time::Duration;

/// Servers that are busy in turn; one more never is.
pub const BUSY: usize = 3;
/// Requests that a busy server holds.
pub const HELD: usize = 100;

/// What is asked, and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Kind {
    /// Bytes of a request's body; none: a GET.
    pub body: Option<usize>,
    /// Whether the Envoys speak HTTP/2 with each other, or HTTP/1.1.
    pub http2: bool,
    /// Whether they do so in mutual TLS.
    pub tls: bool,
    /// What Envoy waits at most before a retry, 1 ms or more.
    #[serde(skip)]
    pub max_back_off: Duration,
}

impl Kind {
    /// GETs in plain HTTP/1.1.
    pub const PLAIN: Self = Self { body: None, http2: false, tls: false, max_back_off: BACK_OFF[1] };
}

impl fmt::Display for Kind {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.body {
            Some(bytes) => write!(to, "POST of {bytes} bytes")?,
            None => to.write_str("GET")?,
        }
        to.write_str(if self.http2 { ", HTTP/2" } else { ", HTTP/1.1" })?;
        to.write_str(if self.tls { ", mutual TLS" } else { "" })
    }
}

/// How much is asked.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// Rounds of a block with busy servers and one without.
    pub rounds: usize,
    /// Requests of a block.
    pub block: usize,
    /// Time between two requests: without any, all that they touch stays in the caches.
    pub pause: Duration,
}
