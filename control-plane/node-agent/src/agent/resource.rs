//! What is the same for each resource: containers of applications come and go.

use super::groups::Groups;
use super::member::{Id, Wanted};
use super::node::Node;
use super::pod_group::More;
use super::tally;
use crate::cgroup::GroupError;
use crate::config::{AppConfig, AppName, Config};
use crate::state::Kept;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::time::Duration;

/// One resource of the containers of one application.
pub(super) trait Resource: Sized {
    /// What is in its files.
    type Setting: Kept;
    /// What else is known of a container.
    type More: More<Self::Setting>;
    /// What the operator says about it.
    type Config;

    /// What the operator says about it; none: it is left alone.
    fn config_of(app: &AppConfig) -> Option<&Self::Config>;

    /// Without containers yet.
    fn new(name: &AppName, config: &Self::Config, now: Duration) -> Self;

    /// Takes a new configuration.
    fn configure(&mut self, config: &Self::Config);

    /// Its containers.
    fn groups(&self) -> &Groups<Self::Setting, Self::More>;
    /// The same, to be changed.
    fn groups_mut(&mut self) -> &mut Groups<Self::Setting, Self::More>;

    /// Takes a container that is new. Returns whether it was found.
    fn find(&mut self, node: &mut Node, id: &Id, new: &Wanted<'_>) -> Result<bool, GroupError>;

    /// A container that is wanted may have other requests, or other ones beside it in its pod.
    fn renew(&mut self, node: &Node, id: &Id, new: &Wanted<'_>);

    /// A container leaves: its group is put back next.
    fn detach(&mut self, node: &mut Node, id: &Id);

    /// A last look at who else has written.
    fn end(&mut self, node: &mut Node, now: Duration) {
        self.groups_mut().check(node, now);
    }

    /// Puts containers back that are not wanted any more.
    fn keep(&mut self, node: &mut Node, now: Duration, wanted: &BTreeMap<Id, Wanted<'_>>) {
        for id in &self.groups().unwanted(wanted) {
            self.remove(node, now, id);
        }
    }

    /// Takes the containers that are new. Returns whether one was not found.
    fn add(&mut self, node: &mut Node, wanted: &BTreeMap<Id, Wanted<'_>>) -> bool {
        let mut missing = false;
        for (id, new) in wanted {
            if self.groups().members.contains_key(id) {
                continue;
            }
            match self.find(node, id, new) {
                Ok(found) => missing |= !found,
                Err(error) => {
                    missing = true;
                    node.tally.error(tally::READ, &error);
                }
            }
        }
        for (id, new) in wanted {
            self.renew(node, id, new);
        }
        missing
    }

    /// Forgets a container whose group is gone. Another one may have taken its place.
    fn lose(&mut self, node: &mut Node, now: Duration, id: &Id) {
        self.remove(node, now, id);
        node.unplaced = true;
    }

    fn remove(&mut self, node: &mut Node, now: Duration, id: &Id) {
        self.detach(node, id);
        self.groups_mut().remove(node, now, id);
    }
}

/// One resource of all applications.
pub(super) type Apps<R> = BTreeMap<AppName, R>;

/// Takes a new configuration, and puts back what it does not manage.
pub(super) fn configure<R: Resource>(apps: &mut Apps<R>, node: &mut Node, now: Duration, config: &Config) {
    apps.retain(|name, running| {
        let wanted = config.apps.get(name).and_then(R::config_of);
        match wanted {
            Some(app) => running.configure(app),
            None => running.keep(node, now, &BTreeMap::new()),
        }
        wanted.is_some()
    });
}

/// The containers of each application.
pub(super) type Placed<'a> = BTreeMap<&'a AppName, BTreeMap<Id, Wanted<'a>>>;

/// Puts back what is not wanted any more.
pub(super) fn keep<R: Resource>(apps: &mut Apps<R>, node: &mut Node, now: Duration, wanted: &Placed<'_>) {
    let none = BTreeMap::new();
    for (name, running) in apps {
        running.keep(node, now, wanted.get(name).unwrap_or(&none));
    }
}

/// Takes what is new.
pub(super) fn add<R: Resource>(
    apps: &mut Apps<R>,
    node: &mut Node,
    now: Duration,
    config: &Config,
    wanted: &Placed<'_>,
) {
    let none = BTreeMap::new();
    for (name, app) in &config.apps {
        if let Some(config) = R::config_of(app) {
            let running = apps.entry(name.clone()).or_insert_with(|| R::new(name, config, now));
            let missing = running.add(node, wanted.get(name).unwrap_or(&none));
            node.unplaced |= missing;
        }
    }
}

/// Takes what is in the files now as written.
pub(super) fn refresh<R: Resource>(apps: &mut Apps<R>) {
    apps.values_mut().for_each(|running| running.groups_mut().refresh());
}

/// Forgets all containers, after a last look at who else has written.
pub(super) fn end<R: Resource>(apps: &mut Apps<R>, node: &mut Node, now: Duration) {
    for mut running in std::mem::take(apps).into_values() {
        running.end(node, now);
    }
}

/// The groups that are changed.
pub(super) fn paths<R: Resource>(apps: &Apps<R>) -> BTreeSet<PathBuf> {
    apps.values().flat_map(|running| running.groups().paths()).cloned().collect()
}
