//! One application: its containers, and what each may use.

use super::rule::{EVEN, KEEP, LEAST_CHANGE, Rule};
use super::window::Window;
use crate::cores::Cores;
use std::collections::BTreeMap;

/// What the kernel has counted of a container since the last step.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Interval {
    /// Its use.
    pub used: Cores,
    /// The share of the periods in which it was throttled, 0 to 1; 0 if none has passed.
    pub throttled: f64,
}

/// A container that comes under the limit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Start {
    /// Its use of late.
    pub used: Cores,
    /// What it keeps at least: the larger one of the application's floor and its own `requests`.
    pub least: Cores,
    /// What its node has.
    pub most: Cores,
}

/// A quota to be written.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Change<K> {
    /// Whose.
    pub key: K,
    /// The quota so far; none for a container that is new.
    pub from: Option<Cores>,
    /// The new one.
    pub to: Cores,
}

/// Why nothing was changed.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
pub enum Refused {
    /// The containers must keep more than the limit.
    #[error("limit: {limit} is less than what the containers keep at least; allowed: {floors} and more")]
    BelowFloors {
        /// The limit.
        limit: Cores,
        /// The sum of what they keep.
        floors: Cores,
    },
    /// The containers use more than the limit.
    #[error("limit: {limit} is less than the use of the containers; allowed: {used} and more")]
    BelowUse {
        /// The limit.
        limit: Cores,
        /// The sum of their use, or of what they keep.
        used: Cores,
    },
}

#[derive(Clone, Debug)]
struct Container {
    quota: Cores,
    least: Cores,
    most: Cores,
    last: Option<Interval>,
    slack: Window,
    used: Window,
    throttled: Window,
}

impl Container {
    fn is_throttled(&self) -> bool {
        self.last.is_some_and(|last| last.throttled > 0.0)
    }

    /// All of its quota if nobody knows.
    fn used(&self) -> Cores {
        self.last.map_or(self.quota, |last| last.used)
    }

    /// Changes the quota, if by enough.
    fn set(&mut self, quota: Cores) {
        let quota = quota.min(self.most).max(self.least);
        if (quota.get() - self.quota.get()).abs() >= LEAST_CHANGE * self.quota.get() {
            self.quota = quota;
        }
    }
}

/// The containers of an application on one node, and their quotas.
#[derive(Clone, Debug)]
pub struct App<K> {
    rule: Rule,
    limit: Cores,
    containers: BTreeMap<K, Container>,
}

impl<K: Ord + Clone> App<K> {
    /// An application without containers.
    pub const fn new(rule: Rule, limit: Cores) -> Self {
        Self { rule, limit, containers: BTreeMap::new() }
    }

    /// What all containers may have together.
    pub const fn limit(&self) -> Cores {
        self.limit
    }

    /// What a container may use.
    pub fn quota(&self, key: &K) -> Option<Cores> {
        self.containers.get(key).map(|container| container.quota)
    }

    /// What nobody has.
    pub fn free(&self) -> Cores {
        self.limit - self.sum(|container| container.quota)
    }

    /// What all keep at least.
    pub fn least(&self) -> Cores {
        self.sum(|container| container.least)
    }

    /// What all could use, and what they keep if others lack CPU: a throttled one more than it has,
    /// the others their use and what is left to them of the slack.
    pub fn wants(&self) -> Cores {
        self.sum(|container| {
            let wants = match container.last {
                Some(last) if last.throttled > 0.0 => container.quota * (1.0 + container.throttled.mean()),
                Some(_) => container.quota.min(Cores::new(container.used.mean()) + self.rule.slack * KEEP),
                // Nobody knows.
                None => container.quota,
            };
            wants.min(container.most).max(container.least)
        })
    }

    fn sum(&self, of: impl Fn(&Container) -> Cores) -> Cores {
        self.containers.values().map(of).sum()
    }

    /// Brings containers under the limit. Each starts with its use and the slack, or less of it if
    /// the limit has no room for that, or its least. If others are there already, newcomers get
    /// what is free, but at least their least, for which the others make room.
    ///
    /// # Errors
    /// The containers must keep more than the limit, or the first ones use more. Then nothing
    /// changes.
    pub fn attach(&mut self, newcomers: &[(K, Start)]) -> Result<Vec<Change<K>>, Refused> {
        self.bring(newcomers, false)
    }

    /// The same for containers that an earlier agent had: if they use more than the limit, they get
    /// less.
    ///
    /// # Errors
    /// The containers must keep more than the limit. Then nothing changes.
    pub fn take_over(&mut self, newcomers: &[(K, Start)]) -> Result<Vec<Change<K>>, Refused> {
        self.bring(newcomers, true)
    }

    fn bring(&mut self, newcomers: &[(K, Start)], over: bool) -> Result<Vec<Change<K>>, Refused> {
        let new = |key: &K| newcomers.iter().any(|(other, _)| other == key);
        let kept: Cores =
            self.containers.iter().filter(|(key, _)| !new(key)).map(|(_, container)| container.least).sum();
        let floors = kept + newcomers.iter().map(|(_, start)| start.least).sum();
        if exceeds(floors, self.limit) {
            return Err(Refused::BelowFloors { limit: self.limit, floors });
        }
        let most = |start: &Start| start.most.max(start.least);
        let wanted = |start: &Start, slack| (start.used + slack).max(start.least).min(most(start));
        let (mut slack, mut over_use) = (self.rule.slack, false);
        if self.containers.is_empty() {
            let of_all = |slack| newcomers.iter().map(|(_, start)| wanted(start, slack)).sum::<Cores>();
            let used = of_all(Cores::ZERO);
            over_use = exceeds(used, self.limit);
            if over_use && !over {
                return Err(Refused::BelowUse { limit: self.limit, used });
            }
            if exceeds(of_all(slack), self.limit) {
                slack = (self.limit - used) * (1.0 / newcomers.len() as f64);
            }
        }
        let before = self.quotas();
        for (key, start) in newcomers {
            self.containers.remove(key);
            // If all use more, all give; otherwise newcomers get what is there.
            let room = if over_use { self.limit } else { self.free() };
            let quota = wanted(start, slack).min(room).max(start.least);
            self.containers.insert(
                key.clone(),
                Container {
                    quota,
                    least: start.least,
                    most: start.most.max(start.least),
                    last: Some(Interval { used: start.used, throttled: 0.0 }),
                    slack: Window::new(self.rule.window),
                    used: Window::new(self.rule.window),
                    throttled: Window::new(self.rule.window),
                },
            );
        }
        self.fit();
        Ok(self.changes(&before))
    }

    /// Forgets a container. What it had is free.
    pub fn detach(&mut self, key: &K) {
        self.containers.remove(key);
    }

    /// Changes what a container keeps at least, before it is attached anew.
    pub fn set_least(&mut self, key: &K, least: Cores) {
        if let Some(container) = self.containers.get_mut(key) {
            container.least = least;
        }
    }

    /// Changes the rule. Quotas change with the next steps.
    pub fn set_rule(&mut self, rule: Rule) {
        self.rule = rule;
        for container in self.containers.values_mut() {
            container.slack.set_length(rule.window);
            container.used.set_length(rule.window);
            container.throttled.set_length(rule.window);
        }
    }

    /// Changes the limit.
    ///
    /// # Errors
    /// The containers must keep more. Then nothing changes.
    pub fn set_limit(&mut self, limit: Cores) -> Result<Vec<Change<K>>, Refused> {
        let floors = self.sum(|container| container.least);
        if exceeds(floors, limit) {
            return Err(Refused::BelowFloors { limit, floors });
        }
        let before = self.quotas();
        self.limit = limit;
        self.fit();
        Ok(self.changes(&before))
    }

    /// Takes what is above the limit, from what is not used first.
    fn fit(&mut self) {
        for keep in
            [|container: &Container| container.used().max(container.least), |container: &Container| container.least]
        {
            let excess = self.sum(|container| container.quota) - self.limit;
            let spare = self.sum(|container| container.quota - keep(container));
            // Without anything to spare, this is a part of nothing.
            let part = (excess.get() / spare.get()).min(1.0);
            for container in self.containers.values_mut() {
                container.quota -= (container.quota - keep(container)) * part;
            }
        }
    }

    /// A step: what was counted since the last one, of the containers that could be read. Returns
    /// the quotas to be written, those that fall first, so that their sum never exceeds the limit.
    pub fn step(&mut self, intervals: &BTreeMap<K, Interval>) -> Vec<Change<K>> {
        let before = self.quotas();
        for (key, container) in &mut self.containers {
            container.last = intervals.get(key).copied();
            if let Some(last) = container.last {
                container.slack.push((container.quota - last.used).get());
                container.used.push(last.used.get());
                container.throttled.push(last.throttled);
            }
        }
        self.shrink();
        self.make_room();
        let level = self.level();
        self.even_out(level);
        self.grow(level);
        self.changes(&before)
    }

    /// Takes a part of the slack, as long as there is more of it than the rule's.
    fn shrink(&mut self) {
        let Rule { shrink, slack, .. } = self.rule;
        for container in self.containers.values_mut() {
            if let Some(last) = container.last.filter(|last| last.throttled == 0.0) {
                let give = Cores::new(shrink * container.slack.mean());
                container.set((container.quota - give).max(last.used + slack).min(container.quota));
            }
        }
    }

    /// Takes what the throttled ones lack, and what is free is not enough for, from the others. Few
    /// give much, since what is too little would not be written.
    fn make_room(&mut self) {
        let wants = |container: &Container| container.quota * container.throttled.mean();
        let wanted = self.sum(|container| if container.is_throttled() { wants(container) } else { Cores::ZERO });
        let mut lacking = wanted - self.free();
        let keep = self.rule.slack * KEEP;
        let spare =
            |container: &Container| container.quota - (Cores::new(container.used.mean()) + keep).max(container.least);
        let mut givers: Vec<&mut Container> = self
            .containers
            .values_mut()
            .filter(|container| container.last.is_some_and(|last| last.throttled == 0.0))
            .collect();
        givers.sort_by(|a, b| spare(b).get().total_cmp(&spare(a).get()));
        for container in givers {
            let before = container.quota;
            container.set(before - spare(container).min(lacking));
            lacking -= before - container.quota;
        }
    }

    /// An equal part for each throttled container of what the others leave.
    fn level(&self) -> Cores {
        let throttled = self.containers.values().filter(|container| container.is_throttled()).count();
        let others = self.sum(|container| if container.is_throttled() { Cores::ZERO } else { container.quota });
        (self.limit - others) * (1.0 / throttled as f64)
    }

    fn even_out(&mut self, level: Cores) {
        let (mut above, mut below) = (Cores::ZERO, Cores::ZERO);
        for container in self.containers.values().filter(|container| container.is_throttled()) {
            above += container.quota - level.max(container.least);
            below += level.min(container.most) - container.quota;
        }
        if above <= level * LEAST_CHANGE {
            return;
        }
        // If nobody is below, nothing is moved.
        let moved = (above * EVEN).min(below);
        let (give, get) = (moved.get() / above.get(), moved.get() / below.get());
        for container in self.containers.values_mut().filter(|container| container.is_throttled()) {
            let less = (container.quota - level.max(container.least)) * give;
            let more = (level.min(container.most) - container.quota) * get;
            container.quota = container.quota - less + more;
        }
    }

    fn grow(&mut self, level: Cores) {
        let mut order: Vec<(f64, K)> = self
            .containers
            .iter()
            .filter(|(_, container)| container.is_throttled())
            .map(|(key, container)| (container.throttled.mean(), key.clone()))
            .collect();
        order.sort_by(|a, b| b.0.total_cmp(&a.0));
        for (throttled, key) in order {
            let free = self.free();
            if let Some(container) = self.containers.get_mut(&key) {
                let more = free * (throttled * self.rule.grow);
                container.set((container.quota + more).min(level.max(container.quota)));
            }
        }
    }

    fn quotas(&self) -> BTreeMap<K, Cores> {
        self.containers.iter().map(|(key, container)| (key.clone(), container.quota)).collect()
    }

    /// What is different, and what is new. What falls comes first.
    fn changes(&self, before: &BTreeMap<K, Cores>) -> Vec<Change<K>> {
        let mut changes: Vec<Change<K>> = self
            .containers
            .iter()
            .map(|(key, container)| Change { key: key.clone(), from: before.get(key).copied(), to: container.quota })
            .filter(|change| change.from != Some(change.to))
            .collect();
        let rise = |change: &Change<K>| change.to.get() - change.from.unwrap_or_default().get();
        changes.sort_by(|a, b| rise(a).total_cmp(&rise(b)));
        changes
    }
}

/// Whether an amount is larger, by more than sums of thousandths are wrong.
fn exceeds(amount: Cores, limit: Cores) -> bool {
    amount.get() > limit.get() + 1e-9
}
