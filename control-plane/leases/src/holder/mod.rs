//! What the agent of a node holds.

use crate::message::{Ask, Told};
use crate::part::Part;
use crate::record::MOST_COUNT;
use std::collections::BTreeMap;

/// The next life exceeds another agent's by 1 to this. A replica with an old record may name a life
/// that was already followed, so always adding 1 could give the same life twice.
const SPREAD: u64 = 1 << 16;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lease {
    /// What the node may use.
    pub part: Part,
    /// The part to shrink to as soon as possible, because others need the rest.
    pub goal: Part,
}

#[derive(Clone, Copy, Debug, Default)]
struct Held {
    number: u64,
    lease: Lease,
}

/// What a node holds of each application's limit.
///
/// [`parts`](Self::parts) and [`life`](Self::life) must be on disk before an [`ask`](Self::ask)
/// leaves the node.
#[derive(Clone, Debug)]
pub struct Holder {
    life: u64,
    /// Includes those that the node left: late answers may still arrive.
    apps: BTreeMap<String, Held>,
}

impl Holder {
    /// For an agent that starts. `life` is later than all known ones; `parts` was on disk.
    pub fn new(life: u64, parts: BTreeMap<String, Part>) -> Self {
        let held = |part| Held { number: 0, lease: Lease { part, goal: part } };
        Self { life, apps: parts.into_iter().map(|(name, part)| (name, held(part))).collect() }
    }

    pub const fn life(&self) -> u64 {
        self.life
    }

    pub fn parts(&self) -> BTreeMap<String, Part> {
        let held = self.apps.iter().filter(|(_, held)| held.lease.part > Part::ZERO);
        held.map(|(name, held)| (name.clone(), held.lease.part)).collect()
    }

    pub fn lease(&self, app: &str) -> Lease {
        self.apps.get(app).map(|held| held.lease).unwrap_or_default()
    }

    /// Applies the answer of a replica.
    pub fn receive(&mut self, told: &Told) {
        let held = self.apps.get(&told.name).copied().unwrap_or_default();
        if (told.life, told.number) > (self.life, held.number) {
            self.follow(told.life);
        } else if (told.life, told.number) == (self.life, held.number) && told.part >= held.lease.part {
            let lease = Lease { part: told.part, goal: told.goal.min(told.part) };
            self.apps.insert(told.name.clone(), Held { lease, ..held });
        }
        // For the same life and number a part only rises: an answer with less is outdated.
    }

    /// Starts a life after this one, such as after a lost disk.
    fn follow(&mut self, life: u64) {
        let next = life.saturating_add(1 + self.life % SPREAD);
        // Replicas accept no later life.
        if next <= MOST_COUNT {
            self.life = next;
            for held in self.apps.values_mut() {
                held.number = 0;
            }
        }
    }

    /// From now on, the node uses only this much of an application's limit.
    pub fn lower(&mut self, app: &str, to: Part) {
        if let Some(held) = self.apps.get_mut(app).filter(|held| to < held.lease.part) {
            held.number += 1;
            held.lease = Lease { part: to, goal: to };
        }
    }

    /// The request for an application that needs this much.
    pub fn ask(&self, name: &str, wants: Part, least: Part, own: Option<Part>) -> Ask {
        let held = self.apps.get(name).copied().unwrap_or_default();
        Ask { name: name.to_owned(), number: held.number, part: held.lease.part, wants, least, own }
    }
}

#[cfg(test)]
mod tests;
