//! Services from the Kubernetes API.
//!
//! What reads or writes objects of the Kubernetes API belongs here. The store decides which proxy
//! gets what.
//!
//! | object | what is read from it | module |
//! |---|---|---|
//! | EndpointSlice, Service | the endpoints, by port of the Service | `endpoints` |
//! | VirtualService, if the cluster has them | how often its routes retry | `routes` |
//! | ConfigMap labelled `bloc.dev/policy: "true"` | which services are managed, and their parameters | `policy`; `copies` of the good ones |
//!
//! Four [watches](watch) feed one [picture of the cluster](cluster). An event is published after
//! [`SETTLE`] and the time to compute the services that it concerns. Nothing is published before
//! all lists are complete. After that, the known state stays in force while the API cannot be
//! reached.

mod cluster;
mod copies;
mod endpoints;
mod events;
mod feed;
mod key;
mod policy;
mod routes;
#[cfg(test)]
mod tests;
pub(crate) mod watch;

pub use policy::{ALL, KEY, LABEL, PolicySpec, Scope, crowded};

use super::Publisher;
use crate::metrics::Metrics;
use endpoints::Slice;
use feed::{Feed, POLICIES, ROUTES, SERVICES, SLICES, Verdict};
use k8s_openapi::api::core::v1::{ConfigMap, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::{Api, Client, Config, Resource};
use routes::{Rules, VirtualService};
use serde::de::DeserializeOwned;
use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};
use watch::{Object, Reading, Watch};

/// How long events are gathered: they come in bursts (a rollout, a restart of the API server), and
/// a change may take a second.
const SETTLE: Duration = Duration::from_millis(20);
/// Readings that may wait to be processed; when there are as many, the watches wait.
const BACKLOG: usize = 1_024;

/// A connection to the API server that is silent for this long is given up: longer than after which
/// a silent watch lists again.
const SILENCE: Duration = Duration::from_secs(150);

/// A client for a source.
///
/// # Errors
/// If no client can be made from `config`.
pub fn client(mut config: Config) -> Result<Client, kube::Error> {
    config.read_timeout = Some(SILENCE);
    // The watches have their own pauses, and failures must be visible.
    config.default_retry = false;
    Client::try_from(config)
}

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

    /// Publishes every change from now on; ends only when its future is dropped.
    pub async fn run(self, publisher: Publisher) {
        let (sender, mut readings) = mpsc::channel(BACKLOG);
        let mut tasks = JoinSet::new();
        let watching = Watching { client: &self.client, sender, metrics: publisher.metrics() };
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
                    sleep(SETTLE).await;
                    while let Ok(reading) = readings.try_recv() {
                        batch.push(reading);
                    }
                    self.take(&mut feed, &mut batch, &publisher, &mut tasks);
                }
                Some(_) = tasks.join_next() => {}
            }
        }
    }

    fn take(&self, feed: &mut Feed, batch: &mut Vec<(usize, Reading)>, publisher: &Publisher, tasks: &mut JoinSet<()>) {
        let now = Instant::now();
        for (place, reading) in batch.drain(..) {
            for verdict in feed.read(place, reading, now) {
                match verdict {
                    Verdict::Refused { object, reason } => {
                        let (namespace, name) = (object.namespace.as_deref(), object.name.as_deref());
                        let origin = origin(namespace.unwrap_or_default(), name.unwrap_or_default());
                        publisher.refuse(&origin, &format!("{origin}: {reason}"));
                        tasks.spawn(events::report(self.client.clone(), *object, reason));
                    }
                    Verdict::Resolved((namespace, name)) => publisher.resolve(&origin(&namespace, &name)),
                }
            }
        }
        for due in feed.due() {
            tasks.spawn(due.settle(self.client.clone(), self.namespace.clone()));
        }
        match feed.snapshot() {
            Some(snapshot) => publisher.accept(snapshot, feed.reach()),
            None if feed.is_synced() => publisher.store().advance(feed.reach()),
            None => {}
        }
    }
}

fn origin(namespace: &str, name: &str) -> String {
    format!("ConfigMap {namespace}/{name}")
}

/// What the watches share.
struct Watching<'a> {
    client: &'a Client,
    sender: mpsc::Sender<(usize, Reading)>,
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
