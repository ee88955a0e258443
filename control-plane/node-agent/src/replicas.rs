//! The replicas of the control plane, and requests to them.

use bloc_daemon::lock;
use reqwest::StatusCode;
use reqwest::redirect::Policy;
use serde::Serialize;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::str::FromStr;
use std::sync::Mutex;
use std::time::{Duration, Instant};
use tokio::net::lookup_host;
use tokio::sync::watch;
use tokio::time::{MissedTickBehavior, interval, timeout};

/// How often the name is resolved, and how long that may take.
const RESOLVE: Duration = Duration::from_secs(5);
const TIMEOUT: Duration = Duration::from_secs(1);
/// How long an answer may take: a replica that hangs must not delay the next message to it.
const ANSWER: Duration = Duration::from_millis(800);
/// How long a replica is left alone after it did not answer, and after another failure.
const HANGS: Duration = Duration::from_secs(3);
const PAUSE: Duration = Duration::from_secs(1);
/// How much of a refusal is logged, in bytes.
const MOST_TEXT: usize = 300;
/// The largest answer in bytes: more than 1,000 pods or applications take.
const MOST_BYTES: usize = 1 << 20;

/// Where the control plane is: `host:port`. The name may have several addresses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target(String);

impl Target {
    pub fn authority(&self) -> &str {
        &self.0
    }
}

impl FromStr for Target {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let authority = text.strip_prefix("http://").map(|rest| rest.strip_suffix('/').unwrap_or(rest));
        match authority.and_then(|authority| authority.rsplit_once(':')) {
            Some((host, port)) if !host.is_empty() && !host.contains('/') && port.parse::<u16>().is_ok() => {
                Ok(Self(format!("{host}:{port}")))
            }
            _ => Err("expected http://HOST:PORT".to_owned()),
        }
    }
}

/// Keeps the addresses of a target up to date. After a failure they stay. Does not return.
pub async fn resolve(target: &Target, addresses: &watch::Sender<Vec<SocketAddr>>, failed: &impl Fn(String)) {
    let mut ticks = interval(RESOLVE);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        match timeout(TIMEOUT, lookup_host(target.authority())).await {
            Ok(Ok(found)) => {
                let mut found: Vec<_> = found.collect();
                found.sort_unstable();
                found.dedup();
                addresses.send_replace(found);
            }
            Ok(Err(error)) => failed(format!("{}: {error}", target.authority())),
            Err(_) => failed(format!("{}: the name was not resolved in time", target.authority())),
        }
    }
}

/// Sends messages to replicas, and pauses after failures.
#[derive(Debug)]
pub struct Client {
    http: reqwest::Client,
    target: Target,
    pauses: Mutex<BTreeMap<SocketAddr, Instant>>,
}

impl Client {
    pub fn new(target: Target) -> Result<Self, String> {
        let http = reqwest::Client::builder().timeout(ANSWER).no_proxy().redirect(Policy::none()).build();
        Ok(Self { http: http.map_err(|error| error.to_string())?, target, pauses: Mutex::default() })
    }

    pub fn rests(&self, address: SocketAddr) -> bool {
        lock(&self.pauses).get(&address).is_some_and(|until| Instant::now() < *until)
    }

    /// Sends a message, even during a pause. Returns the body of a 200; none for another success.
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
        let exchange = async {
            let mut response = request.json(message).send().await?;
            let mut body = Vec::new();
            while let Some(part) = response.chunk().await? {
                body.extend_from_slice(&part);
                if body.len() > MOST_BYTES {
                    break;
                }
            }
            Ok::<_, reqwest::Error>((response.status(), body))
        };
        let (pause, error) = match exchange.await {
            Ok((_, body)) if body.len() > MOST_BYTES => (PAUSE, format!("an answer of more than {MOST_BYTES} bytes")),
            Ok((StatusCode::OK, body)) => return Ok(Some(body)),
            Ok((status, _)) if status.is_success() => return Ok(None),
            Ok((status, body)) => {
                let why = String::from_utf8_lossy(&body[..body.len().min(MOST_TEXT)]);
                (PAUSE, format!("{status}: {}", why.trim()))
            }
            Err(error) if error.is_timeout() => (HANGS, "no answer in time".to_owned()),
            Err(error) => (PAUSE, error.to_string()),
        };
        let mut pauses = lock(&self.pauses);
        pauses.retain(|_, until| Instant::now() < *until);
        pauses.insert(address, Instant::now() + pause);
        Err(format!("{address}: {error}"))
    }
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
