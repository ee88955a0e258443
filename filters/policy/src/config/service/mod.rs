//! The parameters of one service.

mod canonical;
mod capacity;
mod parameters;

pub use capacity::CapacitySpec;
pub use parameters::{CapacityParameters, ServiceParameters, Services};

use super::error::ConfigError;
#[cfg(feature = "schema")]
use super::ranges::DURATION;
use super::ranges::integer;
use super::ranges::{HOUR, MILLISECOND, duration};
use super::route_retries::RouteRetries;
use super::routing::RoutingKind;
use crate::units::inserted::{inserted, once, try_inserted};
use crate::units::{Concurrency, Ratio};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

/// The parameters of a service as written by the user; absent fields take their defaults.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields, expecting = "a mapping")]
pub struct ServiceSpec {
    /// How senders choose; default `bloc`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub routing: Option<RoutingKind>,
    /// Retries after a rejection; 0 to 10, default 3.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(range(min = 0, max = 10)))]
    pub retries: Option<i64>,
    /// How often the callers' routes to the service let a request be retried after anything but a
    /// rejection (`num_retries` of the route's `retry_policy`); 0 to 100. Default: what the control
    /// plane says, 2 as Istio's where it reads Kubernetes; or 1, as Envoy's. A request with
    /// `x-envoy-max-retries` is retried as often as that says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(range(min = 0, max = 100)))]
    pub route_retries: Option<i64>,
    /// The same for routes of VirtualServices, by `namespace/name`; 0 to 100. Default: what
    /// the control plane finds in Kubernetes.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty", deserialize_with = "once")]
    pub virtual_service_retries: BTreeMap<String, i64>,
    /// Retries after anything but a rejection, as a share of the requests; 0 to 1, default 0.2.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(range(min = 0, max = 1)))]
    pub retry_budget: Option<f64>,
    /// With `routing: bid`: what the CPU of a bounce counts for, in mean execution times of the
    /// service; 0 to 10, default 0.2. Higher: fewer bounces, which cost CPU, and longer response
    /// times.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(range(min = 0, max = 10)))]
    pub bounce_price: Option<f64>,
    /// How long an endpoint without a chip is left alone; `1ms` to `1h`, default `1s`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(regex(pattern = DURATION)))]
    pub reset_interval: Option<String>,
    /// Requests in flight that an endpoint admits; default: no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capacity: Option<CapacitySpec>,
    /// Share of the capacity up to which chips are granted; above 0, at most 1, default 0.8.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(range(min = 0, max = 1)))]
    pub headroom: Option<f64>,
    /// Chips that a sender keeps per endpoint at most; 1 to 1000, default 10.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(range(min = 1, max = 1_000)))]
    pub max_chips: Option<i64>,
    /// Requests that the application works on at once. 1 to 100,000; default: nothing is held, and
    /// bids and `mu` go by an estimate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(range(min = 1, max = 100_000)))]
    pub concurrency: Option<i64>,
    /// With `concurrency`: whether the sidecar holds the requests beyond it; otherwise they wait in
    /// the application. Default: true.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hold: Option<bool>,
    /// How long a request is held at most; `1ms` to `1h`, default `15s`. The deadline of a request
    /// may end that sooner.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(regex(pattern = DURATION)))]
    pub max_queue_wait: Option<String>,
    /// Bytes of a request's body, beyond which the request makes no bid and is not held: as many as
    /// Envoy buffers (`per_connection_buffer_limit_bytes`), or fewer. 1,024 to 1,073,741,824;
    /// default 1,048,576.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(range(min = 1_024, max = 1_073_741_824)))]
    pub body_limit: Option<i64>,
    /// After so long without bytes in either direction a stream does not count as work, until bytes
    /// flow again; `100ms` to `1h`, default `1s`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(regex(pattern = DURATION)))]
    pub stream_idle: Option<String>,
    /// With `routing: mu`: the response time beyond which a sender answers 503 at once; `1ms` to
    /// `1h`, default: never.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(regex(pattern = DURATION)))]
    pub slo: Option<String>,
    /// By how much the expected response time may exceed the SLO before that; `0s` to `1h`, default
    /// `0s`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(regex(pattern = DURATION)))]
    pub slo_grace: Option<String>,
    /// Whether the server's sidecar also reports its load as ORCA (`endpoint-load-metrics`);
    /// default false.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub orca: Option<bool>,
    /// Whether the answer to a rejected request says why in `x-bloc-why`; default false.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub debug_headers: Option<bool>,
    /// Addresses `ip:port`; absent: learned from the answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub endpoints: Option<Vec<String>>,
    /// Addresses `ip:port` by the port of the service, for clusters whose name contains it; they
    /// have precedence over `endpoints`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty", deserialize_with = "once")]
    pub endpoints_by_port: BTreeMap<u16, Vec<String>>,
}

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

const DEFAULT_RETRIES: u32 = 3; // paper, 5.6: three retries
const DEFAULT_RETRY_BUDGET: f64 = 0.2;
const DEFAULT_BOUNCE_PRICE: f64 = 0.2;
const DEFAULT_RESET_INTERVAL: Duration = Duration::from_secs(1);
/// Envoy's default timeout of a route.
const DEFAULT_MAX_QUEUE_WAIT: Duration = Duration::from_secs(15);
/// Envoy's default buffer limit.
const DEFAULT_BODY_LIMIT: u32 = 1 << 20;
/// Longer than the pauses within most answers, and short beside the pauses between keep-alive
/// messages (10 s and more), each of which makes a stream count for up to 1.5 times this time.
const DEFAULT_STREAM_IDLE: Duration = Duration::from_secs(1);
/// Filters look at their streams no more often than twice within this time.
const LEAST_STREAM_IDLE: Duration = Duration::from_millis(100);
const DEFAULT_HEADROOM: f64 = 0.8; // paper, 5.4.1
const DEFAULT_MAX_CHIPS: u32 = 10;

impl ServiceSpec {
    /// Checks every value and fills in the defaults.
    ///
    /// # Errors
    /// The first value that is not allowed, its path relative to this spec.
    pub fn validate(&self) -> Result<ServiceParameters, ConfigError> {
        let retries = integer("retries", self.retries, DEFAULT_RETRIES, 0, 10)?;
        let max_chips = integer("maxChips", self.max_chips, DEFAULT_MAX_CHIPS, 1, 1_000)?;
        let reset_interval =
            duration("resetInterval", self.reset_interval.as_deref(), DEFAULT_RESET_INTERVAL, MILLISECOND, HOUR)?;
        let headroom = self.headroom.unwrap_or(DEFAULT_HEADROOM);
        let headroom = Ratio::new(headroom)
            .filter(|ratio| ratio.get() > 0.0)
            .ok_or_else(|| ConfigError::out_of_range("headroom".into(), headroom, "a number above 0 and at most 1"))?;
        let retry_budget = self.retry_budget.unwrap_or(DEFAULT_RETRY_BUDGET);
        let retry_budget = Ratio::new(retry_budget)
            .ok_or_else(|| ConfigError::out_of_range("retryBudget".into(), retry_budget, "a number from 0 to 1"))?;
        let bounce_price = self.bounce_price.unwrap_or(DEFAULT_BOUNCE_PRICE);
        if !(0.0..=10.0).contains(&bounce_price) {
            return Err(ConfigError::out_of_range("bouncePrice".into(), bounce_price, "a number from 0 to 10"));
        }
        Ok(ServiceParameters {
            routing: self.routing.unwrap_or_default(),
            retries,
            route_retries: RouteRetries::read(self.route_retries, &self.virtual_service_retries)?,
            retry_budget,
            bounce_price,
            reset_interval,
            capacity: match &self.capacity {
                Some(spec) => spec.validate().map_err(|error| error.under("capacity"))?,
                None => CapacityParameters::Unlimited,
            },
            headroom,
            max_chips,
            concurrency: match self.concurrency {
                Some(places) => Some(Concurrency::new(integer("concurrency", Some(places), 1, 1, 100_000)?)),
                None => None,
            },
            hold: self.concurrency.is_some() && self.hold.unwrap_or(true),
            max_queue_wait: duration(
                "maxQueueWait",
                self.max_queue_wait.as_deref(),
                DEFAULT_MAX_QUEUE_WAIT,
                MILLISECOND,
                HOUR,
            )?,
            body_limit: integer("bodyLimit", self.body_limit, DEFAULT_BODY_LIMIT, 1 << 10, 1 << 30)?,
            stream_idle: duration(
                "streamIdle",
                self.stream_idle.as_deref(),
                DEFAULT_STREAM_IDLE,
                LEAST_STREAM_IDLE,
                HOUR,
            )?,
            slo: optional_duration("slo", self.slo.as_deref())?,
            slo_grace: duration("sloGrace", self.slo_grace.as_deref(), Duration::ZERO, Duration::ZERO, HOUR)?,
            orca: self.orca.unwrap_or(false),
            debug_headers: self.debug_headers.unwrap_or(false),
            endpoints: self.endpoints.as_deref().map(|texts| endpoints("endpoints", texts)).transpose()?,
            endpoints_by_port: try_inserted(
                (self.endpoints_by_port.iter()).map(|(port, texts)| Ok((*port, of_port(*port, texts)?))),
            )?,
        })
    }

    /// The values of this spec, and those of `base` where it has none.
    #[must_use]
    pub fn or(self, base: Self) -> Self {
        // Destructured in full, so that a new field cannot be forgotten.
        let Self {
            routing,
            retries,
            route_retries,
            virtual_service_retries,
            retry_budget,
            bounce_price,
            reset_interval,
            capacity,
            headroom,
            max_chips,
            concurrency,
            hold,
            max_queue_wait,
            body_limit,
            stream_idle,
            slo,
            slo_grace,
            orca,
            debug_headers,
            endpoints,
            endpoints_by_port,
        } = self;
        Self {
            routing: routing.or(base.routing),
            retries: retries.or(base.retries),
            route_retries: route_retries.or(base.route_retries),
            virtual_service_retries: inserted(base.virtual_service_retries.into_iter().chain(virtual_service_retries)),
            retry_budget: retry_budget.or(base.retry_budget),
            bounce_price: bounce_price.or(base.bounce_price),
            reset_interval: reset_interval.or(base.reset_interval),
            capacity: capacity.or(base.capacity),
            headroom: headroom.or(base.headroom),
            max_chips: max_chips.or(base.max_chips),
            concurrency: concurrency.or(base.concurrency),
            hold: hold.or(base.hold),
            max_queue_wait: max_queue_wait.or(base.max_queue_wait),
            body_limit: body_limit.or(base.body_limit),
            stream_idle: stream_idle.or(base.stream_idle),
            slo: slo.or(base.slo),
            slo_grace: slo_grace.or(base.slo_grace),
            orca: orca.or(base.orca),
            debug_headers: debug_headers.or(base.debug_headers),
            endpoints: endpoints.or(base.endpoints),
            endpoints_by_port: if endpoints_by_port.is_empty() { base.endpoints_by_port } else { endpoints_by_port },
        }
    }
}

fn optional_duration(path: &str, text: Option<&str>) -> Result<Option<Duration>, ConfigError> {
    text.map(|text| duration(path, Some(text), HOUR, MILLISECOND, HOUR)).transpose()
}

fn of_port(port: u16, texts: &[String]) -> Result<Vec<SocketAddr>, ConfigError> {
    let path = format!("endpointsByPort.{port}");
    if port == 0 { Err(ConfigError::out_of_range(path, 0, "1 to 65535")) } else { endpoints(&path, texts) }
}

fn endpoints(path: &str, texts: &[String]) -> Result<Vec<SocketAddr>, ConfigError> {
    let mut addresses = Vec::with_capacity(texts.len());
    for (i, text) in texts.iter().enumerate() {
        let refuse = |allowed: &str| ConfigError::out_of_range(format!("{path}[{i}]"), format!("{text:?}"), allowed);
        let address: SocketAddr =
            text.parse().map_err(|_| refuse("ip:port, such as 10.0.0.1:8080 or [fd00::1]:8080"))?;
        if address.port() == 0 {
            return Err(refuse("ports 1 to 65535"));
        }
        addresses.push(address);
    }
    addresses.sort_unstable();
    if let Some(pair) = addresses.windows(2).find(|pair| pair.first() == pair.last()) {
        let twice = pair.first().map(ToString::to_string).unwrap_or_default();
        return Err(ConfigError::out_of_range(path.into(), twice, "each address once"));
    }
    Ok(addresses)
}

#[cfg(test)]
mod tests;
