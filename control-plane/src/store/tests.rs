//! What proxies are told, in virtual time.

use super::*;
use bloc_policy::sync::{ServiceLoad, SyncRequest, SyncResponse};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::task::JoinHandle;

const START: u64 = 1_000_000;

/// A store whose wall clock the test steps.
struct World {
    store: Store,
    millis: Arc<AtomicU64>,
}

impl World {
    fn empty(millis: u64) -> Self {
        let millis = Arc::new(AtomicU64::new(millis));
        let shown = Arc::clone(&millis);
        let clock = Clock::new(move || UNIX_EPOCH + Duration::from_millis(shown.load(Ordering::Relaxed)));
        Self { store: Store::new("test", clock, ReportInterval::default()), millis }
    }

    fn new(yaml: &str) -> Self {
        let world = Self::empty(START);
        world.publish(yaml);
        world
    }

    fn publish(&self, yaml: &str) -> Published {
        self.store.publish(Snapshot::from_yaml(yaml).unwrap())
    }

    /// Sends a poll and lets it go as far as it can without time passing.
    async fn send(&self, proxy: &str, version: u64, services: &[&str]) -> JoinHandle<Outcome> {
        let services = services.iter().map(ToString::to_string).collect();
        let request = SyncRequest { proxy: proxy.into(), version, services, ..SyncRequest::default() };
        let (store, poll) = (self.store.clone(), Poll::try_from(request).unwrap());
        let task = tokio::spawn(async move { store.sync(poll).await.unwrap() });
        tokio::task::yield_now().await;
        task
    }

    /// A poll that has to be answered at once, with a state.
    async fn answered(&self, proxy: &str, version: u64, services: &[&str]) -> SyncResponse {
        let task = self.send(proxy, version, services).await;
        assert!(task.is_finished(), "{proxy} at {version} is held");
        state(task).await
    }

    /// A poll that has to be held.
    async fn held(&self, proxy: &str, version: u64, services: &[&str]) -> JoinHandle<Outcome> {
        let task = self.send(proxy, version, services).await;
        assert!(!task.is_finished(), "{proxy} at {version} was answered: {:?}", task.await);
        task
    }
}

/// The state that a poll ended with, as the proxy reads it.
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
async fn a_new_proxy_is_answered_at_once_even_with_nothing() {
    let world = World::new("services: {a: {retries: 1}, b: {}}");
    let state = world.answered("p", 0, &["a", "none"]).await;
    assert_eq!((state.version, names(&state)), (START, vec!["a"]));
    assert_eq!(state.services["a"].retries, Some(1));
    assert_eq!(world.answered("q", 0, &["none"]).await, SyncResponse { version: START, ..Default::default() });
    assert_eq!(world.answered("r", 0, &[]).await.version, START);
}

#[tokio::test(start_paused = true)]
async fn a_poll_is_held_until_its_wait_is_over() {
    let world = World::new("services: {a: {}}");
    let version = world.answered("p", 0, &["a"]).await.version;
    let start = Instant::now();
    let poll = world.held("p", version, &["a"]).await;
    assert_eq!(world.store.counts().polls_held, 1);
    assert!(matches!(poll.await.unwrap(), Outcome::Unchanged));
    assert_eq!(start.elapsed().as_secs(), DEFAULT_WAIT.as_secs());
    assert_eq!(world.store.counts().polls_held, 0);
}

#[tokio::test(start_paused = true)]
async fn a_change_is_pushed_to_its_subscribers_only() {
    let world = World::new("services: {a: {}, b: {}}");
    world.answered("p", 0, &["a"]).await;
    world.answered("q", 0, &["b"]).await;
    let (p, q) = (world.held("p", START, &["a"]).await, world.held("q", START, &["b"]).await);
    let published = world.publish("services: {a: {retries: 1}, b: {}, c: {}}");
    assert_eq!((published.changed, published.woken), (vec!["a".into(), "c".into()], 1));
    let state = state(p).await;
    assert_eq!((state.version, state.services["a"].retries), (START + 1, Some(1)));
    tokio::task::yield_now().await;
    assert!(!q.is_finished());
    world.held("p", state.version, &["a"]).await;
}

#[tokio::test(start_paused = true)]
async fn a_removed_service_is_absent() {
    let world = World::new("services: {a: {}, b: {}}");
    world.answered("p", 0, &["a", "b"]).await;
    let poll = world.held("p", START, &["a", "b"]).await;
    world.publish("services: {b: {}}");
    assert_eq!(names(&state(poll).await), ["b"]);
}

#[tokio::test(start_paused = true)]
async fn content_that_means_the_same_is_no_change() {
    let world = World::new("services: {a: {resetInterval: 1s}}");
    world.answered("p", 0, &["a"]).await;
    world.millis.fetch_add(5_000, Ordering::Relaxed);
    let poll = world.held("p", START, &["a"]).await;
    assert_eq!(world.publish("services: {a: {resetInterval: 1000ms}} # other words").version, START);
    tokio::task::yield_now().await;
    assert!(!poll.is_finished());
}

#[tokio::test(start_paused = true)]
async fn a_newer_poll_of_the_same_proxy_supersedes_the_older() {
    let world = World::new("services: {a: {}}");
    world.answered("p", 0, &["a"]).await;
    let older = world.held("p", START, &["a"]).await;
    let newer = world.held("p", START, &["a"]).await;
    assert!(matches!(older.await.unwrap(), Outcome::Superseded));
    assert_eq!(world.store.counts().polls_held, 1, "the older one's end does not take the newer one with it");
    let newest = world.held("p", START, &["a"]).await;
    assert!(matches!(newer.await.unwrap(), Outcome::Superseded));
    world.publish("services: {}");
    assert!(names(&state(newest).await).is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_poll_whose_client_left_is_released() {
    let world = World::new("services: {a: {}}");
    world.answered("p", 0, &["a"]).await;
    let poll = world.held("p", START, &["a"]).await;
    poll.abort();
    assert!(poll.await.unwrap_err().is_cancelled());
    let counts = world.store.counts();
    assert_eq!((counts.polls_held, counts.proxies_connected), (0, 1));
    tokio::time::advance(DEFAULT_WAIT * 2 + Duration::from_millis(1)).await;
    assert_eq!(world.store.counts().proxies_connected, 0);
}

#[tokio::test(start_paused = true)]
async fn nothing_is_said_before_the_first_snapshot() {
    let world = World::empty(START);
    let poll = world.held("p", 0, &["a"]).await;
    let returning = world.held("q", START + 5, &["a"]).await;
    assert!(!world.store.is_ready());
    world.publish("services: {a: {}}");
    assert!(world.store.is_ready());
    assert_eq!(state(poll).await.version, START);
    assert!(state(returning).await.version > START + 5, "it came with a version of an earlier life");
}

#[tokio::test(start_paused = true)]
async fn a_restart_with_a_newer_clock_answers_everybody() {
    let world = World::new("services: {a: {retries: 2}}");
    let state = world.answered("p", START - 500, &["a", "gone"]).await;
    assert_eq!((state.version, names(&state)), (START, vec!["a"]));
    world.held("p", START, &["a", "gone"]).await;
}

#[tokio::test(start_paused = true)]
async fn a_restart_with_an_older_clock_answers_everybody_once() {
    let world = World::new("services: {a: {retries: 2}}");
    // Versions of the earlier life: far above ours, below the first of them, and the very one that we then issue.
    for (proxy, version) in [("p", START + 9_000), ("q", START + 8_000), ("r", START + 9_001)] {
        let state = world.answered(proxy, version, &["a"]).await;
        assert!(state.version > version, "{proxy} would ignore {}", state.version);
        assert_eq!(state.services["a"].retries, Some(2));
        world.held(proxy, state.version, &["a"]).await;
    }
    let version = world.publish("services: {a: {retries: 3}}").version;
    assert!(version > START + 9_001);
    assert_eq!(world.answered("p", START + 9_001, &["a"]).await.version, version);
}

#[tokio::test(start_paused = true)]
async fn a_grown_subscription_is_answered_although_nothing_changed() {
    let world = World::new("services: {a: {}, b: {}}");
    world.answered("p", 0, &["a"]).await;
    let state = world.answered("p", START, &["a", "b"]).await;
    assert_eq!(names(&state), ["a", "b"]);
    assert!(state.version > START);
    // That answer was lost: the proxy asks again as before, and is answered again.
    let again = world.answered("p", START, &["a", "b"]).await;
    assert_eq!(names(&again), ["a", "b"]);
    world.held("p", again.version, &["a", "b"]).await;
    world.held("p", again.version, &["b"]).await;
}

#[tokio::test(start_paused = true)]
async fn a_proxy_unknown_to_us_with_our_version_is_held() {
    let world = World::new("services: {a: {}}");
    world.held("p", START, &["a"]).await;
}

#[tokio::test(start_paused = true)]
async fn closing_ends_all_polls() {
    let world = World::new("services: {a: {}}");
    world.answered("p", 0, &["a"]).await;
    let poll = world.held("p", START, &["a"]).await;
    assert_eq!(world.store.close(), 1);
    assert!(matches!(poll.await.unwrap(), Outcome::Closing));
    assert!(matches!(world.send("p", START, &["a"]).await.await.unwrap(), Outcome::Closing));
    assert!(!world.store.is_ready());
}

#[tokio::test(start_paused = true)]
async fn operators_see_services_refusals_and_proxies() {
    let world = World::new("services: {a: {retries: 1}}");
    world.answered("p", 0, &["a"]).await;
    let _poll = world.held("p", START, &["a"]).await;
    world.store.refuse("services.a.retries: 11 is not allowed, only 0 to 10".into());
    let view = world.store.overview();
    assert_eq!((view.version, view.source.as_str()), (START, "test"));
    assert_eq!(view.loaded.as_deref(), Some("1970-01-01T00:16:40.000Z"));
    assert_eq!(view.services["a"].spec.retries, Some(1));
    assert!(view.refusal.is_some_and(|r| r.message.contains("only 0 to 10") && !r.resolved));
    let [proxy] = &view.proxies[..] else { panic!("{:?}", view.proxies) };
    assert_eq!((proxy.proxy.as_str(), proxy.version, proxy.connected), ("p", START, true));
    world.publish("services: {a: {retries: 2}}");
    assert!(world.store.overview().refusal.is_some_and(|r| r.resolved));
    assert_eq!(world.store.service("a").unwrap().proxies.len(), 1);
    assert!(world.store.service("b").is_none());
}

#[tokio::test(start_paused = true)]
async fn who_serves_something_reports_every_interval() {
    let world = World::new("services: {a: {}, b: {}}");
    let start = Instant::now();
    let report = |proxy: &str| SyncRequest {
        proxy: proxy.into(),
        version: START,
        serves: vec!["a".into()],
        load: vec![ServiceLoad {
            service: "a".into(),
            departed: 10 * start.elapsed().as_secs(),
            in_flight: 2,
            service_rate: Some(20.0),
            ..ServiceLoad::default()
        }],
        ..SyncRequest::default()
    };
    for _ in 0..4 {
        let poll = |proxy| world.store.sync(Poll::try_from(report(proxy)).unwrap());
        let (p, q) = tokio::join!(poll("p"), poll("q"));
        assert!(matches!((p.unwrap(), q.unwrap()), (Outcome::Unchanged, Outcome::Unchanged)));
    }
    assert_eq!(start.elapsed().as_secs(), 20, "held 5 s each, not 30");
    let load = world.store.service("a").unwrap().load.unwrap();
    assert_eq!((load.servers, load.demand_requests, load.arrival_rate_per_second), (2, 4, Some(20.0)));
    assert_eq!(load.utilisation_ratio, Some(0.5));
    assert_eq!(world.store.service("b").unwrap().load, None);
    world.publish("services: {b: {}}");
    assert!(world.store.signals().is_empty(), "the service is gone");
    world.answered("r", 0, &["b"]).await;
    drop(world.store.sync(Poll::try_from(report("p")).unwrap()).await);
    assert!(world.store.signals().is_empty());
    assert_eq!(world.store.counts().load_reports_dropped, 1);
}
