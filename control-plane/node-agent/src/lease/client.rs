//! The requests to the control plane.

use super::file::{Contents, LeaseFile};
use super::leases::{Due, Leases};
use crate::replicas::{Client, Target, resolve};
use bloc_daemon::ranges::within;
use bloc_leases::{Ask, Asks, LEASE_PATH, Part, Told, Tolds};
use bloc_policy::config::ConfigError;
use futures_util::future::join_all;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;
use tokio::sync::watch;
use tokio::task::spawn_blocking;
use tokio::time::{MissedTickBehavior, interval, sleep};

const EVERY: Duration = Duration::from_millis(500);
/// The delay after a fall: other parts may fall with it.
const SOON: Duration = Duration::from_millis(50);
/// Most applications in a message: with the longest names they take 50 KB of 96 KiB.
const MOST_APPS: usize = 100;
/// The kinds of failures.
const LEASE: &str = "lease";
const STATE: &str = "state";

#[derive(Debug)]
pub struct Asker {
    pub target: Target,
    pub node: String,
    /// The file with the node's token, if one is needed; read for each request.
    pub token: Option<PathBuf>,
    pub file: LeaseFile,
    /// The content of the file.
    pub saved: Contents,
}

/// Asks for what this node wants, and gives back what it does not use. `failed` gets the kind and
/// the text of each failure.
pub async fn ask(mut asker: Asker, leases: Leases, failed: impl Fn(&'static str, String)) {
    let target = asker.target.clone();
    let client = match Client::new(target.clone()) {
        Ok(client) => client,
        Err(error) => return failed(LEASE, error),
    };
    let addresses = watch::Sender::new(Vec::new());
    let wants = AtomicBool::new(false);
    let asking = async {
        let mut ticks = interval(EVERY);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                _ = ticks.tick() => {}
                () = leases.fall() => sleep(SOON).await,
            }
            let asks = asker.due(&leases, &failed).await;
            wants.store(!asks.is_empty(), Relaxed);
            if !asks.is_empty() {
                let replicas = addresses.borrow().clone();
                leases.receive(&asker.ask_all(&client, &replicas, &asks, &failed).await);
            }
        }
    };
    // Without leases, it does not matter whether the name can be resolved.
    let unresolved = |error| {
        if wants.load(Relaxed) {
            failed(LEASE, error);
        }
    };
    tokio::select! {
        () = resolve(&target, &addresses, &unresolved) => {}
        () = asking => {}
    }
}

impl Asker {
    /// The requests that may be sent now: what they depend on is on disk.
    pub(super) async fn due(&mut self, leases: &Leases, failed: &impl Fn(&'static str, String)) -> Vec<Ask> {
        let Due { contents, mut asks } = leases.due();
        if let Err(error) = self.save(&contents, asks.is_empty()).await {
            failed(STATE, error);
        }
        // A fall is reported once it is on disk.
        asks.retain(|ask| self.saved.part(&ask.name) <= ask.part);
        if self.saved.life == contents.life { asks } else { Vec::new() }
    }

    /// Saves what is held. While nothing is asked for, a new life alone is not saved.
    async fn save(&mut self, contents: &Contents, idle: bool) -> Result<(), String> {
        if self.saved.parts == contents.parts && (idle || self.saved.life == contents.life) {
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
            return Err(format!("{}: is not a token", path.display()));
        }
        Ok(Some(token.to_owned()))
    }

    /// Asks the replicas. Returns the answer of each; none after a failure.
    pub(super) async fn ask_all(
        &self,
        client: &Client,
        addresses: &[SocketAddr],
        asks: &[Ask],
        failed: &impl Fn(&'static str, String),
    ) -> Vec<Option<Vec<Told>>> {
        let token = match self.token() {
            Ok(token) => token,
            Err(error) => {
                failed(LEASE, error);
                return Vec::new();
            }
        };
        let token = token.as_deref();
        let answers = addresses.iter().map(|&address| async move {
            if client.rests(address) {
                return None;
            }
            self.ask(client, address, token, asks).await.map_err(|error| failed(LEASE, error)).ok()
        });
        join_all(answers).await
    }

    async fn ask(
        &self,
        client: &Client,
        address: SocketAddr,
        token: Option<&str>,
        asks: &[Ask],
    ) -> Result<Vec<Told>, String> {
        let mut told = Vec::new();
        for asks in asks.chunks(MOST_APPS) {
            let message = message(&self.node, self.saved.life, asks);
            let answer = client.post(address, LEASE_PATH, token, &message).await?;
            let parsed = parse(&answer.unwrap_or_default(), asks);
            told.extend(parsed.map_err(|error| format!("{address}: {error}"))?);
        }
        Ok(told)
    }
}

/// The answers about these applications; others are ignored.
fn parse(body: &[u8], asks: &[Ask]) -> Result<Vec<Told>, ConfigError> {
    let mut told = ConfigError::read_json::<Tolds>(body)?.apps;
    told.retain(|told| asks.iter().any(|ask| ask.name == told.name));
    for Told { name, part, .. } in &told {
        within(format_args!("{name}.part"), part.get(), 0, Part::WHOLE.get())?;
    }
    Ok(told)
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
