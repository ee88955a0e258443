//! The requests to the control plane.

use super::file::{Contents, LeaseFile};
use super::leases::{Due, Leases};
use crate::replicas::{BodyError, Replicas, Target, body};
use bloc_daemon::ranges::refused;
use bloc_leases::{Ask, Asks, LEASE_PATH, Part, Told, Tolds};
use futures_util::future::join_all;
use reqwest::redirect::Policy;
use reqwest::{Client, RequestBuilder, StatusCode};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::{Duration, Instant};
use tokio::task::spawn_blocking;
use tokio::time::{MissedTickBehavior, interval, sleep};

/// How often all is asked.
const EVERY: Duration = Duration::from_millis(500);
/// How long after a fall: others may fall with it.
const SOON: Duration = Duration::from_millis(50);
/// How long an answer may take.
const TIMEOUT: Duration = Duration::from_millis(800);
/// How long a replica that hangs is left alone: it must not delay what the others hear.
const PAUSE: Duration = Duration::from_secs(3);
/// How long one is left alone that refuses a connection, or has no room: it is not there yet.
const AWAY: Duration = Duration::from_secs(1);
/// The most applications of a message: with the longest names they take 50 KB, and 96 KiB are
/// allowed.
const MOST_APPS: usize = 100;
/// How much of a refusal is logged.
const MOST_TEXT: usize = 300;
/// The kinds of failures.
const LEASE: &str = "lease";
const STATE: &str = "state";

/// Who asks, and where.
#[derive(Debug)]
pub struct Asker {
    /// The control plane.
    pub target: Target,
    /// This node.
    pub node: String,
    /// The file with the token that says so, if one is needed; read for each question.
    pub token: Option<PathBuf>,
    /// Where is kept what is held.
    pub file: LeaseFile,
    /// What is in there.
    pub saved: Contents,
}

/// Asks for what this node wants, and gives back what it does not use. `failed` hears of each
/// failure, by kind.
pub async fn ask(mut asker: Asker, leases: Leases, failed: impl Fn(&'static str, String)) {
    let mut to = match To::new() {
        Ok(to) => to,
        Err(error) => return failed(LEASE, error),
    };
    let mut replicas = Replicas::new(asker.target.clone());
    let mut ticks = interval(EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            _ = ticks.tick() => {}
            () = leases.fall() => sleep(SOON).await,
        }
        let asks = asker.due(&leases, &failed).await;
        if asks.is_empty() {
            continue;
        }
        if let Err(error) = replicas.resolve().await {
            failed(LEASE, error);
        }
        let heard = to.ask_all(&asker, replicas.addresses(), &asks, &failed).await;
        leases.hear(&heard);
    }
}

impl Asker {
    /// What may be asked now: what it depends on is on the disk.
    pub(super) async fn due(&mut self, leases: &Leases, failed: &impl Fn(&'static str, String)) -> Vec<Ask> {
        let Due { contents, mut asks } = leases.due();
        if let Err(error) = self.save(&contents, asks.is_empty()).await {
            failed(STATE, error);
        }
        // What has fallen is given away only when it is on the disk that it has.
        asks.retain(|ask| self.saved.part(&ask.name) <= ask.part);
        if self.saved.life == contents.life { asks } else { Vec::new() }
    }

    /// Makes last what is held. What nobody asks for changes nothing by itself.
    async fn save(&mut self, contents: &Contents, idle: bool) -> Result<(), String> {
        let same = if idle { self.saved.parts == contents.parts } else { self.saved == *contents };
        if same {
            return Ok(());
        }
        let (file, new) = (self.file.clone(), contents.clone());
        let saved = spawn_blocking(move || file.save(&new)).await.map_err(|error| error.to_string())?;
        saved.map_err(|error| error.to_string())?;
        self.saved = contents.clone();
        Ok(())
    }

    fn token(&self) -> Result<Option<String>, String> {
        let Some(path) = &self.token else { return Ok(None) };
        let read = std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
        let token = read.trim();
        if token.is_empty() || !token.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(format!("{}: is no token", path.display()));
        }
        Ok(Some(token.to_owned()))
    }
}

/// What went wrong with a replica.
struct Failure {
    text: String,
    /// For how long it is left alone.
    pause: Duration,
}

impl From<String> for Failure {
    fn from(text: String) -> Self {
        Self { text, pause: Duration::ZERO }
    }
}

impl From<BodyError> for Failure {
    fn from(error: BodyError) -> Self {
        let pause = if error.hangs { PAUSE } else { Duration::ZERO };
        Self { text: error.into(), pause }
    }
}

/// How the replicas are asked.
pub(super) struct To {
    client: Client,
    /// Who hangs or is away is left alone until then.
    pauses: BTreeMap<SocketAddr, Instant>,
}

impl To {
    pub(super) fn new() -> Result<Self, String> {
        let client = Client::builder().timeout(TIMEOUT).no_proxy().redirect(Policy::none()).build();
        Ok(Self { client: client.map_err(|error| error.to_string())?, pauses: BTreeMap::new() })
    }

    /// Asks the replicas. Returns what each one says; none: nothing.
    pub(super) async fn ask_all(
        &mut self,
        asker: &Asker,
        addresses: &[SocketAddr],
        asks: &[Ask],
        failed: &impl Fn(&'static str, String),
    ) -> Vec<Option<Vec<Told>>> {
        let token = match asker.token() {
            Ok(token) => token,
            Err(error) => {
                failed(LEASE, error);
                return Vec::new();
            }
        };
        let now = Instant::now();
        self.pauses.retain(|_, until| *until > now);
        let (to, token) = (&*self, token.as_deref());
        let answers = addresses.iter().map(|address| async move {
            let rests = to.pauses.contains_key(address);
            if rests { None } else { Some(to.ask(asker, *address, token, asks).await) }
        });
        let answers = join_all(answers).await;
        let mut heard = Vec::new();
        for (address, answer) in addresses.iter().zip(answers) {
            heard.push(match answer {
                Some(Ok(told)) => Some(told),
                Some(Err(Failure { text, pause })) => {
                    failed(LEASE, text);
                    self.pauses.insert(*address, Instant::now() + pause);
                    None
                }
                None => None,
            });
        }
        heard
    }

    /// Asks a replica. Returns what it says.
    async fn ask(
        &self,
        asker: &Asker,
        address: SocketAddr,
        token: Option<&str>,
        asks: &[Ask],
    ) -> Result<Vec<Told>, Failure> {
        let mut told = Vec::new();
        for asks in asks.chunks(MOST_APPS) {
            let url = format!("http://{address}{LEASE_PATH}");
            let mut request = self.client.post(url).header("host", asker.target.authority());
            if let Some(token) = token {
                request = request.bearer_auth(token);
            }
            told.extend(send(address, request.json(&message(&asker.node, asker.saved.life, asks)), asks).await?);
        }
        Ok(told)
    }
}

/// Sends a message. Returns what is said of what it asks for.
async fn send(address: SocketAddr, request: RequestBuilder, asks: &[Ask]) -> Result<Vec<Told>, Failure> {
    let failed = |error: reqwest::Error| {
        let pause = if error.is_timeout() { PAUSE } else { Duration::ZERO };
        Failure { text: format!("{address}: {error}"), pause: if error.is_connect() { pause.max(AWAY) } else { pause } }
    };
    let response = request.send().await.map_err(failed)?;
    let status = response.status();
    let body = body(address, response).await?;
    if status == StatusCode::NOT_FOUND {
        return Err(format!("{address}: {status}: this control plane leases nothing").into());
    }
    if status != StatusCode::OK {
        let text = String::from_utf8_lossy(&body[..body.len().min(MOST_TEXT)]).into_owned();
        let pause = if status == StatusCode::SERVICE_UNAVAILABLE { AWAY } else { Duration::ZERO };
        return Err(Failure { text: format!("{address}: {status}: {}", text.trim()), pause });
    }
    let tolds: Tolds = serde_json::from_slice(&body).map_err(|error| format!("{address}: {error}"))?;
    // Others than those asked for are nobody's.
    let asked = |told: &Told| asks.iter().any(|ask| ask.name == told.name);
    let told: Vec<Told> = tolds.apps.into_iter().filter(asked).collect();
    match told.iter().find(|told| told.part > Part::WHOLE) {
        Some(Told { name, part, .. }) => {
            let error = refused(format!("{name}.part"), part.get(), format!("0 to {}", Part::WHOLE.get()));
            Err(format!("{address}: {error}").into())
        }
        None => Ok(told),
    }
}

fn message(node: &str, life: u64, asks: &[Ask]) -> Asks {
    Asks { node: node.to_owned(), life, apps: asks.to_vec() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_message_is_as_long_as_is_allowed() {
        let part = Part::millionths(u32::MAX);
        let name = "n".repeat(240);
        let ask = Ask { name, number: u64::MAX, part, wants: part, least: part, own: Some(part) };
        let message = message(&"n".repeat(253), u64::MAX, &vec![ask; MOST_APPS]);
        let length = serde_json::to_vec(&message).unwrap().len();
        assert!(length < 96 << 10, "{length}");
    }
}
