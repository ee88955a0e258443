//! Connections and requests at a socket.

use super::poll::Known;
use super::server::{Counts, MOST_CONNECTIONS, PACE, accept};
use super::sidecar::Sidecar;
use bloc_policy::cpu::ServerCpu;
use serde_json::json;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tempfile::TempDir;
use tokio::net::UnixListener;
use tokio::time::{Instant, sleep};

struct Stand {
    directory: TempDir,
    known: Arc<Known>,
    counts: Arc<Counts>,
}

impl Stand {
    /// A socket at which one core is known, of which half is used.
    fn new() -> Self {
        let (directory, known, counts) = (tempfile::tempdir().unwrap(), Arc::<Known>::default(), Arc::default());
        known.tell(Some(ServerCpu { cores: Some(1.0), used: Some(0.5), per_request_us: None }));
        let stand = Self { directory, known, counts };
        let listener = UnixListener::bind(stand.socket()).unwrap();
        tokio::spawn(accept(listener, Arc::clone(&stand.known), Arc::clone(&stand.counts)));
        stand
    }

    fn socket(&self) -> PathBuf {
        self.directory.path().join("self.sock")
    }

    async fn connect(&self) -> Sidecar {
        Sidecar::connect(&self.socket()).await.unwrap()
    }
}

#[tokio::test(start_paused = true)]
async fn questions_are_answered_one_after_the_other_and_what_is_wrong_is_said() {
    let stand = Stand::new();
    let mut sidecar = stand.connect().await;
    let known = json!({"cores": 1.0, "used": 0.5});
    let refused = |error: &str| json!({"error": error});
    for (line, status, body) in [
        ("GET /v1/self", 200, known.clone()),
        ("GET /v1/self?cores=2&wait=10s", 200, known.clone()),
        ("GET /v1/self?cores=1&wait=10s", 200, known.clone()),
        (
            "GET /v1/self?wait=2m",
            400,
            refused("wait: \"2m\" is not allowed; allowed: a duration with its unit (such as 10s), 0s to 60s"),
        ),
        (
            "GET /v1/self?cores=0",
            400,
            refused("cores: \"0\" is not allowed; allowed: a number above 0, at most 100000"),
        ),
        ("GET /v1/other", 404, refused("no such path")),
        ("GET /", 404, refused("no such path")),
        ("DELETE /v1/self", 405, refused("method not allowed")),
        ("GET /v1/self", 200, known),
    ] {
        assert_eq!(sidecar.ask(line).await, Some((status, body)), "{line}");
    }
    assert_eq!(stand.counts.answers(), 4);
}

#[tokio::test(start_paused = true)]
async fn a_change_is_told_to_who_waits() {
    let stand = Stand::new();
    let mut sidecar = stand.connect().await;
    let known = Arc::clone(&stand.known);
    tokio::spawn(async move {
        sleep(Duration::from_secs(3)).await;
        known.tell(Some(ServerCpu { cores: Some(0.5), ..ServerCpu::default() }));
    });
    let began = Instant::now();
    assert_eq!(sidecar.ask("GET /v1/self?cores=1&wait=10s").await, Some((200, json!({"cores": 0.5}))));
    assert_eq!(began.elapsed().as_secs(), 3);
}

#[tokio::test(start_paused = true)]
async fn more_connections_than_are_allowed_are_closed_until_others_have_left() {
    let stand = Stand::new();
    let mut sidecars = Vec::new();
    for _ in 0..MOST_CONNECTIONS {
        sidecars.push(stand.connect().await);
    }
    let mut extra = stand.connect().await;
    assert_eq!(extra.cpu().await, None);
    for sidecar in &mut sidecars {
        assert!(sidecar.cpu().await.is_some());
    }
    drop(sidecars.pop());
    // It takes a moment until that is noticed.
    sleep(Duration::from_secs(1)).await;
    assert!(stand.connect().await.cpu().await.is_some());
}

#[tokio::test(start_paused = true)]
async fn who_says_nothing_or_too_much_is_closed() {
    let stand = Stand::new();
    let began = Instant::now();
    let (mut silent, mut slow, mut idle) = (stand.connect().await, stand.connect().await, stand.connect().await);
    slow.send("GET /v1/self HTTP/1.1\r\nHo").await.unwrap();
    assert!(idle.cpu().await.is_some());
    for sidecar in [&mut silent, &mut slow, &mut idle] {
        // 408, and nothing else.
        while !sidecar.is_closed().await {}
        assert!((60..=80).contains(&began.elapsed().as_secs()), "{:?}", began.elapsed());
    }
    // One that is held is not idle.
    let mut held = stand.connect().await;
    assert!(held.ask("GET /v1/self?cores=1&wait=60s").await.is_some());
    assert!(held.ask("GET /v1/self?cores=1&wait=60s").await.is_some());
    let mut long = stand.connect().await;
    let _ = long.send(&format!("GET /v1/self HTTP/1.1\r\nHost: {}\r\n\r\n", "a".repeat(9_000))).await;
    assert_eq!(long.answer().await, None);
    let mut fits = stand.connect().await;
    let head = format!("GET /v1/self HTTP/1.1\r\nHost: {}\r\n\r\n", "a".repeat(7_000));
    fits.send(&head).await.unwrap();
    assert_eq!(fits.answer().await.map(|(status, _)| status), Some(200));
}

#[tokio::test(start_paused = true)]
async fn who_asks_all_the_time_is_slowed_down_with_one_connection_and_with_many() {
    let stand = Stand::new();
    let began = Instant::now();
    let mut sidecar = stand.connect().await;
    for _ in 0..20 {
        sidecar.cpu().await.unwrap();
    }
    assert!(began.elapsed() >= 19 * PACE, "{:?}", began.elapsed());
    let began = Instant::now();
    for line in ["GET /", "POST /v1/self", "GET /v1/self?wait=x"].repeat(5) {
        sidecar.ask(line).await.unwrap();
    }
    assert!(began.elapsed() >= 14 * PACE, "{:?}", began.elapsed());
    let began = Instant::now();
    for _ in 0..20 {
        stand.connect().await.cpu().await.unwrap();
    }
    assert!(began.elapsed() >= 19 * PACE, "{:?}", began.elapsed());
    let began = Instant::now();
    let mut sidecars = Vec::new();
    for _ in 0..3 * MOST_CONNECTIONS {
        sidecars.push(stand.connect().await);
    }
    assert!(sidecars.last_mut().unwrap().is_closed().await);
    assert!(began.elapsed() >= (3 * 16 - 1) * PACE, "also of those who are sent away");
}
