//! How many requests are sent, and of what kind.

use bloc_mesh::envoy::BACK_OFF;
use serde::Serialize;
use std::fmt;
use std::time::Duration;

/// Busy servers; one more is never busy.
pub const BUSY: usize = 3;
/// Requests that a busy server holds.
pub const HELD: usize = 100;

/// The kind of requests and connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Kind {
    /// Bytes of a request's body; none: a GET.
    pub body: Option<usize>,
    /// Whether the Envoys use HTTP/2 between each other, or HTTP/1.1.
    pub http2: bool,
    /// Whether they use mutual TLS.
    pub tls: bool,
    /// The longest time that Envoy waits before a retry, 1 ms or more.
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

/// How many requests are sent.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// Rounds of one block with busy servers and one without.
    pub rounds: usize,
    /// Requests per block.
    pub block: usize,
    /// Time between two requests. Without a pause, all data that they use stays in the caches.
    pub pause: Duration,
}
