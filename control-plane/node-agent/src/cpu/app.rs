//! The containers of one application and their quotas.

use super::window::Window;
use crate::cores::Cores;
use std::collections::BTreeMap;

/// How CPU moves. See [the rule](super).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rule {
    pub grow: f64,
    pub shrink: f64,
    pub slack: Cores,
    /// In steps.
    pub window: usize,
}

impl Default for Rule {
    fn default() -> Self {
        Self { grow: 1.0, shrink: 0.8, slack: Cores::new(0.2), window: 3 }
    }
}

/// The fraction of its excess over the level that a container gives in a step: half in 7 steps.
pub const EVEN: f64 = 0.1;
/// The fraction of the slack that a container keeps while others lack CPU.
pub const KEEP: f64 = 0.25;
/// Steps over which a node's need for a cluster-wide limit is averaged.
pub const WANTED: usize = 5;
/// The smallest change of a quota by growth or shrinking, as a fraction: each is a write.
pub const LEAST_CHANGE: f64 = 0.02;

/// A container's CPU since the last step.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Interval {
    pub used: Cores,
    /// The share of the periods in which it was throttled, 0 to 1; 0 if no period has ended.
    pub throttled: f64,
}

/// A container that comes under the limit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Start {
    /// Its recent use.
    pub used: Cores,
    /// The larger of the application's floor and the container's `requests`.
    pub least: Cores,
    /// The cores of its node.
    pub most: Cores,
}

/// Why nothing was changed.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
pub enum Refused {
    #[error("limit: {limit} is below the guaranteed minimum of the containers; allowed: {floors} and more")]
    BelowFloors { limit: Cores, floors: Cores },
    #[error("limit: {limit} is below the use of the containers; allowed: {used} and more")]
    BelowUse { limit: Cores, used: Cores },
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

    /// The whole quota if its use is unknown.
    fn used(&self) -> Cores {
        self.last.map_or(self.quota, |last| last.used)
    }

    /// Ignores changes that are too small to be worth a write.
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
    pub const fn new(rule: Rule, limit: Cores) -> Self {
        Self { rule, limit, containers: BTreeMap::new() }
    }

    pub const fn limit(&self) -> Cores {
        self.limit
    }

    pub fn quota(&self, key: &K) -> Option<Cores> {
        self.containers.get(key).map(|container| container.quota)
    }

    /// The part of the limit that no container has.
    pub fn free(&self) -> Cores {
        self.limit - self.sum(|container| container.quota)
    }

    /// The sum of the guaranteed minimums.
    pub fn least(&self) -> Cores {
        self.sum(|container| container.least)
    }

    /// The CPU that all containers could use: more than their quota if they are throttled,
    /// otherwise their use and the slack that [`KEEP`] leaves them.
    pub fn wants(&self) -> Cores {
        self.sum(|container| {
            let wants = match container.last {
                Some(last) if last.throttled > 0.0 => container.quota * (1.0 + container.throttled.mean()),
                Some(_) => container.quota.min(Cores::new(container.used.mean()) + self.rule.slack * KEEP),
                None => container.quota,
            };
            wants.min(container.most).max(container.least)
        })
    }

    fn sum(&self, of: impl Fn(&Container) -> Cores) -> Cores {
        self.containers.values().map(of).sum()
    }

    /// Admits containers. Each starts with its use plus the slack, with less slack if the limit has
    /// no room for that, but at least with its minimum. Later newcomers get what is free; if that
    /// is below their minimum, the others make room. On an error nothing changes.
    pub fn attach(&mut self, newcomers: &[(K, Start)]) -> Result<(), Refused> {
        self.admit(newcomers, false)
    }

    /// Admits containers that an earlier agent managed: they get less than they use if the limit
    /// has no room for it. On an error nothing changes.
    pub fn take_over(&mut self, newcomers: &[(K, Start)]) -> Result<(), Refused> {
        self.admit(newcomers, true)
    }

    fn admit(&mut self, newcomers: &[(K, Start)], over: bool) -> Result<(), Refused> {
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
        for (key, start) in newcomers {
            self.containers.remove(key);
            // If the newcomers' use exceeds the limit, `fit` cuts all; otherwise they get what is
            // free.
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
        Ok(())
    }

    pub fn detach(&mut self, key: &K) {
        self.containers.remove(key);
    }

    /// Changes a container's minimum before it is attached again.
    pub fn set_least(&mut self, key: &K, least: Cores) {
        if let Some(container) = self.containers.get_mut(key) {
            container.least = least;
        }
    }

    /// Quotas follow in the next steps.
    pub fn set_rule(&mut self, rule: Rule) {
        self.rule = rule;
        for container in self.containers.values_mut() {
            container.slack.set_length(rule.window);
            container.used.set_length(rule.window);
            container.throttled.set_length(rule.window);
        }
    }

    /// On an error nothing changes.
    pub fn set_limit(&mut self, limit: Cores) -> Result<(), Refused> {
        let floors = self.least();
        if exceeds(floors, limit) {
            return Err(Refused::BelowFloors { limit, floors });
        }
        self.limit = limit;
        self.fit();
        Ok(())
    }

    /// Takes what exceeds the limit: first what is not used, then what is above the minimums.
    fn fit(&mut self) {
        for keep in
            [|container: &Container| container.used().max(container.least), |container: &Container| container.least]
        {
            let excess = self.sum(|container| container.quota) - self.limit;
            let spare = self.sum(|container| container.quota - keep(container));
            // Without any spare CPU this is 1 (`min` ignores NaN), and each difference is 0.
            let part = (excess.get() / spare.get()).min(1.0);
            for container in self.containers.values_mut() {
                container.quota -= (container.quota - keep(container)) * part;
            }
        }
    }

    /// `intervals` has what was counted since the last step, for containers that could be read.
    pub fn step(&mut self, intervals: &BTreeMap<K, Interval>) {
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
    }

    /// Step 1 of the rule.
    fn shrink(&mut self) {
        let Rule { shrink, slack, .. } = self.rule;
        for container in self.containers.values_mut() {
            if let Some(last) = container.last.filter(|last| last.throttled == 0.0) {
                let give = Cores::new(shrink * container.slack.mean());
                container.set((container.quota - give).max(last.used + slack).min(container.quota));
            }
        }
    }

    /// Step 2. A few containers give much, because small changes are not written.
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

    /// Step 3: the equal part of each throttled container.
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
}

/// Compares with a tolerance for rounding in sums.
fn exceeds(amount: Cores, limit: Cores) -> bool {
    amount.get() > limit.get() + 1e-9
}
