//! `GET /v1/status`: the status of all services. Lines are filtered, sorted and limited here, so
//! that the page gets only those it shows.

use super::samples::{Samples, Sparklines};
use crate::agents::cpu::AppView;
use crate::latency::EdgeView;
use crate::store::{Condition, Event, Modules, ProxyCounts, SenderStatus, ServiceStatus, Status};
use serde::{Deserialize, Serialize};
use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::time::Duration;

/// The most lines in a response.
const MAX_LINES: usize = 1_000;
/// The most edges in a response.
const MAX_EDGES: usize = 50;
/// The most services in trouble listed apart from the lines.
const MAX_TROUBLED: usize = 10;

#[derive(Clone, Debug, Deserialize)]
#[serde(default)]
pub struct Query {
    /// Only services whose name contains this; ignores case.
    pub filter: String,
    /// The order of the lines.
    pub sort: Sort,
    /// The number of lines; default 100, at most 1,000.
    pub limit: usize,
    /// Whether the lines contain the last 15 minutes.
    pub sparklines: bool,
}

impl Default for Query {
    fn default() -> Self {
        Self { filter: String::new(), sort: Sort::default(), limit: 100, sparklines: false }
    }
}

/// The order of the lines; ties are ordered by name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Sort {
    /// The worst condition first.
    #[default]
    Condition,
    Name,
    /// The highest arrival rate first.
    Arrivals,
    /// The highest utilisation first.
    Utilisation,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Glance<'a> {
    /// The pod that answers; `replica` is its name among the proxies.
    instance: String,
    replica: &'a str,
    version: &'a str,
    source: &'a str,
    ready: bool,
    loaded: Option<&'a str>,
    history: u64,
    refusals: &'a [Event],
    proxies: ProxyCounts,
    stale: &'a [SenderStatus],
    modules: &'a Modules,
    /// The heaviest edges of the call graph, and the number of all.
    edges: &'a [EdgeView],
    edge_count: usize,
    /// Applications whose CPU node agents manage, and the number of all.
    apps: &'a [AppView],
    app_count: usize,
    /// The number of services in each condition.
    conditions: BTreeMap<&'static str, usize>,
    /// The first few services in trouble, the worst first, regardless of the filter.
    troubled: Vec<Line<'a>>,
    total: usize,
    /// The number of services that match the filter.
    matching: usize,
    sample: u64,
    sample_seconds: f64,
    services: Vec<Line<'a>>,
}

#[derive(Debug, Serialize)]
struct Line<'a> {
    #[serde(flatten)]
    status: &'a ServiceStatus,
    #[serde(skip_serializing_if = "Option::is_none")]
    sparklines: Option<Sparklines>,
}

impl<'a> Glance<'a> {
    /// The response to `query`.
    pub fn new(status: &'a Status, query: &Query, samples: &Samples, sample_every: Duration) -> Self {
        let filter = query.filter.to_ascii_lowercase();
        let mut matching: Vec<&ServiceStatus> =
            status.services.iter().filter(|s| s.name.to_ascii_lowercase().contains(&filter)).collect();
        matching.sort_by(|a, b| compare(a, b, query.sort).then_with(|| a.name.cmp(&b.name)));
        let mut troubled: Vec<&ServiceStatus> = status.services.iter().filter(|s| is_trouble(s.condition)).collect();
        troubled.sort_by(|a, b| {
            compare(a, b, Sort::Condition).then_with(|| descending(a.rejected_share, b.rejected_share))
        });
        let mut conditions = BTreeMap::new();
        for service in &status.services {
            *conditions.entry(word(service.condition)).or_default() += 1;
        }
        let line = |status: &'a ServiceStatus| {
            let sparklines = query.sparklines.then(|| samples.of(&status.name)).flatten();
            Line { status, sparklines }
        };
        Self {
            instance: std::env::var("HOSTNAME").unwrap_or_default(),
            replica: &status.replica,
            version: &status.version,
            source: &status.source,
            ready: status.ready,
            loaded: status.loaded.as_deref(),
            history: status.history,
            refusals: &status.refusals,
            proxies: status.proxies,
            stale: &status.stale,
            modules: &status.modules,
            edges: status.edges.get(..MAX_EDGES).unwrap_or(&status.edges),
            edge_count: status.edges.len(),
            apps: &status.apps,
            app_count: status.app_count,
            conditions,
            troubled: troubled.into_iter().take(MAX_TROUBLED).map(|status| Line { status, sparklines: None }).collect(),
            total: status.services.len(),
            matching: matching.len(),
            sample: samples.taken(),
            sample_seconds: sample_every.as_secs_f64(),
            services: matching.into_iter().take(query.limit.min(MAX_LINES)).map(line).collect(),
        }
    }
}

fn is_trouble(condition: Condition) -> bool {
    match condition {
        Condition::Rejecting | Condition::Overloaded | Condition::Shedding | Condition::Silent => true,
        Condition::Ok | Condition::Elsewhere | Condition::Unreported => false,
    }
}

fn word(condition: Condition) -> &'static str {
    match condition {
        Condition::Rejecting => "rejecting",
        Condition::Overloaded => "overloaded",
        Condition::Shedding => "shedding",
        Condition::Silent => "silent",
        Condition::Ok => "ok",
        Condition::Elsewhere => "elsewhere",
        Condition::Unreported => "unreported",
    }
}

fn compare(a: &ServiceStatus, b: &ServiceStatus, sort: Sort) -> Ordering {
    let known = |value: Option<f64>| value.unwrap_or(-1.0);
    let load =
        |s: &ServiceStatus, value: fn(&crate::load::Signals) -> Option<f64>| known(s.load.as_ref().and_then(value));
    match sort {
        Sort::Condition => a.condition.cmp(&b.condition),
        Sort::Name => Ordering::Equal,
        Sort::Arrivals => descending(load(a, |l| l.arrival_rate_per_second), load(b, |l| l.arrival_rate_per_second)),
        Sort::Utilisation => descending(load(a, |l| l.utilisation_ratio), load(b, |l| l.utilisation_ratio)),
    }
}

fn descending(a: f64, b: f64) -> Ordering {
    b.total_cmp(&a)
}
