//! Clients that send one request after the other, and the results.

use super::{Answer, App, request, send};
use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};

/// The header by which the application identifies a request.
const ID: &str = "x-test-id";
/// A client retries after this when it was bounced.
const BACK_OFF: Duration = Duration::from_millis(20);

/// The results of requests.
#[derive(Debug, Default)]
pub struct Tally {
    pub served: Vec<u64>,
    pub rejected: Vec<u64>,
    /// Requests without an answer in time, or with an unexpected one.
    pub lost: Vec<String>,
    pub longest: Duration,
}

impl Tally {
    /// Counts the answer to request `id`, which took this long.
    pub fn count(&mut self, id: u64, answer: Result<Answer, String>, took: Duration) {
        self.longest = self.longest.max(took);
        match answer {
            Ok(answer) if answer.status.as_u16() == 200 && answer.app().is_some() => self.served.push(id),
            Ok(answer) if [429, 503].contains(&answer.status.as_u16()) && is_ours(&answer) => self.rejected.push(id),
            Ok(answer) => self.lost.push(format!("{id} after {took:?}: {} {:?}", answer.status, answer.headers)),
            Err(why) => self.lost.push(format!("{id} after {took:?}: {why}")),
        }
    }

    /// Both tallies together.
    pub fn and(mut self, other: Self) -> Self {
        self.served.extend(other.served);
        self.rejected.extend(other.rejected);
        self.lost.extend(other.lost);
        self.longest = self.longest.max(other.longest);
        self
    }

    /// The contradictions to the applications' records: they must have received each served request
    /// once, and no rejected one. Requests have one sidecar each, so none is retried.
    pub fn disagrees_with(&self, apps: &[&App]) -> Vec<String> {
        let mut had: HashMap<u64, usize> = HashMap::new();
        for seen in apps.iter().flat_map(|app| app.all_seen()) {
            let id = seen.headers.get(ID).and_then(|id| id.to_str().ok()).and_then(|id| id.parse().ok());
            if let Some(id) = id {
                *had.entry(id).or_default() += 1;
            }
        }
        let times = |id: &u64| had.get(id).copied().unwrap_or(0);
        let served = self.served.iter().filter(|id| times(id) != 1);
        let rejected = self.rejected.iter().filter(|id| times(id) != 0);
        served
            .map(|id| format!("{id} was served, and was {} times at the application", times(id)))
            .chain(rejected.map(|id| format!("{id} was rejected, and was at the application")))
            .chain((!self.lost.is_empty()).then(|| format!("{} lost, such as {}", self.lost.len(), self.lost[0])))
            .collect()
    }
}

/// Whether the filters made this answer: Envoy's own answers state the fault in the body.
fn is_ours(answer: &Answer) -> bool {
    answer.app().is_none() && answer.body.is_empty()
}

/// Sends a request that can be identified.
pub async fn send_known(to: SocketAddr, path: &str, within: Duration) -> (u64, Result<Answer, String>, Duration) {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    let id = NEXT.fetch_add(1, Ordering::Relaxed);
    let began = Instant::now();
    let sent = send(to, request(path).header(ID, id), "");
    let answer = timeout(within, sent).await.unwrap_or_else(|_| Err(format!("no answer within {within:?}")));
    (id, answer, began.elapsed())
}

/// Clients that send until they are told to stop.
pub struct Traffic {
    over: Arc<AtomicBool>,
    answers: Arc<AtomicUsize>,
    clients: JoinSet<Tally>,
}

impl Traffic {
    /// Starts so many clients, each of which waits for an answer for `within`.
    pub fn start(clients: usize, to: SocketAddr, path: &'static str, within: Duration) -> Self {
        let (over, answers) = (Arc::<AtomicBool>::default(), Arc::<AtomicUsize>::default());
        let mut traffic = Self { over, answers, clients: JoinSet::new() };
        for _ in 0..clients {
            let (over, answers) = (Arc::clone(&traffic.over), Arc::clone(&traffic.answers));
            traffic.clients.spawn(async move {
                let mut tally = Tally::default();
                while !over.load(Ordering::Relaxed) {
                    let (id, answer, took) = send_known(to, path, within).await;
                    let served = tally.served.len();
                    tally.count(id, answer, took);
                    answers.fetch_add(1, Ordering::Relaxed);
                    if tally.served.len() == served {
                        sleep(BACK_OFF).await;
                    }
                }
                tally
            });
        }
        traffic
    }

    /// How many requests have ended.
    pub fn answers(&self) -> usize {
        self.answers.load(Ordering::Relaxed)
    }

    /// Lets each client finish its request.
    pub async fn end(mut self) -> Tally {
        self.over.store(true, Ordering::Relaxed);
        let mut all = Tally::default();
        while let Some(tally) = self.clients.join_next().await {
            all = all.and(tally.unwrap());
        }
        all
    }
}
