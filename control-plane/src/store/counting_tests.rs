//! What two replicas count for a proxy that alternates between them, in virtual time.

use super::*;
use crate::clock::Clock;
use crate::load::ReportInterval;
use crate::snapshot::Snapshot;
use bloc_policy::sync::{Last, ServiceLoad, SyncRequest};
use std::time::Duration;
use tokio::task::JoinHandle;
use tokio::time::{Instant, advance};

/// Two replicas, and a server that took in ten requests a second.
struct World {
    replicas: [Store; 2],
    version: String,
    start: Instant,
    /// The replica that answered last, and when.
    last: Option<(String, Instant)>,
    /// When the last counted report was sent.
    reported: Option<Instant>,
}

impl World {
    async fn new() -> Self {
        let replica = || {
            let store = Store::new("test", Clock::system(), ReportInterval::default());
            store.publish(Snapshot::from_yaml("services: {a: {}}").unwrap(), Reach::default());
            store
        };
        let replicas = [replica(), replica()];
        let version = replicas[0].status().version;
        Self { replicas, version, start: Instant::now(), last: None, reported: None }
    }

    /// Polls `replica`; the report is counted when the poll is answered.
    async fn poll(&self, replica: usize, version: &str) -> JoinHandle<Outcome> {
        let now = Instant::now();
        let arrived = now.duration_since(self.reported.unwrap_or(self.start)).as_millis() as u64 / 100;
        let last = Last {
            replica: self.last.as_ref().map(|(name, _)| name.clone()).unwrap_or_default(),
            answered_ms: self.last.as_ref().map_or(0, |(_, at)| now.duration_since(*at).as_millis() as u64),
            reported_ms: self.reported.map(|at| now.duration_since(at).as_millis() as u64),
        };
        let load = ServiceLoad { service: "a".into(), arrived, departed: arrived, in_flight: 3, ..Default::default() };
        let request = SyncRequest {
            proxy: "p".into(),
            version: version.into(),
            serves: vec!["a".into()],
            load: vec![load],
            last: Some(last),
            ..SyncRequest::default()
        };
        let (store, poll) = (self.replicas[replica].clone(), Poll::try_from(request).unwrap());
        let task = tokio::spawn(async move { store.sync(poll).await.unwrap() });
        tokio::task::yield_now().await;
        task
    }

    /// A poll that is answered after the report interval.
    async fn quiet(&mut self, replica: usize) {
        let asked = Instant::now();
        let poll = self.poll(replica, &self.version).await;
        assert!(matches!(poll.await.unwrap(), Outcome::Unchanged));
        self.answered(replica, asked);
    }

    fn answered(&mut self, replica: usize, asked: Instant) {
        (self.last, self.reported) = (Some((self.replicas[replica].replica().to_owned(), Instant::now())), Some(asked));
    }

    /// Connected proxies and requests in flight at each replica.
    fn shown(&self) -> [(usize, u64); 2] {
        self.replicas.each_ref().map(|store| {
            let demand = store.signals().get("a").map_or(0, |(signals, _)| signals.demand_requests);
            (store.counts().proxies_connected, demand)
        })
    }

    /// The arrival rates and predictions, in requests per second, of the replicas that have them.
    fn rates(&self) -> [Vec<f64>; 2] {
        let loads = self.replicas.each_ref().map(|store| store.service_report("a").unwrap().status.load);
        let loads = loads.iter().flatten();
        [
            loads.clone().filter_map(|load| load.arrival_rate_per_second).collect(),
            loads.filter_map(|load| load.predicted_arrival_rate_per_second).collect(),
        ]
    }

    fn arrivals(&self) -> [u64; 2] {
        self.replicas.each_ref().map(|store| store.signals().get("a").map_or(0, |(_, totals)| totals.arrivals))
    }
}

const NONE: (usize, u64) = (0, 0);
const ONE: (usize, u64) = (1, 3);

#[tokio::test(start_paused = true)]
async fn counts_an_alternating_proxy_and_each_of_its_events_once() {
    let mut world = World::new().await;
    assert_ne!(world.replicas[0].replica(), world.replicas[1].replica());
    assert!(world.replicas[0].replica().len() == 16 && u64::from_str_radix(world.replicas[0].replica(), 16).is_ok());
    for replica in [0, 1, 0, 0, 1, 0, 1] {
        world.quiet(replica).await;
        let shown = world.shown();
        assert!(shown == [ONE, NONE] || shown == [NONE, ONE], "{shown:?}");
    }
    // The 5 s of the last poll are not reported yet.
    assert_eq!(world.arrivals().iter().sum::<u64>(), 10 * 30);
    assert!(world.arrivals().iter().all(|count| *count > 0), "{:?}", world.arrivals());
    let rates = world.replicas.each_ref().map(|store| store.service_report("a").unwrap().status.load.unwrap());
    let rate: f64 = rates.iter().filter_map(|load| load.arrival_rate_per_second).sum();
    assert_eq!(rate, 10.0, "{rates:?}");
    advance(super::window::LINGER).await;
    assert_eq!(world.shown(), [NONE, NONE], "it is gone");
}

/// A server that never leaves a replica for longer than the replica keeps servers.
#[tokio::test(start_paused = true)]
async fn rates_of_both_replicas_add_up_wherever_a_server_polls() {
    for sequence in ["0110110", "0111000111", "01101001100101101001"] {
        let mut world = World::new().await;
        let observing = world.replicas.each_ref().map(|store| tokio::spawn(Store::keep_observing(store.downgrade())));
        // A new replica's part looks like a step in load; wait until the predictions have forgotten
        // it.
        for i in 0..60 {
            world.quiet(i % 2).await;
        }
        for replica in sequence.chars().map(|c| usize::from(c == '1')) {
            let asked = Instant::now();
            let poll = world.poll(replica, &world.version).await;
            while !poll.is_finished() {
                let [rates, predictions] = world.rates();
                for values in [rates, predictions] {
                    let sum: f64 = values.iter().sum();
                    assert!(values.len() == 2 && (sum / 10.0 - 1.0).abs() < 0.02, "{sequence}: {values:?}");
                }
                advance(Duration::from_millis(500)).await;
            }
            assert!(matches!(poll.await.unwrap(), Outcome::Unchanged));
            world.answered(replica, asked);
        }
        observing.iter().for_each(JoinHandle::abort);
    }
}

#[tokio::test(start_paused = true)]
async fn does_not_count_the_report_of_a_poll_without_an_answer() {
    let mut world = World::new().await;
    world.quiet(0).await;
    advance(Duration::from_secs(1)).await;
    let before = world.arrivals();
    let older = world.poll(0, &world.version).await;
    let newer = world.poll(0, &world.version).await;
    assert!(matches!(older.await.unwrap(), Outcome::Superseded));
    assert_eq!((world.arrivals(), world.shown()), (before, [ONE, NONE]));
    newer.abort();
    assert!(newer.await.unwrap_err().is_cancelled());
    assert_eq!((world.arrivals(), world.shown()), (before, [NONE, NONE]), "the client left");
    world.last = None;

    let closing = world.poll(0, &world.version).await;
    assert_eq!(world.shown(), [ONE, NONE]);
    world.replicas[0].close();
    assert!(matches!(closing.await.unwrap(), Outcome::Closing { .. }));
    assert_eq!((world.arrivals(), world.shown()), (before, [NONE, NONE]));
    world.quiet(1).await;
    assert_eq!((world.arrivals(), world.shown()), ([before[0], 60], [NONE, ONE]), "6 s since the report that counted");
}

#[tokio::test(start_paused = true)]
async fn one_replica_counts_a_lagging_proxy_as_stale_until_it_catches_up() {
    let mut world = World::new().await;
    world.quiet(0).await;
    let stale = |world: &World| world.replicas.each_ref().map(|store| store.counts().proxies_stale);
    let before = world.version.clone();
    for store in &world.replicas {
        store.publish(Snapshot::from_yaml("services: {a: {retries: 5}}").unwrap(), Reach::default());
    }
    world.version = world.replicas[0].status().version;
    for i in 0..20 {
        let (replica, asked) = (i % 2, Instant::now());
        let poll = world.poll(replica, &before).await;
        assert!(matches!(poll.await.unwrap(), Outcome::Changed(_)));
        world.answered(replica, asked);
        advance(Duration::from_secs(1)).await;
        // It is stale after 10 s at the replica that counts it.
        assert_eq!(stale(&world).iter().sum::<usize>(), usize::from(i >= 10), "after {} s", i + 1);
    }
    for _ in 0..3 {
        world.quiet(1).await;
        assert_eq!(stale(&world), [0, 0], "the other replica last saw it when it lagged");
    }
}

#[tokio::test(start_paused = true)]
async fn a_proxy_that_keeps_up_with_frequent_changes_is_not_stale() {
    let mut world = World::new().await;
    let mut version = world.version.clone();
    for retries in 0..8 {
        let yaml = format!("services: {{a: {{retries: {retries}}}}}");
        world.replicas[0].publish(Snapshot::from_yaml(&yaml).unwrap(), Reach::default());
        let asked = Instant::now();
        let poll = world.poll(0, &version).await;
        let Outcome::Changed(answer) = poll.await.unwrap() else { panic!("no state") };
        version = answer.version.to_string();
        world.answered(0, asked);
        advance(Duration::from_secs(4)).await;
        assert_eq!(world.replicas[0].counts().proxies_stale, 0, "after {retries}");
    }
}
