//! The services in force, and the digests of their content.

use super::subscription::Subscription;
use super::version::digest;
use crate::snapshot::{Service, Snapshot};
use bloc_policy::features::Features;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The services by name.
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
    pub fn len(&self) -> usize {
        self.current.as_ref().map_or(0, BTreeMap::len)
    }

    /// A service in force.
    pub fn get(&self, name: &str) -> Option<&Arc<Service>> {
        self.current.as_ref()?.get(name)
    }

    /// Those of `names` that are in force, by name.
    pub fn of<'a>(&'a self, names: &'a Subscription) -> impl Iterator<Item = (&'a String, &'a Arc<Service>)> {
        names.texts().filter_map(|name| self.current.as_ref()?.get_key_value(name))
    }

    /// The same as a proxy with these features gets it.
    pub fn fitted<'a>(
        &'a self,
        names: &'a Subscription,
        features: &'a Features,
    ) -> impl Iterator<Item = (&'a String, Arc<Service>)> {
        self.of(names).filter_map(move |(name, service)| Some((name, service.fitted(features)?)))
    }

    /// The digest of those of `names` that are in force, as a proxy with these features gets them.
    pub fn digest_of(&self, names: &Subscription, features: &Features) -> u64 {
        digest(self.fitted(names, features).map(|(name, service)| (name, service.digest())))
    }

    /// The features that services in force need.
    pub fn needs(&self) -> &Features {
        &self.needs
    }

    /// The features that those of `names` that are in force need, and that are not among these.
    pub fn lacking(&self, names: &Subscription, features: &Features) -> Features {
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
        self.digest = digest(next.iter().map(|(name, service)| (name, service.digest())));
        self.needs = next.values().flat_map(|service| service.needs().iter()).collect();
        self.current = Some(next);
        self.generation += 1;
        changes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::names::Names;

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

    fn to(names: &[&str]) -> Arc<Subscription> {
        Names::default().subscribe(&names.iter().map(ToString::to_string).collect::<Vec<_>>(), &[])
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
            one.digest_of(&to(&["a"]), none),
            other.digest_of(&to(&["a"]), none),
            "the same service in another notation"
        );
        assert_eq!(one.digest_of(&to(&["a", "none"]), none), one.digest_of(&to(&["a"]), none));
        assert_ne!(one.digest_of(&to(&["a", "b"]), none), one.digest_of(&to(&["a"]), none));
        assert_ne!(one.digest(), other.digest());
    }
}
