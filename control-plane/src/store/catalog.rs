//! The services in force, and for each the version of its last change, its removal included.
//!
//! A name that was never there has the version of the first snapshot (the floor): a proxy that still holds that service from an
//! earlier life of the control plane is thereby told that it is gone. Removed names are remembered up to a bound; beyond it the
//! floor rises to the youngest of them, which costs some proxies one superfluous answer and never a missed removal.

use crate::snapshot::{Service, Snapshot};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Removed names that are remembered; a name takes about 100 bytes.
const MAX_REMOVED: usize = 10_000;

/// The services by name with the version of their last change.
#[derive(Debug, Default)]
pub struct Catalog {
    published: bool,
    floor: u64,
    current: BTreeMap<String, Entry>,
    removed: BTreeMap<String, u64>,
}

/// A service and when it last changed.
#[derive(Clone, Debug)]
pub struct Entry {
    /// The service.
    pub service: Arc<Service>,
    /// The version of its last change.
    pub version: u64,
}

impl Catalog {
    /// Whether there has been a snapshot; until then nothing is known, not even that a service does not exist.
    pub fn is_published(&self) -> bool {
        self.published
    }

    /// The services in force.
    pub fn current(&self) -> &BTreeMap<String, Entry> {
        &self.current
    }

    /// The version of the last change among `names`; the floor for an empty set, 0 before the first snapshot.
    pub fn version_of(&self, names: &BTreeSet<String>) -> u64 {
        let of = |name: &String| {
            let current = self.current.get(name).map(|entry| entry.version);
            current.or_else(|| self.removed.get(name).copied()).unwrap_or(self.floor)
        };
        names.iter().map(of).max().unwrap_or(self.floor)
    }

    /// The names whose service would change (appear, disappear, mean something else) with `snapshot`.
    pub fn changes(&self, snapshot: &Snapshot) -> BTreeSet<String> {
        let next = snapshot.services();
        let gone = self.current.keys().filter(|name| !next.contains_key(*name));
        let new = next.iter().filter_map(|(name, service)| {
            let same = self.current.get(name).is_some_and(|entry| entry.service.means_the_same_as(service));
            (!same).then_some(name)
        });
        gone.chain(new).cloned().collect()
    }

    /// Puts `snapshot` in force; the services in `changes` get `version`.
    pub fn replace(&mut self, snapshot: Snapshot, changes: &BTreeSet<String>, version: u64) {
        if !self.published {
            self.published = true;
            self.floor = version;
        }
        let mut before = std::mem::take(&mut self.current);
        for (name, service) in snapshot.into_services() {
            let kept = before.remove(&name).filter(|_| !changes.contains(&name));
            self.removed.remove(&name);
            self.current.insert(name, Entry { service, version: kept.map_or(version, |entry| entry.version) });
        }
        self.removed.extend(before.into_keys().map(|name| (name, version)));
        if self.removed.len() > MAX_REMOVED {
            self.floor = self.removed.values().copied().max().unwrap_or(self.floor);
            self.removed.clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(names: &[&str]) -> BTreeSet<String> {
        names.iter().map(ToString::to_string).collect()
    }

    fn publish(catalog: &mut Catalog, yaml: &str, version: u64) -> BTreeSet<String> {
        let snapshot = Snapshot::from_yaml(yaml).unwrap();
        let changes = catalog.changes(&snapshot);
        catalog.replace(snapshot, &changes, version);
        changes
    }

    #[test]
    fn each_service_remembers_its_last_change() {
        let mut catalog = Catalog::default();
        assert_eq!(catalog.version_of(&names(&["a"])), 0, "nothing is known yet");
        assert_eq!(publish(&mut catalog, "services: {a: {}, b: {}}", 10), names(&["a", "b"]));
        assert_eq!(publish(&mut catalog, "services: {a: {retries: 1}, b: {}}", 20), names(&["a"]));
        assert_eq!(
            publish(&mut catalog, "services: {a: {retries: 1}, b: {retries: 3}}", 30),
            names(&[]),
            "the default"
        );
        assert_eq!(catalog.version_of(&names(&["a"])), 20);
        assert_eq!(catalog.version_of(&names(&["b"])), 10);
        assert_eq!(catalog.version_of(&names(&["a", "b"])), 20);
        assert_eq!(catalog.version_of(&names(&["never-there"])), 10);
        assert_eq!(catalog.version_of(&names(&[])), 10);
    }

    #[test]
    fn a_removal_and_a_return_are_changes() {
        let mut catalog = Catalog::default();
        publish(&mut catalog, "services: {a: {}}", 10);
        assert_eq!(publish(&mut catalog, "services: {}", 20), names(&["a"]));
        assert_eq!(catalog.version_of(&names(&["a"])), 20);
        assert_eq!(publish(&mut catalog, "services: {a: {}}", 30), names(&["a"]));
        assert_eq!(catalog.version_of(&names(&["a"])), 30);
        assert!(catalog.removed.is_empty());
    }

    #[test]
    fn forgetting_removed_names_raises_the_floor() {
        let mut catalog = Catalog::default();
        let many: String = (0..=MAX_REMOVED).map(|i| format!("  s{i}: {{}}\n")).collect();
        publish(&mut catalog, &format!("services:\n  stays: {{}}\n{many}"), 10);
        publish(&mut catalog, "services: {stays: {}}", 20);
        assert!(catalog.removed.is_empty());
        assert_eq!(catalog.version_of(&names(&["s0"])), 20, "the removal is not missed");
        assert_eq!(catalog.version_of(&names(&["stays"])), 10);
    }
}
