//! What a control-plane replica knows about the nodes of one application.

use crate::divide::{Need, divide};
use crate::message::{Ask, Told};
use crate::part::Part;
use crate::record::Record;
use std::collections::BTreeMap;
use std::time::Duration;

/// A node without a request for this long is silent: it keeps what it holds and gets no more.
pub const LIVE: Duration = Duration::from_secs(10);
/// How long a record is new: agents report what they hold twice a second.
pub const NEW: Duration = Duration::from_secs(10);
/// How long a replica listens to nodes before it changes what they hold.
pub const HEARS: Duration = Duration::from_secs(3);
/// A node lacks CPU if it holds less than this fraction of what it needs and should hold.
const ENOUGH: f64 = 0.96;
/// A part rises at least by this factor unless its node lacks CPU: each change is a write.
const WORTH: f64 = 1.05;
/// How long to wait for a node that was told to lower its part before others are told.
const LEAVES: Duration = Duration::from_secs(5);
/// With more nodes than this, a plan is kept for `PLAN`: its cost grows with the nodes.
const FEW: usize = 50;
const PLAN: Duration = Duration::from_millis(100);

const SPAN: Duration = Duration::from_secs(10);
/// A value below this fraction of the largest is not a fluctuation.
const FALLS: f64 = 0.92;

#[derive(Clone, Copy, Debug)]
struct Heard {
    wants: Steady,
    least: Steady,
    own: Option<Part>,
    at: Duration,
    share: Option<Share>,
    /// Since when it has been told to lower its part.
    leaves: Option<Duration>,
}

/// What a plan says about a node.
#[derive(Clone, Copy, Debug)]
struct Share {
    /// What it should hold.
    should: Part,
    /// How much of that it needs.
    needs: Part,
}

impl Share {
    fn is_lacking(self, held: Part) -> bool {
        held < self.needs.scaled(ENOUGH)
    }
}

/// How to divide the limit.
#[derive(Clone, Copy, Debug)]
struct Plan {
    at: Duration,
    /// What the nodes that are not silent may hold together.
    total: Part,
    /// What the silent nodes hold.
    silent: Part,
    /// The sum of what nodes lack.
    lacking: Part,
}

/// What a replica knows about the nodes of one application. Times come from a monotonic clock.
///
/// Cost: a plan visits each node, at most ten times a second with more than 50 nodes.
#[derive(Clone, Debug, Default)]
pub struct Grantor {
    heard: BTreeMap<String, Heard>,
    plan: Option<Plan>,
    /// Since when it has heard nodes.
    since: Option<Duration>,
    /// When the record was first and last seen as new.
    new: Option<(Duration, Duration)>,
}

impl Grantor {
    /// Applies a request to the record. Only this node's entry and the flag for a new record
    /// change. The answer is valid once the changed record is written. None: no room for this node.
    pub fn receive(&mut self, record: &mut Record, node: &str, life: u64, ask: &Ask, now: Duration) -> Option<Told> {
        let name = ask.name.clone();
        if !record.receive(node, life, ask) {
            // An agent that is behind because it lost its disk starts a later life.
            let known = record.entry(node).filter(|known| (known.life, known.number) > (life, ask.number))?;
            let (life, number) = (known.life, known.number);
            return Some(Told { name, life, number, part: Part::ZERO, goal: Part::ZERO });
        }
        self.remember(node, ask, now);
        self.settle(record, now);
        let hears = self.since.is_none_or(|since| now.saturating_sub(since) < HEARS);
        let leaves_all = !self.heard.contains_key(node);
        let goal =
            if record.is_new() || hears && !leaves_all { record.part(node) } else { self.goal(record, node, now) };
        // The node holds this even if the record has no room for it; the goal is then less.
        let part = record.part(node).max(ask.part);
        Some(Told { name, life, number: ask.number, part, goal })
    }

    /// The silent nodes of a record.
    pub fn silent<'a>(&self, record: &'a Record) -> Vec<&'a String> {
        record.nodes().map(|(node, _)| node).filter(|node| !self.heard.contains_key(*node)).collect()
    }

    fn remember(&mut self, node: &str, ask: &Ask, now: Duration) {
        self.heard.retain(|_, heard| now.saturating_sub(heard.at) < LIVE);
        if self.heard.is_empty() {
            self.since = None;
        }
        // A need above the whole limit would take more from others.
        let (wants, least) = (ask.wants.min(Part::WHOLE), ask.least.min(Part::WHOLE));
        if wants.max(least) == Part::ZERO {
            self.heard.remove(node);
            return;
        }
        self.since.get_or_insert(now);
        let Some(heard) = self.heard.get_mut(node) else {
            let (wants, least) = (Steady::new(wants, now), Steady::new(least, now));
            let heard = Heard { wants, least, own: ask.own, at: now, share: None, leaves: None };
            self.heard.insert(node.to_owned(), heard);
            return;
        };
        heard.wants.receive(wants, now);
        heard.least.receive(least, now);
        (heard.own, heard.at) = (ask.own, now);
    }

    fn settle(&mut self, record: &mut Record, now: Duration) {
        if !record.is_new() {
            self.new = None;
            return;
        }
        // After a gap, the record may have been lost again.
        let known = self.new.filter(|(_, last)| now.saturating_sub(*last) < HEARS);
        let since = known.map_or(now, |(since, _)| since);
        self.new = Some((since, now));
        if now.saturating_sub(since) >= NEW {
            record.settle();
        }
    }

    /// Gives a node as much of what it should have as is free. Returns what it should keep.
    fn goal(&mut self, record: &mut Record, node: &str, now: Duration) -> Part {
        let Some(heard) = self.heard.get(node) else { return Part::ZERO };
        let holds = heard.share.is_some() && self.heard.len() > FEW;
        let plan = match self.plan.filter(|plan| holds && now.saturating_sub(plan.at) < PLAN) {
            Some(plan) => plan,
            None => self.plan(record, now),
        };
        let Some(Heard { share: Some(share), leaves, .. }) = self.heard.get(node).copied() else {
            return record.part(node);
        };
        let held = record.part(node);
        let free = plan.total.minus(record.held().minus(plan.silent));
        let is_lacking = share.is_lacking(held);
        if is_lacking || share.should > held.scaled(WORTH) {
            // Nodes that lack CPU come first.
            let free = if is_lacking { free } else { free.minus(plan.lacking) };
            record.raise(node, share.should.min(held.plus(free)));
        }
        let held = record.part(node);
        if leaves.is_some() { held.min(share.should) } else { held }
    }

    fn plan(&mut self, record: &Record, now: Duration) -> Plan {
        let held: Vec<Part> = self.heard.keys().map(|node| record.part(node)).collect();
        let all: Part = held.iter().copied().sum();
        let silent = record.held().minus(all);
        let rest = Part::WHOLE.minus(silent);
        // One unlimited container makes the whole limit available.
        let own: Option<Part> = self.heard.values().map(|heard| heard.own).sum();
        let total = own.map_or(rest, |own| own.min(rest));
        let needs: Vec<Need> = self.heard.values().map(Heard::need).collect();
        let mut lacking = Part::ZERO;
        // Nodes that hold more than they should, and how much each could give.
        let mut more = Vec::new();
        for (((heard, need), should), held) in self.heard.values_mut().zip(&needs).zip(divide(total, &needs)).zip(held)
        {
            let share = Share { should, needs: need.all().min(should) };
            heard.share = Some(share);
            if share.is_lacking(held) {
                lacking = lacking.plus(share.needs.minus(held));
            }
            if held > should {
                more.push((held.minus(should.max(need.least)), heard));
            } else {
                heard.leaves = None;
            }
        }
        // As few nodes as possible are told, because each of them writes.
        let mut missing = lacking.plus(all).minus(total);
        more.sort_by_key(|(could, _)| std::cmp::Reverse(*could));
        for (could, heard) in more {
            if missing == Part::ZERO {
                heard.leaves = None;
            } else if now.saturating_sub(*heard.leaves.get_or_insert(now)) < LEAVES {
                missing = missing.minus(could);
            }
        }
        let plan = Plan { at: now, total, silent, lacking };
        self.plan = Some(plan);
        plan
    }
}

impl Heard {
    fn need(&self) -> Need {
        Need { least: self.least.get(), wants: self.wants.get() }
    }
}

/// The largest need of the last 10 to 20 seconds, without small fluctuations, because each change
/// of a part is a write. A fall of more than 8% counts at once: others may wait for what a burst
/// leaves.
#[derive(Clone, Copy, Debug)]
struct Steady {
    last: Part,
    present: Part,
    since: Duration,
}

impl Steady {
    const fn new(part: Part, now: Duration) -> Self {
        Self { last: part, present: part, since: now }
    }

    fn get(&self) -> Part {
        self.last.max(self.present)
    }

    fn receive(&mut self, part: Part, now: Duration) {
        if part < self.get().scaled(FALLS) {
            *self = Self::new(part, now);
        } else if now.saturating_sub(self.since) >= SPAN {
            *self = Self { last: self.present, present: part, since: now };
        } else {
            self.present = self.present.max(part);
        }
    }
}

#[cfg(test)]
mod tests;
