//! The content of a ConfigMap: parameters for the services of its namespace, or of the whole
//! cluster.
//!
//! ```yaml
//! apiVersion: v1
//! kind: ConfigMap
//! metadata: {name: bloc, namespace: shop, labels: {bloc.dev/policy: "true"}}
//! data:
//!   services.yaml: |
//!     defaults: {retries: 2}                                   # for every service managed here
//!     services:
//!       checkout: {routing: bid, concurrency: 4, hold: false}  # shop's own Service checkout
//!       "*": {}                                                # and all others of this namespace
//! ```
//!
//! In the control plane's own namespace the names are hosts (`checkout.shop.svc.cluster.local`,
//! also those of other registries), and `*` means every Service of the cluster. A Service that
//! neither a name nor a `*` covers is not managed. For each parameter, the more specific value
//! wins. From general to specific: the cluster's `defaults`, its `*`, its entry for the host, then
//! the namespace's `defaults`, its `*`, its entry for the name.

use bloc_daemon::ranges::{is_label, is_name, refused};
use bloc_policy::config::{ConfigError, ServiceSpec};
use bloc_yaml as yaml;
use k8s_openapi::api::core::v1::ConfigMap;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The label of our ConfigMaps; its value is `true`.
pub const LABEL: &str = "bloc.dev/policy";
/// The key in their data.
pub const KEY: &str = "services.yaml";
/// The name that matches all services.
pub const ALL: &str = "*";

/// Parameters, as written in `services.yaml` of a ConfigMap.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, expecting = "a mapping")]
pub struct PolicySpec {
    /// For every service that is managed.
    #[serde(default)]
    pub defaults: ServiceSpec,
    /// By the name of the service; `*` manages all.
    #[serde(default)]
    pub services: BTreeMap<String, ServiceSpec>,
}

/// What the names in a ConfigMap refer to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// Hosts of the whole cluster.
    Cluster,
    /// Services of one namespace.
    Namespace,
}

impl PolicySpec {
    /// Parses and validates a ConfigMap.
    ///
    /// # Errors
    /// The first value that is not allowed, with its path within `services.yaml`.
    pub fn read(map: &ConfigMap, scope: Scope) -> Result<Self, ConfigError> {
        let data = map.data.as_ref();
        let keys = data.into_iter().flat_map(BTreeMap::keys).chain(map.binary_data.iter().flat_map(BTreeMap::keys));
        if let Some(key) = keys.into_iter().find(|key| *key != KEY) {
            return Err(ConfigError::malformed("data", format!("unknown key `{key}`, expected `{KEY}`")));
        }
        let text = data.and_then(|data| data.get(KEY));
        let text = text.ok_or_else(|| ConfigError::malformed("data", format!("missing key `{KEY}`")))?;
        Self::read_text(text, scope)
    }

    /// Parses and validates the text of `services.yaml`.
    ///
    /// # Errors
    /// Those of [`read`](Self::read).
    pub fn read_text(text: &str, scope: Scope) -> Result<Self, ConfigError> {
        let spec: Self = yaml::read(text)?;
        spec.validate(scope)?;
        Ok(spec)
    }

    /// Validates every value.
    ///
    /// # Errors
    /// Those of [`read`](Self::read).
    pub fn validate(&self, scope: Scope) -> Result<(), ConfigError> {
        self.defaults.validate().map_err(|error| error.under("defaults"))?;
        for (path, spec) in
            [("defaults".to_owned(), Some(&self.defaults)), (format!("services.{ALL}"), self.services.get(ALL))]
        {
            if spec.is_some_and(|spec| spec.endpoints.is_some() || !spec.endpoints_by_port.is_empty()) {
                let allowed = "a list under the name of one service";
                return Err(refused(format!("{path}.endpoints"), "a list", allowed));
            }
        }
        for (name, spec) in &self.services {
            let path = format!("services.{name}");
            let fits = match scope {
                _ if name == ALL => true,
                Scope::Namespace => is_label(name),
                Scope::Cluster => is_name(name) && name.contains('.') && name.split('.').all(is_label),
            };
            if !fits {
                let allowed = match scope {
                    Scope::Namespace => {
                        "the name of a Service of this namespace (lower case, digits, `-`; no dots), or `*`"
                    }
                    Scope::Cluster => "a host such as backend.default.svc.cluster.local, or `*`",
                };
                return Err(refused(path, format!("{name:?}"), allowed));
            }
            spec.validate().map_err(|error| error.under(&path))?;
        }
        Ok(())
    }

    /// The specs for the service `name`, from general to specific, and whether it is managed here.
    pub fn of(&self, name: &str) -> (impl Iterator<Item = &ServiceSpec>, bool) {
        let (all, one) = (self.services.get(ALL), self.services.get(name));
        ([Some(&self.defaults), all, one].into_iter().flatten(), all.or(one).is_some())
    }
}

/// Refuses a ConfigMap beside an older one named `older` in its namespace.
pub fn crowded(namespace: &str, older: &str) -> ConfigError {
    let allowed = format!("one ConfigMap per namespace; the older {older:?} counts");
    refused("metadata.namespace", format!("{namespace:?}"), allowed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn read(text: &str, scope: Scope) -> Result<PolicySpec, String> {
        let map = json!({"metadata": {"name": "bloc"}, "data": {KEY: text}});
        PolicySpec::read(&serde_json::from_value(map).unwrap(), scope).map_err(|error| error.to_string())
    }

    #[test]
    fn orders_parameters_from_defaults_to_wildcard_to_named_service() {
        let policy = "{defaults: {retries: 1}, services: {a: {retries: 2}, '*': {retries: 3}}}";
        let policy = read(policy, Scope::Namespace).unwrap();
        let of = |name| policy.of(name).0.map(|spec| spec.retries.unwrap()).collect::<Vec<_>>();
        assert_eq!((of("a"), of("b")), (vec![1, 3, 2], vec![1, 3]));
        assert!(policy.of("b").1);
        let named = read("{defaults: {retries: 1}, services: {a: {}}}", Scope::Namespace).unwrap();
        assert!(named.of("a").1 && !named.of("b").1, "defaults alone manage nothing");
        assert_eq!(read("{}", Scope::Cluster), Ok(PolicySpec::default()));
    }

    #[test]
    fn a_refusal_names_path_value_and_range() {
        let refusal = |text| read(text, Scope::Namespace).unwrap_err();
        assert_eq!(
            refusal("services:\n  a: {retries: 11}\n"),
            "services.a.retries: 11 is not allowed; allowed: 0 to 10"
        );
        assert_eq!(refusal("defaults: {retries: -1}"), "defaults.retries: -1 is not allowed; allowed: 0 to 10");
        let unknown = refusal("services:\n  a:\n    retrys: 1\n");
        assert!(
            unknown.starts_with("services.a.retrys: unknown field `retrys`") && unknown.ends_with("line 3, column 5"),
            "{unknown}"
        );
        assert!(refusal("service: {}").starts_with("service: unknown field `service`"));
        assert!(
            refusal("defaults: {endpoints: []}")
                .starts_with("defaults.endpoints: a list is not allowed; allowed: a list under")
        );
        assert!(refusal("services: {'*': {endpoints: []}}").starts_with("services.*.endpoints: "));
        assert!(refusal("services: [").starts_with(".: "));
    }

    #[test]
    fn a_namespace_may_configure_only_its_own_services() {
        let foreign = read("services: {a.other: {}}", Scope::Namespace).unwrap_err();
        assert!(
            foreign.starts_with("services.a.other: \"a.other\" is not allowed; allowed: the name of a Service"),
            "{foreign}"
        );
        assert!(read("services: {a.other.svc.cluster.local: {}, api.example.org: {}}", Scope::Cluster).is_ok());
        assert!(read("services: {a: {}}", Scope::Cluster).unwrap_err().contains("allowed: a host such as"));
    }

    #[test]
    fn refuses_a_config_map_with_unknown_or_missing_keys() {
        let refusal = |map: serde_json::Value| {
            PolicySpec::read(&serde_json::from_value(map).unwrap(), Scope::Cluster).unwrap_err().to_string()
        };
        assert_eq!(
            refusal(json!({"data": {"service.yaml": ""}})),
            "data: unknown key `service.yaml`, expected `services.yaml`"
        );
        assert_eq!(refusal(json!({"data": {}})), "data: missing key `services.yaml`");
    }
}
