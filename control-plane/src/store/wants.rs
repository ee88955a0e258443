//! Progress that proxies have and this replica lacks, which makes it list the source's objects
//! again.
//!
//! Only versions with a valid [seal](super::seal) count. Even so, the lists that one proved
//! identity may cause are rationed: a version of another history (an etcd restored from a backup)
//! is genuine too, and a client that kept many of those could cause a list for each. An identity is
//! charged for a list, not for a wanted revision: what the watches bring in time costs nothing. An
//! identity without a ration left waits for what others want, for the next bookmark, or for the
//! next minute.

use super::version::Progress;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::Duration;
use tokio::time::Instant;

/// The most revisions that are wanted, and that are remembered as of another history: more than
/// differ in a mesh at a time.
const MAX_REVISIONS: usize = 1_000;
/// The most identities that are remembered as wanting the same revision; one with a ration is
/// enough.
const MAX_WANTING: usize = 16;
/// Lists that one identity may cause in a minute, over all kinds of objects. A restored etcd takes
/// one for each of four kinds, and a second one for late proxies.
const LISTS: usize = 8;
const MINUTE: Duration = Duration::from_secs(60);
/// The most identities whose rations are remembered.
const MAX_RATIONS: usize = 1_000;

/// A revision of the watch at a place.
pub type Revision = (usize, u64);

/// The revisions that are wanted.
#[derive(Debug, Default)]
pub struct Wants {
    wanted: BTreeMap<Revision, Want>,
    /// Revisions beyond the end of our history.
    foreign: BTreeSet<Revision>,
    rations: HashMap<String, Ration>,
    /// Places where a list was charged but has not begun yet, and when it was charged.
    paid: HashMap<usize, Instant>,
}

#[derive(Debug)]
struct Want {
    since: Instant,
    by: BTreeSet<Option<String>>,
}

/// The lists that an identity has used.
#[derive(Debug)]
struct Ration {
    since: Instant,
    lists: usize,
}

impl Wants {
    /// A proxy has this revision; `identity` is the one that it proved.
    pub fn add(&mut self, revision: Revision, identity: Option<&str>, now: Instant) {
        if self.wanted.len() >= MAX_REVISIONS && !self.wanted.contains_key(&revision) {
            return;
        }
        let want = self.wanted.entry(revision).or_insert_with(|| Want { since: now, by: BTreeSet::new() });
        if want.by.len() < MAX_WANTING {
            want.by.insert(identity.map(str::to_owned));
        }
    }

    /// Whether anything is wanted.
    pub fn any(&self) -> bool {
        !self.wanted.is_empty()
    }

    /// Whether anything is wanted at `place`.
    pub fn at(&self, place: usize) -> bool {
        self.wanted.range((place, 0)..=(place, u64::MAX)).next().is_some()
    }

    /// Whether to begin a list of the objects at `place`: somebody with a ration left wants it, and
    /// is charged now. Not while a charged list has not begun. A proxy without a proved identity
    /// has no limit.
    pub fn list(&mut self, place: usize, now: Instant) -> bool {
        let wanting: BTreeSet<&Option<String>> =
            self.wanted.range((place, 0)..=(place, u64::MAX)).flat_map(|(_, want)| &want.by).collect();
        if wanting.is_empty() {
            return false;
        }
        if self.paid.contains_key(&place) {
            return false;
        }
        let pays = wanting.into_iter().any(|identity| match identity {
            Some(identity) => spend(&mut self.rations, identity, now),
            None => true,
        });
        if pays {
            self.paid.insert(place, now);
        }
        pays
    }

    /// Whether this revision is known to be of another history.
    pub fn is_foreign(&self, revision: &Revision) -> bool {
        self.foreign.contains(revision)
    }

    /// The source has read up to `known`.
    pub fn reached(&mut self, known: &Progress) {
        let known = known.revisions();
        self.wanted.retain(|(place, revision), _| known.get(*place).is_some_and(|known| known < revision));
    }

    /// All objects at `place` were listed in their newest state; the list began at `begun` and is
    /// at `revision`. What was wanted before that but is not in the list is of another history.
    /// Returns whether there was any.
    pub fn listed(&mut self, place: usize, revision: u64, begun: Instant) -> bool {
        if self.paid.get(&place).is_some_and(|paid| *paid <= begun) {
            self.paid.remove(&place);
        }
        let beyond = (place, revision.saturating_add(1))..=(place, u64::MAX);
        let of_others: Vec<_> =
            self.wanted.range(beyond).filter(|(_, want)| want.since < begun).map(|(revision, _)| *revision).collect();
        for revision in &of_others {
            self.wanted.remove(revision);
        }
        if of_others.is_empty() {
            return false;
        }
        if self.foreign.len() >= MAX_REVISIONS {
            self.foreign.clear();
        }
        self.foreign.extend(of_others);
        true
    }
}

/// Takes a list from this identity's ration; whether one was left in this minute.
fn spend(rations: &mut HashMap<String, Ration>, identity: &str, now: Instant) -> bool {
    let is_over = |ration: &Ration| now.saturating_duration_since(ration.since) >= MINUTE;
    if rations.len() >= MAX_RATIONS && !rations.contains_key(identity) {
        rations.retain(|_, ration| !is_over(ration));
        if rations.len() >= MAX_RATIONS {
            return false;
        }
    }
    let ration = rations.entry(identity.to_owned()).or_insert(Ration { since: now, lists: 0 });
    if is_over(ration) {
        *ration = Ration { since: now, lists: 0 };
    }
    let left = ration.lists < LISTS;
    ration.lists += usize::from(left);
    left
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_the_lists_that_one_identity_can_cause() {
        let (mut wants, start) = (Wants::default(), Instant::now());
        let at = |seconds| start + Duration::from_secs(seconds);
        let (mut lists, mut due) = (0, false);
        // A new revision every second, each of another history.
        for second in 0..59 {
            wants.add((0, 1_000 + second), Some("collector"), at(second));
            due |= wants.list(0, at(second));
            // A watch lists at most every 5 s.
            if due && second % 5 == 0 {
                (lists, due) = (lists + 1, false);
                wants.listed(0, 10, at(second));
            }
        }
        assert_eq!((lists, wants.rations["collector"].lists), (LISTS, LISTS));
        assert!(!wants.list(0, at(59)), "its ration is spent");
        wants.add((0, 5_000), Some("honest"), at(59));
        assert!(wants.list(0, at(59)), "what is wanted at a place is listed together");
        wants.listed(0, 10, at(60));
        assert!(!wants.any() && !wants.list(0, at(66)));
        wants.add((1, 7), Some("collector"), at(66));
        assert!(wants.list(1, at(66)), "a new ration in the next minute");
    }

    #[test]
    fn charges_nothing_for_revisions_that_the_watches_reach() {
        let (mut wants, start) = (Wants::default(), Instant::now());
        for revision in 1..1_000 {
            wants.add((0, revision), Some("busy"), start);
            wants.reached(&Progress::new([revision]));
        }
        assert!(!wants.any() && wants.rations.is_empty());
    }

    #[test]
    fn bounds_the_revisions_and_rations_that_it_keeps() {
        let (mut wants, start) = (Wants::default(), Instant::now());
        for i in 0..3 * MAX_REVISIONS {
            wants.add((0, i as u64 + 1), Some(&i.to_string()), start);
            wants.add((0, 1), Some(&i.to_string()), start);
        }
        assert_eq!((wants.wanted.len(), wants.wanted[&(0, 1)].by.len()), (MAX_REVISIONS, MAX_WANTING));
        for i in 0..3 * MAX_RATIONS {
            spend(&mut wants.rations, &i.to_string(), start);
        }
        assert_eq!(wants.rations.len(), MAX_RATIONS);
        assert!(spend(&mut wants.rations, "new", start + MINUTE), "the rations of the last minute are over");
        wants.listed(0, 0, start + MINUTE);
        wants.add((0, 9), None, start);
        wants.listed(0, 0, start + MINUTE);
        assert!(wants.foreign.len() <= MAX_REVISIONS && wants.is_foreign(&(0, 9)));
    }

    #[test]
    fn remembers_each_revision_of_another_history() {
        let (mut wants, start) = (Wants::default(), Instant::now());
        for (revision, is_foreign) in [(900, true), (901, true), (8, false)] {
            wants.add((0, revision), None, start);
            assert_eq!(wants.listed(0, 8, start + Duration::from_millis(1)), is_foreign);
        }
        assert_eq!([8, 900, 901].map(|revision| wants.is_foreign(&(0, revision))), [false, true, true]);
    }

    #[test]
    fn does_not_limit_lists_for_callers_without_an_identity() {
        let (mut wants, start) = (Wants::default(), Instant::now());
        for minute in 0..100 {
            let now = start + Duration::from_secs(5) * minute;
            wants.add((0, 10 + u64::from(minute)), None, now);
            assert!(wants.list(0, now));
            wants.listed(0, 0, now);
        }
    }
}
