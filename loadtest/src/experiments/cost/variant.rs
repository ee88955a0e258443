//! The compared variants. All have the same listener, the same ten servers and the same answer,
//! which carries everything that any of them reads or sets.

use bloc_mesh::envoy::{
    Balancing, Outbound, Plugin, SERVICE, add_filters, route_configuration, sidecar_outbound, strip_inbound, upstream,
    wasm_filter,
};
use bloc_mesh::policy::Policy;
use bloc_policy::config::{CapacitySpec, PluginSpec, ServiceSpec};
use hyper::Response;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

/// The number of servers: a usual number of replicas.
pub const SERVERS: usize = 10;

/// What a BLOC server sends, what a server with ORCA reports sends, and whether the request had the
/// header that the reference filters set.
const ANSWER: [(&str, &str); 3] = [
    ("x-bloc-load", "chip=1, queue=7, capacity=10, rate=38.2, confidence=0.93, exec=251.3, service=40"),
    ("endpoint-load-metrics", "TEXT cpu_utilization=0.3,application_utilization=0.4,rps_fractional=1000"),
    ("x-saw-reference", "%REQ(X-REFERENCE)%"),
];

/// A variant of the proxy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Variant {
    /// Stock Envoy, least request.
    Plain,
    /// A Wasm filter that does nothing.
    Noop,
    /// A Wasm filter that sets one request header.
    SetRequest,
    /// A Wasm filter that sets one response header.
    SetResponse,
    /// An upstream filter that sets one request header.
    SetRequestUpstream,
    /// `bloc.inbound`.
    Inbound,
    /// `bloc.outbound` and, upstream, `bloc.attempt`.
    Outbound,
    /// All three in one Envoy.
    All,
    /// Envoy's own admission control by measured latency.
    AdaptiveConcurrency,
    /// Envoy's own load balancing by reported load.
    WeightedRoundRobin,
}

/// The modules for the variants, and the routing of the outbound filter.
#[derive(Clone, Debug)]
pub struct Modules {
    /// `bloc.wasm`.
    pub bloc: PathBuf,
    /// `reference.wasm`, from `benches/guests`.
    pub reference: PathBuf,
    /// A policy with filters.
    pub policy: Policy,
}

impl Variant {
    /// All variants; the others are compared with the first.
    pub const ALL: [Self; 10] = [
        Self::Plain,
        Self::Noop,
        Self::SetRequest,
        Self::SetResponse,
        Self::SetRequestUpstream,
        Self::Inbound,
        Self::Outbound,
        Self::All,
        Self::AdaptiveConcurrency,
        Self::WeightedRoundRobin,
    ];

    /// Its name in tables and files.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Plain => "no filter",
            Self::Noop => "no-op Wasm",
            Self::SetRequest => "Wasm, sets a request header",
            Self::SetResponse => "Wasm, sets a response header",
            Self::SetRequestUpstream => "Wasm upstream, sets a request header",
            Self::Inbound => "bloc.inbound",
            Self::Outbound => "bloc.outbound + bloc.attempt",
            Self::All => "all three of bloc",
            Self::AdaptiveConcurrency => "adaptive_concurrency",
            Self::WeightedRoundRobin => "client_side_weighted_round_robin",
        }
    }

    /// The name of its process and its files.
    pub fn file_name(self) -> String {
        self.name().replace(|c: char| !c.is_ascii_alphanumeric(), "-")
    }

    /// Its bootstrap.
    pub fn bootstrap(self, servers: &[SocketAddr], modules: &Modules) -> Value {
        let balancing = match self {
            Self::WeightedRoundRobin => Balancing::WeightedByReports,
            Self::Outbound | Self::All => Balancing::ChosenByFilter,
            _ => Balancing::LeastRequestOfTwo,
        };
        let plugin = matches!(self, Self::Outbound | Self::All).then(|| modules.outbound(servers));
        let outbound = Outbound { cluster: SERVICE, endpoints: servers, balancing, plugin: plugin.as_ref() };
        let mut whole = sidecar_outbound(&outbound);
        let reference = |root_id| vec![wasm_filter(root_id, &modules.reference, None)];
        match self {
            Self::Plain | Self::Outbound | Self::WeightedRoundRobin => {}
            Self::Noop => add_filters(&mut whole, &reference("noop"), &[]),
            Self::SetRequest => add_filters(&mut whole, &reference("set_request_header"), &[]),
            Self::SetResponse => add_filters(&mut whole, &reference("set_response_header"), &[]),
            Self::SetRequestUpstream => add_filters(&mut whole, &[], &reference("set_request_header")),
            Self::Inbound => {
                add_filters(&mut whole, &[modules.inbound()], &[]);
                strip_inbound(route_configuration(&mut whole));
            }
            Self::All => add_filters(&mut whole, &[modules.inbound()], &[]),
            Self::AdaptiveConcurrency => add_filters(&mut whole, &[adaptive_concurrency()], &[]),
        }
        whole
    }

    /// What is wrong with an answer that came through it; none: it has done its work.
    pub fn fault<T>(self, answer: &Response<T>) -> Option<String> {
        let header = |name| answer.headers().get(name).and_then(|value| value.to_str().ok());
        let own = |load: Option<&str>| load.is_some_and(|load| load != ANSWER[0].1);
        let load = header("x-bloc-load");
        let expected = match self {
            Self::Plain | Self::Noop | Self::AdaptiveConcurrency | Self::WeightedRoundRobin => {
                (load == Some(ANSWER[0].1), None, None)
            }
            Self::SetRequest | Self::SetRequestUpstream => (load == Some(ANSWER[0].1), None, Some("1")),
            Self::SetResponse => (load == Some(ANSWER[0].1), Some("1"), None),
            // The inbound filter replaces the report from the server behind it with its own; the
            // outbound filter removes it.
            Self::Inbound | Self::All => (own(load), None, None),
            Self::Outbound => (load.is_none(), None, None),
        };
        let seen = (true, header("x-reference"), header("x-saw-reference"));
        (!answer.status().is_success() || expected != seen)
            .then(|| format!("{}: status {}, headers {:?}", self.name(), answer.status(), answer.headers()))
    }
}

/// The bootstrap of the Envoy that answers; its listeners are `upstream-0` and so on.
pub fn servers() -> Value {
    upstream(SERVERS, &ANSWER)
}

impl Modules {
    fn outbound(&self, servers: &[SocketAddr]) -> Plugin {
        let service = ServiceSpec {
            routing: self.policy.routing(),
            endpoints: Some(servers.iter().map(ToString::to_string).collect()),
            ..ServiceSpec::default()
        };
        let spec = PluginSpec { services: BTreeMap::from([(SERVICE.into(), service)]), ..PluginSpec::default() };
        Plugin { module: self.bloc.clone(), configuration: json!(spec).to_string(), control_plane: None }
    }

    /// It has a capacity and a concurrency, so that all is measured and reported. Both are large,
    /// so that nothing is rejected.
    fn inbound(&self) -> Value {
        let service = ServiceSpec {
            capacity: Some(CapacitySpec::Static { limit: 100_000 }),
            concurrency: Some(10_000),
            hold: Some(false),
            ..ServiceSpec::default()
        };
        let services = BTreeMap::from([(SERVICE.into(), service)]);
        let spec = PluginSpec { service: Some(SERVICE.into()), services, ..PluginSpec::default() };
        wasm_filter("bloc.inbound", Path::new(&self.bloc), Some(&json!(spec).to_string()))
    }
}

/// An ideal latency of a second rejects nothing, so the filter's work is measured, not its effect.
fn adaptive_concurrency() -> Value {
    json!({
        "name": "envoy.filters.http.adaptive_concurrency",
        "typed_config": {
            "@type": "type.googleapis.com/envoy.extensions.filters.http.adaptive_concurrency.v3.AdaptiveConcurrency",
            "gradient_controller_config": {
                "sample_aggregate_percentile": {"value": 90},
                "concurrency_limit_params": {"concurrency_update_interval": "0.1s"},
                "min_rtt_calc_params": {"fixed_value": "1s", "min_concurrency": 1000},
            },
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn detects_a_filter_that_did_not_touch_the_response() {
        let answer = |reference: bool, load: Option<&str>, saw: bool| {
            let headers = [
                ("x-reference", reference.then_some("1")),
                ("x-bloc-load", load),
                ("x-saw-reference", saw.then_some("1")),
            ];
            let set = headers.into_iter().filter_map(|(name, value)| Some((name, value?)));
            set.fold(Response::builder(), |builder, (name, value)| builder.header(name, value)).body(()).unwrap()
        };
        let untouched = answer(false, Some(ANSWER[0].1), false);
        for variant in Variant::ALL {
            let works = matches!(
                variant,
                Variant::Plain | Variant::Noop | Variant::AdaptiveConcurrency | Variant::WeightedRoundRobin
            );
            assert_eq!(variant.fault(&untouched).is_none(), works, "{}", variant.name());
        }
        let (own, none) = (answer(false, Some("chip=1, queue=0"), false), answer(false, None, false));
        assert_eq!(Variant::SetResponse.fault(&answer(true, Some(ANSWER[0].1), false)), None);
        assert_eq!(Variant::SetRequest.fault(&answer(false, Some(ANSWER[0].1), true)), None);
        assert_eq!(
            (Variant::Inbound.fault(&own), Variant::All.fault(&own), Variant::Outbound.fault(&none)),
            (None, None, None)
        );
        let refused = Response::builder().status(503).header("x-bloc-load", ANSWER[0].1);
        assert!(Variant::Plain.fault(&refused.body(()).unwrap()).is_some());
    }
}
