//! A complete, validated set of services: what a source publishes.
//!
//! It is accepted or refused as a whole, so that a proxy never sees half of an edit.

use bloc_policy::config::{ConfigError, ServiceParameters, ServiceSpec, ServicesSpec};
use serde_json::Value;
use serde_saphyr::{DuplicateKeyPolicy, NonFiniteFloatPolicy, UserMessageFormatter, options};
use std::collections::BTreeMap;
use std::sync::Arc;

/// One service: as the operator wrote it, and validated.
#[derive(Debug)]
pub struct Service {
    spec: ServiceSpec,
    parameters: ServiceParameters,
}

impl Service {
    /// The spec as written; this is what proxies are sent.
    pub fn spec(&self) -> &ServiceSpec {
        &self.spec
    }

    /// Whether a proxy would do the same with both: `1s` and `1000ms`, or another order of endpoints, make no difference.
    pub fn means_the_same_as(&self, other: &Self) -> bool {
        self.parameters == other.parameters
    }
}

/// All services by name, every value within its range.
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    services: BTreeMap<String, Arc<Service>>,
}

impl Snapshot {
    /// Checks every service.
    ///
    /// # Errors
    /// The first value that is not allowed, with its path and the allowed range.
    pub fn validate(spec: ServicesSpec) -> Result<Self, ConfigError> {
        let mut parameters = spec.validate()?;
        let services = spec
            .services
            .into_iter()
            .filter_map(|(name, spec)| {
                let parameters = parameters.remove(&name)?;
                Some((name, Arc::new(Service { spec, parameters })))
            })
            .collect();
        Ok(Self { services })
    }

    /// Reads and checks a services file (`services: {name: {...}}`).
    ///
    /// The YAML is read as plain values first and these by the one schema that the filters use for JSON, so that both accept
    /// and say the same; where in the file a refused value stands is added if it can be found.
    ///
    /// # Errors
    /// [`ConfigError::Malformed`] for what is not YAML of that schema (a name given twice included); else as
    /// [`Snapshot::validate`].
    pub fn from_yaml(text: &str) -> Result<Self, ConfigError> {
        let values: Value = serde_saphyr::from_str_with_options(text, options()).map_err(|e| malformed(".", &e))?;
        let spec: ServicesSpec = serde_path_to_error::deserialize(values).map_err(|error| {
            let place = place_of_refusal(text).map(|place| format!(" at {place}")).unwrap_or_default();
            ConfigError::Malformed { path: error.path().to_string(), reason: format!("{}{place}", error.inner()) }
        })?;
        Self::validate(spec)
    }

    /// The services by name.
    pub fn services(&self) -> &BTreeMap<String, Arc<Service>> {
        &self.services
    }

    /// Takes the services out.
    pub(crate) fn into_services(self) -> BTreeMap<String, Arc<Service>> {
        self.services
    }
}

fn options() -> serde_saphyr::Options {
    options! {
        duplicate_keys: DuplicateKeyPolicy::Error,
        // As text it is refused under its name; as a number it would become JSON's null and with that the default.
        non_finite_float_policy: NonFiniteFloatPolicy::AsString,
        // A refusal is one line of the log.
        with_snippet: false,
    }
}

fn malformed(path: &str, error: &serde_saphyr::Error) -> ConfigError {
    ConfigError::Malformed { path: path.to_owned(), reason: error.render_with_formatter(&UserMessageFormatter) }
}

/// Where reading straight into the schema stops, as `line 3, column 5`; `None` where YAML's own reading is more lenient.
fn place_of_refusal(text: &str) -> Option<String> {
    let error = serde_saphyr::from_str_with_options::<ServicesSpec>(text, options()).err()?;
    error.location().map(|at| format!("line {}, column {}", at.line(), at.column()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(yaml: &str) -> String {
        match Snapshot::from_yaml(yaml) {
            Ok(snapshot) => panic!("accepted: {snapshot:?}"),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn reads_a_services_file() {
        let yaml = "
# a comment
services:
  backend:
    routing: least_request
    resetInterval: 200ms
    capacity: {estimator: static, limit: 10}
    endpoints:
      - 127.0.0.1:8080
      - '[::1]:80'
  other: {}
";
        let snapshot = Snapshot::from_yaml(yaml).unwrap();
        assert_eq!(snapshot.services().keys().collect::<Vec<_>>(), ["backend", "other"]);
        let backend = &snapshot.services()["backend"];
        assert_eq!(backend.spec().reset_interval.as_deref(), Some("200ms"));
        assert_eq!(backend.parameters.endpoints().map(<[_]>::len), Some(2));
    }

    #[test]
    fn a_refusal_names_path_value_and_range() {
        assert_eq!(
            refusal("services: {backend: {retries: 11}}"),
            "services.backend.retries: 11 is not allowed, only 0 to 10"
        );
        assert_eq!(
            refusal("services:\n  backend:\n    retries: three\n"),
            "services.backend.retries: invalid type: string \"three\", expected i64 at line 3, column 14"
        );
        let unknown = refusal("services:\n  backend:\n    retrys: 3\n");
        assert!(unknown.starts_with("services.backend.retrys: unknown field `retrys`, expected one of"), "{unknown}");
        assert!(unknown.ends_with("at line 3, column 5"), "{unknown}");
        let nan = refusal("services: {backend: {headroom: .nan}}");
        assert!(nan.starts_with("services.backend.headroom: invalid type: string \".nan\""), "{nan}");
    }

    #[test]
    fn what_is_no_services_file_is_refused() {
        assert!(
            refusal("").starts_with(".: invalid type: null"),
            "an empty file, as a truncating editor leaves for a moment"
        );
        assert!(refusal("services:\n").starts_with("services: invalid type: null"), "the same a moment later");
        assert!(refusal("services: {a: {}, a: {}}").contains("duplicate mapping key: a"));
        assert!(refusal("services: [").starts_with(".: "));
        assert!(refusal("services: {'a b': {}}").contains("printable ASCII"));
        assert!(refusal("services: {a: {}}\n---\nservices: {}\n").contains("multiple found"));
        assert_eq!(Snapshot::from_yaml("services: {}").unwrap().services().len(), 0, "said on purpose");
    }

    #[test]
    fn notation_makes_no_difference() {
        let one = |yaml: &str| Snapshot::from_yaml(yaml).unwrap().services()["a"].clone();
        let first = one("services: {a: {resetInterval: 1s, endpoints: ['1.1.1.1:1', '2.2.2.2:2']}}");
        let same = one("services: {a: {resetInterval: 1000ms, endpoints: ['2.2.2.2:2', '1.1.1.1:1']}}");
        assert!(first.means_the_same_as(&same));
        assert!(!first.means_the_same_as(&one("services: {a: {}}")));
    }
}
