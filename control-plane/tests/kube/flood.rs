//! A minute of hostile callers at one replica: their cost in memory and in lists of the API server,
//! and how long honest proxies wait.
//!
//! Run by `make flood`, apart from the other tests, because it takes all processors. Times are
//! printed. Only one is checked: each honest poll is answered before a proxy would give it up.

use super::cluster::{Cluster, ControlPlane, until};
use super::{A, ips};
use bloc_policy::sync::polls;
use bloc_policy::sync::{SyncRequest, SyncResponse};
use reqwest::{Client, Response};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};

/// How long it lasts; up to twice as long if the attackers have not used all their ids by then.
const DURATION: Duration = Duration::from_secs(60);
/// Identities that invent proxies, the number of proxies and of connections of each, and further
/// connections on each of which a body stays unfinished.
const ATTACKERS: usize = 10;
const INVENTED: usize = 5_000;
const CONNECTIONS: usize = 100;
const UNFINISHED: usize = 10;
/// Names in an invented poll, all different: 61 kB.
const NAMES: usize = 1_000;
/// How long an attacker waits for an answer, or keeps a poll held, before it uses another id.
const PATIENCE: Duration = Duration::from_secs(8);
/// Honest proxies of one identity, which poll all the time.
const HONEST: usize = 100;
/// How often a proxy with a new id and a new identity starts.
const NEW_EVERY: Duration = Duration::from_millis(500);
/// How often endpoints change.
const CHANGE_EVERY: Duration = Duration::from_secs(2);
const WAIT: Duration = Duration::from_secs(10);
/// Below the limit of the manifests, 512 MiB.
const MOST_MEMORY: u64 = 400 << 20;

struct World {
    url: String,
    client: Client,
    ends: Instant,
    /// Polls of attackers; each uses the next invented id of its identity.
    invented: AtomicUsize,
    /// Answers to attackers: states, and refusals for lack of room.
    answered: AtomicUsize,
    no_room: AtomicUsize,
    /// Polls with made-up versions that were answered, after their wait.
    made_up: AtomicUsize,
    /// How long honest proxies waited for their first answer.
    first: Mutex<Vec<Duration>>,
    /// When endpoints changed last, and after how long honest proxies knew it.
    changed: Mutex<Instant>,
    news: Mutex<Vec<Duration>>,
}

impl World {
    fn goes_on(&self) -> bool {
        let (now, invented) = (Instant::now(), self.invented.load(Ordering::Relaxed));
        now < self.ends || (invented < ATTACKERS * INVENTED && now < self.ends + DURATION)
    }

    /// A poll as the control plane's own sidecar forwards it.
    async fn poll(&self, account: &str, body: Vec<u8>, patience: Duration) -> reqwest::Result<Response> {
        let sent = self.client.post(format!("{}/v1/sync", self.url)).header("x-forwarded-client-cert", proof(account));
        sent.timeout(patience).body(body).send().await
    }
}

/// The body of an invented poll. Built by hand, because the callers' CPU is not under test.
struct Invented {
    services: Vec<u8>,
    /// The position of the proxy's number in each name.
    numbers: Vec<usize>,
}

impl Invented {
    fn of(namespace: &str) -> Self {
        let (mut services, mut numbers) = (b"[".to_vec(), Vec::new());
        for name in 0..NAMES {
            services.extend(if name == 0 { "\"" } else { ",\"" }.bytes());
            numbers.push(services.len());
            services.extend(format!("000000-{name:08}.{namespace}.{:x<36}\"", "").bytes());
        }
        services.extend(b"]}");
        Self { services, numbers }
    }

    fn body(&mut self, nth: usize, proxy: &str, version: &str) -> Vec<u8> {
        let number = format!("{nth:06}");
        for at in &self.numbers {
            self.services[*at..at + number.len()].copy_from_slice(number.as_bytes());
        }
        let head = format!(r#"{{"proxy":"{proxy}","version":"{version}","wait":"60s","services":"#);
        [head.as_bytes(), &self.services].concat()
    }
}

/// The header that the sidecar adds for a caller such as `shop/sa/checkout`.
fn proof(account: &str) -> String {
    let own = "spiffe://cluster.local/ns/bloc-system/sa/bloc-control-plane";
    format!("By={own};Hash={};Subject=\"\";URI=spiffe://cluster.local/ns/{account}", "0".repeat(64))
}

fn id(pod: &str, namespace: &str) -> String {
    format!("sidecar~10.0.0.1~{pod}.{namespace}~{namespace}.svc.cluster.local")
}

/// One connection of an attacker, which invents one proxy after the other.
async fn invent(world: Arc<World>, attacker: usize, connection: usize) {
    let (namespace, account) = (format!("evil{attacker}"), format!("evil{attacker}/sa/default"));
    let (mut invented, mut version) = (Invented::of(&namespace), String::new());
    for at in (connection..).step_by(CONNECTIONS) {
        if !world.goes_on() {
            return;
        }
        let nth = at % INVENTED;
        let body = invented.body(nth, &id(&format!("p{nth}"), &namespace), &version);
        world.invented.fetch_add(1, Ordering::Relaxed);
        match world.poll(&account, body, PATIENCE).await {
            Ok(answer) if answer.status() == 200 => {
                world.answered.fetch_add(1, Ordering::Relaxed);
                // With the version of the answer, the next poll is held.
                version = answer.json::<SyncResponse>().await.map(|state| state.version).unwrap_or_default();
            }
            Ok(answer) if answer.headers().contains_key("retry-after") => {
                world.no_room.fetch_add(1, Ordering::Relaxed);
                sleep(Duration::from_millis(100)).await;
            }
            Ok(_) | Err(_) => {}
        }
    }
}

/// Sends half of a body and then nothing until the connection is cut off, again and again.
async fn leave_unfinished(world: Arc<World>, attacker: usize) {
    let (namespace, account) = (format!("evil{attacker}"), format!("evil{attacker}/sa/default"));
    let body = Invented::of(&namespace).body(INVENTED, &id("unfinished", &namespace), "");
    while world.goes_on() {
        trickle(&world, &account, &body).await;
    }
}

async fn trickle(world: &World, account: &str, body: &[u8]) {
    let address = world.url.trim_start_matches("http://");
    let head = format!(
        "POST /v1/sync HTTP/1.1\r\nhost: x\r\nx-forwarded-client-cert: {}\r\ncontent-length: {}\r\n\r\n",
        proof(account),
        body.len()
    );
    let send = async {
        let mut stream = TcpStream::connect(address).await?;
        stream.write_all(head.as_bytes()).await?;
        stream.write_all(&body[..body.len() / 2]).await?;
        sleep(PATIENCE).await;
        Ok::<_, std::io::Error>(())
    };
    let _ = timeout(2 * PATIENCE, send).await;
}

/// Sends made-up versions in tiny polls, as fast as they are answered.
async fn make_up(world: Arc<World>, nth: usize) {
    let name = id(&format!("p{nth}"), "made-up");
    for at in 1_u64.. {
        if !world.goes_on() {
            return;
        }
        let revision = 1_000_000_000 * at;
        let request = SyncRequest {
            proxy: name.clone(),
            version: format!("{at:016x}@e{revision}.s{revision}.c{revision}.v{revision}"),
            services: vec![A.into()],
            wait: Some("1s".into()),
            ..SyncRequest::default()
        };
        let body = serde_json::to_vec(&request).unwrap();
        let answer = world.poll("made-up/sa/default", body, PATIENCE).await;
        world.made_up.fetch_add(usize::from(answer.is_ok()), Ordering::Relaxed);
        sleep(Duration::from_millis(5)).await;
    }
}

/// A poll of an honest proxy, which must be answered before a proxy would give it up. Returns the
/// state, if there is a new one.
async fn ask(world: &World, account: &str, name: &str, version: &str) -> Option<SyncResponse> {
    let request = SyncRequest {
        proxy: name.into(),
        version: version.into(),
        services: vec![A.into()],
        wait: Some(format!("{}s", WAIT.as_secs())),
        ..SyncRequest::default()
    };
    let (sent, body) = (Instant::now(), serde_json::to_vec(&request).unwrap());
    let answer = world.poll(account, body, polls::timeout(WAIT)).await;
    let answer = answer.unwrap_or_else(|error| panic!("{name} has no answer after {:?}: {error}", sent.elapsed()));
    assert!(!answer.headers().contains_key("retry-after"), "{name} has no room");
    let state = match answer.status().as_u16() {
        200 => Some(answer.json().await.unwrap()),
        304 => None,
        other => panic!("{name}: status {other}"),
    };
    if version.is_empty() {
        assert!(state.is_some(), "{name} has no first state");
        world.first.lock().unwrap().push(sent.elapsed());
    } else if state.is_some() {
        let since = world.changed.lock().unwrap().elapsed();
        world.news.lock().unwrap().push(since);
    }
    state
}

async fn poll_honestly(world: Arc<World>, nth: usize) {
    let (name, mut version) = (id(&format!("p{nth}"), "shop"), String::new());
    while world.goes_on() {
        if let Some(state) = ask(&world, "shop/sa/checkout", &name, &version).await {
            assert!(state.services.contains_key(A));
            version = state.version;
        }
    }
}

/// Starts new proxies, each with its own identity.
async fn come(world: Arc<World>) {
    for nth in 0.. {
        if !world.goes_on() {
            return;
        }
        let (account, name) = (format!("shop/sa/new{nth}"), id(&format!("new{nth}"), "shop"));
        ask(&world, &account, &name, "").await;
        sleep(NEW_EVERY).await;
    }
}

fn said(what: &str, times: &Mutex<Vec<Duration>>) {
    let mut times = times.lock().unwrap();
    times.sort_unstable();
    let at = |share: f64| times[((times.len() - 1) as f64 * share) as usize].as_millis();
    println!("{what}, {}: p50 {} ms, p99 {} ms, longest {} ms", times.len(), at(0.5), at(0.99), at(1.0));
}

async fn change_endpoints(cluster: &Cluster, control_plane: &ControlPlane, world: &World) -> u64 {
    let mut generation = 1;
    while world.goes_on() {
        sleep(CHANGE_EVERY).await;
        cluster.slice("a", "a-1", &ips(generation..generation + 2)).await;
        *world.changed.lock().unwrap() = Instant::now();
        generation += 1;
    }
    control_plane.peak_memory()
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs kube-apiserver and etcd, and all processors for a minute: make flood"]
async fn answers_honest_polls_within_bounded_memory_during_a_flood() {
    rlimit::increase_nofile_limit(u64::MAX).unwrap();
    let cluster = Cluster::start().await;
    cluster.policy("services: {a: {}}").await;
    cluster.service("a").await;
    cluster.slice("a", "a-1", &ips(0..2)).await;
    let control_plane = cluster.control_plane_with("one", &["--identity", "spiffe"]).await;
    until("readiness", async || control_plane.is_ready().await).await;
    until("the slices", async || control_plane.get(&format!("/v1/status/services/{A}")).await.contains("10.1.0.1"))
        .await;
    let lists = cluster.lists();
    assert!(lists > 0, "the audit log counts");

    let world = Arc::new(World {
        url: control_plane.url.clone(),
        client: Client::builder().no_proxy().build().unwrap(),
        ends: Instant::now() + DURATION,
        invented: AtomicUsize::new(0),
        answered: AtomicUsize::new(0),
        no_room: AtomicUsize::new(0),
        made_up: AtomicUsize::new(0),
        first: Mutex::default(),
        changed: Mutex::new(Instant::now()),
        news: Mutex::default(),
    });
    let mut callers = JoinSet::new();
    for attacker in 0..ATTACKERS {
        for connection in 0..CONNECTIONS {
            callers.spawn(invent(Arc::clone(&world), attacker, connection));
        }
        for _ in 0..UNFINISHED {
            callers.spawn(leave_unfinished(Arc::clone(&world), attacker));
        }
    }
    for nth in 0..10 {
        callers.spawn(make_up(Arc::clone(&world), nth));
    }
    for nth in 0..HONEST {
        callers.spawn(poll_honestly(Arc::clone(&world), nth));
    }
    callers.spawn(come(Arc::clone(&world)));
    let memory = change_endpoints(&cluster, &control_plane, &world).await;
    while let Some(ended) = callers.join_next().await {
        ended.unwrap();
    }

    let count = |number: &AtomicUsize| number.load(Ordering::Relaxed);
    let (answered, no_room, made_up) = (count(&world.answered), count(&world.no_room), count(&world.made_up));
    println!("memory at most {} MiB; {} lists", memory >> 20, cluster.lists() - lists);
    let invented = count(&world.invented);
    println!(
        "{invented} polls of invented proxies: {answered} got a state, {no_room} no room; polls with made-up versions: {made_up}"
    );
    said("first answers to proxies never seen", &world.first);
    said("from a change at the API server to honest proxies", &world.news);
    // Otherwise the flood was too weak to prove anything.
    assert!(invented >= ATTACKERS * INVENTED, "{invented} polls of invented proxies");
    assert!(answered > 200 && no_room > 200, "the attackers got no further");
    assert!(made_up > 200, "the made-up versions got no further");
    assert_eq!(cluster.lists(), lists, "lists beyond those of the watches");
    assert!(memory < MOST_MEMORY, "{} MiB", memory >> 20);
}
