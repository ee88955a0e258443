//! Who sets the limits: the node agent, and what it is compared with.

use super::group::{Group, Version};
use super::load::Load;
use bloc_node_agent::bytes::Bytes;
use bloc_node_agent::memory::{App, RECLAIM, Refused, Rule, Start};
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

/// A way to set limits.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Allocator {
    /// Each container has this many times its own peak, whatever the limit is.
    Peak(f64),
    /// Each has an equal part of the limit.
    Equal,
    /// Each second: the largest use of the last ten seconds in which it ran, and a fifth; the limit
    /// at which it was killed is such a use. If that is more than the limit, what is above the uses
    /// is scaled.
    Autoscaler,
    /// The node agent.
    Agent(AgentSettings),
}

/// The node agent, and what may differ from it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AgentSettings {
    /// Its parameters.
    pub rule: Rule,
    /// What a container keeps above its use while another one lacks memory; the agent itself: the
    /// margin.
    pub tight: Bytes,
    /// How often it reclaims, in whole seconds.
    pub reclaim: Duration,
    /// A grant leaves a container a step above its use; twice as much if it asks again within a
    /// second, and so on, at most so many steps; the agent itself: 1.
    pub most_steps: u32,
    /// The control groups.
    pub version: Version,
}

impl Default for AgentSettings {
    fn default() -> Self {
        let rule = Rule::default();
        Self { rule, tight: rule.margin, reclaim: RECLAIM, most_steps: 1, version: Version::Two }
    }
}

/// What an [`Allocator`] remembers.
pub(super) enum State {
    /// Nothing.
    Fixed,
    /// Uses of the last ten seconds, of each container.
    Autoscaler { last: Vec<VecDeque<u64>>, limit: u64 },
    /// The agent's.
    Agent(Box<Running>),
}

/// The agent at work.
pub(super) struct Running {
    agent: AgentSettings,
    app: App<usize>,
    /// When each container asked last, and how many steps it was granted.
    last: BTreeMap<usize, (u64, u32)>,
    /// Whether nobody has what it lacks.
    short: Vec<bool>,
    pub grants: u64,
    /// How often a container got less than it lacked.
    pub refused: u64,
}

/// Milliseconds between two looks of the autoscaler, and how many it remembers; between two
/// decisions of the autoscaler, and two looks of the agent at all containers.
const LOOK: u64 = 100;
const BACK: usize = 100;
const EACH: u64 = 1_000;
const MARGIN: f64 = 1.2;
/// More than any limit.
const NODE: Bytes = Bytes::mebi(1 << 30);
/// A container that asks again within so many milliseconds gets more at once.
const AGAIN: u64 = 1_000;

impl Allocator {
    /// The groups with their first limits.
    ///
    /// # Errors
    /// The agent refuses the application.
    pub(super) fn start(self, loads: &[Load], limit: Bytes) -> Result<(State, Vec<Group>), Refused> {
        let group = |load: &Load, max: u64| Group { used: load.base, max, ..Group::default() };
        let part = limit.get() / loads.len().max(1) as u64;
        let equal = || loads.iter().map(|load| group(load, part)).collect();
        match self {
            Self::Peak(factor) => {
                let fixed = loads.iter().map(|load| group(load, (load.peak() as f64 * factor) as u64)).collect();
                Ok((State::Fixed, fixed))
            }
            Self::Equal => Ok((State::Fixed, equal())),
            Self::Autoscaler => {
                Ok((State::Autoscaler { last: vec![VecDeque::new(); loads.len()], limit: limit.get() }, equal()))
            }
            Self::Agent(agent) => {
                let mut app = App::new(agent.rule, limit);
                let start = |load: &Load| Start { used: Bytes::new(load.base), least: Bytes::ZERO, most: NODE };
                app.attach(&loads.iter().map(start).enumerate().collect::<Vec<_>>())?;
                let short = vec![false; loads.len()];
                let running = Running { agent, app, last: BTreeMap::new(), short, grants: 0, refused: 0 };
                let mut groups: Vec<Group> = loads.iter().map(|load| group(load, 0)).collect();
                running.write(&mut groups);
                Ok((State::Agent(Box::new(running)), groups))
            }
        }
    }
}

impl State {
    /// After the millisecond before `at`.
    pub fn tick(&mut self, at: u64, groups: &mut [Group]) {
        match self {
            Self::Fixed => {}
            Self::Autoscaler { last, limit } => {
                if at.is_multiple_of(LOOK) {
                    let running = groups.iter().zip(last.iter_mut()).filter(|(group, _)| group.used > 0);
                    running.for_each(|(group, last)| remember(last, group.used));
                }
                if at.is_multiple_of(EACH) {
                    autoscale(last, *limit, groups);
                }
            }
            Self::Agent(running) => {
                if at.is_multiple_of(EACH) {
                    running.check(at, groups);
                }
            }
        }
    }

    /// The container was killed.
    pub fn killed(&mut self, key: usize, groups: &[Group]) {
        if let Self::Autoscaler { last, .. } = self {
            remember(&mut last[key], groups[key].max);
        }
    }

    /// The container exceeded its limit, and the agent answers now.
    pub fn answer(&mut self, at: u64, key: usize, groups: &mut [Group]) {
        if let Self::Agent(running) = self {
            running.answer(at, key, groups);
        }
    }
}

fn remember(last: &mut VecDeque<u64>, used: u64) {
    last.push_back(used);
    if last.len() > BACK {
        last.pop_front();
    }
}

fn autoscale(last: &[VecDeque<u64>], limit: u64, groups: &mut [Group]) {
    let most = |last: &VecDeque<u64>| last.iter().copied().max().unwrap_or(0);
    let wanted: Vec<u64> = last.iter().map(|last| (most(last) as f64 * MARGIN) as u64).collect();
    let used: u64 = groups.iter().map(|group| group.used).sum();
    let above: u64 = groups.iter().zip(&wanted).map(|(group, wanted)| wanted.saturating_sub(group.used)).sum();
    let scale = (limit.saturating_sub(used) as f64 / above as f64).min(1.0);
    for (group, wanted) in groups.iter_mut().zip(wanted) {
        group.max = group.used + (wanted.saturating_sub(group.used) as f64 * scale) as u64;
    }
}

impl Running {
    /// Each second: the uses, what is not used each few seconds, and who needs more.
    fn check(&mut self, at: u64, groups: &mut [Group]) {
        if at.is_multiple_of(self.agent.reclaim.as_millis().max(1) as u64) {
            self.app.reclaim(&uses(groups));
        } else {
            self.app.observe(&uses(groups));
        }
        for key in 0..groups.len() {
            self.serve(key, self.agent.rule.step, groups);
        }
        self.write(groups);
    }

    fn answer(&mut self, at: u64, key: usize, groups: &mut [Group]) {
        let rule = self.agent.rule;
        let steps = match self.last.get(&key) {
            Some((last, steps)) if at - last <= AGAIN => (steps * 2).min(self.agent.most_steps),
            _ => 1,
        };
        self.last.insert(key, (at, steps));
        let room = Bytes::new(rule.step.get() * u64::from(steps));
        let lacks = Bytes::new(groups[key].used) + room - self.app.of(&key).unwrap_or_default();
        if lacks > self.app.pool() {
            // Whoever is to give must not be taken what it uses by now.
            self.app.observe(&uses(groups));
        }
        if !self.serve(key, room, groups) && self.agent.tight < rule.margin {
            self.app.set_rule(Rule { margin: self.agent.tight, ..rule });
            self.serve(key, rule.step, groups);
            self.app.set_rule(rule);
        }
        self.write(groups);
    }

    /// Grants steps until the container has so much above its use, and says whether it has.
    fn serve(&mut self, key: usize, room: Bytes, groups: &[Group]) -> bool {
        let used = Bytes::new(groups[key].used);
        let mut limit = self.app.of(&key);
        let before = limit;
        while limit.is_some_and(|limit| used + room > limit) {
            self.app.grant(&key, used);
            let now = self.app.of(&key);
            if now == limit {
                break;
            }
            limit = now;
        }
        self.grants += u64::from(limit > before);
        let short = limit.is_some_and(|limit| used + room > limit);
        self.refused += u64::from(short);
        self.short[key] = short;
        !short
    }

    fn write(&self, groups: &mut [Group]) {
        for (key, group) in groups.iter_mut().enumerate() {
            let limit = self.app.of(&key).unwrap_or_default();
            let max = (limit + self.agent.rule.step).get();
            group.limit = Some(limit.get());
            // It must not sleep for memory that nobody has.
            let high = if self.short[key] { max } else { limit.get() };
            group.high = (self.agent.version == Version::Two).then_some(high);
            group.max = max;
        }
    }
}

fn uses(groups: &[Group]) -> BTreeMap<usize, Bytes> {
    groups.iter().map(|group| Bytes::new(group.used)).enumerate().collect()
}
