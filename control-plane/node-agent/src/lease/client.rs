//! The requests to the control plane.

use super::file::{Contents, LeaseFile};
use super::leases::{Due, Leases};
use crate::replicas::{Client, Replicas, Target};
use bloc_daemon::ranges::within;
use bloc_leases::{Ask, Asks, LEASE_PATH, Part, Told, Tolds};
use bloc_policy::config::ConfigError;
use futures_util::future::join_all;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;
use tokio::task::spawn_blocking;
use tokio::time::{MissedTickBehavior, interval, sleep};

/// How often all is asked.
const EVERY: Duration = Duration::from_millis(500);
/// How long after a fall: others may fall with it.
const SOON: Duration = Duration::from_millis(50);
/// The most applications of a message: with the longest names they take 50 KB, and 96 KiB are
/// allowed.
const MOST_APPS: usize = 100;
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
    let client = match Client::new(asker.target.clone()) {
        Ok(client) => client,
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
        let heard = asker.ask_all(&client, replicas.addresses(), &asks, &failed).await;
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

    /// Asks the replicas. Returns what each one says; none: nothing.
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

    /// Asks a replica. Returns what it says.
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
            let said = understand(&answer.unwrap_or_default(), asks);
            told.extend(said.map_err(|error| format!("{address}: {error}"))?);
        }
        Ok(told)
    }
}

/// What is said of these applications.
fn understand(body: &[u8], asks: &[Ask]) -> Result<Vec<Told>, ConfigError> {
    let tolds: Tolds = ConfigError::read_json(body)?;
    // Others than those asked for are nobody's.
    let asked = |told: &Told| asks.iter().any(|ask| ask.name == told.name);
    let told: Vec<Told> = tolds.apps.into_iter().filter(asked).collect();
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
