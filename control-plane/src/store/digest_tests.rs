//! Digests of services and of sets of services.

use crate::digest::of_named;
use crate::snapshot::Snapshot;
use bloc_policy::config::ServiceSpec;
use std::collections::{BTreeMap, BTreeSet};

/// Each parameter with a value that is not its default, and its default if that can be written.
const PARAMETERS: [(&str, &str, Option<&str>); 19] = [
    ("routing", "mu", Some("bid")),
    ("retries", "4", Some("3")),
    ("routeRetries", "4", Some("1")),
    ("virtualServiceRetries", "{shop/checkout: 4}", Some("{}")),
    ("retryBudget", "0.25", Some("0.2")),
    ("bouncePrice", "0.25", Some("0.2")),
    ("resetInterval", "4s", Some("1000ms")),
    ("capacity", "{estimator: static, limit: 4}", None),
    ("headroom", "0.25", Some("0.8")),
    ("concurrency", "4", None),
    // No effect without `concurrency`.
    ("hold", "true", Some("false")),
    ("maxQueueWait", "4s", Some("15s")),
    ("bodyLimit", "4096", Some("1048576")),
    ("streamIdle", "4s", Some("1s")),
    ("slo", "4s", None),
    ("orca", "true", Some("false")),
    ("debugHeaders", "true", Some("false")),
    ("endpoints", "['10.0.0.1:80', '[fd00::1]:80']", None),
    ("endpointsByPort", "{80: ['10.0.0.1:80']}", Some("{}")),
];

fn one(fields: &str) -> u64 {
    let snapshot = Snapshot::from_yaml(&format!("services: {{a: {{{fields}}}}}")).unwrap();
    snapshot.services()["a"].digest()
}

#[test]
fn the_list_of_parameters_is_complete() {
    let schema = schemars::schema_for!(ServiceSpec);
    let fields: BTreeSet<&str> = schema.as_value()["properties"].as_object().unwrap().keys().map(|k| &**k).collect();
    assert_eq!(PARAMETERS.iter().map(|(name, ..)| *name).collect::<BTreeSet<_>>(), fields);
}

/// If this fails, every proxy gets a new answer during an upgrade to this build. Independent of
/// [`PARAMETERS`]: a new parameter must not change these digests.
#[test]
fn digests_stay_the_same_across_builds() {
    let all = "
services:
  a: {}
  b:
    routing: mu
    retries: 4
    routeRetries: 4
    virtualServiceRetries: {shop/checkout: 4}
    retryBudget: 0.25
    resetInterval: 4s
    capacity: {estimator: static, limit: 4}
    headroom: 0.25
    concurrency: 4
    hold: true
    maxQueueWait: 4s
    bodyLimit: 4096
    streamIdle: 4s
    slo: 4s
    orca: true
    debugHeaders: true
    endpoints: ['10.0.0.1:80', '[fd00::1]:80']
    endpointsByPort: {80: ['10.0.0.1:80']}
";
    let snapshot = Snapshot::from_yaml(all).unwrap();
    let [a, b] = ["a", "b"].map(|name| snapshot.services()[name].digest());
    let set = of_named(snapshot.services().iter().map(|(name, service)| (name, service.digest())));
    let expected = ["e3b0c44298fc1c14", "08abb7177f5741da", "47d7ec61b1ff9dd2"];
    assert_eq!([a, b, set].map(|digest| format!("{digest:016x}")), expected);
}

#[test]
fn each_parameter_changes_the_digest() {
    let mut seen = BTreeMap::from([(one(""), "none"), (one("concurrency: 9"), "another concurrency")]);
    for (name, other, _) in PARAMETERS {
        let context = if name == "hold" { "concurrency: 9, " } else { "" };
        let changed = one(&format!("{context}{name}: {other}"));
        assert_eq!(seen.insert(changed, name), None, "{name}");
    }
    for capacity in ["static, limit: 5", "average", "average, interval: 4s", "slo, slo: 4s"] {
        let changed = one(&format!("capacity: {{estimator: {capacity}}}"));
        assert_eq!(seen.insert(changed, capacity), None, "{capacity}");
    }
    for routing in ["least_request", "bloc"] {
        assert_eq!(seen.insert(one(&format!("routing: {routing}")), routing), None, "{routing}");
    }
}

#[test]
fn writing_a_default_does_not_change_the_digest() {
    for (name, _, default) in PARAMETERS {
        if let Some(default) = default {
            assert_eq!(one(&format!("{name}: {default}")), one(""), "{name}");
        }
    }
}
