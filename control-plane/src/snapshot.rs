//! A complete, validated set of services: what a source publishes, and what is in force.
//!
//! A snapshot is accepted or refused as a whole, so that a proxy never sees half an edit.

use crate::digest;
use bloc_policy::config::features::Features;
use bloc_policy::config::features::SERVICE;
use bloc_policy::config::features::fit::{Fitted, fit, needs};
use bloc_policy::config::features::table::Rule;
use bloc_policy::config::{ConfigError, ServiceParameters, ServiceSpec, ServicesSpec};
use bloc_policy::sync::Routes;
use bloc_yaml as yaml;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// One service: as the operator wrote it, and validated.
#[derive(Debug)]
pub struct Service {
    spec: ServiceSpec,
    routes: Option<Routes>,
    parameters: ServiceParameters,
    digest: u64,
    needs: Features,
    /// Which feature each field needs.
    rules: &'static [Rule],
}

impl Service {
    fn of(spec: ServiceSpec, routes: Option<Routes>, parameters: ServiceParameters, rules: &'static [Rule]) -> Self {
        // From the parameters, so that notation does not matter.
        let digest = digest::of_pairs(parameters.canonical());
        let needs = needs(&spec, rules);
        Self { spec, routes, parameters, digest, needs, rules }
    }

    /// Validates a spec, together with the known routes to the service.
    ///
    /// # Errors
    /// The first invalid value; its path is relative to the spec.
    pub fn validate(spec: ServiceSpec, routes: Routes) -> Result<Self, ConfigError> {
        Self::read(spec, Some(routes), SERVICE)
    }

    fn read(spec: ServiceSpec, routes: Option<Routes>, rules: &'static [Rule]) -> Result<Self, ConfigError> {
        let base = routes.clone().map(ServiceSpec::from).unwrap_or_default();
        let parameters = spec.clone().or(base).validate()?;
        Ok(Self::of(spec, routes, parameters, rules))
    }

    /// The features that a proxy needs for all of it.
    pub fn needs(&self) -> &Features {
        &self.needs
    }

    /// The service as a proxy with these features gets it; `None`: the rest would do harm there, so
    /// the proxy gets nothing.
    pub fn fitted(self: &Arc<Self>, features: &Features) -> Option<Arc<Self>> {
        if self.needs.are_in(features) {
            return Some(Arc::clone(self));
        }
        match fit(&self.spec, features, self.rules) {
            Fitted::Whole => Some(Arc::clone(self)),
            Fitted::Without(spec) => Self::read(*spec, self.routes.clone(), self.rules).ok().map(Arc::new),
            Fitted::Withheld => None,
        }
    }

    /// Identifies the meaning: equal for equal meanings, in every build.
    pub fn digest(&self) -> u64 {
        self.digest
    }

    /// The spec as written; proxies get this one.
    pub fn spec(&self) -> &ServiceSpec {
        &self.spec
    }

    /// What proxies get about the routes to it, if known.
    pub fn routes(&self) -> Option<&Routes> {
        self.routes.as_ref()
    }

    /// The spec, completed by the known routes.
    pub fn in_force(&self) -> ServiceSpec {
        self.spec.clone().or(self.routes.clone().map(ServiceSpec::from).unwrap_or_default())
    }

    /// Its parameters, with defaults filled in.
    pub fn parameters(&self) -> &ServiceParameters {
        &self.parameters
    }

    /// Whether both make a proxy do the same. `1s` equals `1000ms`, and the order of endpoints does
    /// not matter.
    pub fn means_the_same_as(&self, other: &Self) -> bool {
        std::ptr::eq(self, other) || self.parameters == other.parameters
    }
}

/// All services by name, every value within its range.
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    services: BTreeMap<String, Arc<Service>>,
}

impl Snapshot {
    /// Validates every service.
    ///
    /// # Errors
    /// The first invalid value, with its path and the allowed range.
    pub fn validate(spec: ServicesSpec) -> Result<Self, ConfigError> {
        Self::validate_by(spec, SERVICE)
    }

    fn validate_by(spec: ServicesSpec, rules: &'static [Rule]) -> Result<Self, ConfigError> {
        let mut parameters = spec.validate()?;
        let services = spec
            .services
            .into_iter()
            .filter_map(|(name, spec)| {
                let parameters = parameters.remove(&name)?;
                Some((name, Arc::new(Service::of(spec, None, parameters, rules))))
            })
            .collect();
        Ok(Self { services })
    }

    /// A snapshot of services that were validated one by one.
    pub fn new(services: BTreeMap<String, Arc<Service>>) -> Self {
        Self { services }
    }

    /// Parses and validates a services file (`services: {name: {...}}`).
    ///
    /// # Errors
    /// Those of [`yaml::read`] and [`Snapshot::validate`].
    pub fn from_yaml(text: &str) -> Result<Self, ConfigError> {
        Self::validate(yaml::read(text)?)
    }

    /// The same with other rules than [`SERVICE`], for tests of features to come.
    ///
    /// # Errors
    /// Those of [`from_yaml`](Self::from_yaml).
    pub fn from_yaml_by(text: &str, rules: &'static [Rule]) -> Result<Self, ConfigError> {
        Self::validate_by(yaml::read(text)?, rules)
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

/// The services in force, by name.
#[derive(Debug, Default)]
pub struct Catalog {
    current: Option<BTreeMap<String, Arc<Service>>>,
    digest: u64,
    generation: u64,
    needs: Features,
}

impl Catalog {
    /// Whether there has been a snapshot. Before it nothing is known, not even that a service does
    /// not exist.
    pub fn is_published(&self) -> bool {
        self.current.is_some()
    }

    /// The services in force, by name.
    pub fn iter(&self) -> impl Iterator<Item = (&String, &Arc<Service>)> {
        self.current.iter().flatten()
    }

    /// The number of services in force.
    pub fn count(&self) -> usize {
        self.current.as_ref().map_or(0, BTreeMap::len)
    }

    /// A service in force.
    pub fn get(&self, name: &str) -> Option<&Arc<Service>> {
        self.current.as_ref()?.get(name)
    }

    /// Those of `names` that are in force, in the same order.
    pub fn of<'a>(
        &'a self,
        names: impl Iterator<Item = &'a str>,
    ) -> impl Iterator<Item = (&'a String, &'a Arc<Service>)> {
        names.filter_map(|name| self.current.as_ref()?.get_key_value(name))
    }

    /// The same, as a proxy with these features gets them.
    pub fn fitted<'a>(
        &'a self,
        names: impl Iterator<Item = &'a str>,
        features: &'a Features,
    ) -> impl Iterator<Item = (&'a String, Arc<Service>)> {
        self.of(names).filter_map(move |(name, service)| Some((name, service.fitted(features)?)))
    }

    /// The digest of those of `names` that are in force, as a proxy with these features gets them;
    /// `names` ascend.
    pub fn digest_of<'a>(&'a self, names: impl Iterator<Item = &'a str>, features: &'a Features) -> u64 {
        digest::of_named(self.fitted(names, features).map(|(name, service)| (name, service.digest())))
    }

    /// The features that services in force need.
    pub fn needs(&self) -> &Features {
        &self.needs
    }

    /// The features beyond these that those of `names` in force need.
    pub fn lacking<'a>(&'a self, names: impl Iterator<Item = &'a str>, features: &Features) -> Features {
        if self.needs.are_in(features) {
            return Features::default();
        }
        let needs = self.of(names).flat_map(|(_, service)| service.needs().iter());
        needs.filter(|feature| !features.has(feature)).collect()
    }

    /// The number of snapshots so far.
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// The digest of all services.
    pub fn digest(&self) -> u64 {
        self.digest
    }

    /// Puts `snapshot` in force. Returns the names of the services that were added, removed or
    /// changed in meaning.
    pub fn replace(&mut self, snapshot: Snapshot) -> BTreeSet<String> {
        let next = snapshot.into_services();
        let before = self.current.take().unwrap_or_default();
        let gone = before.keys().filter(|name| !next.contains_key(*name));
        let new = next.iter().filter_map(|(name, service)| {
            let same = before.get(name).is_some_and(|before| before.means_the_same_as(service));
            (!same).then_some(name)
        });
        let changes = gone.chain(new).cloned().collect();
        self.digest = digest::of_named(next.iter().map(|(name, service)| (name, service.digest())));
        self.needs = next.values().flat_map(|service| service.needs().iter()).collect();
        self.current = Some(next);
        self.generation += 1;
        changes
    }
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
            "services.backend.retries: 11 is not allowed; allowed: 0 to 10"
        );
        assert_eq!(
            refusal("services:\n  backend:\n    retries: three\n"),
            "services.backend.retries: \"three\" is not allowed; allowed: a whole number, 0 to 10 at line 3, column 14"
        );
        let unknown = refusal("services:\n  backend:\n    retrys: 3\n");
        assert!(unknown.starts_with("services.backend.retrys: unknown field `retrys`, expected one of"), "{unknown}");
        assert!(unknown.ends_with("at line 3, column 5"), "{unknown}");
        let nan = refusal("services: {backend: {headroom: .nan}}");
        assert!(
            nan.starts_with(
                "services.backend.headroom: \".nan\" is not allowed; allowed: a number above 0 and at most 1"
            ),
            "{nan}"
        );
    }

    #[test]
    fn refuses_text_that_is_not_a_services_file() {
        assert_eq!(
            refusal(""),
            ".: the text is empty, expected a mapping",
            "an empty file, as a truncating editor leaves for a moment"
        );
        assert_eq!(refusal("7"), ".: invalid type: integer `7`, expected a mapping at line 1, column 1");
        assert!(!refusal("[]").contains("struct"));
        assert!(refusal("services:\n").starts_with("services: invalid type: null"), "the same editor a moment later");
        assert!(refusal("services: {a: {}, a: {}}").contains("duplicate mapping key: a"));
        for twice in ["{123: {}, '123': {}}", "{a: {endpointsByPort: {80: [], '80': []}}}"] {
            let refusal = refusal(&format!("services: {twice}"));
            assert!(refusal.starts_with(".: duplicate mapping key: "), "{refusal}");
        }
        assert!(refusal("services: [").starts_with(".: "));
        assert!(refusal("services: {'a b': {}}").contains("printable ASCII"));
        assert!(refusal("services: {a: {}}\n---\nservices: {}\n").contains("multiple found"));
        assert_eq!(Snapshot::from_yaml("services: {}").unwrap().services().len(), 0, "written on purpose");
    }

    #[test]
    fn the_same_service_in_another_notation_has_the_same_digest() {
        let one = |yaml: &str| Snapshot::from_yaml(yaml).unwrap().services()["a"].clone();
        let first = one("services: {a: {resetInterval: 1s, endpoints: ['1.1.1.1:1', '2.2.2.2:2']}}");
        let same = one("services: {a: {resetInterval: 1000ms, endpoints: ['2.2.2.2:2', '1.1.1.1:1']}}");
        assert!(first.means_the_same_as(&same));
        assert_eq!(first.digest(), same.digest());
        let other = one("services: {a: {}}");
        assert!(!first.means_the_same_as(&other));
        assert_ne!(first.digest(), other.digest());
    }

    fn names(names: &[&str]) -> BTreeSet<String> {
        names.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn names_the_services_that_changed() {
        let mut catalog = Catalog::default();
        let mut publish = |yaml| catalog.replace(Snapshot::from_yaml(yaml).unwrap());
        assert_eq!(publish("services: {a: {}, b: {}}"), names(&["a", "b"]));
        assert_eq!(publish("services: {a: {retries: 1}, b: {}}"), names(&["a"]));
        assert_eq!(
            publish("services: {a: {retries: 1}, b: {retries: 3}}"),
            names(&[]),
            "writing the default changes nothing"
        );
        assert_eq!(publish("services: {b: {}}"), names(&["a"]));
        assert_eq!(publish("services: {a: {}, b: {}}"), names(&["a"]));
    }

    #[test]
    fn the_digest_covers_only_the_services_asked_for() {
        let none = &Features::default();
        let catalog = |yaml| {
            let mut catalog = Catalog::default();
            catalog.replace(Snapshot::from_yaml(yaml).unwrap());
            catalog
        };
        let one = catalog("services: {a: {resetInterval: 1s}, b: {}}");
        let other = catalog("services: {a: {resetInterval: 1000ms, retries: 3}, c: {}}");
        assert_eq!(
            one.digest_of(["a"].into_iter(), none),
            other.digest_of(["a"].into_iter(), none),
            "the same service in another notation"
        );
        assert_eq!(one.digest_of(["a", "none"].into_iter(), none), one.digest_of(["a"].into_iter(), none));
        assert_ne!(one.digest_of(["a", "b"].into_iter(), none), one.digest_of(["a"].into_iter(), none));
        assert_ne!(one.digest(), other.digest());
    }
}
