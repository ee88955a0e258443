//! The parameters of one service: [the table](ServiceSpec), and what does not fit into it.
//!
//! A new parameter is a row here, with a [feature](crate::config::features) that older proxies
//! lack, and `bloc-control-plane schema services`, `policy` and `parameters` write the two schemas
//! and the table in `docs/parameters.md` anew.

mod capacity;
mod lists;
mod table;

pub use capacity::{CapacityParameters, CapacitySpec};

use super::error::ConfigError;
use super::features::table::Rule;
use super::routing::RoutingKind;
use crate::config::kinds::{Choice, Flag, Kind, MILLISECOND, Maybe, Number, Read, Time, Unknown, Whole};
use crate::units::inserted::{once, try_inserted};
use capacity::Capacity;
use lists::{Addresses, AddressesByPort, List, MARK, NamedRetries, ROUTE_RETRIES, ReadList};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;
use table::parameters;

const SECOND: Duration = Duration::from_secs(1);

parameters! {
    /// The parameters of a service as a user writes them; absent ones take their defaults.
    written ServiceSpec,
    /// The parameters of a service, every value within its range.
    checked ServiceParameters,
    values {
        /// How callers choose a server.
        routing "routing": Choice = Choice;
        /// Requests in flight that a server admits.
        capacity "capacity": Capacity = Capacity;
        /// Requests that the application executes at once. Without it `bid` and `mu` go by an
        /// estimate, and nothing is held.
        concurrency "concurrency": Maybe<Whole> = Maybe(Whole { default: 1, least: 1, most: 100_000 });
        /// With `concurrency`: whether the sidecar holds the requests beyond it, in one queue for
        /// all workers. Otherwise they wait in the application.
        hold "hold": Flag = Flag("; `true` with `mu`");
        /// The longest wait in that queue, after which a request is rejected. Its deadline, or
        /// twice its bid, may end it sooner.
        // The default is Envoy's timeout of a route.
        max_queue_wait "maxQueueWait": Time = Time::new(Duration::from_secs(15), MILLISECOND);
        /// With `mu`: the response time beyond which a caller answers 503 at once.
        slo "slo": Maybe<Time> = Maybe(Time::new(SECOND, MILLISECOND));
        /// How long a caller leaves a server alone that granted no chip (with `mu`: that rejected a
        /// request or failed).
        reset_interval "resetInterval": Time = Time::new(SECOND, MILLISECOND);
        /// Share of the capacity up to which a server grants chips.
        headroom "headroom": Number = Number { default: 0.8, most: 1.0, zero: false }; // paper, 5.4.1
        /// Retries after a rejection. With `bid`, bounces use them up only once a server has
        /// rejected the request for its capacity or a deadline.
        retries "retries": Whole = Whole { default: 3, least: 0, most: 10 }; // paper, 5.6
        /// Retries after anything but a rejection that the callers' routes to the service allow
        /// (`num_retries`). The control plane says 2, as Istio, where it reads Kubernetes.
        route_retries "routeRetries": Whole = ROUTE_RETRIES;
        /// Retries after anything but a rejection, as a share of the requests.
        retry_budget "retryBudget": Number = Number { default: 0.2, most: 1.0, zero: true };
        /// With `bid`: what the CPU of a bounce counts for, in mean execution times. Higher: fewer
        /// bounces and less CPU, longer response times.
        bounce_price "bouncePrice": Number = Number { default: 0.2, most: 10.0, zero: true };
        /// Bytes of a request's body beyond which callers make no bid and servers do not hold it:
        /// at most what the caller's Envoy buffers.
        body_limit "bodyLimit": Whole = Whole { default: 1 << 20, least: 1 << 10, most: 1 << 30 };
        /// A stream whose response has begun stops counting as work after so long without bytes,
        /// and counts again when bytes flow.
        // Longer than the pauses within most answers, and short beside the pauses between
        // keep-alive messages (10 s and more), each of which makes a stream count for up to 1.5
        // times this time. Filters look at their streams no more often than twice within the least.
        stream_idle "streamIdle": Time = Time::new(SECOND, Duration::from_millis(100));
        /// Whether the answer to a rejected request says why in `x-bloc-why`.
        debug_headers "debugHeaders": Flag = Flag("");
        /// Whether the server's sidecar also reports its load as ORCA (`endpoint-load-metrics`).
        orca "orca": Flag = Flag("");
    }
    lists {
        /// The same as `routeRetries` for routes of VirtualServices, by `namespace/name`.
        virtual_service_retries "virtualServiceRetries" skip "BTreeMap::is_empty": NamedRetries;
        /// The servers, `ip:port`, each once. Absent: learned from responses.
        endpoints "endpoints" skip "Option::is_none": Addresses;
        /// The same by the port of the service, for clusters whose name contains it.
        endpoints_by_port "endpointsByPort" skip "BTreeMap::is_empty": AddressesByPort;
    }
    later {}
    withdrawn { "maxChips"; "sloGrace"; }
}

impl ServiceSpec {
    /// Checks every value and fills in the defaults.
    ///
    /// # Errors
    /// The first value that is not allowed, its path relative to this spec.
    pub fn validate(&self) -> Result<ServiceParameters, ConfigError> {
        let mut parameters = self.checked()?;
        let holds = self.hold.unwrap_or(parameters.routing.holds());
        parameters.hold = holds && parameters.concurrency.is_some();
        Ok(parameters)
    }
}

impl ServiceParameters {
    /// The retries of a route whose `istio.config` metadata is `path`, after anything but a
    /// rejection.
    pub fn retries_of(&self, path: &[u8]) -> u32 {
        let named = std::str::from_utf8(path).ok().and_then(|path| path.split_once("/namespaces/"));
        named.and_then(|(_, name)| self.virtual_service_retries.get(name)).copied().unwrap_or(self.route_retries)
    }

    /// Whether VirtualServices have retries of their own.
    pub fn has_named_retries(&self) -> bool {
        !self.virtual_service_retries.is_empty()
    }

    /// The retries of VirtualServices, by `namespace/name`.
    pub fn named_retries(&self) -> impl Iterator<Item = (String, u32)> {
        self.virtual_service_retries.iter().map(|(name, retries)| (name.replacen(MARK, "/", 1), *retries))
    }

    /// The configured endpoints; none: senders learn them.
    pub fn endpoints(&self) -> Option<&[SocketAddr]> {
        self.endpoints.as_deref()
    }

    /// The same with the endpoints of one port of the service, where endpoints are given by port.
    /// `None`, for a cluster whose name has no port, takes those of the only port.
    #[must_use]
    pub fn at_port(&self, port: Option<u16>) -> Self {
        let by_port = match port {
            Some(port) => self.endpoints_by_port.get(&port),
            None => self.endpoints_by_port.values().next().filter(|_| self.endpoints_by_port.len() == 1),
        };
        let endpoints = by_port.or(self.endpoints.as_ref()).cloned();
        Self { endpoints, endpoints_by_port: BTreeMap::new(), ..self.clone() }
    }

    /// The same without endpoints, so that senders learn them.
    #[must_use]
    pub fn without_endpoints(&self) -> Self {
        Self { endpoints: None, endpoints_by_port: BTreeMap::new(), ..self.clone() }
    }

    /// The same with a routing that is only a [baseline](RoutingKind::is_offered).
    #[must_use]
    pub fn with_baseline(&self, routing: RoutingKind) -> Self {
        Self { routing, ..self.clone() }
    }

    /// The values that differ from those of an empty spec, as text by name.
    ///
    /// Two services are equal if and only if these are. The names are those of the spec, with a
    /// key after a dot where there are several values (`endpointsByPort.80`). The texts depend
    /// neither on the notation in the spec nor on how the standard library prints a value:
    /// durations are nanoseconds, ratios the bits of an `f64` in hexadecimal. They are for
    /// comparisons, not for people. Changing a name or a text gives every service that has the
    /// value another version. A new parameter changes only the services that use it.
    pub fn canonical(&self) -> BTreeMap<String, String> {
        let mut texts = self.texts();
        if let Ok(default) = ServiceSpec::default().validate() {
            let default = default.texts();
            texts.retain(|name, text| default.get(name) != Some(text));
        }
        texts
    }
}

/// What people are told of a parameter.
#[cfg(feature = "schema")]
#[derive(Clone, Debug, PartialEq)]
pub struct Documented {
    /// Its name in a file.
    pub name: &'static str,
    /// What it is, in Markdown.
    pub meaning: String,
    /// What is allowed.
    pub allowed: String,
    /// What holds without it.
    pub default: String,
}

#[cfg(feature = "schema")]
impl Documented {
    fn new(lines: &[&str], name: &'static str, allowed: String, default: String) -> Self {
        Self { name, meaning: joined(lines), allowed, default }
    }
}

/// The lines of a comment as one.
#[cfg(feature = "schema")]
fn joined(lines: &[&str]) -> String {
    lines.iter().map(|line| line.trim()).collect::<Vec<_>>().join(" ")
}

#[cfg(feature = "schema")]
fn described(lines: &[&str], mut schema: serde_json::Value) -> serde_json::Value {
    if let Some(members) = schema.as_object_mut() {
        members.insert("description".to_owned(), joined(lines).into());
    }
    schema
}

/// Parameters by service name, after the check.
pub type Services = BTreeMap<String, ServiceParameters>;

/// A services file: the specs by the name of the service.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, expecting = "a mapping")]
pub struct ServicesSpec {
    /// The services by name.
    #[serde(deserialize_with = "once")]
    pub services: BTreeMap<String, ServiceSpec>,
}

impl ServicesSpec {
    /// Checks every service.
    ///
    /// # Errors
    /// The first value that is not allowed, its path beginning with `services.`.
    #[inline(never)]
    pub fn validate(&self) -> Result<Services, ConfigError> {
        try_inserted(self.services.iter().map(|(name, spec)| {
            let path = format!("services.{name}");
            if name.is_empty() || name.len() > 253 || !name.bytes().all(|b| b.is_ascii_graphic()) {
                return Err(ConfigError::out_of_range(
                    path,
                    format!("{name:?}"),
                    "a name of 1 to 253 printable ASCII characters",
                ));
            }
            spec.validate().map(|parameters| (name.clone(), parameters)).map_err(|e| e.under(&path))
        }))
    }
}

#[cfg(test)]
mod canonical_tests;
#[cfg(all(test, feature = "schema"))]
mod documents_tests;
#[cfg(test)]
mod tests;
