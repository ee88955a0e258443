//! The plugin configuration of the filters: the JSON in Envoy's `configuration` field.

use super::error::ConfigError;
use super::kinds::{Kind, Time};
use super::service::{ServiceSpec, Services, ServicesSpec};
use crate::config::features::Features;
use crate::units::inserted::once;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use std::collections::BTreeMap;
use std::time::Duration;

/// The plugin configuration as written; everything is optional.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields, expecting = "a mapping")]
pub struct PluginSpec {
    /// Inbound: the service that this proxy stands in front of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service: Option<String>,
    /// Parameters in force as long as the control plane gives no others.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty", deserialize_with = "once")]
    pub services: BTreeMap<String, ServiceSpec>,
    /// Where to ask for parameters; absent: the proxy asks nowhere.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub control_plane: Option<ControlPlaneSpec>,
    /// A plugin configuration for modules with a feature, by the name of the feature. Its values
    /// replace those outside. Modules without the feature do not read it.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty", deserialize_with = "once")]
    #[cfg_attr(feature = "schema", schemars(with = "BTreeMap<String, serde_json::Value>"))]
    pub with: BTreeMap<String, Box<RawValue>>,
}

/// How to reach the control plane.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields, expecting = "a mapping")]
pub struct ControlPlaneSpec {
    /// Envoy's cluster of the control plane.
    pub cluster: String,
    /// How long the control plane may hold a poll; `1s` to `60s`, default `30s`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wait: Option<String>,
}

/// The plugin configuration, every value within its range.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PluginConfig {
    service: Option<String>,
    services: Services,
    control_plane: Option<ControlPlane>,
    passed_over: Vec<String>,
}

/// How to reach the control plane, validated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ControlPlane {
    cluster: String,
    wait: Duration,
}

impl PluginSpec {
    /// The same with what is [for](Self::with) the features of this module.
    fn with_features(mut self, features: &Features) -> Result<Self, ConfigError> {
        for (name, json) in std::mem::take(&mut self.with) {
            let path = format!("with.{name}");
            if !features.has(&name) {
                continue;
            }
            let over: Self = ConfigError::read_json(json.get().as_bytes()).map_err(|error| error.under(&path))?;
            if !over.with.is_empty() {
                return Err(ConfigError::out_of_range(format!("{path}.with"), "an object", "only outside"));
            }
            self.service = over.service.or(self.service);
            self.control_plane = over.control_plane.or(self.control_plane);
            for (name, spec) in over.services {
                let base = self.services.remove(&name).unwrap_or_default();
                self.services.insert(name, spec.or(base));
            }
        }
        Ok(self)
    }
}

impl PluginConfig {
    /// Reads and checks the plugin configuration; empty text is an empty configuration.
    ///
    /// # Errors
    /// The first value that cannot be used.
    pub fn from_json(json: &[u8]) -> Result<Self, ConfigError> {
        Self::read(json, &Features::own())
    }

    fn read(json: &[u8], features: &Features) -> Result<Self, ConfigError> {
        let spec: PluginSpec =
            if json.trim_ascii().is_empty() { PluginSpec::default() } else { ConfigError::read_json(json)? };
        let passed_over = spec.with.keys().filter(|name| !features.has(name)).cloned().collect();
        let spec = spec.with_features(features)?;
        let services = ServicesSpec { services: spec.services }.validate()?;
        if let Some(service) = spec.service.as_deref().filter(|name| name.is_empty()) {
            return Err(ConfigError::out_of_range("service".into(), format!("{service:?}"), "the name of a service"));
        }
        let control_plane = spec.control_plane.map(ControlPlane::try_from).transpose()?;
        Ok(Self { service: spec.service, services, control_plane, passed_over })
    }

    /// The service that this proxy stands in front of.
    pub fn service(&self) -> Option<&str> {
        self.service.as_deref()
    }

    /// The static parameters.
    pub fn services(&self) -> &Services {
        &self.services
    }

    /// The features under [`PluginSpec::with`] that this module does not have, or that are spelled
    /// wrong.
    pub fn passed_over(&self) -> &[String] {
        &self.passed_over
    }

    /// How to reach the control plane, if at all.
    pub fn control_plane(&self) -> Option<&ControlPlane> {
        self.control_plane.as_ref()
    }
}

impl ControlPlane {
    /// Envoy's cluster of the control plane.
    pub fn cluster(&self) -> &str {
        &self.cluster
    }

    /// How long the control plane may hold a poll, 1 s to 60 s.
    pub fn wait(&self) -> Duration {
        self.wait
    }
}

const WAIT: Time =
    Time { default: Duration::from_secs(30), least: Duration::from_secs(1), most: Duration::from_secs(60) };

impl TryFrom<ControlPlaneSpec> for ControlPlane {
    type Error = ConfigError;

    fn try_from(spec: ControlPlaneSpec) -> Result<Self, ConfigError> {
        if spec.cluster.is_empty() {
            return Err(ConfigError::out_of_range(
                "controlPlane.cluster".into(),
                "\"\"",
                "the name of an Envoy cluster",
            ));
        }
        Ok(Self { cluster: spec.cluster, wait: WAIT.checked("controlPlane.wait", spec.wait.as_ref())? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn empty_input_gives_the_default_configuration() {
        assert_eq!(PluginConfig::from_json(b""), Ok(PluginConfig::default()));
        assert_eq!(PluginConfig::from_json(b"{}"), Ok(PluginConfig::default()));
    }

    #[test]
    fn reads_service_services_and_control_plane() {
        let json = br#"{"service":"a","services":{"a":{"retries":2}},"controlPlane":{"cluster":"cp","wait":"5s"}}"#;
        let config = PluginConfig::from_json(json).unwrap();
        assert_eq!(config.service(), Some("a"));
        assert_eq!(config.services()["a"].retries(), 2);
        let control_plane = config.control_plane().unwrap();
        assert_eq!((control_plane.cluster(), control_plane.wait()), ("cp", Duration::from_secs(5)));
    }

    #[test]
    fn what_is_for_a_feature_replaces_the_rest_where_the_module_has_it() {
        let json = br#"{"service":"a","services":{"a":{"retries":2,"orca":true}},"with":{
            "spare":{"services":{"a":{"retries":5},"b":{}},"controlPlane":{"cluster":"cp"}},
            "later":{"service":"z","services":{"a":{"retries":"many"}},"no":{"such":["field"]}}
        }}"#;
        let config = PluginConfig::read(json, &Features::from_iter(["spare"])).unwrap();
        assert_eq!(config.passed_over(), ["later"]);
        assert_eq!((config.service(), config.control_plane().map(ControlPlane::cluster)), (Some("a"), Some("cp")));
        assert_eq!(config.services().keys().collect::<Vec<_>>(), ["a", "b"]);
        assert_eq!((config.services()["a"].retries(), config.services()["a"].orca()), (5, true));
        let json = br#"{"service":"a","controlPlane":{"cluster":"cp"},"with":{"spare":{"service":"b"}}}"#;
        let config = PluginConfig::read(json, &Features::from_iter(["spare"])).unwrap();
        assert_eq!((config.service(), config.control_plane().map(ControlPlane::cluster)), (Some("b"), Some("cp")));
    }

    #[test]
    fn rejects_invalid_input_and_names_its_path() {
        let refusal = |json: &[u8]| PluginConfig::read(json, &Features::from_iter(["spare"])).unwrap_err().to_string();
        assert_eq!(refusal(br#"{"service":""}"#), "service: \"\" is not allowed; allowed: the name of a service");
        assert!(
            refusal(br#"{"controlPlane":{"cluster":"cp","wait":"61s"}}"#)
                .starts_with("controlPlane.wait: \"61s\" is not allowed")
        );
        assert!(refusal(br#"{"controlplane":{}}"#).starts_with("controlplane: unknown field"));
        assert!(refusal(br#"{} x"#).starts_with(".: trailing characters"));
        assert!(refusal(br#"{"with":{"spare":{"servise":"a"}}}"#).starts_with("with.spare.servise: unknown field"));
        assert_eq!(
            refusal(br#"{"with":{"spare":{"with":{"later":{}}}}}"#),
            "with.spare.with: an object is not allowed; allowed: only outside"
        );
    }
}
