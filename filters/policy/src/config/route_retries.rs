//! How often the routes to a service retry.

use super::error::ConfigError;
use super::ranges::integer;
use crate::units::inserted::try_inserted;
use std::collections::BTreeMap;

/// The retries that Envoy allows where a retry policy gives no number.
const DEFAULT: u32 = 1;
const MOST: u32 = 100;
/// Separates namespace and name in the path by which Istio names the VirtualService of a route:
/// `/apis/networking.istio.io/v1/namespaces/shop/virtual-service/checkout`.
const MARK: &str = "/virtual-service/";

/// Retries after anything but a rejection, of each route; 0 to 100.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RouteRetries {
    default: u32,
    /// By namespace and name, with [`MARK`] between them.
    named: BTreeMap<String, u32>,
}

impl RouteRetries {
    /// Checks the parameters `routeRetries` and `virtualServiceRetries`.
    pub(super) fn read(default: Option<i64>, named: &BTreeMap<String, i64>) -> Result<Self, ConfigError> {
        let one = |(name, retries): (&String, &i64)| {
            let path = format!("virtualServiceRetries.{name}");
            let (namespace, own) = name
                .split_once('/')
                .filter(|(namespace, own)| !namespace.is_empty() && !own.is_empty() && !own.contains('/'))
                .ok_or_else(|| ConfigError::out_of_range(path.clone(), format!("{name:?}"), "namespace/name"))?;
            Ok((format!("{namespace}{MARK}{own}"), integer(&path, Some(*retries), DEFAULT, 0, MOST)?))
        };
        let default = integer("routeRetries", default, DEFAULT, 0, MOST)?;
        Ok(Self { default, named: try_inserted(named.iter().map(one))? })
    }

    /// The number for a route of which nothing is known.
    pub fn default(&self) -> u32 {
        self.default
    }

    /// Whether VirtualServices have numbers of their own.
    pub fn has_named(&self) -> bool {
        !self.named.is_empty()
    }

    /// The numbers of VirtualServices, by `namespace/name`.
    pub fn named(&self) -> impl Iterator<Item = (String, u32)> {
        self.named.iter().map(|(name, retries)| (name.replacen(MARK, "/", 1), *retries))
    }

    /// The number for a route whose `istio.config` metadata is `path`.
    pub fn of(&self, path: &[u8]) -> u32 {
        let named = std::str::from_utf8(path).ok().and_then(|path| path.split_once("/namespaces/"));
        named.and_then(|(_, name)| self.named.get(name)).copied().unwrap_or(self.default)
    }
}
