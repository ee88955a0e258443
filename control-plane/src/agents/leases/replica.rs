//! All applications at this replica.

use super::app::{Answer, App, Said, Unsaid};
use super::budget::Budget;
use super::nodes::Nodes;
use super::room::{self, MOST_OF_NODE};
use super::store::{Known, LeaseStore, Unwritten};
use super::view::{AppLease, LeaseView};
use crate::metrics::Metrics;
use bloc_daemon::lock;
use bloc_daemon::shares::Shares;
use bloc_daemon::throttle::Throttle;
use bloc_leases::{Ask, Asks, Grantor, Record, Told, Tolds};
use std::cell::LazyCell;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;
use tokio::time::{Instant, sleep, sleep_until, timeout_at};

/// An application that nobody asks about for this long is forgotten. Its record stays.
const FORGET: Duration = Duration::from_secs(60);
/// The pause between two writes of an application; what comes meanwhile is one write. Above
/// [`SMALL`] bytes, it grows with the record, up to [`LONGEST`].
const GATHER: Duration = Duration::from_millis(100);
const SMALL: usize = 10_000;
const LONGEST: Duration = Duration::from_secs(1);
/// The most applications that are remembered and shown to operators.
const MOST_APPS: usize = 1_000;
/// How long a message waits for writes: agents wait 0.8 s. The next ask gets the result of later
/// writes.
const PATIENCE: Duration = Duration::from_millis(500);
/// How often to look for silent nodes.
const LOOK: Duration = Duration::from_secs(5);
/// How often to log a failed write, or that there is no room.
const LOG_EVERY: Duration = Duration::from_secs(10);

/// The records have not been read yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Away;

/// What this replica knows of leases, and where it keeps records; clones share it.
#[derive(Clone, Debug)]
pub struct Leases(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    store: Arc<dyn LeaseStore>,
    metrics: Arc<Metrics>,
    started: Instant,
    apps: Mutex<HashMap<Arc<str>, Arc<App>>>,
    /// Applications, by the node that asked first.
    places: Shares,
    nodes: Mutex<Nodes>,
    budget: tokio::sync::Mutex<Budget>,
    logged: Throttle,
}

/// A task that writes. If it panics, another one may start.
struct Writer {
    app: Arc<App>,
    has_ended: bool,
}

impl Drop for Writer {
    fn drop(&mut self) {
        if !self.has_ended {
            self.app.stop();
        }
    }
}

impl Leases {
    /// Keeps records in `store`. Must be called inside a tokio runtime: a task looks for nodes that
    /// no longer exist, until all clones are dropped.
    pub fn new(store: Arc<dyn LeaseStore>, metrics: Arc<Metrics>) -> Self {
        let inner = Inner {
            store,
            metrics,
            started: Instant::now(),
            apps: Mutex::default(),
            places: Shares::capped(MOST_OF_NODE, MOST_APPS),
            nodes: Mutex::default(),
            budget: Budget::new(Instant::now()).into(),
            logged: Throttle::once(LOG_EVERY),
        };
        let leases = Self(Arc::new(inner));
        tokio::spawn(Self::keep_looking(Arc::downgrade(&leases.0)));
        leases
    }

    /// Answers an agent. Leaves out applications whose record could not be written.
    ///
    /// # Errors If the records have not been read yet.
    pub async fn ask(&self, asks: Asks) -> Result<Tolds, Away> {
        if !self.0.store.is_ready() {
            return Err(Away);
        }
        let Asks { node, life, apps } = asks;
        let now = self.now();
        self.nodes(|nodes| nodes.heard(&node, now));
        let deadline = Instant::now() + PATIENCE;
        let may_begin = LazyCell::new(|| room::may_begin(self.store(), &node));
        let receive = |ask: Ask| (ask.name.clone(), self.receive(&node, life, ask, || *may_begin, now));
        let said: Vec<(String, Said)> = apps.into_iter().map(receive).collect();
        let mut tolds = Tolds::default();
        for (app, said) in said {
            let answer = match said {
                Said::Now(answer) => answer,
                Said::Later(receiver, _) => match timeout_at(deadline, receiver).await {
                    Ok(Ok(answer)) => answer,
                    // A later ask of this node has replaced it.
                    Ok(Err(_)) => Err(Unsaid::Late),
                    Err(_) => Err(Unsaid::Failed),
                },
            };
            if answer == Err(Unsaid::NoRoom) && self.is_logged("no room") {
                tracing::warn!(
                    node,
                    app,
                    "out of room for leases: this node gets no part of the application's CPU limit"
                );
            }
            tolds.apps.extend(self.count(answer));
        }
        Ok(tolds)
    }

    fn is_logged(&self, what: &str) -> bool {
        self.0.logged.due(what, Instant::now()).is_some()
    }

    fn receive(&self, node: &str, life: u64, ask: Ask, may_begin: impl Fn() -> bool, now: Duration) -> Said {
        let Ok(known) = self.0.store.read(&ask.name) else { return Said::Now(Err(Unsaid::Unread)) };
        if known.record.entry(node).is_none() {
            if ask.is_nothing() && !lock(&self.0.apps).contains_key(&*ask.name) {
                // Remembering it would change the record, and cause a write.
                let told = Grantor::default().receive(&mut (*known.record).clone(), node, life, &ask, now);
                return Said::Now(told.ok_or(Unsaid::NoRoom));
            }
            if !ask.is_nothing() && !may_begin() {
                return Said::Now(Err(Unsaid::NoRoom));
            }
        }
        let Some((name, app)) = self.app(&ask.name, node, now) else { return Said::Now(Err(Unsaid::NoRoom)) };
        let said = app.receive(&known, node, life, ask, now);
        if matches!(said, Said::Later(_, true)) {
            tokio::spawn(self.clone().write(name, app));
        }
        said
    }

    fn count(&self, answer: Answer) -> Option<Told> {
        self.0.metrics.count_lease_ask(match answer {
            Ok(_) => "said",
            Err(Unsaid::Late) => "late",
            Err(Unsaid::Conflict) => "conflict",
            Err(Unsaid::Failed) => "failed",
            Err(Unsaid::Unread) => "unread",
            Err(Unsaid::NoRoom) => "no_room",
        });
        answer.ok()
    }

    /// Writes an application's batches until none are left.
    async fn write(self, name: Arc<str>, app: Arc<App>) {
        let mut writer = Writer { app, has_ended: false };
        loop {
            // The lock is fair. Asks that come during the wait go into the same write. Other
            // applications write during this one's pause.
            let pause = {
                let mut budget = self.0.budget.lock().await;
                sleep_until(budget.ready()).await;
                let Some(batch) = writer.app.take() else { break };
                match self.0.store.read(&name) {
                    Err(_) => {
                        batch.fail(Unsaid::Unread);
                        GATHER
                    }
                    Ok(known) => {
                        let now = self.now();
                        let is_silent = |node: &str| self.nodes(|nodes| nodes.is_gone(node, now));
                        let may_begin = |node: &str| room::may_begin(self.store(), node);
                        let heard = writer.app.apply(batch, &known, is_silent, may_begin, now);
                        let mut pause = GATHER;
                        let written = if heard.record == *known.record {
                            Ok(())
                        } else if room::has_room(self.store(), &heard.record, &known) {
                            budget.take(heard.record.bytes(), Instant::now());
                            drop(budget);
                            pause = gather(heard.record.bytes());
                            self.put(&name, &heard.record, known).await
                        } else {
                            Err(Unsaid::NoRoom)
                        };
                        heard.say(written);
                        pause
                    }
                }
            };
            sleep(pause).await;
        }
        writer.has_ended = true;
    }

    async fn put(&self, name: &Arc<str>, record: &Record, known: Known) -> Result<(), Unsaid> {
        let is_new = known.version.is_none();
        match self.0.store.write(Arc::clone(name), record.clone(), known.version).await {
            Ok(()) => {
                self.0.metrics.count_lease_write("written");
                if is_new {
                    tracing::info!(app = %name, "created the lease record of an application");
                }
                Ok(())
            }
            Err(Unwritten::Conflict) => {
                self.0.metrics.count_lease_write("conflict");
                Err(Unsaid::Conflict)
            }
            Err(Unwritten::Failed(reason)) => {
                self.0.metrics.count_lease_write("failed");
                if self.is_logged("not written") {
                    tracing::warn!(app = %name, reason, "cannot write the lease record of an application; nodes keep their parts");
                }
                Err(Unsaid::Failed)
            }
        }
    }

    /// An application; none: no room for another one of this node.
    fn app(&self, name: &str, node: &str, now: Duration) -> Option<(Arc<str>, Arc<App>)> {
        let mut apps = lock(&self.0.apps);
        if let Some((name, app)) = apps.get_key_value(name) {
            return Some((Arc::clone(name), Arc::clone(app)));
        }
        let place = self.0.places.take(node, 1).ok()?;
        let (name, app): (Arc<str>, _) = (name.into(), Arc::new(App::new(place, now)));
        apps.insert(Arc::clone(&name), Arc::clone(&app));
        Some((name, app))
    }

    async fn keep_looking(leases: Weak<Inner>) {
        loop {
            sleep(LOOK).await;
            let Some(leases) = leases.upgrade().map(Self) else { return };
            leases.forget();
            if leases.0.store.is_ready() {
                leases.free_nodes().await;
            }
        }
    }

    fn forget(&self) {
        let now = self.now();
        let mut apps = lock(&self.0.apps);
        // Somebody about to ask or write holds a clone.
        apps.retain(|_, app| {
            Arc::strong_count(app) > 1 || app.idle_since().is_none_or(|asked| now.saturating_sub(asked) < FORGET)
        });
    }

    /// Frees long-silent nodes that no longer exist.
    async fn free_nodes(&self) {
        let (records, now) = (self.0.store.records(), self.now());
        let names = records.iter().flat_map(|(_, record)| record.nodes().map(|(node, _)| node.as_str()));
        for node in self.nodes(|nodes| nodes.due(names, now)) {
            match self.0.store.has_node(node.clone()).await {
                Ok(true) => {}
                Ok(false) => self.free(&node, &records),
                Err(error) => {
                    tracing::warn!(node, %error, "cannot tell whether a silent node still exists; it keeps its parts")
                }
            }
            sleep(GATHER).await;
        }
    }

    fn free(&self, node: &str, records: &[(Arc<str>, Arc<Record>)]) {
        let now = self.now();
        if !self.nodes(|nodes| nodes.is_missing(node, now)) {
            return;
        }
        let held: Vec<_> = records.iter().filter(|(_, record)| record.entry(node).is_some()).collect();
        tracing::info!(node, apps = held.len(), "freed the parts of a node that no longer exists");
        for (name, _) in held {
            let Some((name, app)) = self.app(name, node, now) else { continue };
            if app.free(node.to_owned()) {
                tokio::spawn(self.clone().write(name, app));
            }
        }
    }

    /// The records now.
    pub fn view(&self) -> LeaseView {
        let now = self.now();
        let mut records = self.0.store.records();
        // Records with a holder come first.
        records.sort_by_key(|(_, record)| record.is_empty());
        let apps = self.nodes(|nodes| {
            let view = |(name, record): &(Arc<str>, Arc<Record>)| (Arc::clone(name), AppLease::of(record, nodes, now));
            records.iter().take(MOST_APPS).map(view).collect()
        });
        LeaseView { apps, unread: self.0.store.unread() }
    }

    pub(super) fn nodes<T>(&self, with: impl FnOnce(&mut Nodes) -> T) -> T {
        with(&mut lock(&self.0.nodes))
    }

    fn store(&self) -> &dyn LeaseStore {
        &*self.0.store
    }

    /// The time since the start of this replica.
    pub(super) fn now(&self) -> Duration {
        self.0.started.elapsed()
    }
}

/// The pause after writing a record of this many bytes.
pub(super) fn gather(bytes: usize) -> Duration {
    GATHER.mul_f64((bytes as f64 / SMALL as f64).max(1.0)).min(LONGEST)
}
