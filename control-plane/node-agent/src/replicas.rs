//! The replicas of the control plane.

use reqwest::Response;
use std::net::SocketAddr;
use std::str::FromStr;
use std::time::{Duration, Instant};
use tokio::net::lookup_host;
use tokio::time::timeout;

/// How often the name is resolved.
const RESOLVE: Duration = Duration::from_secs(5);
/// How long that may take.
const TIMEOUT: Duration = Duration::from_secs(1);
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
        let authority = &self.target.authority;
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

/// Why there is no body.
#[derive(Debug)]
pub struct BodyError {
    text: String,
    /// Whether it did not arrive in time.
    pub hangs: bool,
}

impl From<BodyError> for String {
    fn from(error: BodyError) -> Self {
        error.text
    }
}

/// The body of an answer.
///
/// # Errors
/// It is too long, or does not arrive.
pub async fn body(address: SocketAddr, mut response: Response) -> Result<Vec<u8>, BodyError> {
    let failed = |error: reqwest::Error| BodyError { text: format!("{address}: {error}"), hangs: error.is_timeout() };
    let mut body = Vec::new();
    while let Some(part) = response.chunk().await.map_err(failed)? {
        if body.len() + part.len() > MOST_BYTES {
            let text = format!("{address}: an answer of more than {MOST_BYTES} bytes");
            return Err(BodyError { text, hangs: false });
        }
        body.extend_from_slice(&part);
    }
    Ok(body)
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
