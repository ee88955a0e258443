//! The agent of a node: what it holds.

use crate::message::{Ask, Told};
use crate::part::Part;
use crate::record::MOST_COUNT;
use std::collections::BTreeMap;

/// By how much more than one the life may grow that follows another agent's. A replica with an old
/// record may name a life that was followed before, so that always one more would give the same
/// life twice.
const SPREAD: u64 = 1 << 16;

/// What a node holds of an application.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lease {
    /// It may use this much.
    pub part: Part,
    /// It is to use only this much, as soon as it can: others need the rest.
    pub goal: Part,
}

#[derive(Clone, Copy, Debug, Default)]
struct Held {
    number: u64,
    lease: Lease,
}

/// What a node holds of all applications.
///
/// What [`parts`](Self::parts) and [`life`](Self::life) say has to be on the disk before an
/// [`ask`](Self::ask) that was made of it leaves the node.
#[derive(Clone, Debug)]
pub struct Holder {
    life: u64,
    /// Also those that are left: what was said of them may still arrive.
    apps: BTreeMap<String, Held>,
}

impl Holder {
    /// An agent that starts. `life` is larger than in any start before, as far as is known; `parts`
    /// is what was on the disk.
    pub fn new(life: u64, parts: BTreeMap<String, Part>) -> Self {
        let held = |part| Held { number: 0, lease: Lease { part, goal: part } };
        Self { life, apps: parts.into_iter().map(|(name, part)| (name, held(part))).collect() }
    }

    /// The present life.
    pub const fn life(&self) -> u64 {
        self.life
    }

    /// What is held.
    pub fn parts(&self) -> BTreeMap<String, Part> {
        let held = self.apps.iter().filter(|(_, held)| held.lease.part > Part::ZERO);
        held.map(|(name, held)| (name.clone(), held.lease.part)).collect()
    }

    /// What is held of an application.
    pub fn lease(&self, app: &str) -> Lease {
        self.apps.get(app).map(|held| held.lease).unwrap_or_default()
    }

    /// Takes what a replica says.
    pub fn hear(&mut self, told: &Told) {
        let held = self.apps.get(&told.name).copied().unwrap_or_default();
        if (told.life, told.number) > (self.life, held.number) {
            self.follow(told.life);
        } else if (told.life, told.number) == (self.life, held.number) && told.part >= held.lease.part {
            let lease = Lease { part: told.part, goal: told.goal.min(told.part) };
            self.apps.insert(told.name.clone(), Held { lease, ..held });
        }
        // For the same life and number a part only rises: what says less is older than what is
        // known.
    }

    /// Somebody has counted on, such as before this node lost its disk: this life is not the last.
    fn follow(&mut self, life: u64) {
        let next = life.saturating_add(1 + self.life % SPREAD);
        // No replica takes a larger one.
        if next <= MOST_COUNT {
            self.life = next;
            for held in self.apps.values_mut() {
                held.number = 0;
            }
        }
    }

    /// The node uses only this much of an application now, and will not use more.
    pub fn lower(&mut self, app: &str, to: Part) {
        if let Some(held) = self.apps.get_mut(app).filter(|held| to < held.lease.part) {
            held.number += 1;
            held.lease = Lease { part: to, goal: to };
        }
    }

    /// What a replica is to be told of an application that needs this much.
    pub fn ask(&self, name: &str, wants: Part, least: Part, own: Option<Part>) -> Ask {
        let held = self.apps.get(name).copied().unwrap_or_default();
        Ask { name: name.to_owned(), number: held.number, part: held.lease.part, wants, least, own }
    }
}

#[cfg(test)]
mod tests;
