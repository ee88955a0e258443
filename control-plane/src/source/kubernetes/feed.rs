//! Merges what the watches read into the state of the cluster, and publishes it.

use super::cluster::{Cluster, Policy};
use super::copies::{Content, Copies, Due, is_copy};
use super::endpoints::{self, Slice};
use super::events;
use super::policy::{KEY, PolicySpec, crowded};
use super::routes::{Rules, VirtualService};
use super::watch::{Key, Reading, Watch};
use crate::metrics::Metrics;
use crate::snapshot::Snapshot;
use crate::store::{Kind, Reach, Store};
use k8s_openapi::api::core::v1::{ConfigMap, ObjectReference, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::{Api, Client, Resource, ResourceExt};
use serde::de::DeserializeOwned;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

/// How long events are gathered: they come in bursts (a rollout, a restart of the API server), and
/// a change may take a second.
const SETTLE: Duration = Duration::from_millis(20);
/// The most such intervals for one batch, so that changes wait at most 100 ms.
const MOST_SETTLES: usize = 5;
/// The most readings waiting to be processed; beyond that, the watches wait.
const BACKLOG: usize = 1_024;

/// The services of a cluster.
pub struct KubernetesSource {
    client: Client,
    namespace: String,
    domain: String,
}

impl KubernetesSource {
    /// Reads through `client`. The ConfigMap in `namespace` applies to the whole cluster; hosts end
    /// with `.svc.{domain}`.
    pub fn new(client: Client, namespace: impl Into<String>, domain: impl Into<String>) -> Self {
        Self { client, namespace: namespace.into(), domain: domain.into() }
    }

    /// Publishes every change until its future is dropped.
    pub async fn run(self, store: Store, metrics: Arc<Metrics>) {
        let (sender, mut readings) = mpsc::channel(BACKLOG);
        let mut tasks = JoinSet::new();
        let watching = Watching { client: &self.client, sender, metrics };
        watching.start(&mut tasks, SLICES, "endpointslices", None, |slice: EndpointSlice| {
            Slice::new(slice).map(Object::Slice)
        });
        watching
            .start(&mut tasks, SERVICES, "services", None, |service: Service| Some(Object::Service(service.into())));
        watching.start(
            &mut tasks,
            POLICIES,
            "configmaps",
            Some("bloc.dev/policy in (true,last-good)"),
            |map: ConfigMap| Some(Object::Policy(Box::new(map))),
        );
        watching.start(&mut tasks, ROUTES, "virtualservices", None, |service: VirtualService| {
            Rules::new(&service).map(Object::Route)
        });
        drop(watching);

        let mut feed = Feed::new(&self.namespace, &self.domain);
        let mut batch = Vec::new();
        loop {
            tokio::select! {
                count = readings.recv_many(&mut batch, BACKLOG) => {
                    if count == 0 {
                        return;
                    }
                    gather(&mut readings, &mut batch).await;
                    self.take(&mut feed, &mut batch, &store, &mut tasks);
                }
                Some(_) = tasks.join_next() => {}
            }
        }
    }

    fn take(&self, feed: &mut Feed, batch: &mut Vec<(usize, Reading<Object>)>, store: &Store, tasks: &mut JoinSet<()>) {
        let now = Instant::now();
        for (place, reading) in batch.drain(..) {
            for verdict in feed.read(place, reading, now) {
                match verdict {
                    Verdict::Refused { object, reason } => {
                        let (namespace, name) = (object.namespace.as_deref(), object.name.as_deref());
                        let origin = origin(namespace.unwrap_or_default(), name.unwrap_or_default());
                        store.refuse(&origin, &format!("{origin}: {reason}"));
                        tasks.spawn(events::report(self.client.clone(), *object, reason));
                    }
                    Verdict::Resolved((namespace, name)) => store.resolve(&origin(&namespace, &name)),
                }
            }
        }
        for due in feed.due() {
            tasks.spawn(due.settle(self.client.clone(), self.namespace.clone()));
        }
        match feed.snapshot() {
            Some(snapshot) => _ = store.publish(snapshot, feed.reach()),
            None if feed.is_synced() => store.advance(feed.reach()),
            None => {}
        }
    }
}

/// Waits for what belongs to the first readings of a batch: for [`SETTLE`], and for as long again
/// after a slice was deleted, as it may be made again.
pub(super) async fn gather(
    readings: &mut mpsc::Receiver<(usize, Reading<Object>)>,
    batch: &mut Vec<(usize, Reading<Object>)>,
) {
    for _ in 0..MOST_SETTLES {
        let begin = batch.len();
        sleep(SETTLE).await;
        while let Ok(reading) = readings.try_recv() {
            batch.push(reading);
        }
        let is_gone = |(place, reading): &(usize, _)| *place == SLICES && matches!(reading, Reading::Deleted { .. });
        if !batch.iter().skip(begin).any(is_gone) {
            return;
        }
    }
}

fn origin(namespace: &str, name: &str) -> String {
    format!("ConfigMap {namespace}/{name}")
}

/// What the watches share.
struct Watching<'a> {
    client: &'a Client,
    sender: mpsc::Sender<(usize, Reading<Object>)>,
    metrics: Arc<Metrics>,
}

impl Watching<'_> {
    fn start<K>(
        &self,
        tasks: &mut JoinSet<()>,
        place: usize,
        name: &'static str,
        selector: Option<&'static str>,
        reduce: fn(K) -> Option<Object>,
    ) where
        K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug + Send + Sync + 'static,
    {
        let watch = Watch {
            api: Api::<K>::all(self.client.clone()),
            name,
            optional: place == ROUTES,
            selector,
            place,
            reduce,
            readings: self.sender.clone(),
            metrics: Arc::clone(&self.metrics),
        };
        tasks.spawn(watch.run());
    }
}

/// An object, reduced to the parts that matter.
#[derive(Debug)]
pub enum Object {
    Slice(Slice),
    Service(endpoints::Service),
    Route(Rules),
    /// A ConfigMap with parameters.
    Policy(Box<ConfigMap>),
}

/// The index of each watch.
pub const SLICES: usize = 0;
pub const SERVICES: usize = 1;
pub const POLICIES: usize = 2;
pub const ROUTES: usize = 3;
pub const PLACES: usize = 4;
/// The names of these kinds in versions: EndpointSlice, Service, ConfigMap, VirtualService. A new
/// kind needs a new name.
const NAMES: [char; PLACES] = ['e', 's', 'c', 'v'];

/// The result for a ConfigMap.
#[derive(Debug)]
pub enum Verdict {
    Refused {
        /// The ConfigMap, with its resource version.
        object: Box<ObjectReference>,
        /// Path, value and allowed range.
        reason: String,
    },
    /// It was refused, and is now good or gone.
    Resolved(Key),
}

/// Everything that was read.
#[derive(Debug)]
pub struct Feed {
    cluster: Cluster,
    kinds: [Kind; PLACES],
    /// Whether each watch has listed.
    listed: [bool; PLACES],
    /// Whether anything that may change the snapshot was read since the last one.
    moved: bool,
    maps: BTreeMap<Key, Map>,
    copies: Copies,
    namespace: String,
}

/// One of our ConfigMaps.
#[derive(Debug)]
struct Map {
    object: ObjectReference,
    problem: Option<String>,
    /// Its content, if good.
    content: Option<Content>,
    /// The last reported verdict on it.
    said: Option<(ObjectReference, String)>,
}

impl Feed {
    /// Nothing read yet; see [`Cluster::new`].
    pub fn new(namespace: &str, domain: &str) -> Self {
        Self {
            cluster: Cluster::new(namespace, domain),
            kinds: NAMES.map(Kind::new),
            listed: [false; PLACES],
            moved: false,
            maps: BTreeMap::new(),
            copies: Copies::default(),
            namespace: namespace.to_owned(),
        }
    }

    /// Whether every watch has listed once.
    pub fn is_synced(&self) -> bool {
        self.listed.iter().all(|listed| *listed)
    }

    /// How far each kind was read.
    pub fn reach(&self) -> Reach {
        Reach(self.kinds.to_vec())
    }

    /// All services, if anything that may change them was read since the last call.
    pub fn snapshot(&mut self) -> Option<Snapshot> {
        (self.is_synced() && std::mem::take(&mut self.moved)).then(|| self.cluster.snapshot())
    }

    /// Takes what the watch at `place` has read. Returns new verdicts on ConfigMaps.
    pub fn read(&mut self, place: usize, reading: Reading<Object>, now: Instant) -> Vec<Verdict> {
        let mut verdicts = Vec::new();
        let (Some(kind), Some(listed)) = (self.kinds.get_mut(place), self.listed.get_mut(place)) else {
            return verdicts;
        };
        self.moved |= match reading {
            Reading::Listed { mut objects, revision, newest } => {
                kind.listed(revision, newest, now);
                let mut news = !std::mem::replace(listed, true);
                // Copies first: a bad original may need its copy.
                objects.sort_by_key(|(_, object)| !matches!(object, Object::Policy(map) if is_copy(map)));
                let mut gone = match place {
                    SLICES => self.cluster.slices(),
                    SERVICES => self.cluster.services(),
                    ROUTES => self.cluster.routes(),
                    _ => {
                        let copies = self.copies.names().map(|name| (self.namespace.clone(), name.clone()));
                        copies.chain(self.maps.keys().cloned()).collect::<BTreeSet<_>>()
                    }
                };
                for (key, object) in objects {
                    gone.remove(&key);
                    news |= self.put(key, object);
                }
                news |= !gone.is_empty();
                for key in gone {
                    verdicts.extend(self.remove(place, &key));
                }
                news
            }
            Reading::Applied { key, object, revision } => {
                kind.changed(revision, now);
                self.put(key, object);
                true
            }
            Reading::Deleted { key, revision } => {
                kind.changed(revision, now);
                verdicts.extend(self.remove(place, &key));
                true
            }
            Reading::Passed { revision } => {
                kind.passed(revision, now);
                false
            }
            Reading::Unread => !std::mem::replace(listed, true),
        };
        if place == POLICIES {
            verdicts.extend(self.verdicts());
        }
        verdicts
    }

    /// Takes an object; returns whether it changed anything.
    fn put(&mut self, key: Key, object: Object) -> bool {
        match object {
            Object::Slice(slice) => self.cluster.put_slice(key, slice),
            Object::Service(service) => self.cluster.put_service(key, service),
            Object::Route(rules) => self.cluster.put_route(key, rules),
            Object::Policy(map) if !is_copy(&map) => self.put_map(key, &map),
            Object::Policy(map) if key.0 == self.namespace => {
                self.copies.put(&map);
                false
            }
            // A copy in another namespace does not count: anybody could label their own ConfigMap
            // as a copy.
            Object::Policy(_) => false,
        }
    }

    fn put_map(&mut self, key: Key, map: &ConfigMap) -> bool {
        let created = map.creation_timestamp().map_or(0, |time| time.0.as_second());
        let scope = self.cluster.scope(&key.0);
        // kube leaves the revision out. Each refused revision gets an Event of its own.
        let object = ObjectReference { resource_version: map.resource_version(), ..map.object_ref(&()) };
        let uid = object.uid.clone().unwrap_or_default();
        let (spec, problem) = match PolicySpec::read(map, scope) {
            Ok(spec) => (Some(Arc::new(spec)), None),
            Err(error) if self.cluster.has_spec(&key) => (None, Some(error.to_string())),
            Err(error) => (self.copies.of(&key, &uid, scope), Some(error.to_string())),
        };
        let text = map.data.as_ref().and_then(|data| data.get(KEY)).filter(|_| problem.is_none());
        let revision = object.resource_version.as_deref().and_then(|text| text.parse().ok()).unwrap_or(0);
        let content = text.map(|text| Content { uid, revision, text: text.clone() });
        let said = self.maps.remove(&key).and_then(|map| map.said);
        self.maps.insert(key.clone(), Map { object, problem, content, said });
        self.cluster.put_policy(key, Policy { created, spec })
    }

    fn remove(&mut self, place: usize, key: &Key) -> Option<Verdict> {
        match place {
            SLICES => self.cluster.remove_slice(key),
            SERVICES => self.cluster.remove_service(key),
            ROUTES => self.cluster.remove_route(key),
            _ => {
                if key.0 == self.namespace {
                    self.copies.remove(&key.1);
                }
                self.cluster.remove_policy(key);
                return self.maps.remove(key)?.said.map(|_| Verdict::Resolved(key.clone()));
            }
        }
        None
    }

    /// The changes that the copies of ConfigMaps need.
    pub fn due(&mut self) -> Vec<Due> {
        if !self.is_synced() {
            return Vec::new();
        }
        // A ConfigMap that does not count in its namespace gets no copy. Otherwise anybody who may
        // write ConfigMaps there could fill our namespace.
        let in_force = self.maps.iter().filter(|(key, _)| self.cluster.policy_in_force(&key.0) == Some(*key));
        self.copies.due(in_force.map(|(key, map)| (key, map.content.as_ref())))
    }

    /// The verdicts on ConfigMaps that are not reported yet.
    fn verdicts(&mut self) -> Vec<Verdict> {
        let mut verdicts = Vec::new();
        for (key, map) in &mut self.maps {
            let counts = self.cluster.policy_in_force(&key.0).filter(|other| *other != key);
            let crowded = counts.map(|(_, name)| crowded(&key.0, name).to_string());
            match map.problem.clone().or(crowded) {
                Some(reason) => {
                    let said = (map.object.clone(), reason.clone());
                    if map.said.as_ref() != Some(&said) {
                        map.said = Some(said);
                        verdicts.push(Verdict::Refused { object: Box::new(map.object.clone()), reason });
                    }
                }
                None if map.said.take().is_some() => verdicts.push(Verdict::Resolved(key.clone())),
                None => {}
            }
        }
        verdicts
    }
}
