//! The dashboard and the alerts: every metric in them exists, and promtool's tests of the alerts
//! pass.
//!
//! Needs promtool, from Debian's package `prometheus`; without it, `make test` skips that test.
#![allow(missing_docs, reason = "tests")]

use bloc_control_plane::agents::leases::{AppLease, LeaseView};
use bloc_control_plane::latency::{EdgeTotals, ServiceTotals};
use bloc_control_plane::load::{Signals, Spread, Totals};
use bloc_control_plane::metrics::{LatencyMetrics, Metrics};
use bloc_control_plane::store::Counts;
use bloc_leases::Part;
use bloc_node_agent::agent::status::{self, AppCpu, AppMemory, Status};
use bloc_node_agent::{Bytes, Cores};
use bloc_policy::sync::latency::Histogram;
use promql_parser::parser::{self, Expr};
use promql_parser::util::{ExprVisitor, walk_expr};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

fn dashboards() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("dashboards")
}

/// The metrics of the sidecars as Prometheus sees them, from the sources of the filters.
fn of_sidecars() -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    let sources = [
        ("inbound", include_str!("../../filters/engine/src/service_metrics.rs")),
        ("outbound", include_str!("../../filters/engine/src/cluster.rs")),
    ];
    for (side, source) in sources {
        let (_, rest) = source.split_once("events! {").unwrap();
        let events = rest.split_once("\n}\n").unwrap().0.split(" = \"").skip(1);
        let gauges = source.split("gauge(\"").skip(1);
        let totals = source.split("total(\"").skip(1);
        let named = events.chain(gauges).chain(totals);
        names.extend(named.map(|rest| format!("bloc_{side}_{}", rest.split_once('"').unwrap().0)));
    }
    names
}

/// The metrics of the control plane, as it writes them.
fn of_the_control_plane() -> BTreeSet<String> {
    let rates = Spread { min_per_second: 1.0, mean_per_second: 1.0, max_per_second: 1.0 };
    let signals = Signals {
        servers: 1,
        servers_with_service_rate: 1,
        demand_requests: 1,
        capacity_requests: Some(1),
        arrival_rate_per_second: Some(1.0),
        service_rate_per_second: Some(1.0),
        service_rate_per_server: Some(rates),
        utilisation_ratio: Some(1.0),
        predicted_arrival_rate_per_second: Some(1.0),
        prediction_horizon_seconds: 30.0,
    };
    let counts = Counts {
        digest: 1,
        services: 1,
        polls_held: 1,
        proxies_connected: 1,
        proxies_stale: 1,
        proxies_lacking: vec![("spare", 1)],
        proxies_unread: 1,
        node_agents: 1,
        node_agent_asks: 1,
        refused: 1,
        accepted: 1,
        rejected: 1,
        load_reports_dropped: 1,
        loaded_unix_seconds: Some(1),
    };
    let metrics = Metrics::default();
    metrics.count_answer("refused");
    metrics.count_agent_message("accepted");
    let times = Histogram { sum_us: 1, counts: vec![(7, 1)] };
    let totals = ServiceTotals { response: times.clone(), calls: times };
    let latencies = LatencyMetrics { services: [("a".to_owned(), totals)].into(), edges: EdgeTotals::default() };
    metrics.note_watch("services");
    metrics.count_lease_ask("said");
    metrics.count_lease_write("written");
    let lease = AppLease { held: 0.5, silent: 0.0, silent_nodes: 0 };
    let leases = LeaseView { apps: BTreeMap::from([("shop/checkout".into(), lease)]), unread: 0 };
    let text = metrics
        .encode(counts, &BTreeMap::from([("a".to_owned(), (signals, Totals::default()))]), latencies, &leases)
        .unwrap();
    names(&text)
}

/// The metrics of the node agent, as it writes them.
fn of_the_node_agent() -> BTreeSet<String> {
    let app = AppMemory {
        limit: Bytes::ZERO,
        pool: Bytes::ZERO,
        grants: 0,
        refused_grants: 0,
        oom_kills: BTreeMap::from([("a".to_owned(), 0)]),
        containers: Vec::new(),
    };
    let memory = BTreeMap::from([("shop/checkout".to_owned(), app)]);
    let lease = status::AppLease { part: Part::WHOLE, goal: Part::WHOLE, held: Part::ZERO, age: Duration::ZERO };
    let app = AppCpu { limit: Cores::ZERO, free: Cores::ZERO, lease: Some(lease), containers: Vec::new() };
    let cpu = BTreeMap::from([("shop/checkout".to_owned(), app)]);
    let status = Status { errors: BTreeMap::from([("read", 1)]), cpu, memory, ..Status::default() };
    names(&bloc_node_agent::metrics::encode(&status, true).unwrap())
}

/// The names in a text for Prometheus.
fn names(text: &str) -> BTreeSet<String> {
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    lines.filter_map(|line| line.split(['{', ' ']).next().map(str::to_owned)).collect()
}

/// The names of the metrics in a query.
fn named(query: &str) -> BTreeSet<String> {
    struct Names(BTreeSet<String>);
    impl ExprVisitor for Names {
        type Error = Infallible;
        fn pre_visit(&mut self, expr: &Expr) -> Result<bool, Infallible> {
            let selector = match expr {
                Expr::VectorSelector(selector) => Some(selector),
                Expr::MatrixSelector(matrix) => Some(&matrix.vs),
                _ => None,
            };
            self.0.extend(selector.map(|selector| selector.name.clone().expect("a metric is named")));
            Ok(true)
        }
    }
    let expr = parser::parse(&query.replace("$__rate_interval", "5m")).unwrap_or_else(|e| panic!("{query}: {e}"));
    let mut names = Names(BTreeSet::new());
    let Ok(_) = walk_expr(&mut names, &expr);
    names.0
}

/// The queries under `field` at any depth of `value`.
fn queries(value: &Value, field: &str, found: &mut Vec<String>) {
    match value {
        Value::Object(fields) => {
            found.extend(fields.get(field).and_then(Value::as_str).map(str::to_owned));
            fields.values().for_each(|value| queries(value, field, found));
        }
        Value::Array(values) => values.iter().for_each(|value| queries(value, field, found)),
        _ => {}
    }
}

fn dashboard() -> Value {
    serde_json::from_str(&std::fs::read_to_string(dashboards().join("bloc.json")).unwrap()).unwrap()
}

#[test]
fn the_dashboard_shows_all_sidecar_metrics_and_only_existing_ones() {
    let (sidecars, control_plane) = (of_sidecars(), of_the_control_plane());
    assert!(
        sidecars.contains("bloc_inbound_in_flight") && sidecars.contains("bloc_outbound_retries_exhausted"),
        "{sidecars:?}"
    );
    let mut found = Vec::new();
    queries(&dashboard(), "expr", &mut found);
    assert!(found.len() > 30, "{found:?}");
    let named: BTreeSet<String> = found.iter().flat_map(|query| named(query)).collect();
    let unknown: Vec<_> =
        named.iter().filter(|name| !sidecars.contains(*name) && !control_plane.contains(*name)).collect();
    assert_eq!(unknown, Vec::<&String>::new());
    let unseen: Vec<_> = sidecars.iter().filter(|name| !named.contains(*name)).collect();
    assert_eq!(unseen, Vec::<&String>::new());
}

#[test]
fn the_alerts_use_only_existing_metrics() {
    let alerts: Value =
        serde_saphyr::from_str(&std::fs::read_to_string(dashboards().join("alerts.yaml")).unwrap()).unwrap();
    let mut found = Vec::new();
    queries(&alerts, "expr", &mut found);
    assert_eq!(found.len(), 15);
    let known = &(&of_sidecars() | &of_the_control_plane()) | &of_the_node_agent();
    let unknown: Vec<String> =
        found.iter().flat_map(|query| named(query)).filter(|name| !known.contains(name)).collect();
    assert_eq!(unknown, Vec::<String>::new());
}

/// The metrics about node agents: `docs/metrics.md` has all of them and no others.
#[test]
fn the_documentation_names_the_metrics_about_node_agents() {
    let (_, section) = include_str!("../../docs/metrics.md").split_once("## Node agents at the control plane").unwrap();
    let section = section.split("\n## ").next().unwrap();
    let names = section.split('`').filter(|text| text.starts_with("bloc_"));
    let named: BTreeSet<String> = names.map(|text| text.split('{').next().unwrap().to_owned()).collect();
    let is_about = |name: &String| ["bloc_node_agent", "bloc_lease"].iter().any(|start| name.starts_with(start));
    let written: BTreeSet<String> = of_the_control_plane().into_iter().filter(is_about).collect();
    assert_eq!(written.len(), 9);
    assert_eq!(named, written);
}

/// In Envoy the name of a metric contains the service. `istio-manifests/metrics` turns that into a
/// label, for the metrics that it lists.
#[test]
fn the_pod_monitor_names_every_metric_of_the_sidecars() {
    let monitors = include_str!("../../istio-manifests/metrics/podmonitors.yaml");
    let head = "regex: ;bloc_(inbound|outbound)_(.+?)_(";
    let (_, rest) = monitors.split_once(head).expect("a rule that takes names apart");
    let named: BTreeSet<&str> = rest.split_once(")\n").unwrap().0.split('|').collect();
    let sidecars = of_sidecars();
    let known: BTreeSet<&str> = sidecars.iter().map(|name| name.splitn(3, '_').last().unwrap()).collect();
    assert_eq!(named, known, "istio-manifests/metrics/podmonitors.yaml names other metrics");
}

#[test]
fn panels_have_titles_and_do_not_overlap() {
    let dashboard = dashboard();
    let panels = dashboard["panels"].as_array().unwrap();
    let mut taken = BTreeSet::new();
    let mut ids = BTreeSet::new();
    for panel in panels {
        assert!(ids.insert(panel["id"].as_u64().unwrap()), "{panel}");
        assert!(panel["title"].as_str().is_some_and(|title| !title.is_empty()), "{panel}");
        let at = |side: &str| panel["gridPos"][side].as_u64().unwrap();
        assert!(at("x") + at("w") <= 24, "{panel}");
        for cell in (at("x")..at("x") + at("w")).flat_map(|x| (at("y")..at("y") + at("h")).map(move |y| (x, y))) {
            assert!(taken.insert(cell), "{panel} overlaps another");
        }
    }
}

#[test]
fn promtool_accepts_the_alerts_and_each_fires_in_its_tests() {
    let found = Command::new("promtool").arg("--version").output();
    assert!(found.is_ok(), "no promtool: sudo apt-get install -y --no-install-recommends prometheus");
    for arguments in [["check", "rules", "alerts.yaml"], ["test", "rules", "alerts_test.yaml"]] {
        let output = Command::new("promtool").args(arguments).current_dir(dashboards()).output().unwrap();
        let text = [output.stdout, output.stderr].concat();
        assert!(output.status.success(), "promtool {}: {}", arguments.join(" "), String::from_utf8_lossy(&text));
    }
    // Each alert must fire in a test.
    let read = |file: &str| std::fs::read_to_string(dashboards().join(file)).unwrap();
    let (alerts, tests) = (read("alerts.yaml"), read("alerts_test.yaml"));
    for name in alerts.lines().filter_map(|line| line.trim().strip_prefix("- alert: ")) {
        let fires = format!("alertname: {name}\n        exp_alerts:\n          - exp_labels");
        assert!(tests.contains(&fires), "{name} never fires in the tests");
    }
}
