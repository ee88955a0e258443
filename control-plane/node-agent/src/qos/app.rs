//! The containers of one application and their shares.

use std::collections::BTreeMap;
use std::time::Duration;

/// When and how far shares move. See [the rule](super).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rule {
    pub target: Duration,
    pub threshold: f64,
    /// In per cent.
    pub step: f64,
}

impl Rule {
    /// The usual rule for this target.
    pub const fn new(target: Duration) -> Self {
        Self { target, threshold: 1.2, step: 10.0 }
    }
}

/// The kernel's minimum of shares.
pub const LEAST: f64 = 2.0;
/// The most shares that a container gets, unless its `requests` give more.
pub const MOST: f64 = 10_240.0;
/// A response time counts as at most this many targets: one slow stream must not claim all.
pub const LATEST: f64 = 10.0;
/// A container is judged by at least this many answers.
pub const LEAST_ANSWERS: u64 = 20;

/// A new container.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Start {
    /// The shares by its `requests`.
    pub own: f64,
    /// Its minimum; at most `own`.
    pub least: f64,
}

/// Answers of a pod.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Answers {
    pub count: u64,
    /// The sum of their response times.
    pub time: Duration,
}

impl Answers {
    pub fn add(&mut self, more: Self) {
        self.count = self.count.saturating_add(more.count);
        self.time = self.time.saturating_add(more.time);
    }
}

#[derive(Clone, Copy, Debug)]
struct Container {
    own: f64,
    least: f64,
    shares: f64,
    /// Since it was last judged.
    answers: Answers,
    /// The mean when it was last judged, in seconds.
    response: Option<f64>,
}

impl Container {
    const fn new(start: Start) -> Self {
        let own = start.own.max(LEAST);
        Self {
            own,
            least: start.least.clamp(LEAST, own),
            shares: own,
            answers: Answers { count: 0, time: Duration::ZERO },
            response: None,
        }
    }

    /// The mean response time as a fraction of the target; none after too few answers.
    fn judge(&mut self, rule: &Rule) -> Option<f64> {
        let Answers { count, time } = self.answers;
        if count < LEAST_ANSWERS {
            return None;
        }
        self.answers = Answers::default();
        let response = time.as_secs_f64() / count as f64;
        self.response = Some(response);
        Some((response / rule.target.as_secs_f64()).min(LATEST))
    }

    /// What it has above its own shares; negative: what it lacks.
    fn above(&self) -> f64 {
        self.shares - self.own
    }
}

/// The containers of one application whose shares are weighed against each other.
#[derive(Clone, Debug)]
pub struct App<K> {
    rule: Rule,
    containers: BTreeMap<K, Container>,
}

impl<K: Ord + Clone> App<K> {
    pub const fn new(rule: Rule) -> Self {
        Self { rule, containers: BTreeMap::new() }
    }

    pub const fn set_rule(&mut self, rule: Rule) {
        self.rule = rule;
    }

    /// Adds a container, or restarts it with new own shares.
    pub fn attach(&mut self, key: K, start: Start) {
        self.containers.insert(key, Container::new(start));
        self.balance();
    }

    pub fn set_least(&mut self, key: &K, least: f64) {
        if let Some(container) = self.containers.get_mut(key) {
            container.least = least.clamp(LEAST, container.own);
            container.shares = container.shares.max(container.least);
            self.balance();
        }
    }

    pub fn detach(&mut self, key: &K) {
        self.containers.remove(key);
        self.balance();
    }

    pub fn shares(&self, key: &K) -> Option<f64> {
        self.containers.get(key).map(|container| container.shares)
    }

    /// The mean response time when the container was last judged, in seconds.
    pub fn response(&self, key: &K) -> Option<f64> {
        self.containers.get(key)?.response
    }

    /// Adds answers.
    pub fn count(&mut self, key: &K, more: Answers) {
        if let Some(container) = self.containers.get_mut(key) {
            container.answers.add(more);
        }
    }

    /// One step, once a second.
    pub fn step(&mut self) {
        let rule = self.rule;
        let judged: Vec<Option<f64>> = self.containers.values_mut().map(|container| container.judge(&rule)).collect();
        let late = |part: Option<f64>| part.filter(|part| *part > rule.threshold);
        let in_time = |part: Option<f64>| part.filter(|part| *part <= rule.threshold);
        let step = |container: &Container| container.own * rule.step / 100.0;
        self.exchange(&judged, |container, part| {
            let asks = if late(part).is_some() { -container.above() / 2.0 } else { 0.0 };
            (asks, container.above())
        });
        self.exchange(&judged, |container, part| {
            let asks = late(part).map_or(0.0, |part| step(container) * part / rule.threshold);
            let offers = in_time(part).map_or(0.0, |part| step(container) * (1.0 - part));
            let room = MOST.max(container.own) - container.shares;
            (asks.min(room), offers.min(container.shares - container.least))
        });
    }

    /// Moves the smaller of what is asked for and what is offered, in proportion. Negative amounts
    /// count as 0.
    fn exchange(&mut self, judged: &[Option<f64>], of: impl Fn(&Container, Option<f64>) -> (f64, f64)) {
        let wishes = self.containers.values().zip(judged).map(|(container, part)| of(container, *part));
        let wishes: Vec<(f64, f64)> = wishes.map(|(asks, offers)| (asks.max(0.0), offers.max(0.0))).collect();
        let (asked, offered) = wishes.iter().fold((0.0, 0.0), |sum, wish| (sum.0 + wish.0, sum.1 + wish.1));
        let moved = f64::min(asked, offered);
        if moved > 0.0 {
            for (container, (asks, offers)) in self.containers.values_mut().zip(wishes) {
                container.shares += moved * (asks / asked - offers / offered);
            }
        }
    }

    /// Restores the sum of own shares: the side that differs more is scaled down.
    fn balance(&mut self) {
        let differences = || self.containers.values().map(Container::above);
        let above: f64 = differences().map(|difference| difference.max(0.0)).sum();
        let below: f64 = differences().map(|difference| (-difference).max(0.0)).sum();
        let kept = above.min(below);
        for container in self.containers.values_mut() {
            let difference = container.above();
            let of = if difference > 0.0 { above } else { below };
            container.shares = container.own + if of > 0.0 { difference * kept / of } else { 0.0 };
        }
    }
}
