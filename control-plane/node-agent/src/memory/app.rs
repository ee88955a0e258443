//! The containers of one application and their limits.

use crate::bytes::Bytes;
use std::collections::BTreeMap;
use std::time::Duration;

/// How often unused memory is reclaimed.
pub const RECLAIM: Duration = Duration::from_secs(5);

/// How memory moves. See [the rule](super).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rule {
    pub reserve: f64,
    /// At least `step`.
    pub margin: Bytes,
    pub step: Bytes,
}

impl Default for Rule {
    fn default() -> Self {
        Self { reserve: 0.2, margin: Bytes::mebi(50), step: Bytes::mebi(16) }
    }
}

/// A container that comes under the limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Start {
    pub used: Bytes,
    /// Its `requests`.
    pub least: Bytes,
    /// The memory of its node.
    pub most: Bytes,
}

/// Why nothing was changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("limit: {limit} is below the use or the requests of the containers; allowed: {needed} and more")]
pub struct Refused {
    pub limit: Bytes,
    pub needed: Bytes,
}

#[derive(Clone, Debug)]
struct Container {
    limit: Bytes,
    /// `None` if it could not be read.
    used: Option<Bytes>,
    least: Bytes,
    most: Bytes,
}

impl Container {
    fn new(start: Start, margin: Bytes) -> Self {
        let Start { used, least, most } = start;
        let most = most.max(least);
        Self { limit: (used + margin).max(least).min(most), used: Some(used), least, most }
    }

    /// What nobody may take from it: the larger of its use plus the margin and its minimum, up to
    /// its limit. All of its limit if its use is unknown.
    fn holds(&self, margin: Bytes) -> Bytes {
        self.used.map_or(self.limit, |used| (used + margin).max(self.least).min(self.limit))
    }
}

/// The containers of an application on one node, and their limits.
#[derive(Clone, Debug)]
pub struct App<K> {
    rule: Rule,
    limit: Bytes,
    containers: BTreeMap<K, Container>,
}

impl<K: Ord + Clone> App<K> {
    pub const fn new(rule: Rule, limit: Bytes) -> Self {
        Self { rule, limit, containers: BTreeMap::new() }
    }

    pub const fn limit(&self) -> Bytes {
        self.limit
    }

    /// The limit of a container.
    pub fn of(&self, key: &K) -> Option<Bytes> {
        self.containers.get(key).map(|container| container.limit)
    }

    /// The part of the limit that no container has.
    pub fn pool(&self) -> Bytes {
        self.limit - self.containers.values().map(|container| container.limit).sum()
    }

    /// Admits containers; others give what they do not use. On an error nothing changes.
    pub fn attach(&mut self, newcomers: &[(K, Start)]) -> Result<(), Refused> {
        self.admit(newcomers, self.rule.margin)
    }

    /// Admits containers that an earlier agent managed: with a smaller margin if the limit has no
    /// room for the full one. On an error nothing changes.
    pub fn take_over(&mut self, newcomers: &[(K, Start)]) -> Result<(), Refused> {
        let uses = newcomers.iter().map(|(_, start)| start.used.max(start.least)).sum();
        let others = self.others(newcomers).map(|container| container.holds(self.rule.margin)).sum::<Bytes>();
        let left = self.limit - uses - others;
        let margin = left.part(1.0 / newcomers.len().max(1) as f64);
        self.admit(newcomers, margin.min(self.rule.margin))
    }

    fn others<'a>(&'a self, newcomers: &'a [(K, Start)]) -> impl Iterator<Item = &'a Container> {
        let is_new = |key: &K| newcomers.iter().any(|(new, _)| new == key);
        self.containers.iter().filter(move |(key, _)| !is_new(key)).map(|(_, container)| container)
    }

    fn admit(&mut self, newcomers: &[(K, Start)], margin: Bytes) -> Result<(), Refused> {
        let kept = self.others(newcomers).map(|container| container.holds(self.rule.margin)).sum::<Bytes>();
        let fresh: Vec<(&K, Container)> =
            newcomers.iter().map(|(key, start)| (key, Container::new(*start, margin))).collect();
        let wanted = fresh.iter().map(|(_, container)| container.limit).sum();
        let needed = kept + wanted;
        if needed > self.limit {
            return Err(Refused { limit: self.limit, needed });
        }
        for (key, _) in &fresh {
            self.containers.remove(key);
        }
        self.make_room(wanted);
        self.containers.extend(fresh.into_iter().map(|(key, container)| (key.clone(), container)));
        let share = self.limit.part((1.0 - self.rule.reserve) / self.containers.len().max(1) as f64);
        for (key, _) in newcomers {
            let pool = self.pool();
            if let Some(container) = self.containers.get_mut(key) {
                let most = share.min(container.most).min(container.limit + pool);
                container.limit = container.limit.max(most);
            }
        }
        Ok(())
    }

    /// Limits follow in the next steps.
    pub const fn set_rule(&mut self, rule: Rule) {
        self.rule = rule;
    }

    /// Takes what exceeds the new limit from the containers with most to spare. On an error nothing
    /// changes.
    pub fn set_limit(&mut self, limit: Bytes) -> Result<(), Refused> {
        let needed = self.containers.values().map(|container| container.holds(self.rule.margin)).sum();
        if needed > limit {
            return Err(Refused { limit, needed });
        }
        let has: Bytes = self.containers.values().map(|container| container.limit).sum();
        self.limit = limit;
        self.take(has - limit);
        Ok(())
    }

    /// Sets the use of all containers; nothing is taken from those that are missing.
    pub fn observe(&mut self, used: &BTreeMap<K, Bytes>) {
        for (key, container) in &mut self.containers {
            container.used = used.get(key).copied();
        }
    }

    pub fn detach(&mut self, key: &K) {
        self.containers.remove(key);
    }

    /// Returns unused memory to the pool.
    pub fn reclaim(&mut self, used: &BTreeMap<K, Bytes>) {
        self.observe(used);
        let margin = self.rule.margin;
        for container in self.containers.values_mut() {
            container.limit = container.holds(margin);
        }
    }

    /// Gives one step to a container that is near its limit, as far as others can spare it.
    pub fn grant(&mut self, key: &K, used: Bytes) {
        let Some(container) = self.containers.get_mut(key) else { return };
        container.used = Some(used);
        let step = self.rule.step.min(container.most - container.limit);
        self.make_room(step);
        let more = step.min(self.pool());
        if let Some(container) = self.containers.get_mut(key) {
            container.limit += more;
        }
    }

    fn make_room(&mut self, wanted: Bytes) {
        self.take(wanted - self.pool());
    }

    /// Takes from those with most to spare first.
    fn take(&mut self, mut lacking: Bytes) {
        let margin = self.rule.margin;
        let spare = |container: &Container| container.limit - container.holds(margin);
        let mut givers: Vec<&mut Container> = self.containers.values_mut().collect();
        givers.sort_by_key(|container| std::cmp::Reverse(spare(container)));
        for container in givers {
            let give = spare(container).min(lacking);
            container.limit -= give;
            lacking -= give;
        }
    }
}
