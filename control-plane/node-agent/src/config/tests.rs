//! What is read, and what is refused.

use super::*;
use crate::cores::Cores;
use crate::cpu::Rule;
use crate::pods::Pod;

const GOOD: &str = "
mode: enforce
overrideLimits: true
apps:
  shop/checkout:
    pods: {matchLabels: {app: checkout}}
    containers: [app, helper, '!istio-proxy']
    cpu: {limit: 4, floor: 20m, grow: 0.5, shrink: 1, slack: 100m, window: 10}
  shop/cart:
    pods: {matchLabels: {app: cart, tier: web}}
    cpu: {limit: 40m}
";

fn pod(namespace: &str, labels: &[(&str, &str)]) -> Pod {
    Pod {
        namespace: namespace.to_owned(),
        name: "a".to_owned(),
        uid: "u".to_owned(),
        labels: labels.iter().map(|(label, value)| ((*label).to_owned(), (*value).to_owned())).collect(),
        containers: Vec::new(),
    }
}

#[test]
fn reads_all_values_and_their_defaults() {
    let config = Config::read(GOOD).unwrap();
    assert_eq!((config.mode, config.override_limits), (Mode::Enforce, true));
    let names: Vec<String> = config.apps.keys().map(ToString::to_string).collect();
    assert_eq!(names, ["shop/cart", "shop/checkout"]);
    let checkout = config.app_of(&pod("shop", &[("app", "checkout"), ("x", "y")])).unwrap().1;
    assert_eq!((checkout.limit, checkout.floor), (Cores::new(4.0), Cores::new(0.02)));
    let rule = Rule { grow: 0.5, shrink: 1.0, slack: Cores::new(0.1), window: 10 };
    assert_eq!(checkout.rule, rule);
    let named: Vec<bool> = ["app", "helper", "other", "istio-proxy"].map(|name| checkout.containers.has(name)).to_vec();
    assert_eq!(named, [true, true, false, false]);
    let cart = config.app_of(&pod("shop", &[("app", "cart"), ("tier", "web")])).unwrap().1;
    assert_eq!((cart.limit, cart.floor, cart.rule), (Cores::new(0.04), Cores::new(0.04), Rule::default()));
    assert_eq!(["app", "istio-proxy"].map(|name| cart.containers.has(name)), [true, false]);
    assert_eq!(Config::read("{}").unwrap(), Config::default());
    assert_eq!(Config::default().mode, Mode::Observe);
}

#[test]
fn a_pod_belongs_to_an_application_of_its_namespace_that_has_all_its_labels() {
    let config = Config::read(GOOD).unwrap();
    for (namespace, labels) in [
        ("other", &[("app", "checkout")][..]),
        ("shop", &[("app", "cart")]),
        ("shop", &[("app", "cart"), ("tier", "db")]),
        ("shop", &[]),
    ] {
        assert_eq!(config.app_of(&pod(namespace, labels)), None, "{namespace} {labels:?}");
    }
    let both = pod("shop", &[("app", "cart"), ("tier", "web")]);
    let twice = GOOD.replace("shop/checkout", "shop/all").replace("{app: checkout}", "{app: cart}");
    let config = Config::read(&twice).unwrap();
    assert_eq!(config.app_of(&both).unwrap().0.to_string(), "shop/all", "the first one by name");
}

#[test]
fn refuses_with_path_value_and_range() {
    for (from, to, error) in [
        ("limit: 4,", "limit: 5m,", "apps.shop/checkout.cpu.limit: 5m is not allowed; allowed: 10m to 1024000m"),
        ("limit: 4,", "limit: 2000,", "apps.shop/checkout.cpu.limit: 2000000m is not allowed"),
        ("floor: 20m", "floor: 9m", "apps.shop/checkout.cpu.floor: 9m is not allowed; allowed: 10m to 4000m"),
        ("floor: 20m", "floor: 4001m", "apps.shop/checkout.cpu.floor: 4001m is not allowed; allowed: 10m to 4000m"),
        ("grow: 0.5", "grow: 0.009", "apps.shop/checkout.cpu.grow: 0.009 is not allowed; allowed: 0.01 to 1"),
        ("grow: 0.5", "grow: 20", "apps.shop/checkout.cpu.grow: 20 is not allowed; allowed: 0.01 to 1"),
        ("shrink: 1", "shrink: 1.01", "apps.shop/checkout.cpu.shrink: 1.01 is not allowed; allowed: 0.01 to 1"),
        ("slack: 100m", "slack: 5", "apps.shop/checkout.cpu.slack: 5000m is not allowed; allowed: 10m to 4000m"),
        ("window: 10", "window: 0", "apps.shop/checkout.cpu.window: 0 is not allowed; allowed: 1 to 50"),
        ("window: 10", "window: 51", "apps.shop/checkout.cpu.window: 51 is not allowed; allowed: 1 to 50"),
        ("shop/cart", "cart", "apps.cart: cart is not allowed; allowed: namespace/name"),
        ("shop/cart", "/cart", "apps./cart: /cart is not allowed; allowed: namespace/name"),
        ("shop/cart", "a/b/c", "apps.a/b/c: a/b/c is not allowed; allowed: namespace/name"),
        ("{app: cart, tier: web}", "{}", "apps.shop/cart.pods.matchLabels: {} is not allowed; allowed: at least one"),
        ("[app, ", "['a*', ", "apps.shop/checkout.containers[0]: a* is not allowed; allowed: a name, * for all"),
        ("[app, ", "['!', ", "apps.shop/checkout.containers[0]: ! is not allowed; allowed: a name, * for all"),
        ("[app, helper, ", "[", "apps.shop/checkout.containers: [\"!istio-proxy\"] is not allowed; allowed: at least"),
        ("mode: enforce", "mode: on", "mode: "),
        ("grow: 0.5", "gro: 0.5", "apps.shop/checkout.cpu.gro: unknown field"),
        ("limit: 40m", "limit: 40k", "apps.shop/cart.cpu.limit: \"40k\" is no amount of CPU; allowed: "),
        ("cpu: {limit: 40m}", "cpu: {}", "apps.shop/cart.cpu: missing field `limit`"),
    ] {
        assert!(GOOD.contains(from), "{from}");
        let found = Config::read(&GOOD.replacen(from, to, 1)).unwrap_err().to_string();
        assert!(found.starts_with(error), "{to}: {found}");
    }
}

#[test]
fn accepts_the_ends_of_the_ranges() {
    for (from, to) in [
        ("limit: 4,", "limit: 1024,"),
        ("limit: 40m", "limit: 10m"),
        ("floor: 20m", "floor: 10m"),
        ("floor: 20m", "floor: 4"),
        ("grow: 0.5", "grow: 0.01"),
        ("grow: 0.5", "grow: 1"),
        ("slack: 100m", "slack: 10m"),
        ("slack: 100m", "slack: 4"),
        ("window: 10", "window: 1"),
        ("window: 10", "window: 50"),
        ("mode: enforce", "mode: observe"),
    ] {
        Config::read(&GOOD.replacen(from, to, 1)).unwrap();
    }
}

/// The ConfigMap of the manifests, as it is and with its example.
#[test]
fn the_shipped_configuration_observes_nothing_and_its_example_is_accepted() {
    let manifest = include_str!("../../../../istio-manifests/node-agent/config.yaml");
    let map: serde_json::Value = bloc_yaml::values(manifest).unwrap();
    let text = map["data"]["node-agent.yaml"].as_str().unwrap();
    assert_eq!(Config::read(text).unwrap(), Config::default());
    let (_, example) = text.split_once("# apps:\n").unwrap();
    let example: Vec<&str> = example.lines().map(|line| line.strip_prefix("# ").unwrap_or(line)).collect();
    let config = Config::read(&format!("apps:\n{}\n", example.join("\n"))).unwrap();
    assert_eq!(config.apps.keys().map(ToString::to_string).collect::<Vec<_>>(), ["shop/checkout"]);
    let app = config.app_of(&pod("shop", &[("app", "checkout")])).unwrap().1;
    assert_eq!((app.limit, app.floor, app.rule), (Cores::new(4.0), Cores::new(0.05), Rule::default()));
}
