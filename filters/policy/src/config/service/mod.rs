//! The parameters of one service: [the table](ServiceSpec), and the rules between them.
//!
//! `docs/glossary.md` defines the terms; `docs/parameters.md` says how to add a parameter. A row
//! has the field, the name in a file, the kind, and the kind's value with default and range.

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
        /// How many requests in flight a server admits.
        capacity "capacity": Capacity = Capacity;
        /// How many requests the application executes at once. Without it, `bid` and `mu` use an
        /// estimate, and `hold` has no effect.
        concurrency "concurrency": Maybe<Whole> = Maybe(Whole { default: 1, least: 1, most: 100_000 });
        /// With `concurrency`: whether the sidecar holds the requests beyond it, in one queue for
        /// all workers. Otherwise they wait in the application.
        hold "hold": Flag = Flag { default_text: "false; `true` with `mu`" };
        /// With `hold`: the longest wait in the sidecar's queue, after which a request is rejected.
        /// Its deadline, or twice its bid, may end the wait sooner.
        // The default is Envoy's default timeout of a route.
        max_queue_wait "maxQueueWait": Time = Time::new(Duration::from_secs(15), MILLISECOND);
        /// With `mu`: the expected response time beyond which a caller answers 503 at once.
        slo "slo": Maybe<Time> = Maybe(Time::new(SECOND, MILLISECOND));
        /// How long a caller leaves a server alone when it has granted no chip (with `mu`: when it
        /// has rejected a request or failed).
        reset_interval "resetInterval": Time = Time::new(SECOND, MILLISECOND);
        /// Share of the capacity up to which a server grants chips.
        headroom "headroom": Number = Number { default: 0.8, most: 1.0, zero: false }; // paper, 5.4.1
        /// Retries after a rejection. With `bid`, a bounce uses one up only after a server has
        /// rejected the request because it was full or could not meet the deadline.
        retries "retries": Whole = Whole { default: 3, least: 0, most: 10 }; // paper, 5.6
        /// Tells the filters how many retries the callers' routes to the service have
        /// (`num_retries`), for failures other than a rejection. Where the control plane reads
        /// Kubernetes, it fills in Istio's 2.
        route_retries "routeRetries": Whole = ROUTE_RETRIES;
        /// The most retries after anything but a rejection, as a share of the requests.
        retry_budget "retryBudget": Number = Number { default: 0.2, most: 1.0, zero: true };
        /// With `bid`: the CPU cost of a bounce, in mean execution times. Higher: fewer bounces and
        /// less CPU, longer response times.
        bounce_price "bouncePrice": Number = Number { default: 0.2, most: 10.0, zero: true };
        /// Bytes of a body beyond which a request makes no bid and is not held. Set it no higher
        /// than what the caller's Envoy buffers.
        body_limit "bodyLimit": Whole = Whole { default: 1 << 20, least: 1 << 10, most: 1 << 30 };
        /// A stream whose response has begun stops counting as work after this long without bytes,
        /// and counts again when bytes flow.
        // Longer than the pauses within most answers, and short compared with those between
        // keep-alive messages (10 s and more). A keep-alive message makes a stream count for up to
        // 1.5 times this time, because filters look at their streams twice within it.
        stream_idle "streamIdle": Time = Time::new(SECOND, Duration::from_millis(100));
        /// Whether the answer to a rejected request says why in `x-bloc-why`.
        debug_headers "debugHeaders": Flag = Flag { default_text: "false" };
        /// Whether the server's sidecar reports its load as ORCA (`endpoint-load-metrics`), too.
        orca "orca": Flag = Flag { default_text: "false" };
    }
    lists {
        /// `routeRetries` for the routes of one VirtualService, by `namespace/name`.
        virtual_service_retries "virtualServiceRetries" skip "BTreeMap::is_empty": NamedRetries;
        /// The servers, `ip:port`, each once. Absent: learned from responses.
        endpoints "endpoints" skip "Option::is_none": Addresses;
        /// The servers by the port of the service, for clusters whose name contains the port.
        endpoints_by_port "endpointsByPort" skip "BTreeMap::is_empty": AddressesByPort;
    }
    later {}
    withdrawn { "maxChips"; "sloGrace"; }
}

impl ServiceSpec {
    /// Checks every value and fills in the defaults. Without a `concurrency`, `hold` is false.
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
    /// The `routeRetries` of a route whose `istio.config` metadata is `path`:
    /// `/apis/networking.istio.io/v1/namespaces/shop/virtual-service/checkout`.
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

    /// The configured endpoints; none: callers learn them.
    pub fn endpoints(&self) -> Option<&[SocketAddr]> {
        self.endpoints.as_deref()
    }

    /// These parameters with the endpoints of one port, or else with `endpoints`. A cluster whose
    /// name has no port (`None`) gets those of the only port, if there is just one.
    #[must_use]
    pub fn at_port(&self, port: Option<u16>) -> Self {
        let by_port = match port {
            Some(port) => self.endpoints_by_port.get(&port),
            None => self.endpoints_by_port.values().next().filter(|_| self.endpoints_by_port.len() == 1),
        };
        let endpoints = by_port.or(self.endpoints.as_ref()).cloned();
        Self { endpoints, endpoints_by_port: BTreeMap::new(), ..self.clone() }
    }

    /// These parameters without endpoints, so that callers learn them.
    #[must_use]
    pub fn without_endpoints(&self) -> Self {
        Self { endpoints: None, endpoints_by_port: BTreeMap::new(), ..self.clone() }
    }

    /// These parameters with any routing, including those that users cannot select
    /// ([`RoutingKind::is_offered`]).
    #[must_use]
    pub fn with_baseline(&self, routing: RoutingKind) -> Self {
        Self { routing, ..self.clone() }
    }

    /// The values that differ from those of an empty spec, as text by name.
    ///
    /// Two services are equal if and only if these texts are. The names are those of the spec, with
    /// a key after a dot where there are several values (`endpointsByPort.80`). The texts depend
    /// neither on the notation in the spec nor on how the standard library prints a value:
    /// durations are nanoseconds, ratios the bits of an `f64` in hexadecimal. They are for
    /// comparisons, not for people. The version of a configuration is a digest of these texts.
    /// Changing a name or a text gives every service that sets the value another version. A new
    /// parameter changes only the services that use it.
    pub fn canonical(&self) -> BTreeMap<String, String> {
        let mut texts = self.texts();
        if let Ok(default) = ServiceSpec::default().validate() {
            let default = default.texts();
            texts.retain(|name, text| default.get(name) != Some(text));
        }
        texts
    }
}

/// The documentation of a parameter.
#[cfg(feature = "schema")]
#[derive(Clone, Debug, PartialEq)]
pub struct Documented {
    /// Its name in a file.
    pub name: &'static str,
    /// What it is, in Markdown.
    pub meaning: String,
    /// What is allowed.
    pub allowed: String,
    /// Its default.
    pub default: String,
}

#[cfg(feature = "schema")]
impl Documented {
    fn new(lines: &[&str], name: &'static str, allowed: String, default: String) -> Self {
        Self { name, meaning: joined(lines), allowed, default }
    }
}

/// The lines of a comment, joined.
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

/// Checked parameters by service name.
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
                    "a name of 1 to 253 printable ASCII characters, no spaces",
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
