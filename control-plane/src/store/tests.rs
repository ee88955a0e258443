//! The store's answers to polls, in virtual time.

use super::*;
use crate::clock::Clock;
use crate::load::ReportInterval;
use crate::snapshot::Snapshot;
use bloc_policy::sync::{Last, ServiceLoad, SyncRequest, SyncResponse};
use std::time::{Duration, UNIX_EPOCH};
use tokio::task::JoinHandle;
use tokio::time::Instant;

/// A store whose wall clock stands still.
pub(super) struct World {
    pub(super) store: Store,
}

impl World {
    pub(super) fn empty() -> Self {
        let clock = Clock::new(|| UNIX_EPOCH + Duration::from_secs(1_000));
        let store = Store::new("test", clock, ReportInterval::default());
        Self { store }
    }

    pub(super) fn new(yaml: &str) -> Self {
        let world = Self::empty();
        world.publish(yaml);
        world
    }

    /// A replica that has read up to `revisions`.
    fn replica(yaml: &str, revisions: &[u64]) -> Self {
        let world = Self::empty();
        world.publish_at(yaml, revisions);
        world
    }

    pub(super) fn publish(&self, yaml: &str) -> Published {
        self.publish_at(yaml, &[])
    }

    fn publish_at(&self, yaml: &str, revisions: &[u64]) -> Published {
        self.store.publish(Snapshot::from_yaml(yaml).unwrap(), at(revisions))
    }

    /// Sends a poll and lets it run as far as it can without time passing.
    async fn send(&self, proxy: &str, version: &str, services: &[&str]) -> JoinHandle<Outcome> {
        let services = services.iter().map(ToString::to_string).collect();
        let request = SyncRequest { proxy: proxy.into(), version: version.into(), services, ..SyncRequest::default() };
        let (store, poll) = (self.store.clone(), Poll::try_from(request).unwrap());
        let task = tokio::spawn(async move { store.sync(poll).await.unwrap() });
        tokio::task::yield_now().await;
        task
    }

    /// A poll that must be answered at once with a state.
    pub(super) async fn answered(&self, proxy: &str, version: &str, services: &[&str]) -> SyncResponse {
        let task = self.send(proxy, version, services).await;
        assert!(task.is_finished(), "{proxy} at {version} is held");
        state(task).await
    }

    /// A poll that must be held.
    pub(super) async fn held(&self, proxy: &str, version: &str, services: &[&str]) -> JoinHandle<Outcome> {
        let task = self.send(proxy, version, services).await;
        assert!(!task.is_finished(), "{proxy} at {version} was answered: {:?}", task.await);
        task
    }
}

/// Kinds whose last event was just now, at these revisions.
fn at(revisions: &[u64]) -> Reach {
    let kind = |(name, revision): (char, &u64)| {
        let mut kind = Kind::new(name);
        kind.changed(*revision, Instant::now());
        kind
    };
    Reach(('a'..).zip(revisions).map(kind).collect())
}

/// The state in the answer to a poll, as the proxy reads it.
async fn state(task: JoinHandle<Outcome>) -> SyncResponse {
    match task.await.unwrap() {
        Outcome::Changed(answer) => serde_json::from_value(serde_json::to_value(answer).unwrap()).unwrap(),
        other => panic!("no state: {other:?}"),
    }
}

fn names(state: &SyncResponse) -> Vec<&str> {
    state.services.keys().map(String::as_str).collect()
}

#[tokio::test(start_paused = true)]
async fn answers_a_new_proxy_at_once_even_with_an_empty_state() {
    let world = World::new("services: {a: {retries: 1}, b: {}}");
    let state = world.answered("p", "", &["a", "none"]).await;
    assert_eq!(names(&state), ["a"]);
    assert_eq!(state.services["a"].retries, Some(1));
    let nothing = world.answered("q", "", &["none"]).await;
    assert!(nothing.services.is_empty() && !nothing.version.is_empty());
    assert_eq!(world.answered("r", "", &[]).await, nothing, "the same empty state");
    assert_eq!(names(&world.answered("s", "what is this", &["a"]).await), ["a"]);
}

#[tokio::test(start_paused = true)]
async fn holds_a_poll_until_its_wait_is_over() {
    let world = World::new("services: {a: {}}");
    let version = world.answered("p", "", &["a"]).await.version;
    let start = Instant::now();
    let poll = world.held("p", &version, &["a"]).await;
    assert_eq!(world.store.counts().polls_held, 1);
    assert!(matches!(poll.await.unwrap(), Outcome::Unchanged));
    assert_eq!(start.elapsed().as_secs(), DEFAULT_WAIT.as_secs());
    assert_eq!(world.store.counts().polls_held, 0);
}

#[tokio::test(start_paused = true)]
async fn pushes_a_change_to_its_subscribers_only() {
    let world = World::new("services: {a: {}, b: {}}");
    let a = world.answered("p", "", &["a"]).await.version;
    let b = world.answered("q", "", &["b"]).await.version;
    let (p, q) = (world.held("p", &a, &["a"]).await, world.held("q", &b, &["b"]).await);
    let published = world.publish("services: {a: {retries: 1}, b: {}, c: {}}");
    assert_eq!((published.changed, published.woken), (vec!["a".into(), "c".into()], 1));
    let state = state(p).await;
    assert_eq!(state.services["a"].retries, Some(1));
    assert_ne!(state.version, a);
    tokio::task::yield_now().await;
    assert!(!q.is_finished());
    world.held("p", &state.version, &["a"]).await;
}

#[tokio::test(start_paused = true)]
async fn omits_a_removed_service_from_the_state() {
    let world = World::new("services: {a: {}, b: {}}");
    let version = world.answered("p", "", &["a", "b"]).await.version;
    let poll = world.held("p", &version, &["a", "b"]).await;
    world.publish("services: {b: {}}");
    assert_eq!(names(&state(poll).await), ["b"]);
}

#[tokio::test(start_paused = true)]
async fn answers_no_poll_when_content_means_the_same() {
    let world = World::new("services: {a: {resetInterval: 1s}}");
    let version = world.answered("p", "", &["a"]).await.version;
    let poll = world.held("p", &version, &["a"]).await;
    assert_eq!(world.publish("services: {a: {resetInterval: 1000ms}} # other words").woken, 0);
    tokio::task::yield_now().await;
    assert!(!poll.is_finished());
    world.held("p", &version, &["a"]).await;
}

#[tokio::test(start_paused = true)]
async fn a_newer_poll_of_the_same_proxy_supersedes_the_older() {
    let world = World::new("services: {a: {}}");
    let version = world.answered("p", "", &["a"]).await.version;
    let older = world.held("p", &version, &["a"]).await;
    let newer = world.held("p", &version, &["a"]).await;
    assert!(matches!(older.await.unwrap(), Outcome::Superseded));
    assert_eq!(world.store.counts().polls_held, 1, "the end of the older poll leaves the newer one held");
    let newest = world.held("p", &version, &["a"]).await;
    assert!(matches!(newer.await.unwrap(), Outcome::Superseded));
    world.publish("services: {}");
    assert!(names(&state(newest).await).is_empty());
}

#[tokio::test(start_paused = true)]
async fn releases_a_poll_whose_client_left() {
    let world = World::new("services: {a: {}}");
    let version = world.answered("p", "", &["a"]).await.version;
    let poll = world.held("p", &version, &["a"]).await;
    poll.abort();
    assert!(poll.await.unwrap_err().is_cancelled());
    let counts = world.store.counts();
    assert_eq!((counts.polls_held, counts.proxies_connected), (0, 1), "it was answered just now");
    tokio::time::advance(super::window::LINGER).await;
    assert_eq!(world.store.counts().proxies_connected, 0);
}

#[tokio::test(start_paused = true)]
async fn holds_all_polls_before_the_first_snapshot() {
    let world = World::empty();
    let poll = world.held("p", "", &["a"]).await;
    let returning = world.held("q", "00000000000000ff", &["a"]).await;
    assert!(!world.store.is_ready());
    world.publish("services: {a: {}}");
    assert!(world.store.is_ready());
    assert_eq!(state(poll).await, state(returning).await);
}

#[tokio::test(start_paused = true)]
async fn answers_only_proxies_with_another_state_after_a_restart() {
    let before = World::new("services: {a: {retries: 2}, b: {}}");
    let a = before.answered("p", "", &["a"]).await.version;
    let both = before.answered("q", "", &["a", "b"]).await.version;
    let after = World::new("services: {a: {retries: 2}}");
    after.held("p", &a, &["a"]).await;
    assert_eq!(names(&after.answered("q", &both, &["a", "b"]).await), ["a"]);
}

#[tokio::test(start_paused = true)]
async fn answers_a_poll_that_asks_for_more_services_at_once() {
    let world = World::new("services: {a: {}, b: {}}");
    let a = world.answered("p", "", &["a"]).await.version;
    let state = world.answered("p", &a, &["a", "b"]).await;
    assert_eq!(names(&state), ["a", "b"]);
    // The answer is lost: the proxy repeats its poll and is answered again.
    assert_eq!(world.answered("p", &a, &["a", "b"]).await, state);
    world.held("p", &state.version, &["a", "b"]).await;
    world.held("p", &a, &["a", "none"]).await;
}

#[tokio::test(start_paused = true)]
async fn replicas_give_the_same_state_the_same_digest() {
    let (one, other) = (World::replica("services: {a: {}}", &[7]), World::replica("services: {a: {}, b: {}}", &[9]));
    let version = one.answered("p", "", &["a"]).await.version;
    other.held("p", &version, &["a"]).await;
    let version = other.answered("q", "", &["a"]).await.version;
    one.held("q", &version, &["a"]).await;
}

#[tokio::test(start_paused = true)]
async fn a_lagging_replica_answers_once_it_has_read_as_far_as_the_proxy() {
    let (ahead, behind) = (World::replica("services: {}", &[9, 5]), World::replica("services: {a: {}}", &[8, 6]));
    let version = ahead.answered("p", "", &["a"]).await.version;
    let poll = behind.held("p", &version, &["a"]).await;
    // A change older than the proxy's state is not sent; the next one is.
    behind.publish_at("services: {a: {retries: 1}}", &[8, 7]);
    tokio::task::yield_now().await;
    assert!(!poll.is_finished());
    behind.publish_at("services: {a: {retries: 2}}", &[10, 7]);
    assert_eq!(state(poll).await.services["a"].retries, Some(2));
    // The same without a change.
    let (ahead, behind) = (World::replica("services: {}", &[9]), World::replica("services: {a: {}}", &[8]));
    let version = ahead.answered("p", "", &["a"]).await.version;
    let poll = behind.held("p", &version, &["a"]).await;
    let start = Instant::now();
    behind.store.advance(at(&[9]));
    assert_eq!((names(&state(poll).await), start.elapsed()), (vec!["a"], Duration::ZERO));
}

#[tokio::test(start_paused = true)]
async fn a_proxy_that_knows_more_waits_for_3_s_over_its_polls() {
    let (before, restored) = (World::replica("services: {}", &[900]), World::replica("services: {a: {}}", &[8]));
    let version = before.answered("p", "", &["a"]).await.version;
    let start = Instant::now();
    let poll = restored.held("p", &version, &["a"]).await;
    tokio::time::advance(Duration::from_secs(2)).await;
    restored.store.advance(at(&[9]));
    let next = restored.held("p", &version, &["a"]).await;
    assert!(matches!(poll.await.unwrap(), Outcome::Superseded));
    let state = state(next).await;
    assert_eq!((names(&state), start.elapsed().as_millis()), (vec!["a"], 3_000));
    restored.held("p", &state.version, &["a"]).await;
    let file = World::new("services: {b: {}}");
    assert!(names(&file.answered("p", &state.version, &["a"]).await).is_empty(), "a source without revisions");
}

#[tokio::test(start_paused = true)]
async fn a_replica_whose_source_tells_nothing_does_not_contradict_a_proxy_that_knows_more() {
    let (ahead, cut_off) = (World::replica("services: {}", &[9, 9]), World::replica("services: {a: {}}", &[8, 8]));
    let version = ahead.answered("p", "", &["a"]).await.version;
    tokio::time::advance(Duration::from_millis(1)).await;
    for _ in 0..3 {
        let start = Instant::now();
        let poll = cut_off.held("p", &version, &["a"]).await;
        assert!(matches!(poll.await.unwrap(), Outcome::Unchanged));
        assert_eq!(start.elapsed().as_secs(), 3);
    }
    // A proxy that knows no more gets what there is.
    assert_eq!(names(&cut_off.answered("q", "", &["a"]).await), ["a"]);
    // Both kinds must be heard.
    let told = |kinds: [u64; 2], before: Option<Instant>| {
        let mut reach = at(&kinds);
        reach.0[1].told = before.or(reach.0[1].told);
        cut_off.store.advance(reach);
    };
    told([8, 8], Some(Instant::now() - Duration::from_secs(60)));
    cut_off.held("p", &version, &["a"]).await.abort();
    told([8, 8], None);
    assert_eq!(names(&cut_off.answered("p", &version, &["a"]).await), ["a"]);
    // Once it has contradicted a version, the wait restarts.
    cut_off.held("p", &version, &["a"]).await;
}

#[tokio::test(start_paused = true)]
async fn closing_ends_all_polls() {
    let world = World::new("services: {a: {}}");
    let version = world.answered("p", "", &["a"]).await.version;
    let poll = world.held("p", &version, &["a"]).await;
    assert_eq!(world.store.close(), 1);
    assert!(matches!(poll.await.unwrap(), Outcome::Closing { within } if within.as_secs() == 1));
    assert!(matches!(world.send("p", &version, &["a"]).await.await.unwrap(), Outcome::Closing { .. }));
    assert!(!world.store.is_ready());
}

#[tokio::test(start_paused = true)]
async fn the_status_shows_refusals_and_proxies() {
    let world = World::new("services: {a: {retries: 1}}");
    let version = world.answered("p", "", &["a"]).await.version;
    let _poll = world.held("p", &version, &["a"]).await;
    world.store.refuse("file", "services.a.retries: 11 is not allowed; allowed: 0 to 10");
    let status = world.store.status();
    assert_eq!((status.version.as_str(), status.source.as_str()), (version.as_str(), "test"));
    assert_eq!(status.loaded.as_deref(), Some("1970-01-01T00:16:40.000Z"));
    let [refusal] = &status.refusals[..] else { panic!("{:?}", status.refusals) };
    assert!(refusal.message.as_ref().unwrap().contains("allowed: 0 to 10") && !refusal.resolved);
    assert_eq!((status.proxies.connected, status.proxies.current), (1, 1));
    let counts = world.store.counts();
    assert_eq!((counts.proxies_stale, counts.refused), (0, 1));
    world.publish("services: {a: {retries: 2}}");
    world.store.resolve("file");
    tokio::task::yield_now().await;
    assert_eq!(world.store.counts().proxies_stale, 0, "it has had no time to take it");
    for _ in 0..2 {
        // The proxy is answered, but does not take the new state.
        tokio::time::advance(Duration::from_secs(5)).await;
        world.answered("p", &version, &["a"]).await;
    }
    let status = world.store.status();
    assert_eq!((status.proxies.connected, status.proxies.current, status.proxies.stale), (1, 0, 1));
    assert_eq!((status.refusals.len(), world.store.counts().refused), (0, 0));
    let report = world.store.service_report("a").unwrap();
    assert_eq!((report.spec.retries, report.senders.len()), (Some(2), 1));
}

#[tokio::test(start_paused = true)]
async fn proxies_of_servers_report_every_interval() {
    let world = World::new("services: {a: {}, b: {}}");
    let (start, version) = (Instant::now(), world.answered("p", "", &["a"]).await.version);
    let report = |proxy: &str| SyncRequest {
        proxy: proxy.into(),
        version: version.clone(),
        serves: vec!["a".into()],
        load: vec![ServiceLoad {
            service: "a".into(),
            arrived: 50,
            in_flight: 2,
            service_rate: Some(20.0),
            ..ServiceLoad::default()
        }],
        last: Some(Last { reported_ms: Some(5_000), ..Last::default() }),
        ..SyncRequest::default()
    };
    for _ in 0..4 {
        let poll = |proxy| world.store.sync(Poll::try_from(report(proxy)).unwrap());
        let (p, q) = tokio::join!(poll("p"), poll("q"));
        assert!(matches!((p.unwrap(), q.unwrap()), (Outcome::Unchanged, Outcome::Unchanged)));
    }
    assert_eq!(start.elapsed().as_secs(), 20, "held 5 s each, not 30");
    let load = world.store.service_report("a").unwrap().status.load.unwrap();
    assert_eq!((load.servers, load.demand_requests, load.arrival_rate_per_second), (2, 4, Some(20.0)));
    assert_eq!(load.utilisation_ratio, Some(0.5));
    assert_eq!(world.store.service_report("b").unwrap().status.load, None);
    world.publish("services: {b: {}}");
    assert!(world.store.signals().is_empty(), "the service is gone");
    world.answered("r", "", &["b"]).await;
    drop(world.store.sync(Poll::try_from(report("p")).unwrap()).await);
    assert!(world.store.signals().is_empty());
    assert_eq!(world.store.counts().load_reports_dropped, 1);
}
