//! Limits on the memory for proxies, and who is evicted when it is full.
//!
//! Everything that is remembered of a proxy is charged to the identity that polls (see
//! [`charge`](super::charge)). When there is no room, the identity that takes most loses its
//! youngest record, so an identity that invents proxies loses the invented ones. An identity below
//! its fair share (the whole divided by the number of identities) always gets room, because another
//! one then takes more.
//!
//! Cost: a step in two ordered maps for each record that is added, changed or removed.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// How often the records of one identity are searched for silent proxies.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// The most bytes that may be taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// By one identity.
    pub of_one: usize,
    /// In all.
    pub in_all: usize,
}

impl Default for Limits {
    fn default() -> Self {
        // A proxy that calls ten services takes some 20 kB, so 10,000 fit, and 5,000 of one
        // identity. With 64 MiB in transit, 16 MiB for node agents, 50 MiB for a large mesh's
        // services and as much for their latencies that is below 450 MiB, of the 512 MiB of the
        // manifests.
        Self { of_one: 96 << 20, in_all: 208 << 20 }
    }
}

/// The age of a record within its identity: higher is younger.
pub type Serial = u64;

/// Whether there is room.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Room {
    /// There is room.
    Free,
    /// There is room, or may be, after this proxy is evicted.
    After(Arc<str>),
    /// There is none: the asking identity takes most, and has no younger record.
    Full,
}

/// What each identity takes.
#[derive(Debug, Default)]
pub struct Budget {
    limits: Limits,
    taken: usize,
    accounts: HashMap<Arc<str>, Account>,
    by_size: BTreeSet<(usize, Arc<str>)>,
}

#[derive(Debug, Default)]
struct Account {
    taken: usize,
    records: BTreeMap<Serial, Arc<str>>,
    looked: Option<Instant>,
}

impl Budget {
    /// With other limits than the default.
    #[cfg(test)]
    pub fn of(limits: Limits) -> Self {
        Self { limits, ..Self::default() }
    }

    /// Whether `payer` may take `more` bytes for its record `serial`.
    pub fn room(&self, payer: &str, serial: Serial, more: usize) -> Room {
        let account = self.accounts.get(payer);
        let own = account.map_or(0, |account| account.taken) + more;
        let largest = self.by_size.last().filter(|(taken, other)| **other != *payer && *taken > own);
        let gives_way = if own > self.limits.of_one {
            account
        } else if self.taken + more <= self.limits.in_all {
            return Room::Free;
        } else {
            largest.map_or(account, |(_, other)| self.accounts.get(other))
        };
        match gives_way.and_then(|account| account.records.last_key_value()) {
            Some((youngest, proxy)) if largest.is_some() && own <= self.limits.of_one || *youngest > serial => {
                Room::After(Arc::clone(proxy))
            }
            _ => Room::Full,
        }
    }

    /// Whether `payer` would exceed the limit of one identity with `more` bytes.
    pub fn is_beyond_its_own(&self, payer: &str, more: usize) -> bool {
        self.accounts.get(payer).map_or(0, |account| account.taken) + more > self.limits.of_one
    }

    /// The proxies of `payer`; `None` if it was asked for less than a second ago, because this
    /// looks at all of them.
    pub fn proxies_of(&mut self, payer: &str, now: Instant) -> Option<Vec<Arc<str>>> {
        let account = self.accounts.get_mut(payer)?;
        if account.looked.is_some_and(|last| now.saturating_duration_since(last) < LOOK_EVERY) {
            return None;
        }
        account.looked = Some(now);
        Some(account.records.values().cloned().collect())
    }

    /// Charges `payer` for the record `serial` of `proxy`.
    pub fn charge(&mut self, payer: &Arc<str>, serial: Serial, proxy: &Arc<str>, bytes: usize) {
        let account = self.accounts.entry(Arc::clone(payer)).or_default();
        self.by_size.remove(&(account.taken, Arc::clone(payer)));
        account.taken += bytes;
        account.records.insert(serial, Arc::clone(proxy));
        self.by_size.insert((account.taken, Arc::clone(payer)));
        self.taken += bytes;
    }

    /// Releases what was charged for a record.
    pub fn release(&mut self, payer: &Arc<str>, serial: Serial, bytes: usize) {
        let Some(account) = self.accounts.get_mut(payer) else { return };
        self.by_size.remove(&(account.taken, Arc::clone(payer)));
        account.taken -= bytes;
        account.records.remove(&serial);
        self.taken -= bytes;
        if account.records.is_empty() {
            self.accounts.remove(payer);
        } else {
            self.by_size.insert((account.taken, Arc::clone(payer)));
        }
    }

    /// The bytes that are taken in all.
    #[cfg(test)]
    pub fn taken(&self) -> usize {
        self.taken
    }

    /// Whether nothing is charged to anybody.
    #[cfg(test)]
    pub fn is_empty(&self) -> bool {
        self.taken == 0 && self.accounts.is_empty() && self.by_size.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: Limits = Limits { of_one: 60, in_all: 100 };

    fn name(text: &str) -> Arc<str> {
        Arc::from(text)
    }

    /// One record of ten bytes for each letter, which is its identity. The position of the letter
    /// is its serial, and the name of the proxy is identity and position.
    fn taken_by(payers: &str) -> Budget {
        let mut budget = Budget::of(LIMITS);
        for (serial, payer) in (0..).zip(payers.chars()) {
            budget.charge(&name(&payer.to_string()), serial, &name(&format!("{payer}{serial}")), 10);
        }
        budget
    }

    fn after(proxy: &str) -> Room {
        Room::After(name(proxy))
    }

    #[test]
    fn evicts_the_youngest_record_of_the_identity_that_takes_most() {
        let budget = taken_by("aabbbbbcca");
        assert_eq!(budget.room("c", 10, 10), after("b6"));
        assert_eq!(budget.room("new", 10, 10), after("b6"));
        assert_eq!(budget.room("b", 10, 10), Room::Full, "it is the largest itself");
        assert_eq!(budget.room("b", 4, 10), after("b6"), "its older record may grow at the cost of its younger one");
        assert_eq!(budget.room("a", 10, 20), Room::Full, "with that it would take as much as the largest");
        assert_eq!(taken_by("aabbbbbcc").room("b", 10, 10), Room::Free);
    }

    #[test]
    fn no_identity_takes_more_than_its_own_limit() {
        let budget = taken_by("aaaaaa");
        assert_eq!(budget.room("a", 6, 10), Room::Full, "although 40 are free");
        assert_eq!(budget.room("a", 2, 10), after("a5"));
        assert_eq!(budget.room("a", 2, 0), Room::Free);
        assert_eq!(budget.room("b", 6, 40), Room::Free);
        assert_eq!(budget.room("b", 6, 61), Room::Full);
    }

    #[test]
    fn an_identity_below_its_fair_share_always_gets_room() {
        let mut rng = fastrand::Rng::with_seed(7);
        for _ in 0..500 {
            let limits = Limits { of_one: 1_000, in_all: 1_000 };
            let (mut budget, mut sizes) = (Budget::of(limits), HashMap::new());
            for serial in 0..200 {
                let (payer, bytes) = (name(&rng.u8(0..12).to_string()), rng.usize(1..120));
                let own = budget.accounts.get(&payer).map_or(0, |account| account.taken) + bytes;
                let others = budget.accounts.keys().filter(|other| **other != payer).count();
                let proxy = name(&serial.to_string());
                loop {
                    match budget.room(&payer, serial, bytes) {
                        Room::Free => {
                            budget.charge(&payer, serial, &proxy, bytes);
                            sizes.insert(proxy, (payer, serial, bytes));
                            break;
                        }
                        Room::After(other) => {
                            let (payer, serial, bytes) = sizes.remove(&other).unwrap();
                            budget.release(&payer, serial, bytes);
                        }
                        Room::Full => {
                            assert!(own * (others + 1) > limits.in_all, "{own} of {limits:?} with {others} others");
                            break;
                        }
                    }
                }
                assert!(budget.taken <= limits.in_all);
                assert_eq!(budget.taken, sizes.values().map(|(_, _, bytes)| bytes).sum::<usize>());
            }
            sizes.into_values().for_each(|(payer, serial, bytes)| budget.release(&payer, serial, bytes));
            assert!(budget.is_empty(), "{budget:?}");
        }
    }
}
