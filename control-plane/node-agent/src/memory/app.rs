//! One application: its containers, and what each may use.

use super::rule::Rule;
use crate::bytes::Bytes;
use std::collections::BTreeMap;

/// A container that comes under the limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Start {
    /// Its use.
    pub used: Bytes,
    /// What it keeps at least: its own `requests`.
    pub least: Bytes,
    /// What its node has.
    pub most: Bytes,
}

/// A limit to be written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change<K> {
    /// Whose.
    pub key: K,
    /// The limit so far; none for a container that is new.
    pub from: Option<Bytes>,
    /// The new one.
    pub to: Bytes,
}

/// Why nothing was changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("limit: {limit} is less than what the containers use or keep; allowed: {needed} and more")]
pub struct Refused {
    /// The limit.
    pub limit: Bytes,
    /// The sum of what they use, with the margin, or keep at least.
    pub needed: Bytes,
}

#[derive(Clone, Debug)]
struct Container {
    limit: Bytes,
    /// None: nobody knows.
    used: Option<Bytes>,
    least: Bytes,
    most: Bytes,
}

impl Container {
    /// It has its use, the margin, and no more.
    fn new(start: Start, margin: Bytes) -> Self {
        let Start { used, least, most } = start;
        let most = most.max(least);
        Self { limit: (used + margin).max(least).min(most), used: Some(used), least, most }
    }

    /// What it has at least, whoever needs more: its use with the margin, or what it keeps at
    /// least; its limit if that is less, or if nobody knows its use.
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
    /// An application without containers.
    pub const fn new(rule: Rule, limit: Bytes) -> Self {
        Self { rule, limit, containers: BTreeMap::new() }
    }

    /// What all containers may have together.
    pub const fn limit(&self) -> Bytes {
        self.limit
    }

    /// What a container may use.
    pub fn of(&self, key: &K) -> Option<Bytes> {
        self.containers.get(key).map(|container| container.limit)
    }

    /// What nobody has.
    pub fn pool(&self) -> Bytes {
        self.limit - self.containers.values().map(|container| container.limit).sum()
    }

    /// Brings containers under the limit. Others make room with what they do not use.
    ///
    /// # Errors
    /// The limit has no room for what all use, with the margin. Then nothing changes.
    pub fn attach(&mut self, newcomers: &[(K, Start)]) -> Result<Vec<Change<K>>, Refused> {
        self.bring(newcomers, self.rule.margin)
    }

    /// The same for containers that an earlier agent had: if the limit has no room for the margin
    /// of each, they have less of it.
    ///
    /// # Errors
    /// The limit has no room for what all use.
    pub fn take_over(&mut self, newcomers: &[(K, Start)]) -> Result<Vec<Change<K>>, Refused> {
        let uses = newcomers.iter().map(|(_, start)| start.used.max(start.least)).sum();
        let others = self.others(newcomers).map(|container| container.holds(self.rule.margin)).sum::<Bytes>();
        let left = self.limit - uses - others;
        let margin = left.part(1.0 / newcomers.len().max(1) as f64);
        self.bring(newcomers, margin.min(self.rule.margin))
    }

    /// Those that are not among the newcomers.
    fn others<'a>(&'a self, newcomers: &'a [(K, Start)]) -> impl Iterator<Item = &'a Container> {
        let is_new = |key: &K| newcomers.iter().any(|(new, _)| new == key);
        self.containers.iter().filter(move |(key, _)| !is_new(key)).map(|(_, container)| container)
    }

    fn bring(&mut self, newcomers: &[(K, Start)], margin: Bytes) -> Result<Vec<Change<K>>, Refused> {
        let before = self.limits();
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
        Ok(self.changes(&before))
    }

    /// Changes the rule. Limits change with the next steps.
    pub const fn set_rule(&mut self, rule: Rule) {
        self.rule = rule;
    }

    /// Changes the limit. What is above it is taken from those with most to spare.
    ///
    /// # Errors
    /// The containers use more, or keep more. Then nothing changes.
    pub fn set_limit(&mut self, limit: Bytes) -> Result<Vec<Change<K>>, Refused> {
        let before = self.limits();
        let needed = self.containers.values().map(|container| container.holds(self.rule.margin)).sum();
        if needed > limit {
            return Err(Refused { limit, needed });
        }
        let has: Bytes = self.containers.values().map(|container| container.limit).sum();
        self.limit = limit;
        self.take(has - limit);
        Ok(self.changes(&before))
    }

    /// Takes note of the use of containers. Nothing is taken from the others.
    pub fn observe(&mut self, used: &BTreeMap<K, Bytes>) {
        for (key, container) in &mut self.containers {
            container.used = used.get(key).copied();
        }
    }

    /// Forgets a container. What it had is in the pool.
    pub fn detach(&mut self, key: &K) {
        self.containers.remove(key);
    }

    /// Takes what is not used, given the uses of those that could be read.
    pub fn reclaim(&mut self, used: &BTreeMap<K, Bytes>) -> Vec<Change<K>> {
        let before = self.limits();
        self.observe(used);
        let margin = self.rule.margin;
        for container in self.containers.values_mut() {
            container.limit = container.holds(margin);
        }
        self.changes(&before)
    }

    /// A container that uses so much is about to exceed its limit. Falls come first; nothing, if
    /// nobody has anything to spare.
    pub fn grant(&mut self, key: &K, used: Bytes) -> Vec<Change<K>> {
        let before = self.limits();
        let Some(container) = self.containers.get_mut(key) else { return Vec::new() };
        container.used = Some(used);
        let step = self.rule.step.min(container.most - container.limit);
        self.make_room(step);
        let more = step.min(self.pool());
        if let Some(container) = self.containers.get_mut(key) {
            container.limit += more;
        }
        self.changes(&before)
    }

    /// Takes from those with most to spare until the pool has this.
    fn make_room(&mut self, wanted: Bytes) {
        self.take(wanted - self.pool());
    }

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

    fn limits(&self) -> BTreeMap<K, Bytes> {
        self.containers.iter().map(|(key, container)| (key.clone(), container.limit)).collect()
    }

    /// What is different, and what is new. What falls comes first.
    fn changes(&self, before: &BTreeMap<K, Bytes>) -> Vec<Change<K>> {
        let change = |(key, container): (&K, &Container)| Change {
            key: key.clone(),
            from: before.get(key).copied(),
            to: container.limit,
        };
        let mut changes: Vec<Change<K>> =
            self.containers.iter().map(change).filter(|change| change.from != Some(change.to)).collect();
        changes.sort_by_key(|change| change.to > change.from.unwrap_or_default());
        changes
    }
}
