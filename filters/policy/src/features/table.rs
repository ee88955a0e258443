//! Since when each field and each value exists, and what a neighbour without it gets.
//!
//! A field is named by its path in JSON, without the keys of maps and lists. A value is named where
//! only some are allowed. A test compares the tables with the types: who adds a field or a value
//! adds its row here, with a new [`Feature`] if the last release does not have it.

use super::{Feature, Features};

/// What a neighbour gets that lacks the feature of a field or value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Instead {
    /// The same without the field, or, if nobody can read what is left, without the one around it.
    /// For what is only less good without it.
    Omit,
    /// The service is left out: its requests pass untouched. For what is wrong without the field.
    Withhold,
}

/// One field, or one value of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rule {
    /// The path of the field, such as `capacity.limit`.
    pub field: &'static str,
    /// The value; none: the field, whatever its value.
    pub value: Option<&'static str>,
    /// The feature that it needs, and what happens without; none: the first release has it.
    pub since: Option<(Feature, Instead)>,
}

impl Rule {
    /// What happens at a neighbour with these features; none: it knows the field or value.
    pub fn at(&self, features: Features) -> Option<(Feature, Instead)> {
        self.since.filter(|(feature, _)| !features.has(*feature))
    }
}

const fn first(field: &'static str) -> Rule {
    Rule { field, value: None, since: None }
}

const fn since(field: &'static str, feature: Feature, instead: Instead) -> Rule {
    Rule { field, value: None, since: Some((feature, instead)) }
}

const fn value(field: &'static str, value: &'static str) -> Rule {
    Rule { field, value: Some(value), since: None }
}

/// What the control plane sends: the fields of [`ServiceSpec`](crate::config::ServiceSpec). The
/// rest of [`SyncResponse`](crate::sync::SyncResponse) may grow: proxies pass over what they do not
/// know in it.
pub const SERVICE: &[Rule] = &[
    first("routing"),
    value("routing", "bloc"),
    value("routing", "random"),
    value("routing", "round_robin"),
    value("routing", "least_request"),
    value("routing", "mu"),
    value("routing", "bid"),
    first("retries"),
    first("routeRetries"),
    first("virtualServiceRetries"),
    first("retryBudget"),
    since("bouncePrice", Feature::BouncePrice, Instead::Omit),
    first("resetInterval"),
    first("capacity"),
    first("capacity.estimator"),
    value("capacity.estimator", "static"),
    value("capacity.estimator", "average"),
    value("capacity.estimator", "slo"),
    first("capacity.limit"),
    since("capacity.perCore", Feature::Cpu, Instead::Omit),
    first("capacity.interval"),
    first("capacity.slo"),
    first("headroom"),
    first("maxChips"),
    first("concurrency"),
    first("hold"),
    first("maxQueueWait"),
    first("bodyLimit"),
    first("streamIdle"),
    first("slo"),
    first("sloGrace"),
    first("orca"),
    first("debugHeaders"),
    first("endpoints"),
    first("endpointsByPort"),
];

/// What a proxy sends: [`SyncRequest`](crate::sync::SyncRequest). A proxy omits what the control
/// plane lacks; one service of a report cannot be withheld.
///
/// The first release refuses what it does not know. Later ones pass over it.
pub const REPORT: &[Rule] = &[
    first("proxy"),
    first("version"),
    first("services"),
    first("serves"),
    first("wait"),
    first("load"),
    first("load.service"),
    first("load.inFlight"),
    first("load.capacity"),
    first("load.departed"),
    first("load.arrived"),
    first("load.serviceRate"),
    first("load.events"),
    first("load.events.departedConfident"),
    first("load.events.chipsGranted"),
    first("load.events.chipsWithheld"),
    first("load.events.rejectedCapacity"),
    first("load.events.rejectedBid"),
    first("load.events.rejectedDeadline"),
    first("last"),
    first("last.replica"),
    first("last.answeredMs"),
    first("last.reportedMs"),
    since("unread", Feature::Unread, Instead::Omit),
    since("load.latency", Feature::Latency, Instead::Omit),
    since("load.latency.response", Feature::Latency, Instead::Omit),
    since("load.latency.response.sumUs", Feature::Latency, Instead::Omit),
    since("load.latency.response.counts", Feature::Latency, Instead::Omit),
    since("load.latency.execution", Feature::Latency, Instead::Omit),
    since("load.latency.execution.sumUs", Feature::Latency, Instead::Omit),
    since("load.latency.execution.counts", Feature::Latency, Instead::Omit),
    since("load.latency.arrivals", Feature::Latency, Instead::Omit),
    since("calls", Feature::Latency, Instead::Omit),
    since("calls.service", Feature::Latency, Instead::Omit),
    since("calls.requests", Feature::Latency, Instead::Omit),
    since("calls.failed", Feature::Latency, Instead::Omit),
    since("calls.exhausted", Feature::Latency, Instead::Omit),
    since("calls.overflowed", Feature::Latency, Instead::Omit),
    since("calls.retried", Feature::Latency, Instead::Omit),
    since("calls.refused", Feature::Latency, Instead::Omit),
    since("calls.latency", Feature::Latency, Instead::Omit),
    since("calls.latency.sumUs", Feature::Latency, Instead::Omit),
    since("calls.latency.counts", Feature::Latency, Instead::Omit),
    since("cpu", Feature::Cpu, Instead::Omit),
];

/// What a person writes for the proxies of a mesh in Envoy's `configuration`:
/// [`PluginSpec`](crate::config::PluginSpec). It reaches modules of all versions at once, and they
/// refuse what they do not know. So a field with a feature may only stand below
/// [`with`](crate::config::PluginSpec::with), where others do not look. `services` is as in
/// [`SERVICE`].
pub const PLUGIN: &[Rule] = &[
    first("service"),
    first("services"),
    first("controlPlane"),
    first("controlPlane.cluster"),
    first("controlPlane.wait"),
    since("with", Feature::Unread, Instead::Withhold),
];
