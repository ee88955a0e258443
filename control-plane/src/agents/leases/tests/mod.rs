//! Replicas over one store, in virtual time.

use super::*;
use crate::metrics::{LatencyMetrics, Metrics};
use crate::store::Counts;
use bloc_leases::{Ask, Asks, HEARS, Holder, NEW, Part, Record, Told};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::time::sleep;

mod limits;

const APP: &str = "shop/checkout";

type Records = BTreeMap<Arc<str>, (u64, Arc<Record>)>;

/// What two replicas share. Each sees it as of its last write or [look](Store::look).
#[derive(Debug, Default)]
struct Shared {
    records: Records,
    nodes: BTreeSet<String>,
    writes: usize,
    /// The application whose writes never end.
    hangs: Option<&'static str>,
    /// The next write panics.
    panics: bool,
    /// The error of writes and of node requests.
    failure: Option<String>,
    questions: usize,
}

#[derive(Debug)]
struct Store {
    shared: Arc<Mutex<Shared>>,
    seen: Mutex<Records>,
    is_ready: bool,
    bad: Option<&'static str>,
}

impl Store {
    fn new(shared: &Arc<Mutex<Shared>>) -> Arc<Self> {
        let (shared, seen) = (Arc::clone(shared), Mutex::default());
        Arc::new(Self { shared, seen, is_ready: true, bad: None })
    }

    fn look(&self) {
        *self.seen.lock().unwrap() = self.shared.lock().unwrap().records.clone();
    }
}

impl LeaseStore for Store {
    fn is_ready(&self) -> bool {
        self.is_ready
    }

    fn read(&self, app: &str) -> Result<Known, Unread> {
        if self.bad == Some(app) {
            return Err(Unread);
        }
        let seen = self.seen.lock().unwrap();
        let known = |(version, record): &(u64, Arc<Record>)| Known {
            record: Arc::clone(record),
            version: Some(version.to_string()),
        };
        Ok(seen.get(app).map(known).unwrap_or_default())
    }

    fn write(&self, app: Arc<str>, record: Record, version: Option<String>) -> Writing<'_> {
        async move {
            sleep(Duration::from_millis(20)).await;
            let hangs = self.shared.lock().unwrap().hangs == Some(&*app);
            if hangs {
                std::future::pending::<()>().await;
            }
            assert!(!std::mem::take(&mut self.shared.lock().unwrap().panics), "a write panics");
            let written = {
                let mut shared = self.shared.lock().unwrap();
                if let Some(why) = &shared.failure {
                    return Err(Unwritten::Failed(why.clone()));
                }
                let found = shared.records.get(&app).map(|(version, _)| version.to_string());
                if found == version {
                    assert!(record.held() <= Part::WHOLE);
                    shared.writes += 1;
                    let next = shared.writes as u64;
                    shared.records.insert(app, (next, Arc::new(record)));
                    Ok(())
                } else {
                    Err(Unwritten::Conflict)
                }
            };
            self.look();
            written
        }
        .boxed()
    }

    fn records(&self) -> Vec<(Arc<str>, Arc<Record>)> {
        let seen = self.seen.lock().unwrap();
        seen.iter().map(|(app, (_, record))| (Arc::clone(app), Arc::clone(record))).collect()
    }

    fn unread(&self) -> usize {
        self.bad.iter().count()
    }

    fn has_node(&self, node: String) -> BoxFuture<'_, Result<bool, String>> {
        let mut shared = self.shared.lock().unwrap();
        shared.questions += 1;
        let answer = shared.failure.clone().map_or_else(|| Ok(shared.nodes.contains(&node)), Err);
        std::future::ready(answer).boxed()
    }
}

fn ask(app: &str, number: u64, part: Part, wants: u32) -> Ask {
    Ask { name: app.into(), number, part, wants: Part::millionths(wants), least: Part::ZERO, own: None }
}

/// The answer to an agent that holds `part`.
async fn told(leases: &Leases, node: &str, part: Part, wants: u32) -> Option<Told> {
    let asks = Asks { node: node.into(), life: 1, apps: vec![ask(APP, 1, part, wants)] };
    leases.ask(asks).await.unwrap().apps.pop()
}

/// Asks each second until the replica gives a part; returns it.
async fn until_given(leases: &Leases, node: &str, wants: u32) -> Part {
    for _ in 0..60 {
        let part = told(leases, node, Part::ZERO, wants).await.map(|told| told.part).unwrap_or_default();
        if part > Part::ZERO {
            return part;
        }
        sleep(Duration::from_secs(1)).await;
    }
    panic!("nothing is given");
}

fn leases(store: Arc<Store>) -> (Leases, Arc<Metrics>) {
    let metrics = Arc::new(Metrics::default());
    (Leases::new(store, Arc::clone(&metrics)), metrics)
}

fn count(metrics: &Metrics, name: &str) -> u64 {
    let (counts, latencies) = (Counts::default(), LatencyMetrics::default());
    let text = metrics.encode(counts, &BTreeMap::new(), latencies, &LeaseView::default()).unwrap();
    text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.parse().ok()).unwrap_or(0)
}

#[tokio::test(start_paused = true)]
async fn nothing_is_said_that_is_not_written_and_what_was_heard_stays() {
    let shared = Arc::<Mutex<Shared>>::default();
    let store = Store::new(&shared);
    let (leases, metrics) = leases(Arc::clone(&store));
    let held = until_given(&leases, "n1", 600_000).await;
    assert_eq!(held, Part::WHOLE, "nobody else wants some");
    shared.lock().unwrap().failure = Some("away".into());
    assert_eq!(told(&leases, "n2", Part::ZERO, 800_000).await, None, "its entry is not written");
    assert_eq!(count(&metrics, r#"bloc_lease_writes_total{result="failed"}"#), 1);
    assert_eq!(count(&metrics, r#"bloc_lease_asks_total{result="failed"}"#), 1);
    // An ask that needs no write is answered, and the other node's need is known.
    let one = told(&leases, "n1", held, 600_000).await.unwrap();
    assert_eq!((one.part, one.goal < held), (held, true), "{one:?}");
    store.look();
    assert_eq!(store.read(APP).unwrap().record.part("n1"), held);
}

#[tokio::test(start_paused = true)]
async fn asks_that_come_together_are_one_write() {
    let shared = Arc::<Mutex<Shared>>::default();
    let (leases, metrics) = leases(Store::new(&shared));
    for round in 0..20 {
        let asks = (0..50).map(|nth| {
            let leases = leases.clone();
            async move {
                // Some come during a write.
                sleep(Duration::from_millis(nth)).await;
                told(&leases, &format!("n{nth}"), Part::ZERO, 20_000).await
            }
        });
        let answers = futures_util::future::join_all(asks).await;
        assert!(answers.iter().all(Option::is_some), "no two asks are a conflict: {round} {answers:?}");
        sleep(Duration::from_secs(1)).await;
    }
    let record = Arc::clone(&shared.lock().unwrap().records[APP].1);
    assert_eq!((record.nodes().count(), record.held().get()), (50, 1_000_000));
    let writes = shared.lock().unwrap().writes;
    assert!(writes <= 10, "{writes} writes for 1,000 asks");
    assert_eq!(count(&metrics, r#"bloc_lease_writes_total{result="conflict"}"#), 0);
    assert_eq!(count(&metrics, r#"bloc_lease_writes_total{result="written"}"#), writes as u64);
    assert_eq!(count(&metrics, r#"bloc_lease_asks_total{result="said"}"#), 1_000);
}

#[tokio::test(start_paused = true)]
async fn an_application_is_written_ten_times_a_second_at_most() {
    let shared = Arc::<Mutex<Shared>>::default();
    let (leases, _) = leases(Store::new(&shared));
    let asks = (0..20).map(|nth| {
        let leases = leases.clone();
        async move {
            sleep(Duration::from_millis(50 * nth)).await;
            told(&leases, &format!("n{nth}"), Part::ZERO, 20_000).await
        }
    });
    let answers = futures_util::future::join_all(asks).await;
    assert!(answers.iter().all(Option::is_some));
    let writes = shared.lock().unwrap().writes;
    assert!((2..=10).contains(&writes), "{writes} writes for 20 new nodes in a second");
}

#[tokio::test(start_paused = true)]
async fn a_replica_that_was_late_says_nothing_and_then_knows_better() {
    let shared = Arc::<Mutex<Shared>>::default();
    let stores = [Store::new(&shared), Store::new(&shared)];
    let (one, _) = leases(Arc::clone(&stores[0]));
    let (two, metrics) = leases(Arc::clone(&stores[1]));
    assert!(told(&one, "n1", Part::ZERO, 1).await.is_some());
    assert_eq!(told(&two, "n2", Part::ZERO, 1).await, None);
    let conflicts = || count(&metrics, r#"bloc_lease_writes_total{result="conflict"}"#);
    assert_eq!((conflicts(), count(&metrics, r#"bloc_lease_asks_total{result="conflict"}"#)), (1, 1));
    assert!(told(&two, "n2", Part::ZERO, 1).await.is_some());
    assert_eq!(conflicts(), 1);
}

/// Agents ask two replicas at once and give parts back. Each replica sees the other's writes late.
#[tokio::test(start_paused = true)]
async fn two_replicas_never_let_agents_hold_more_than_the_limit() {
    fastrand::seed(7);
    let shared = Arc::<Mutex<Shared>>::default();
    let stores = [Store::new(&shared), Store::new(&shared)];
    let replicas = stores.each_ref().map(|store| leases(Arc::clone(store)).0);
    let mut agents: Vec<Holder> = (0..5).map(|_| Holder::new(1, BTreeMap::new())).collect();
    let (mut moves, mut before) = (0, Part::ZERO);
    for round in 0..300 {
        let mut asking = Vec::new();
        for (nth, agent) in agents.iter_mut().enumerate() {
            let lease = agent.lease(APP);
            agent.lower(APP, lease.goal);
            let wants = if (round / 20 + nth) % 3 == 0 { 600_000 } else { 50_000 };
            let ask = agent.ask(APP, Part::millionths(wants), Part::millionths(10_000), None);
            for replica in &replicas {
                let asks = Asks { node: format!("n{nth}"), life: agent.life(), apps: vec![ask.clone()] };
                asking.push(async move { (nth, replica.ask(asks).await.unwrap().apps.pop()) });
            }
        }
        for (nth, told) in futures_util::future::join_all(asking).await {
            // Some answers are lost.
            if let Some(told) = told.filter(|_| fastrand::u8(..10) > 0) {
                agents[nth].receive(&told);
            }
        }
        let held: Part = agents.iter().map(|agent| agent.lease(APP).part).sum();
        assert!(held <= Part::WHOLE, "{round}: {held:?}");
        moves += usize::from(agents[0].lease(APP).part != before);
        before = agents[0].lease(APP).part;
        sleep(Duration::from_millis(fastrand::u64(..1_000))).await;
        stores[fastrand::usize(..2)].look();
    }
    assert!(moves > 10, "parts move: {moves}");
}

#[tokio::test(start_paused = true)]
async fn a_silent_node_that_no_longer_exists_is_freed_also_by_a_replica_that_has_just_started() {
    let shared = Arc::<Mutex<Shared>>::default();
    let (first, _) = leases(Store::new(&shared));
    let held = until_given(&first, "n1", 500_000).await;
    drop(first);
    let store = Store::new(&shared);
    store.look();
    let (second, _) = leases(Arc::clone(&store));
    let record = || Arc::clone(&shared.lock().unwrap().records[APP].1);
    shared.lock().unwrap().nodes.insert("n1".into());
    sleep(Duration::from_secs(300)).await;
    assert_eq!(record().part("n1"), held, "it exists: it keeps its part");
    let questions = shared.lock().unwrap().questions;
    assert!((3..=5).contains(&questions), "{questions}");
    shared.lock().unwrap().nodes.clear();
    shared.lock().unwrap().failure = Some("away".into());
    sleep(Duration::from_secs(300)).await;
    assert_eq!(record().part("n1"), held, "nobody knows");
    shared.lock().unwrap().failure = None;
    assert!(told(&second, "n1", held, 500_000).await.is_some());
    for _ in 0..300 {
        sleep(Duration::from_secs(1)).await;
        assert!(told(&second, "n1", held, 500_000).await.is_some());
    }
    assert_eq!(record().part("n1"), held, "it asks");
    sleep(Duration::from_secs(59)).await;
    assert_eq!(record().part("n1"), held);
    sleep(Duration::from_secs(10)).await;
    assert!(record().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_new_record_gives_nothing_before_all_had_time_to_say_what_they_hold() {
    let shared = Arc::<Mutex<Shared>>::default();
    let (leases, _) = leases(Store::new(&shared));
    let start = leases.now();
    let one = told(&leases, "n1", Part::millionths(700_000), 0).await.unwrap();
    assert_eq!(one.part.get(), 700_000);
    let two = until_given(&leases, "n2", 900_000).await;
    assert_eq!(two.get(), 300_000);
    assert!(leases.now() - start >= NEW.max(HEARS));
}

#[tokio::test(start_paused = true)]
async fn a_bad_record_is_left_and_other_applications_are_served() {
    let shared = Arc::<Mutex<Shared>>::default();
    let store = Store { shared, seen: Mutex::default(), is_ready: true, bad: Some(APP) };
    let (leases, metrics) = leases(Arc::new(store));
    let apps = vec![ask(APP, 1, Part::WHOLE, 5), ask("shop/pay", 1, Part::ZERO, 5)];
    let tolds = leases.ask(Asks { node: "n1".into(), life: 1, apps }).await.unwrap().apps;
    assert_eq!(tolds.iter().map(|told| &*told.name).collect::<Vec<_>>(), ["shop/pay"]);
    assert_eq!(count(&metrics, r#"bloc_lease_asks_total{result="unread"}"#), 1);
    assert_eq!(leases.view().unread, 1);
}

#[tokio::test(start_paused = true)]
async fn says_nothing_before_the_records_were_read() {
    let store = Store { shared: Arc::default(), seen: Mutex::default(), is_ready: false, bad: None };
    let (leases, _) = leases(Arc::new(store));
    assert_eq!(leases.ask(Asks { node: "n".into(), life: 1, apps: vec![] }).await, Err(Away));
}

#[tokio::test(start_paused = true)]
async fn operators_see_what_is_held_and_silent() {
    let shared = Arc::<Mutex<Shared>>::default();
    let (leases, _) = leases(Store::new(&shared));
    told(&leases, "n1", Part::millionths(250_000), 1).await.unwrap();
    sleep(Duration::from_secs(6)).await;
    told(&leases, "n2", Part::millionths(500_000), 1).await.unwrap();
    let view = |leases: &Leases| leases.view().apps[APP];
    let lease = |silent, silent_nodes| AppLease { held: 0.75, silent, silent_nodes };
    assert_eq!(view(&leases), lease(0.0, 0));
    sleep(Duration::from_secs(6)).await;
    assert_eq!(view(&leases), lease(0.25, 1));
}
