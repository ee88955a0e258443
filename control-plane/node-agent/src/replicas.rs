//! The replicas of the control plane, and how they are told something.

use reqwest::redirect::Policy;
use reqwest::{RequestBuilder, StatusCode};
use serde::Serialize;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::str::FromStr;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::net::lookup_host;
use tokio::time::timeout;

/// How often the name is resolved.
const RESOLVE: Duration = Duration::from_secs(5);
/// How long that may take.
const TIMEOUT: Duration = Duration::from_secs(1);
/// How long an answer may take: a replica that hangs must not delay the next message to it.
const ANSWER: Duration = Duration::from_millis(800);
/// How long a replica is left alone that hangs.
const HANGS: Duration = Duration::from_secs(3);
/// How long one is left alone after another failure.
const PAUSE: Duration = Duration::from_secs(1);
/// How much of a refusal is logged, in bytes.
const MOST_TEXT: usize = 300;
/// The most bytes of an answer: more than 1,000 pods or applications take.
const MOST_BYTES: usize = 1 << 20;

/// Where the control plane is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// `host:port`; a name may have several addresses.
    authority: String,
}

impl Target {
    /// `host:port`.
    pub fn authority(&self) -> &str {
        &self.authority
    }
}

impl FromStr for Target {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let authority = text.strip_prefix("http://").map(|rest| rest.strip_suffix('/').unwrap_or(rest));
        match authority.and_then(|authority| authority.rsplit_once(':')) {
            Some((host, port)) if !host.is_empty() && !host.contains('/') && port.parse::<u16>().is_ok() => {
                Ok(Self { authority: format!("{host}:{port}") })
            }
            _ => Err("expected http://HOST:PORT".to_owned()),
        }
    }
}

/// The addresses of a target.
#[derive(Debug)]
pub struct Replicas {
    target: Target,
    addresses: Vec<SocketAddr>,
    resolved: Option<Instant>,
}

impl Replicas {
    /// Nobody has resolved the name yet.
    pub const fn new(target: Target) -> Self {
        Self { target, addresses: Vec::new(), resolved: None }
    }

    /// Resolves the name if that is due. Returns whether it did.
    ///
    /// # Errors
    /// It cannot be resolved. The addresses stay: those that are known may still be there.
    pub async fn resolve(&mut self) -> Result<bool, String> {
        if self.resolved.is_some_and(|at| at.elapsed() < RESOLVE) {
            return Ok(false);
        }
        let authority = self.target.authority();
        let found = timeout(TIMEOUT, lookup_host(authority)).await;
        self.resolved = Some(Instant::now());
        match found {
            Ok(Ok(found)) => {
                self.addresses = found.collect();
                self.addresses.sort_unstable();
                self.addresses.dedup();
                Ok(true)
            }
            Ok(Err(error)) => Err(format!("{authority}: {error}")),
            Err(_) => Err(format!("{authority}: the name is not resolved in time")),
        }
    }

    /// The addresses that are known.
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }
}

/// Sends messages to replicas, and knows who has failed.
#[derive(Debug)]
pub struct Client {
    http: reqwest::Client,
    target: Target,
    /// Who has failed is left alone until then.
    pauses: Mutex<BTreeMap<SocketAddr, Instant>>,
}

impl Client {
    /// To the replicas of this target.
    ///
    /// # Errors
    /// The system lacks what HTTP needs.
    pub fn new(target: Target) -> Result<Self, String> {
        let http = reqwest::Client::builder().timeout(ANSWER).no_proxy().redirect(Policy::none()).build();
        Ok(Self { http: http.map_err(|error| error.to_string())?, target, pauses: Mutex::default() })
    }

    /// Whether a replica is to be left alone: for 3 s if it hangs, as it must not delay what others
    /// hear, and for 1 s after another failure.
    pub fn rests(&self, address: SocketAddr) -> bool {
        let mut pauses = self.pauses.lock().unwrap_or_else(PoisonError::into_inner);
        pauses.retain(|_, until| Instant::now() < *until);
        pauses.contains_key(&address)
    }

    /// Sends a message, also to a replica that is to be left alone. Returns what it answers; none:
    /// nothing.
    ///
    /// # Errors
    /// It refuses the message, or no answer arrives within 800 ms.
    pub async fn post(
        &self,
        address: SocketAddr,
        path: &str,
        token: Option<&str>,
        message: &impl Serialize,
    ) -> Result<Option<Vec<u8>>, String> {
        let mut request = self.http.post(format!("http://{address}{path}")).header("host", self.target.authority());
        if let Some(token) = token {
            request = request.bearer_auth(token);
        }
        let (pause, error) = match exchange(request.json(message)).await {
            Ok((StatusCode::OK, body)) => return Ok(Some(body)),
            Ok((status, _)) if status.is_success() => return Ok(None),
            Ok((status, body)) => {
                let why = String::from_utf8_lossy(&body[..body.len().min(MOST_TEXT)]);
                (PAUSE, format!("{status}: {}", why.trim()))
            }
            Err(Unread::Failed(error)) if error.is_timeout() => (HANGS, "no answer in time".to_owned()),
            Err(Unread::Failed(error)) => (PAUSE, error.to_string()),
            Err(Unread::TooLong) => (PAUSE, format!("an answer of more than {MOST_BYTES} bytes")),
        };
        self.pauses.lock().unwrap_or_else(PoisonError::into_inner).insert(address, Instant::now() + pause);
        Err(format!("{address}: {error}"))
    }
}

enum Unread {
    Failed(reqwest::Error),
    TooLong,
}

/// Sends a request, and reads the answer.
async fn exchange(request: RequestBuilder) -> Result<(StatusCode, Vec<u8>), Unread> {
    let mut response = request.send().await.map_err(Unread::Failed)?;
    let mut body = Vec::new();
    while let Some(part) = response.chunk().await.map_err(Unread::Failed)? {
        if body.len() + part.len() > MOST_BYTES {
            return Err(Unread::TooLong);
        }
        body.extend_from_slice(&part);
    }
    Ok((response.status(), body))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_is_a_host_and_a_port() {
        for text in ["http://bloc:8080", "http://bloc:8080/", "http://10.0.0.1:80", "http://[::1]:80"] {
            let target: Target = text.parse().unwrap();
            assert_eq!(target.authority(), text.trim_start_matches("http://").trim_end_matches('/'));
        }
        for text in ["bloc:8080", "http://bloc", "http://:80", "http://bloc:x", "http://bloc/x:80", "https://bloc:80"] {
            assert_eq!(text.parse::<Target>().unwrap_err(), "expected http://HOST:PORT", "{text}");
        }
    }
}
