use super::super::Store;
use super::*;
use crate::clock::Clock;
use crate::load::ReportInterval;
use crate::snapshot::Snapshot;
use crate::store::{Module, Outcome, Poll, Reach};
use bloc_policy::config::features::table::{Instead, Rule};
use bloc_policy::sync::{SyncRequest, SyncResponse};
use serde_json::{Value, json};
use tokio::time::timeout;

const fn since(field: &'static str, value: Option<&'static str>, instead: Instead) -> Rule {
    Rule { field, value, feature: "spare", instead }
}

/// Pretends that these came with a feature.
const RULES: &[Rule] = &[since("orca", None, Instead::Omit), since("routing", Some("bid"), Instead::Withhold)];
const SERVICES: &str = "services: {plain: {}, fewer: {orca: true, retries: 1}, none: {routing: bid}}";
const NAMES: [&str; 3] = ["plain", "fewer", "none"];

fn store(yaml: &str) -> Store {
    let store = Store::new("test", Clock::system(), ReportInterval::default());
    publish(&store, yaml);
    store
}

fn publish(store: &Store, yaml: &str) {
    store.publish(Snapshot::from_yaml_by(yaml, RULES).unwrap(), Reach::default());
}

fn new() -> Module {
    Module { version: Some("2.0.0".to_owned()), features: Features::from_iter(["spare"]) }
}

fn poll(proxy: &str, version: &str, module: Module) -> Poll {
    let services = NAMES.map(str::to_owned).to_vec();
    let unread = if proxy == "cannot" { vec!["plain".to_owned(), "of-nobody".to_owned()] } else { Vec::new() };
    let request =
        SyncRequest { proxy: proxy.into(), version: version.into(), services, unread, ..SyncRequest::default() };
    Poll::try_from(request).unwrap().run_by(module)
}

/// The state that a proxy gets at once; none if its poll is held.
async fn given(store: &Store, proxy: &str, version: &str, module: Module) -> Option<SyncResponse> {
    let answer = timeout(std::time::Duration::from_millis(1), store.sync(poll(proxy, version, module))).await;
    let Ok(answer) = answer else { return None };
    let Ok(Outcome::Changed(answer)) = answer else { panic!("{answer:?}") };
    Some(serde_json::from_str(&serde_json::to_string(&answer).unwrap()).unwrap())
}

fn services(state: &SyncResponse) -> Value {
    serde_json::to_value(&state.services).unwrap()
}

#[tokio::test(start_paused = true)]
async fn each_proxy_is_given_what_it_knows() {
    let store = store(SERVICES);
    let all = given(&store, "new", "", new()).await.unwrap();
    let whole = json!({"plain": {}, "fewer": {"orca": true, "retries": 1}, "none": {"routing": "bid"}});
    assert_eq!(services(&all), whole);
    let fewer = given(&store, "old", "", Module::default()).await.unwrap();
    assert_eq!(services(&fewer), json!({"plain": {}, "fewer": {"retries": 1}}));
    assert_ne!(all.version, fewer.version);
    for (proxy, version, module) in [("new", &all.version, new()), ("old", &fewer.version, Module::default())] {
        assert_eq!(given(&store, proxy, version, module).await, None, "{proxy} is up to date");
    }
}

/// Replicas of two versions therefore do not answer a proxy in turn.
#[tokio::test(start_paused = true)]
async fn the_version_is_that_of_a_control_plane_that_has_only_what_is_given() {
    let (whole, old) = (store(SERVICES), store("services: {plain: {}, fewer: {retries: 1}}"));
    let [one, other] = [given(&whole, "p", "", Module::default()).await, given(&old, "p", "", Module::default()).await];
    assert_eq!(one.unwrap().version, other.unwrap().version);
}

#[tokio::test(start_paused = true)]
async fn a_proxy_that_is_upgraded_or_rolled_back_is_given_the_difference() {
    let store = store(SERVICES);
    let old = given(&store, "p", "", Module::default()).await.unwrap();
    assert_eq!(given(&store, "p", &old.version, Module::default()).await, None);
    let upgraded = given(&store, "p", &old.version, new()).await.unwrap();
    assert_eq!(upgraded.services.len(), 3);
    let back = given(&store, "p", &upgraded.version, Module::default()).await.unwrap();
    assert_eq!((back.services.len(), back.version), (2, old.version));
}

#[tokio::test(start_paused = true)]
async fn a_change_of_what_a_proxy_lacks_is_no_news_for_it() {
    let store = store(SERVICES);
    let version = given(&store, "old", "", Module::default()).await.unwrap().version;
    publish(&store, "services: {plain: {}, fewer: {orca: false, retries: 1}, none: {routing: bid, retries: 2}}");
    assert_eq!(given(&store, "old", &version, Module::default()).await, None);
    publish(&store, "services: {plain: {}, fewer: {retries: 1}, none: {routing: mu}}");
    let state = given(&store, "old", &version, Module::default()).await.unwrap();
    assert_eq!(services(&state)["none"], json!({"routing": "mu"}), "no longer withheld");
}

#[tokio::test(start_paused = true)]
async fn operators_see_versions_and_who_lacks_what() {
    let store = store(SERVICES);
    assert_eq!(store.counts().proxies_lacking, [("spare", 0)]);
    for (proxy, module) in [("one", Module::default()), ("two", Module::default()), ("three", new()), ("cannot", new())]
    {
        given(&store, proxy, "", module).await;
    }
    let counts = store.counts();
    assert_eq!((&counts.proxies_lacking[..], counts.proxies_unread), (&[("spare", 2)][..], 1));
    let expected = json!({
        "versions": [
            {"module": null, "features": [], "proxies": 2},
            {"module": "2.0.0", "features": ["spare"], "proxies": 2},
        ],
        "lacking": [{"feature": "spare", "proxies": 2, "named": ["one", "two"], "services": ["fewer", "none"]}],
        "unread": [{"proxy": "cannot", "services": ["plain"]}],
    });
    assert_eq!(serde_json::to_value(store.status().modules).unwrap(), expected);
    let senders = store.service_report("plain").unwrap().senders;
    let of = |proxy: &str| senders.iter().find(|sender| sender.proxy == proxy).unwrap().module.clone();
    assert_eq!(of("one"), ModuleView { lacking: vec!["spare"], ..ModuleView::default() });
    let module = Some("2.0.0".to_owned());
    let view = ModuleView { module, features: vec!["spare"], ..ModuleView::default() };
    assert_eq!([of("three"), of("cannot")], [view.clone(), ModuleView { unread: vec!["plain".into()], ..view }]);
    publish(&store, "services: {plain: {}}");
    assert_eq!((store.counts().proxies_lacking, store.status().modules.lacking), (vec![], vec![]), "nobody uses it");
}
