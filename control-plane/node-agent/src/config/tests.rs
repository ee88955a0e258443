//! What is read, and what is refused.

use super::*;
use crate::bytes::Bytes;
use crate::cores::Cores;
use crate::pods::Pod;
use crate::{cpu, memory, qos};
use bloc_policy::config::ConfigError;
use std::time::Duration;

const GOOD: &str = "
mode: enforce
overrideLimits: true
apps:
  shop/checkout:
    pods: {matchLabels: {app: checkout}}
    containers: [app, helper, '!istio-proxy']
    cpu: {limit: 4, floor: 20m, grow: 0.5, shrink: 1, slack: 100m, window: 10}
    memory: {limit: 4Gi, reserve: 0.5, margin: 20Mi, step: 8Mi}
  shop/cart:
    pods: {matchLabels: {app: cart, tier: web}}
    cpu: {limit: 40m}
  shop/store:
    pods: {matchLabels: {app: store}}
    memory: {limit: 32Mi}
  shop/web:
    pods: {matchLabels: {app: web}}
    qos: {target: 1.5s, threshold: 1.5, step: 20}
    memory: {limit: 64Mi}
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
    assert_eq!(names, ["shop/cart", "shop/checkout", "shop/store", "shop/web"]);
    let checkout = config.app_of(&pod("shop", &[("app", "checkout"), ("x", "y")])).unwrap().1;
    let rule = cpu::Rule { grow: 0.5, shrink: 1.0, slack: Cores::new(0.1), window: 10 };
    assert_eq!(
        checkout.cpu,
        Some(CpuConfig { limit: Cores::new(4.0), over: Over::Node, floor: Cores::new(0.02), rule })
    );
    let rule = memory::Rule { reserve: 0.5, margin: Bytes::mebi(20), step: Bytes::mebi(8) };
    assert_eq!(checkout.memory, Some(MemoryConfig { limit: Bytes::mebi(4_096), rule }));
    let named: Vec<bool> = ["app", "helper", "other", "istio-proxy"].map(|name| checkout.containers.has(name)).to_vec();
    assert_eq!(named, [true, true, false, false]);
    let cart = config.app_of(&pod("shop", &[("app", "cart"), ("tier", "web")])).unwrap().1;
    let limit = Cores::new(0.04);
    let usual = CpuConfig { limit, over: Over::Node, floor: limit, rule: cpu::Rule::default() };
    assert_eq!((&cart.cpu, &cart.memory), (&Some(usual), &None));
    assert_eq!(["app", "istio-proxy"].map(|name| cart.containers.has(name)), [true, false]);
    let store = config.app_of(&pod("shop", &[("app", "store")])).unwrap().1;
    let limit = Bytes::mebi(32);
    let rule = memory::Rule { margin: limit, ..memory::Rule::default() };
    assert_eq!((&store.cpu, &store.memory), (&None, &Some(MemoryConfig { limit, rule })));
    let large = Config::read(&GOOD.replace("limit: 32Mi", "limit: 64Mi")).unwrap();
    let store = large.app_of(&pod("shop", &[("app", "store")])).unwrap().1.memory.clone();
    assert_eq!(store.unwrap().rule, memory::Rule::default());
    let web = |yaml: &str| {
        let config = Config::read(yaml).unwrap();
        let app = config.app_of(&pod("shop", &[("app", "web")])).unwrap().1;
        assert!(app.cpu.is_none() && app.memory.is_some());
        app.qos.unwrap()
    };
    assert_eq!(web(GOOD), qos::Rule { target: Duration::from_millis(1_500), threshold: 1.5, step: 20.0 });
    let usual = GOOD.replace("{target: 1.5s, threshold: 1.5, step: 20}", "{target: 200ms}");
    assert_eq!(web(&usual), qos::Rule::new(Duration::from_millis(200)));
    assert!(checkout.qos.is_none());
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
        (
            "limit: 4,",
            "limit: 4, over: nodes,",
            "apps.shop/checkout.cpu.over: unknown variant `nodes`, expected `node` or `cluster`",
        ),
        ("floor: 20m", "floor: 9m", "apps.shop/checkout.cpu.floor: 9m is not allowed; allowed: 10m to 4000m"),
        ("floor: 20m", "floor: 4001m", "apps.shop/checkout.cpu.floor: 4001m is not allowed; allowed: 10m to 4000m"),
        ("grow: 0.5", "grow: 0.009", "apps.shop/checkout.cpu.grow: 0.009 is not allowed; allowed: 0.01 to 1"),
        ("grow: 0.5", "grow: 20", "apps.shop/checkout.cpu.grow: 20 is not allowed; allowed: 0.01 to 1"),
        ("shrink: 1", "shrink: 1.01", "apps.shop/checkout.cpu.shrink: 1.01 is not allowed; allowed: 0.01 to 1"),
        ("slack: 100m", "slack: 5", "apps.shop/checkout.cpu.slack: 5000m is not allowed; allowed: 10m to 4000m"),
        ("grow: 0.5", "grow: .nan", "apps.shop/checkout.cpu.grow: invalid type"),
        ("shrink: 1", "shrink: 0.009", "apps.shop/checkout.cpu.shrink: 0.009 is not allowed; allowed: 0.01 to 1"),
        ("slack: 100m", "slack: 9m", "apps.shop/checkout.cpu.slack: 9m is not allowed; allowed: 10m to 4000m"),
        ("window: 10", "window: 0", "apps.shop/checkout.cpu.window: 0 is not allowed; allowed: 1 to 50"),
        ("window: 10", "window: 51", "apps.shop/checkout.cpu.window: 51 is not allowed; allowed: 1 to 50"),
        (
            "limit: 4Gi",
            "limit: 15Mi",
            "apps.shop/checkout.memory.limit: 15Mi is not allowed; allowed: 16Mi to 67108864Mi",
        ),
        ("limit: 4Gi", "limit: 65Ti", "apps.shop/checkout.memory.limit: 68157440Mi is not allowed; allowed: 16Mi to"),
        ("reserve: 0.5", "reserve: -0.1", "apps.shop/checkout.memory.reserve: -0.1 is not allowed; allowed: 0 to 0.9"),
        ("reserve: 0.5", "reserve: 0.91", "apps.shop/checkout.memory.reserve: 0.91 is not allowed; allowed: 0 to 0.9"),
        ("reserve: 0.5", "reserve: .nan", "apps.shop/checkout.memory.reserve: invalid type"),
        ("margin: 20Mi", "margin: 7Mi", "apps.shop/checkout.memory.margin: 7Mi is not allowed; allowed: 8Mi to 4096Mi"),
        ("margin: 20Mi", "margin: 5Gi", "apps.shop/checkout.memory.margin: 5120Mi is not allowed; allowed: 8Mi to"),
        (
            "step: 8Mi",
            "step: 4194303",
            "apps.shop/checkout.memory.step: 4194303 is not allowed; allowed: 4Mi to 4096Mi",
        ),
        ("step: 8Mi", "step: 4097Mi", "apps.shop/checkout.memory.step: 4097Mi is not allowed; allowed: 4Mi to 4096Mi"),
        ("step: 8Mi", "steps: 8Mi", "apps.shop/checkout.memory.steps: unknown field"),
        ("step: 8Mi", "step: 8MiB", "apps.shop/checkout.memory.step: \"8MiB\" is not an amount of memory; allowed: "),
        ("memory: {limit: 32Mi}", "memory: {}", "apps.shop/store.memory: missing field `limit`"),
        (
            "memory: {limit: 32Mi}",
            "containers: ['*']",
            "apps.shop/store: an application without a resource is not allowed; allowed: at least one of cpu, qos, memory",
        ),
        (
            "cpu: {limit: 40m}",
            "cpu: {limit: 40m}\n    qos: {target: 200ms}",
            "apps.shop/cart: cpu with qos is not allowed; allowed: one of them",
        ),
        (
            "target: 1.5s",
            "target: 999us",
            "apps.shop/web.qos.target: 999us is not allowed; allowed: a duration such as 200ms or 1.5s, 1ms to 1m",
        ),
        ("target: 1.5s", "target: 60001ms", "apps.shop/web.qos.target: 60001ms is not allowed; allowed: a duration"),
        ("target: 1.5s", "target: '200'", "apps.shop/web.qos.target: 200 is not allowed; allowed: a duration"),
        ("target: 1.5s, ", "", "apps.shop/web.qos: missing field `target`"),
        ("threshold: 1.5", "threshold: 1.09", "apps.shop/web.qos.threshold: 1.09 is not allowed; allowed: 1.1 to 1.8"),
        ("threshold: 1.5", "threshold: 1.81", "apps.shop/web.qos.threshold: 1.81 is not allowed; allowed: 1.1 to 1.8"),
        ("threshold: 1.5", "threshold: .nan", "apps.shop/web.qos.threshold: invalid type"),
        ("step: 20", "step: 9.9", "apps.shop/web.qos.step: 9.9 is not allowed; allowed: 10 to 50"),
        ("step: 20", "step: 51", "apps.shop/web.qos.step: 51 is not allowed; allowed: 10 to 50"),
        ("step: 20", "steps: 20", "apps.shop/web.qos.steps: unknown field"),
        ("shop/cart", "cart", "apps.cart: \"cart\" is not allowed; allowed: namespace/name"),
        ("shop/cart", "/cart", "apps./cart: \"/cart\" is not allowed; allowed: namespace/name"),
        ("shop/cart", "a/b/c", "apps.a/b/c: \"a/b/c\" is not allowed; allowed: namespace/name"),
        ("{app: cart, tier: web}", "{}", "apps.shop/cart.pods.matchLabels: {} is not allowed; allowed: at least one"),
        ("[app, ", "['a*', ", "apps.shop/checkout.containers[0]: a* is not allowed; allowed: a name, * for all"),
        ("[app, ", "['!', ", "apps.shop/checkout.containers[0]: ! is not allowed; allowed: a name, * for all"),
        ("[app, helper, ", "[", "apps.shop/checkout.containers: [\"!istio-proxy\"] is not allowed; allowed: at least"),
        ("mode: enforce", "mode: on", "mode: "),
        ("grow: 0.5", "gro: 0.5", "apps.shop/checkout.cpu.gro: unknown field"),
        ("limit: 40m", "limit: 40k", "apps.shop/cart.cpu.limit: \"40k\" is not an amount of CPU; allowed: "),
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
        ("shrink: 1", "shrink: 0.01"),
        ("limit: 4Gi", "limit: 64Ti"),
        ("limit: 32Mi", "limit: 16Mi"),
        ("reserve: 0.5", "reserve: 0"),
        ("reserve: 0.5", "reserve: 0.9"),
        ("margin: 20Mi", "margin: 8Mi"),
        ("margin: 20Mi", "margin: 4Gi"),
        ("step: 8Mi", "step: 4Mi"),
        ("step: 8Mi", "step: 20Mi"),
        ("margin: 20Mi, step: 8Mi", "step: 4Gi"),
        ("window: 10", "window: 1"),
        ("window: 10", "window: 50"),
        ("mode: enforce", "mode: observe"),
        ("target: 1.5s", "target: 1ms"),
        ("target: 1.5s", "target: 1m"),
        ("threshold: 1.5", "threshold: 1.1"),
        ("threshold: 1.5", "threshold: 1.8"),
        ("step: 20", "step: 10"),
        ("step: 20", "step: 50"),
    ] {
        Config::read(&GOOD.replacen(from, to, 1)).unwrap();
    }
}

#[test]
fn response_times_come_from_a_control_plane() {
    let error = Config::read_without_control_plane(GOOD).unwrap_err().to_string();
    let expected = "apps.shop/web.qos: qos is not allowed; allowed: \
        only with --control-plane, which knows the response times";
    assert_eq!(error, expected);
    let without = GOOD.replace("    qos: {target: 1.5s, threshold: 1.5, step: 20}\n", "");
    assert_eq!(Config::read_without_control_plane(&without), Config::read(&without));
    let refused = Config::read_without_control_plane("mode: on").unwrap_err().to_string();
    assert!(refused.starts_with("mode: "), "{refused}");
}

#[test]
fn parts_of_a_limit_come_from_a_control_plane_too() {
    let leased = "apps: {shop/a: {pods: {matchLabels: {app: a}}, cpu: {limit: 4, over: cluster}}}";
    let config = Config::read(leased).unwrap();
    let cpu = config.app_of(&pod("shop", &[("app", "a")])).unwrap().1.cpu.as_ref().unwrap();
    assert_eq!((cpu.over, cpu.limit), (Over::Cluster, Cores::new(4.0)));
    let error = Config::read_without_control_plane(leased).unwrap_err().to_string();
    let expected = "apps.shop/a.cpu.over: cluster is not allowed; allowed: \
        node; cluster only with --control-plane, which leases parts of the limit";
    assert_eq!(error, expected);
    let by_node = leased.replace("cluster", "node");
    assert_eq!(Config::read_without_control_plane(&by_node), Config::read(&leased.replace(", over: cluster", "")));
}

#[test]
fn a_name_is_one_that_a_kubernetes_object_may_have() {
    let read = |name: &str| {
        Config::read(&format!("apps: {{{name}: {{pods: {{matchLabels: {{app: a}}}}, cpu: {{limit: 4}}}}}}"))
    };
    let longest = format!("shop/{}", "a".repeat(235));
    for name in ["shop/a", "s-1/a.b-c.d", &longest] {
        read(name).unwrap();
    }
    for name in ["Shop/a", "shop/A", "shop/a..b", "sh.op/a", "-s/a", &format!("{longest}a")] {
        let error = read(name).unwrap_err().to_string();
        let (path, allowed) = (format!("apps.{name}"), "namespace/name, 240 bytes");
        let expected = ConfigError::out_of_range(path, format!("{name:?}"), allowed).to_string();
        assert!(error.starts_with(&expected), "{error}");
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
    assert_eq!(config.apps.keys().map(ToString::to_string).collect::<Vec<_>>(), ["shop/cart", "shop/checkout"]);
    let cart = config.app_of(&pod("shop", &[("app", "cart")])).unwrap().1.qos.unwrap();
    assert_eq!(cart, qos::Rule::new(Duration::from_millis(200)));
    let app = config.app_of(&pod("shop", &[("app", "checkout")])).unwrap().1;
    let (limit, floor) = (Cores::new(4.0), Cores::new(0.05));
    let cpu = CpuConfig { limit, over: Over::Node, floor, rule: cpu::Rule::default() };
    let memory = MemoryConfig { limit: Bytes::mebi(4_096), rule: memory::Rule::default() };
    assert_eq!((&app.cpu, &app.memory), (&Some(cpu), &Some(memory)));
}
