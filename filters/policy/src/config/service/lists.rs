//! Parameters with several values, most of which the control plane supplies.

use crate::config::error::ConfigError;
use crate::config::kinds::{Kind, Whole};
use crate::config::seen::Seen;
use crate::units::inserted::{inserted, once, try_inserted};
use serde::de::{DeserializeSeed, Error};
use serde::{Deserialize, Deserializer, Serialize};
use std::collections::BTreeMap;
use std::fmt::{Display, Formatter};
use std::marker::PhantomData;
use std::net::SocketAddr;

/// One kind.
pub trait List {
    /// Values as a user writes them; the default: none.
    type Written: Clone + Default + PartialEq + Serialize;
    /// Values that were checked.
    type Value: Clone + PartialEq;

    /// Reads the values.
    ///
    /// # Errors
    /// What does not have the right type.
    fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Self::Written, D::Error>;

    /// Checks what was written.
    ///
    /// # Errors
    /// The first value that is not allowed; its path begins with `name`.
    fn check(name: &str, written: &Self::Written) -> Result<Self::Value, ConfigError>;

    /// The values of a particular spec, with those of the general one.
    fn or(own: Self::Written, base: Self::Written) -> Self::Written;

    /// The values as texts for comparisons, by name.
    fn canonical(name: &str, value: &Self::Value) -> Vec<(String, String)>;

    /// The JSON Schema of what a user writes.
    #[cfg(feature = "schema")]
    fn schema() -> serde_json::Value;
}

/// Reads a list.
pub(super) struct ReadList<K>(PhantomData<K>);

impl<K> Default for ReadList<K> {
    fn default() -> Self {
        Self(PhantomData)
    }
}

impl<'de, K: List> DeserializeSeed<'de> for ReadList<K> {
    type Value = K::Written;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<K::Written, D::Error> {
        K::read(deserializer)
    }
}

/// Addresses `ip:port`, or none.
pub struct Addresses;

impl List for Addresses {
    type Written = Option<Vec<String>>;
    /// Sorted.
    type Value = Option<Vec<SocketAddr>>;

    fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Self::Written, D::Error> {
        Option::deserialize(deserializer)
    }

    fn check(name: &str, written: &Self::Written) -> Result<Self::Value, ConfigError> {
        written.as_deref().map(|texts| addresses(name, texts)).transpose()
    }

    fn or(own: Self::Written, base: Self::Written) -> Self::Written {
        own.or(base)
    }

    fn canonical(name: &str, value: &Self::Value) -> Vec<(String, String)> {
        vec![(name.to_owned(), value.as_deref().map_or_else(|| "none".to_owned(), text))]
    }

    #[cfg(feature = "schema")]
    fn schema() -> serde_json::Value {
        serde_json::json!({"type": "array", "items": {"type": "string"}})
    }
}

/// Addresses by the port of the service.
pub struct AddressesByPort;

impl List for AddressesByPort {
    type Written = BTreeMap<u16, Vec<String>>;
    type Value = BTreeMap<u16, Vec<SocketAddr>>;

    fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Self::Written, D::Error> {
        let written: BTreeMap<Port, Vec<String>> = once(deserializer)?;
        Ok(inserted(written.into_iter().map(|(Port(port), texts)| (port, texts))))
    }

    fn check(name: &str, written: &Self::Written) -> Result<Self::Value, ConfigError> {
        try_inserted(written.iter().map(|(port, texts)| {
            let path = format!("{name}.{port}");
            if *port == 0 {
                return Err(ConfigError::out_of_range(path, 0, PORTS));
            }
            Ok((*port, addresses(&path, texts)?))
        }))
    }

    fn or(own: Self::Written, base: Self::Written) -> Self::Written {
        if own.is_empty() { base } else { own }
    }

    fn canonical(name: &str, value: &Self::Value) -> Vec<(String, String)> {
        value.iter().map(|(port, list)| (format!("{name}.{port}"), text(list))).collect()
    }

    #[cfg(feature = "schema")]
    fn schema() -> serde_json::Value {
        let addresses = Addresses::schema();
        serde_json::json!({"type": "object", "patternProperties": {r"^\d+$": addresses}, "additionalProperties": false})
    }
}

const PORTS: &str = "1 to 65535";

/// The port of a service, as a key.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Port(u16);

impl Display for Port {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(formatter)
    }
}

impl<'de> Deserialize<'de> for Port {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let refused = || D::Error::custom(format_args!("{text:?} is not allowed; allowed: {PORTS}"));
        text.parse().map(Self).map_err(|_| refused())
    }
}

/// Separates namespace and name in the path by which Istio names the VirtualService of a route:
/// `/apis/networking.istio.io/v1/namespaces/shop/virtual-service/checkout`.
pub(super) const MARK: &str = "/virtual-service/";
/// What a route may retry.
pub(super) const ROUTE_RETRIES: Whole = Whole { default: 1, least: 0, most: 100 };

/// Retries by the `namespace/name` of a VirtualService.
pub struct NamedRetries;

impl List for NamedRetries {
    type Written = BTreeMap<String, i64>;
    /// By namespace and name, with [`MARK`] between them.
    type Value = BTreeMap<String, u32>;

    fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Self::Written, D::Error> {
        let written: BTreeMap<String, Retries> = once(deserializer)?;
        Ok(inserted(written.into_iter().map(|(name, Retries(retries))| (name, retries))))
    }

    fn check(name: &str, written: &Self::Written) -> Result<Self::Value, ConfigError> {
        try_inserted(written.iter().map(|(service, retries)| {
            let path = format!("{name}.{service}");
            let (namespace, own) = service
                .split_once('/')
                .filter(|(namespace, own)| !namespace.is_empty() && !own.is_empty() && !own.contains('/'))
                .ok_or_else(|| ConfigError::out_of_range(path.clone(), format!("{service:?}"), "namespace/name"))?;
            Ok((format!("{namespace}{MARK}{own}"), ROUTE_RETRIES.checked(&path, Some(retries))?))
        }))
    }

    fn or(own: Self::Written, base: Self::Written) -> Self::Written {
        inserted(base.into_iter().chain(own))
    }

    fn canonical(name: &str, value: &Self::Value) -> Vec<(String, String)> {
        let of = |(service, retries): (&String, &u32)| {
            (format!("{name}.{}", service.replacen(MARK, "/", 1)), retries.to_string())
        };
        value.iter().map(of).collect()
    }

    #[cfg(feature = "schema")]
    fn schema() -> serde_json::Value {
        serde_json::json!({"type": "object", "additionalProperties": ROUTE_RETRIES.schema()})
    }
}

struct Retries(i64);

impl<'de> Deserialize<'de> for Retries {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let seen = Seen::deserialize(deserializer)?;
        let refusal = format!("{seen} is not allowed; allowed: {}", ROUTE_RETRIES.expected());
        ROUTE_RETRIES.take(seen).map(Self).ok_or_else(|| D::Error::custom(refusal))
    }
}

fn addresses(path: &str, texts: &[String]) -> Result<Vec<SocketAddr>, ConfigError> {
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

/// In the order of the parameters, which are sorted.
fn text(list: &[SocketAddr]) -> String {
    list.iter().map(|one| address(*one)).collect::<Vec<_>>().join(",")
}

fn address(address: SocketAddr) -> String {
    match address {
        SocketAddr::V4(v4) => format!("{:08x}:{}", u32::from(*v4.ip()), v4.port()),
        SocketAddr::V6(v6) => {
            format!("{:032x}%{}:{}", u128::from(*v6.ip()), v6.scope_id(), v6.port())
        }
    }
}
