//! From readings of the watches to published services, without an API server.

use super::copies::Due;
use super::endpoints::Slice;
use super::feed::{Feed, Object, POLICIES, ROUTES, SERVICES, SLICES, Verdict, gather};
use super::policy::KEY;
use super::routes::Rules;
use super::watch::Reading;
use crate::snapshot::Snapshot;
use serde_json::{Value, json};
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep};

/// A cluster in which each event has the next revision.
struct World {
    feed: Feed,
    revision: u64,
    verdicts: Vec<String>,
}

type Named = ((String, String), Object);

fn named(path: &str) -> (String, String) {
    let (namespace, name) = path.split_once('/').unwrap();
    (namespace.to_owned(), name.to_owned())
}

fn service(path: &str) -> Named {
    let spec = json!({"ports": [{"name": "web", "port": 80}], "ipFamilies": ["IPv4"]});
    let service: k8s_openapi::api::core::v1::Service = serde_json::from_value(json!({"spec": spec})).unwrap();
    (named(path), Object::Service(service.into()))
}

/// A slice of the Service named before the dash.
fn slice(path: &str, ready: &[&str]) -> Named {
    let service = named(path).1.split_once('-').unwrap().0.to_owned();
    let endpoints: Vec<Value> = ready.iter().map(|ip| json!({"addresses": [ip]})).collect();
    let slice = json!({
        "metadata": {"labels": {"kubernetes.io/service-name": service}}, "addressType": "IPv4",
        "ports": [{"name": "web", "port": 8080}], "endpoints": endpoints,
    });
    (named(path), Object::Slice(Slice::new(serde_json::from_value(slice).unwrap()).unwrap()))
}

/// A VirtualService with one rule.
fn route(path: &str, host: &str, retries: &Value) -> Named {
    let http = json!([{"route": [{"destination": {"host": host}}], "retries": retries}]);
    let service = json!({"metadata": {"name": "v"}, "spec": {"hosts": [host], "http": http}});
    (named(path), Object::Route(Rules::new(&serde_json::from_value(service).unwrap()).unwrap()))
}

fn policy(path: &str, created: &str, services: &str) -> Named {
    let (namespace, name) = named(path);
    let metadata =
        json!({"namespace": namespace, "name": name, "creationTimestamp": created, "resourceVersion": services});
    let map = json!({"metadata": metadata, "data": {KEY: services}});
    (named(path), Object::Policy(Box::new(serde_json::from_value(map).unwrap())))
}

fn revised(revision: u64, services: &str) -> Named {
    let (key, object) = policy("shop/bloc", NOON, services);
    let Object::Policy(mut map) = object else { unreachable!() };
    map.metadata.resource_version = Some(revision.to_string());
    (key, Object::Policy(map))
}

/// The last good content of `shop/bloc`, of this revision.
fn copy(revision: u64, services: &str) -> Named {
    let annotations =
        json!({"bloc.dev/of": "shop/bloc", "bloc.dev/uid": "", "bloc.dev/revision": revision.to_string()});
    let metadata = json!({
        "namespace": "bloc-system", "name": "last-good.shop.bloc", "labels": {"bloc.dev/policy": "last-good"},
        "annotations": annotations,
    });
    let map = json!({"metadata": metadata, "data": {KEY: services}});
    (named("bloc-system/last-good.shop.bloc"), Object::Policy(Box::new(serde_json::from_value(map).unwrap())))
}

const MORNING: &str = "2026-11-20T08:00:00Z";
const NOON: &str = "2026-11-20T12:00:00Z";

impl World {
    fn empty() -> Self {
        Self { feed: Feed::new("bloc-system", "cluster.local"), revision: 0, verdicts: Vec::new() }
    }

    /// The Services a and b of shop and c of bank, with one endpoint each.
    fn new() -> Self {
        let mut world = Self::empty();
        world.list(SERVICES, vec![service("shop/a"), service("shop/b"), service("bank/c")]);
        world.list(
            SLICES,
            vec![slice("shop/a-1", &["10.0.0.1"]), slice("shop/b-1", &["10.0.0.2"]), slice("bank/c-1", &["10.0.0.3"])],
        );
        world.list(POLICIES, vec![]);
        world.list(ROUTES, vec![]);
        world
    }

    fn read(&mut self, place: usize, reading: impl FnOnce(u64) -> Reading<Object>) {
        self.revision += 1;
        for verdict in self.feed.read(place, reading(self.revision), Instant::now()) {
            self.verdicts.push(match verdict {
                Verdict::Refused { object, reason } => format!("{}: {reason}", object.name.unwrap()),
                Verdict::Resolved((_, name)) => format!("{name} resolved"),
            });
        }
    }

    fn list(&mut self, place: usize, objects: Vec<Named>) {
        let newest = u64::from(!objects.is_empty());
        self.read(place, |revision| Reading::Listed { objects, revision, newest: newest * revision });
    }

    fn apply(&mut self, (key, object): Named) {
        let place = match object {
            Object::Slice(_) => SLICES,
            Object::Service(_) => SERVICES,
            Object::Policy(_) => POLICIES,
            Object::Route(_) => ROUTES,
        };
        self.read(place, |revision| Reading::Applied { key, object, revision });
    }

    fn delete(&mut self, place: usize, path: &str) {
        self.read(place, |revision| Reading::Deleted { key: named(path), revision });
    }

    fn snapshot(&mut self) -> Snapshot {
        self.feed.snapshot().expect("something moved")
    }

    /// The services in force, as `name.namespace`.
    fn names(&mut self) -> Vec<String> {
        let snapshot = self.snapshot();
        snapshot.services().keys().map(|host| host.replace(".svc.cluster.local", "")).collect()
    }

    /// Retries and endpoints of a Service.
    fn of(&mut self, name: &str) -> (Option<i64>, Vec<String>) {
        let snapshot = self.snapshot();
        let spec = snapshot.services()[&format!("{name}.svc.cluster.local")].spec().clone();
        (spec.retries, spec.endpoints_by_port.into_values().flatten().collect())
    }

    /// Retries of the routes to a Service: the mesh's, and those of VirtualServices.
    fn retries(&mut self, host: &str) -> (i64, Vec<(String, i64)>) {
        let snapshot = self.snapshot();
        let spec = snapshot.services()[host].in_force();
        (spec.route_retries.unwrap(), spec.virtual_service_retries.into_iter().collect())
    }

    /// How far each kind was read, and its stamp.
    fn reach(&self) -> (Vec<u64>, Vec<u64>) {
        self.feed.reach().0.iter().map(|kind| (kind.known, kind.stamp)).unzip()
    }

    fn verdicts(&mut self) -> Vec<String> {
        std::mem::take(&mut self.verdicts)
    }
}

#[test]
fn publishes_nothing_before_all_lists_are_read() {
    let mut world = World::empty();
    world.list(SERVICES, vec![service("shop/a")]);
    world.list(POLICIES, vec![policy("shop/bloc", NOON, "services: {a: {}}")]);
    assert!(!world.feed.is_synced() && world.feed.snapshot().is_none());
    world.list(SLICES, vec![slice("shop/a-1", &["10.0.0.1"])]);
    assert!(!world.feed.is_synced() && world.feed.snapshot().is_none());
    world.list(ROUTES, vec![]);
    assert_eq!(world.reach(), (vec![3, 1, 2, 4], vec![3, 1, 2, 0]));
    assert_eq!(world.of("a.shop"), (None, vec!["10.0.0.1:8080".into()]));
}

#[test]
fn publishes_the_retries_of_virtual_services_as_they_change() {
    const A: &str = "a.shop.svc.cluster.local";
    const ELSEWHERE: &str = "api.example.org";
    let (five, none) = (json!({"attempts": 5}), Value::Null);
    let mut world = World::new();
    world.list(ROUTES, vec![route("shop/v", "a", &five)]);
    world.apply(policy("shop/bloc", NOON, "services: {'*': {}}"));
    world.apply(policy("bloc-system/bloc", NOON, "services: {api.example.org: {}}"));
    assert_eq!(world.retries(A), (2, vec![("shop/v".into(), 5)]));
    world.apply(route("web/w", A, &json!({"attempts": 1})));
    assert_eq!(world.retries(A).1, [("shop/v".into(), 5), ("web/w".into(), 1)]);
    world.apply(route("web/w", ELSEWHERE, &five));
    assert_eq!(world.retries(ELSEWHERE).1, [("web/w".into(), 5)]);
    world.delete(ROUTES, "shop/v");
    assert_eq!(world.retries(A), (2, vec![]));
    world.list(ROUTES, vec![route("shop/x", "a", &five), route("shop/y", "a", &none)]);
    assert_eq!(world.retries(A).1, [("shop/x".into(), 5)]);
    assert!(world.feed.snapshot().is_none(), "nothing has changed");
    let said = "services: {a: {routeRetries: 5, virtualServiceRetries: {shop/y: 1}}}";
    world.apply(policy("shop/bloc", NOON, said));
    assert_eq!(world.retries(A), (5, vec![("shop/y".into(), 1)]), "parameters of the user go first");
}

#[test]
fn only_services_that_a_config_map_manages_are_in_force() {
    let mut world = World::new();
    assert!(world.names().is_empty());
    world.apply(policy("shop/bloc", NOON, "{defaults: {retries: 1}, services: {a: {}, nowhere: {}}}"));
    assert_eq!(world.names(), ["a.shop"]);
    world.apply(policy("shop/bloc", NOON, "services: {'*': {}}"));
    assert_eq!(world.names(), ["a.shop", "b.shop"]);
    world.apply(policy("bloc-system/bloc", NOON, "services: {'*': {}, api.example.org: {}}"));
    assert_eq!(world.names(), ["a.shop", "api.example.org", "b.shop", "c.bank"]);
    world.apply(policy("bloc-system/bloc", NOON, "services: {c.bank.svc.cluster.local: {}}"));
    assert_eq!(world.names(), ["a.shop", "b.shop", "c.bank"]);
    world.delete(POLICIES, "bloc-system/bloc");
    world.delete(POLICIES, "shop/bloc");
    assert!(world.names().is_empty());
}

#[test]
fn the_more_specific_parameter_wins() {
    let mut world = World::new();
    world.apply(policy(
        "bloc-system/bloc",
        NOON,
        "{defaults: {retries: 1, bodyLimit: 4096}, services: {'*': {}, a.shop.svc.cluster.local: {retries: 2}}}",
    ));
    assert_eq!((world.of("a.shop").0, world.feed.snapshot().is_none()), (Some(2), true));
    world.apply(policy("shop/bloc", NOON, "{defaults: {retries: 3}, services: {b: {retries: 4}}}"));
    let snapshot = world.snapshot();
    let of = |name: &str| {
        let spec = snapshot.services()[&format!("{name}.svc.cluster.local")].spec();
        (spec.retries.unwrap(), spec.body_limit.unwrap())
    };
    assert_eq!((of("a.shop"), of("b.shop"), of("c.bank")), ((3, 4096), (4, 4096), (1, 4096)));
}

#[test]
fn endpoints_follow_the_endpoint_slices() {
    let mut world = World::new();
    world.apply(policy("bloc-system/bloc", NOON, "services: {'*': {}}"));
    world.apply(slice("shop/a-2", &["10.0.0.9"]));
    assert_eq!(world.of("a.shop").1, ["10.0.0.1:8080", "10.0.0.9:8080"]);
    world.apply(slice("shop/a-1", &[]));
    assert_eq!(world.of("a.shop").1, ["10.0.0.9:8080"]);
    world.delete(SLICES, "shop/a-2");
    assert_eq!(world.of("a.shop").1, Vec::<String>::new());
    world.delete(SERVICES, "shop/a");
    assert_eq!(world.names(), ["b.shop", "c.bank"]);
    world.apply(service("shop/a"));
    assert_eq!(world.names(), ["a.shop", "b.shop", "c.bank"]);
    // A slice moves to another Service.
    world.apply((named("shop/b-1"), slice("shop/a-1", &["10.0.0.2"]).1));
    assert_eq!(world.of("a.shop").1, ["10.0.0.2:8080"]);
    world.apply(slice("shop/a-1", &["10.0.0.7"]));
    world.apply((named("shop/a-1"), slice("shop/b-1", &["10.0.0.7"]).1));
    assert_eq!(world.of("b.shop").1, ["10.0.0.7:8080"]);
}

#[test]
fn a_new_list_changes_only_the_services_that_differ() {
    let mut world = World::new();
    world.apply(policy("bloc-system/bloc", NOON, "services: {'*': {}}"));
    let before = world.snapshot();
    world.list(SLICES, vec![slice("shop/a-1", &["10.0.0.1"]), slice("bank/c-1", &["10.0.0.4"])]);
    let after = world.snapshot();
    let same = |host: &str| std::sync::Arc::ptr_eq(&before.services()[host], &after.services()[host]);
    assert!(same("a.shop.svc.cluster.local"), "the very same value");
    assert!(!same("b.shop.svc.cluster.local") && !same("c.bank.svc.cluster.local"));
    world.list(SERVICES, vec![service("shop/a")]);
    world.list(POLICIES, vec![policy("bloc-system/bloc", NOON, "services: {'*': {}}")]);
    assert_eq!(world.names(), ["a.shop"]);
}

#[test]
fn a_bad_config_map_changes_nothing_and_is_refused_once() {
    let mut world = World::new();
    world.apply(policy("shop/bloc", NOON, "services: {a: {retries: 1}}"));
    world.apply(policy("shop/bloc", NOON, "services: {a: {retries: 11}}"));
    let refusal = "bloc: services.a.retries: 11 is not allowed; allowed: 0 to 10";
    assert_eq!((world.verdicts(), world.of("a.shop").0), (vec![refusal.to_owned()], Some(1)));
    world.list(POLICIES, vec![policy("shop/bloc", NOON, "services: {a: {retries: 11}}")]);
    assert_eq!((world.verdicts(), world.feed.snapshot().is_none()), (vec![], true), "listed again");
    world.apply(policy("shop/bloc", NOON, "services: {a: {retries: 2}}"));
    assert_eq!((world.verdicts(), world.of("a.shop").0), (vec!["bloc resolved".to_owned()], Some(2)));
    world.apply(policy("shop/bloc", NOON, "nonsense"));
    world.delete(POLICIES, "shop/bloc");
    assert_eq!(world.verdicts().len(), 2);
    assert!(world.names().is_empty());
}

#[test]
fn the_oldest_config_map_of_a_namespace_counts() {
    let mut world = World::new();
    world.apply(policy("shop/a-later-one", NOON, "services: {a: {retries: 1}}"));
    assert_eq!(world.of("a.shop").0, Some(1));
    world.apply(policy("shop/bloc", MORNING, "services: {a: {retries: 2}}"));
    assert_eq!(world.of("a.shop").0, Some(2));
    let refusal = "a-later-one: metadata.namespace: \"shop\" is not allowed; allowed: one ConfigMap per namespace; the older \"bloc\" counts";
    assert_eq!(world.verdicts(), [refusal]);
    world.delete(POLICIES, "shop/bloc");
    assert_eq!((world.verdicts(), world.of("a.shop").0), (vec!["a-later-one resolved".to_owned()], Some(1)));
}

#[test]
fn a_bookmark_raises_the_known_revision_and_publishes_nothing() {
    let mut world = World::new();
    world.snapshot();
    world.read(SERVICES, |_| Reading::Passed { revision: 900 });
    assert!(world.feed.snapshot().is_none());
    assert_eq!(world.reach(), (vec![2, 900, 3, 4], vec![2, 1, 0, 0]));
}

#[test]
fn an_unchanged_list_raises_the_known_revision_and_publishes_nothing() {
    let mut world = World::new();
    world.apply(policy("shop/bloc", NOON, "services: {a: {}}"));
    world.snapshot();
    let slices =
        || vec![slice("shop/a-1", &["10.0.0.1"]), slice("shop/b-1", &["10.0.0.2"]), slice("bank/c-1", &["10.0.0.3"])];
    world.list(SLICES, slices());
    world.list(POLICIES, vec![policy("shop/bloc", NOON, "services: {a: {}}")]);
    assert!(world.feed.snapshot().is_none());
    assert_eq!(world.reach().0, [6, 1, 7, 4]);
    world.delete(SLICES, "shop/a-1");
    assert_eq!(world.reach().1[SLICES], 8, "the revision of a deletion");
}

#[test]
fn a_new_replica_uses_the_last_good_copy_of_a_bad_config_map() {
    let mut old = World::new();
    old.apply(policy("shop/bloc", NOON, "services: {a: {retries: 1}}"));
    assert_eq!(old.feed.due().len(), 1);
    let copy = || copy(4, "services: {a: {retries: 1}}");
    let bad = || policy("shop/bloc", NOON, "services: {a: {retries: 11}}");
    let mut new = World::new();
    new.list(POLICIES, vec![bad(), copy()]);
    assert_eq!((new.of("a.shop").0, new.verdicts().len()), (Some(1), 1));
    assert!(new.feed.due().is_empty());
    new.list(POLICIES, vec![copy()]);
    assert!(new.names().is_empty(), "the original is gone");
    assert_eq!(new.feed.due().len(), 1, "its copy is deleted too");
    let mut forged = World::new();
    forged.list(POLICIES, vec![bad(), (named("bank/last-good.shop.bloc"), copy().1)]);
    assert!(forged.names().is_empty(), "a copy of another namespace");
}

/// The changes that copies need, as `write NAMESPACE/NAME` or `delete NAME`.
fn due(world: &mut World) -> Vec<String> {
    let said = |due| match due {
        Due::Write((namespace, name), _) => format!("write {namespace}/{name}"),
        Due::Delete(name) => format!("delete {name}"),
    };
    world.feed.due().into_iter().map(said).collect()
}

#[test]
fn keeps_a_copy_of_the_config_map_in_force_only() {
    let mut world = World::new();
    world.apply(policy("shop/bloc", NOON, "services: {a: {retries: 1}}"));
    for i in 0..3 {
        world.apply(policy(&format!("shop/surplus-{i}"), "2026-11-20T13:00:00Z", "services: {a: {retries: 2}}"));
    }
    assert_eq!(due(&mut world), ["write shop/bloc"]);
    world.apply(copy(4, "services: {a: {retries: 1}}"));
    assert!(due(&mut world).is_empty());
    world.apply(policy("shop/older", MORNING, "services: {a: {retries: 3}}"));
    assert_eq!(due(&mut world), ["write shop/older", "delete last-good.shop.bloc"]);
    // While the older one is invalid, no other ConfigMap counts for the namespace.
    world.delete(POLICIES, "bloc-system/last-good.shop.bloc");
    world.apply(policy("shop/older", MORNING, "services: {a: {retries: 11}}"));
    assert!(due(&mut world).is_empty());
    world.delete(POLICIES, "shop/older");
    assert_eq!(due(&mut world), ["write shop/bloc"]);
}

#[test]
fn each_refused_revision_is_reported_by_its_number() {
    let mut feed = World::new().feed;
    let mut refused = Vec::new();
    for (revision, retries) in [(5, 11), (6, 1), (7, 11), (8, 11)] {
        let (key, object) = revised(revision, &format!("services: {{a: {{retries: {retries}}}}}"));
        for verdict in feed.read(POLICIES, Reading::Applied { key, object, revision }, Instant::now()) {
            if let Verdict::Refused { object, .. } = verdict {
                refused.push(object.resource_version.unwrap());
            }
        }
    }
    assert_eq!(refused, ["5", "7", "8"]);
}

#[test]
fn a_copy_is_not_replaced_by_an_older_revision_unless_etcd_was_restored() {
    let mut world = World::new();
    let [one, two] = [1, 2].map(|retries| format!("services: {{a: {{retries: {retries}}}}}"));
    world.list(POLICIES, vec![revised(900, &two), copy(900, &two)]);
    world.apply(revised(899, &one));
    assert!(due(&mut world).is_empty(), "another replica has read more");
    world.list(POLICIES, vec![revised(40, &one), copy(40, &one)]);
    assert!(due(&mut world).is_empty());
    world.apply(revised(42, &two));
    assert_eq!(due(&mut world), ["write shop/bloc"]);
    // The copy is not in the backup.
    world.list(POLICIES, vec![revised(40, &one)]);
    assert_eq!(due(&mut world), ["write shop/bloc"]);
}

#[tokio::test(start_paused = true)]
async fn a_slice_that_is_deleted_and_made_again_is_one_change() {
    let (sender, mut readings) = mpsc::channel(10);
    let deleted = |path: &str| Reading::Deleted { key: named(path), revision: 0 };
    let applied = |(key, object)| Reading::Applied { key, object, revision: 0 };
    tokio::spawn(async move {
        sleep(Duration::from_millis(15)).await;
        sender.send((SLICES, deleted("shop/a-1"))).await.unwrap();
        sleep(Duration::from_millis(15)).await;
        sender.send((SLICES, applied(slice("shop/a-2", &["10.0.0.1"])))).await.unwrap();
        loop {
            sleep(Duration::from_millis(19)).await;
            sender.send((SLICES, deleted("shop/b-1"))).await.unwrap();
        }
    });
    let start = Instant::now();
    let mut batch = vec![(SLICES, applied(slice("bank/c-1", &["10.0.0.3"])))];
    gather(&mut readings, &mut batch).await;
    assert!(matches!(batch.get(2), Some((_, Reading::Applied { .. }))), "{batch:?}");
    assert_eq!(start.elapsed().as_millis(), 40);
    gather(&mut readings, &mut batch).await;
    assert_eq!(start.elapsed().as_millis(), 140, "slices that come and go hold up others for 100 ms at most");
}
