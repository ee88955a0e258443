//! What all resources have in common: containers of applications come and go.

use super::groups::Groups;
use super::member::{Id, More, Wanted};
use super::node::Node;
use super::tally;
use crate::cgroup::GroupError;
use crate::config::{AppConfig, AppName, Config};
use crate::state::Kept;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::time::Duration;

/// One resource of the containers of one application.
pub(super) trait Resource: Sized {
    type Setting: Kept;
    /// What else is known about a container.
    type More: More<Self::Setting>;
    type Config;

    /// None: the application leaves this resource alone.
    fn config_of(app: &AppConfig) -> Option<&Self::Config>;
    fn new(name: &AppName, config: &Self::Config, now: Duration) -> Self;
    fn configure(&mut self, config: &Self::Config);
    fn groups(&self) -> &Groups<Self::Setting, Self::More>;
    fn groups_mut(&mut self) -> &mut Groups<Self::Setting, Self::More>;

    /// Adds a container. Returns whether its group was found.
    fn find(&mut self, node: &mut Node, id: &Id, new: &Wanted<'_>) -> Result<bool, GroupError>;

    /// The requests of a wanted container, or the other containers of its pod, may have changed.
    fn renew(&mut self, node: &Node, id: &Id, new: &Wanted<'_>);

    /// A container leaves; its group is restored next.
    fn detach(&mut self, node: &mut Node, id: &Id);

    /// Looks for foreign writes once more, at the end.
    fn end(&mut self, node: &mut Node, now: Duration) {
        self.groups_mut().check(node, now);
    }

    /// Puts back the containers that are no longer wanted.
    fn keep(&mut self, node: &mut Node, now: Duration, wanted: &BTreeMap<Id, Wanted<'_>>) {
        let members = self.groups().members.keys();
        let unwanted: Vec<Id> = members.filter(|id| !wanted.contains_key(id)).cloned().collect();
        for id in &unwanted {
            self.remove(node, now, id);
        }
    }

    fn add(&mut self, node: &mut Node, wanted: &BTreeMap<Id, Wanted<'_>>) {
        for (id, new) in wanted {
            if self.groups().members.contains_key(id) {
                continue;
            }
            let found = self.find(node, id, new);
            node.unplaced |= !matches!(found, Ok(true));
            if let Err(error) = found {
                node.tally.error(tally::READ, &error);
            }
        }
        for (id, new) in wanted {
            self.renew(node, id, new);
        }
    }

    /// Forgets a container whose group is gone. Another group may have taken its place.
    fn lose(&mut self, node: &mut Node, now: Duration, id: &Id) {
        self.remove(node, now, id);
        node.unplaced = true;
    }

    fn remove(&mut self, node: &mut Node, now: Duration, id: &Id) {
        self.detach(node, id);
        self.groups_mut().remove(node, now, id);
    }
}

/// The accessors of a field `groups`.
macro_rules! groups {
    () => {
        fn groups(&self) -> &Groups<Self::Setting, Self::More> {
            &self.groups
        }
        fn groups_mut(&mut self) -> &mut Groups<Self::Setting, Self::More> {
            &mut self.groups
        }
    };
}
pub(super) use groups;

/// One resource of all applications.
pub(super) type Apps<R> = BTreeMap<AppName, R>;

pub(super) type Placed<'a> = BTreeMap<&'a AppName, BTreeMap<Id, Wanted<'a>>>;

/// Any resource of all applications.
pub(super) trait AnyApps {
    /// Applies a configuration, and puts back what it does not manage.
    fn configure(&mut self, node: &mut Node, now: Duration, config: &Config);
    /// Puts back what is no longer wanted.
    fn keep(&mut self, node: &mut Node, now: Duration, wanted: &Placed<'_>);
    fn add(&mut self, node: &mut Node, now: Duration, config: &Config, wanted: &Placed<'_>);
    /// Takes the files' present content as written.
    fn refresh(&mut self);
    /// Forgets all containers after a last look for foreign writes.
    fn end(&mut self, node: &mut Node, now: Duration);
    fn forget(&mut self);
    fn paths(&self) -> BTreeSet<PathBuf>;
}

impl<R: Resource> AnyApps for Apps<R> {
    fn configure(&mut self, node: &mut Node, now: Duration, config: &Config) {
        self.retain(|name, running| {
            let wanted = config.apps.get(name).and_then(R::config_of);
            match wanted {
                Some(app) => running.configure(app),
                None => running.keep(node, now, &BTreeMap::new()),
            }
            wanted.is_some()
        });
    }

    fn keep(&mut self, node: &mut Node, now: Duration, wanted: &Placed<'_>) {
        let none = BTreeMap::new();
        for (name, running) in self {
            running.keep(node, now, wanted.get(name).unwrap_or(&none));
        }
    }

    fn add(&mut self, node: &mut Node, now: Duration, config: &Config, wanted: &Placed<'_>) {
        let none = BTreeMap::new();
        for (name, app) in &config.apps {
            if let Some(config) = R::config_of(app) {
                let running = self.entry(name.clone()).or_insert_with(|| R::new(name, config, now));
                running.add(node, wanted.get(name).unwrap_or(&none));
            }
        }
    }

    fn refresh(&mut self) {
        self.values_mut().for_each(|running| running.groups_mut().refresh());
    }

    fn end(&mut self, node: &mut Node, now: Duration) {
        for mut running in std::mem::take(self).into_values() {
            running.end(node, now);
        }
    }

    fn forget(&mut self) {
        self.clear();
    }

    fn paths(&self) -> BTreeSet<PathBuf> {
        self.values().flat_map(|running| running.groups().paths()).cloned().collect()
    }
}
