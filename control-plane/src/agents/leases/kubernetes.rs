//! Records in Kubernetes objects: one Lease (`coordination.k8s.io/v1`) per application in the
//! control plane's own namespace, `cpu.NAMESPACE.NAME`. The annotation [`ANNOTATION`] is the record
//! as JSON.
//!
//! A [watch](crate::source::kubernetes) keeps all of them here, so that only a change reaches the
//! API server. A write names the version that it replaces, and fails if the version has changed.
//! The object is then read at once, because the watch may be late.
//!
//! An unusable record is left alone until an operator repairs or deletes it. Meanwhile its
//! application gets nothing, and its nodes keep what they hold.

use super::store::{self, Known, LeaseStore, Unread, Unwritten, Writing};
use crate::metrics::Metrics;
use crate::source::kubernetes::watch::{Reading, Watch, number};
use bloc_daemon::lock;
use bloc_daemon::ranges::is_app;
use bloc_leases::Record;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::api::core::v1::Node;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::PostParams;
use kube::{Api, Client, Error};
use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::timeout;

/// The annotation with the record.
const ANNOTATION: &str = "bloc.dev/parts";
/// The label of all objects, and its value.
const LABEL: (&str, &str) = ("bloc.dev/lease", "cpu");
const SELECTOR: &str = "bloc.dev/lease=cpu";
const PREFIX: &str = "cpu.";
const TIMEOUT: Duration = Duration::from_secs(4);
/// Readings of the watch that may wait.
const BACKLOG: usize = 64;

/// Records in objects of Kubernetes; clones share what is known.
#[derive(Clone, Debug)]
pub struct KubernetesLeases {
    api: Api<Lease>,
    nodes: Api<Node>,
    known: Arc<Mutex<Cache>>,
}

#[derive(Debug, Default)]
struct Cache {
    is_listed: bool,
    apps: HashMap<Arc<str>, Object>,
}

/// An object, reduced to the parts that matter.
#[derive(Debug)]
struct Object {
    app: Arc<str>,
    version: String,
    record: Result<Arc<Record>, String>,
}

impl KubernetesLeases {
    /// In `namespace`. Must be called inside a tokio runtime: it starts the watch.
    pub fn new(client: Client, namespace: &str, metrics: Arc<Metrics>) -> Self {
        let api = Api::<Lease>::namespaced(client.clone(), namespace);
        let (readings, received) = mpsc::channel(BACKLOG);
        let watch = Watch {
            api: api.clone(),
            name: "leases",
            selector: Some(SELECTOR),
            place: 0,
            optional: false,
            reduce: Object::of,
            readings,
            metrics,
        };
        tokio::spawn(watch.run());
        let known = Arc::default();
        tokio::spawn(follow(Arc::clone(&known), received));
        Self { api, nodes: Api::all(client), known }
    }

    fn cache(&self) -> MutexGuard<'_, Cache> {
        lock(&self.known)
    }

    async fn put(&self, app: Arc<str>, record: Record, version: Option<String>) -> Result<(), Unwritten> {
        let object = object(&app, &record, version).map_err(|error| Unwritten::Failed(error.to_string()))?;
        let (name, params) = (name(&app), PostParams::default());
        let is_new = object.metadata.resource_version.is_none();
        let write = async {
            if is_new {
                self.api.create(&params, &object).await
            } else {
                self.api.replace(&name, &params, &object).await
            }
        };
        match timeout(TIMEOUT, write).await {
            Ok(Ok(object)) => {
                self.cache().extend(Object::of(object));
                Ok(())
            }
            // Another replica has written or created it, or somebody has deleted it.
            Ok(Err(Error::Api(status))) if status.code == 409 || status.code == 404 && !is_new => {
                self.refresh(&app, &name).await;
                Err(Unwritten::Conflict)
            }
            Ok(Err(error)) => Err(Unwritten::Failed(error.to_string())),
            Err(_) => Err(Unwritten::Failed(format!("no answer within {} s", TIMEOUT.as_secs()))),
        }
    }

    /// Reads one object. If that fails, the watch will deliver it.
    async fn refresh(&self, app: &Arc<str>, name: &str) {
        match timeout(TIMEOUT, self.api.get_opt(name)).await {
            Ok(Ok(Some(object))) => self.cache().extend(Object::of(object)),
            Ok(Ok(None)) => _ = self.cache().apps.remove(app),
            Ok(Err(_)) | Err(_) => {}
        }
    }
}

impl LeaseStore for KubernetesLeases {
    fn is_ready(&self) -> bool {
        self.cache().is_listed
    }

    fn read(&self, app: &str) -> Result<Known, Unread> {
        let cache = self.cache();
        let Some(object) = cache.apps.get(app) else { return Ok(Known::default()) };
        let record = object.record.as_ref().map_err(|_| Unread)?;
        Ok(Known { record: Arc::clone(record), version: Some(object.version.clone()) })
    }

    fn write(&self, app: Arc<str>, record: Record, version: Option<String>) -> Writing<'_> {
        self.put(app, record, version).boxed()
    }

    fn records(&self) -> Vec<(Arc<str>, Arc<Record>)> {
        let cache = self.cache();
        let good = cache.apps.iter().filter_map(|(app, object)| Some((app, object.record.as_ref().ok()?)));
        good.map(|(app, record)| (Arc::clone(app), Arc::clone(record))).collect()
    }

    fn unread(&self) -> usize {
        self.cache().apps.values().filter(|object| object.record.is_err()).count()
    }

    fn has_node(&self, node: String) -> BoxFuture<'_, Result<bool, String>> {
        let get = async move {
            match timeout(TIMEOUT, self.nodes.get_metadata_opt(&node)).await {
                Ok(Ok(found)) => Ok(found.is_some()),
                Ok(Err(error)) => Err(error.to_string()),
                Err(_) => Err(format!("no answer within {} s", TIMEOUT.as_secs())),
            }
        };
        get.boxed()
    }
}

impl Object {
    /// `None`: not a record.
    fn of(lease: Lease) -> Option<Self> {
        let name = lease.metadata.name.unwrap_or_default();
        let Some(app) = app(&name).filter(|app| is_app(app)) else {
            tracing::warn!(
                name,
                allowed = "cpu.NAMESPACE.NAME",
                "ignored a Lease labelled {SELECTOR}: its name does not match a lease record"
            );
            return None;
        };
        let path = format!("metadata.annotations[{ANNOTATION:?}]");
        let record = match lease.metadata.annotations.unwrap_or_default().get(ANNOTATION) {
            Some(text) => store::parse(&path, text).map(Arc::new),
            None => Err(format!("{path}: missing; allowed: a record")),
        };
        Some(Self { app: app.into(), version: lease.metadata.resource_version.unwrap_or_default(), record })
    }
}

impl Cache {
    /// Takes an object unless a newer one is known.
    fn extend(&mut self, object: Option<Object>) {
        let Some(object) = object else { return };
        let known = self.apps.get(&object.app);
        // The answer to a write and the watch may come in any order.
        if known.is_some_and(|known| number(Some(&known.version)) > number(Some(&object.version))) {
            return;
        }
        let is_known = known.is_some_and(|known| known.version == object.version);
        if let Err(reason) = object.record.as_ref().map_err(|reason| (!is_known).then_some(reason))
            && let Some(reason) = reason
        {
            tracing::error!(
                lease = name(&object.app),
                reason,
                "refused a lease record; repair or delete it: until then, nodes keep their parts and get no more"
            );
        }
        self.apps.insert(Arc::clone(&object.app), object);
    }
}

/// Updates the cache until the watch ends.
async fn follow(known: Arc<Mutex<Cache>>, mut readings: mpsc::Receiver<(usize, Reading<Object>)>) {
    while let Some((_, reading)) = readings.recv().await {
        let mut cache = lock(&known);
        match reading {
            Reading::Listed { objects, .. } => {
                let mut before = std::mem::take(&mut cache.apps);
                cache.is_listed = true;
                for (_, object) in objects {
                    // Keeps a known bad record from being logged again.
                    if let Some(old) = before.remove(&object.app).filter(|old| old.version == object.version) {
                        cache.apps.insert(Arc::clone(&old.app), old);
                    }
                    cache.extend(Some(object));
                }
            }
            Reading::Applied { object, .. } => cache.extend(Some(object)),
            Reading::Deleted { key: (_, name), revision } => {
                let is_older = |known: &Object| number(Some(&known.version)) <= revision;
                if let Some(app) = app(&name).filter(|app| cache.apps.get(&**app).is_some_and(is_older)) {
                    cache.apps.remove(&*app);
                    tracing::warn!(
                        app,
                        "the lease record of an application was deleted; it is rebuilt from what the nodes report"
                    );
                }
            }
            Reading::Passed { .. } | Reading::Unread => {}
        }
    }
}

/// The application of an object of this name.
fn app(name: &str) -> Option<String> {
    let (namespace, name) = name.strip_prefix(PREFIX)?.split_once('.')?;
    Some(format!("{namespace}/{name}"))
}

/// The name of an application's object. A namespace has no dots, so no two have the same.
fn name(app: &str) -> String {
    format!("{PREFIX}{}", app.replacen('/', ".", 1))
}

fn object(app: &str, record: &Record, version: Option<String>) -> Result<Lease, serde_json::Error> {
    let annotation = (ANNOTATION.to_owned(), serde_json::to_string(record)?);
    Ok(Lease {
        metadata: ObjectMeta {
            name: Some(name(app)),
            labels: Some(BTreeMap::from([(LABEL.0.to_owned(), LABEL.1.to_owned())])),
            annotations: Some(BTreeMap::from([annotation])),
            resource_version: version,
            ..ObjectMeta::default()
        },
        spec: Some(LeaseSpec::default()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lease(name: &str, text: Option<&str>, version: &str) -> Lease {
        let annotations = text.map(|text| BTreeMap::from([(ANNOTATION.to_owned(), text.to_owned())]));
        let metadata = ObjectMeta {
            name: Some(name.into()),
            annotations,
            resource_version: Some(version.into()),
            ..ObjectMeta::default()
        };
        Lease { metadata, spec: None }
    }

    #[test]
    fn an_object_is_the_record_that_was_written() {
        let record = store::parse("", r#"{"nodes":{"n1":{"life":1,"number":2,"part":300000}}}"#).unwrap();
        for app in ["shop/checkout", "a/b.c.d"] {
            let written = object(app, &record, Some("7".into())).unwrap();
            let read = Object::of(written).unwrap();
            assert_eq!((&*read.app, &*read.version, &*read.record.unwrap()), (app, "7", &record));
        }
        for name in ["cpu.shop", "mem.shop.checkout", "cpu.shop.", "cpu..a", "cpu.a.B"] {
            assert!(Object::of(lease(name, Some("{}"), "1")).is_none(), "{name}");
        }
    }

    #[test]
    fn a_bad_record_is_refused_with_path_and_value() {
        for (text, reason) in [
            (None, r#"metadata.annotations["bloc.dev/parts"]: missing; allowed: a record"#),
            (Some("{"), r#"metadata.annotations["bloc.dev/parts"].?: EOF"#),
            (Some("{}"), r#"metadata.annotations["bloc.dev/parts"]: missing field `nodes`"#),
            (
                Some(r#"{"nodes":{"n":{"life":1,"number":1,"part":1000001}}}"#),
                r#"metadata.annotations["bloc.dev/parts"].nodes: a sum of parts of 1000001 is not allowed"#,
            ),
        ] {
            let error = Object::of(lease("cpu.a.b", text, "1")).unwrap().record.unwrap_err();
            assert!(error.starts_with(reason), "{error}");
        }
    }

    #[tokio::test]
    async fn an_older_object_does_not_take_the_place_of_a_newer_one_but_a_list_does() {
        let (known, (sender, receiver)) = (Arc::default(), mpsc::channel(1));
        let task = tokio::spawn(follow(Arc::clone(&known), receiver));
        let object = |version: &str| Object::of(lease("cpu.a.b", Some(r#"{"nodes":{}}"#), version)).unwrap();
        let key = || (String::new(), "cpu.a.b".to_owned());
        let version = || lock(&known).apps.get("a/b").map(|object| object.version.clone());
        for (reading, expected) in [
            (Reading::Applied { key: key(), object: object("99"), revision: 99 }, Some("99")),
            (Reading::Applied { key: key(), object: object("100"), revision: 100 }, Some("100")),
            (Reading::Applied { key: key(), object: object("98"), revision: 98 }, Some("100")),
            (Reading::Deleted { key: key(), revision: 99 }, Some("100")),
            (Reading::Deleted { key: key(), revision: 101 }, None),
            (Reading::Applied { key: key(), object: object("200"), revision: 200 }, Some("200")),
            // The API server was restored from a backup.
            (Reading::Listed { objects: vec![(key(), object("50"))], revision: 60, newest: 50 }, Some("50")),
        ] {
            let text = format!("{:?}", expected);
            sender.send((0, reading)).await.unwrap();
            // Taken once there is room for two more.
            for _ in 0..2 {
                sender.send((0, Reading::Passed { revision: 0 })).await.unwrap();
            }
            assert_eq!(version().as_deref(), expected, "{text}");
        }
        assert!(lock(&known).is_listed);
        drop(sender);
        task.await.unwrap();
    }
}
