//! Progress that proxies have and this replica lacks: a reason to list the source's objects anew.
//!
//! Only versions whose [seal](super::seal) holds get here. What one proved identity may make us
//! list is rationed all the same: a version of another history, an etcd restored from a backup, is
//! genuine too, and who has kept many of those would make us list for each. An identity pays for a
//! list, not for what it wants: what the watches bring in time costs nobody anything. Who has spent
//! its ration waits for what others want, for the next bookmark, or for the next minute.

use super::version::Progress;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::Duration;
use tokio::time::Instant;

/// Revisions that are wanted, and those remembered as of another history: more than a mesh has at
/// once of different ones.
const MAX_REVISIONS: usize = 1_000;
/// Identities that are remembered as wanting the same revision; one with a ration is enough.
const MAX_WANTING: usize = 16;
/// Lists that one identity may cause in a minute, of all kinds of objects together: a restored etcd
/// takes one for each of four kinds, and a second one for those proxies that come late.
const LISTS: usize = 8;
const MINUTE: Duration = Duration::from_secs(60);
/// Identities whose rations are remembered.
const MAX_RATIONS: usize = 1_000;

/// A revision at the place of a watch.
pub type Revision = (usize, u64);

/// What is wanted.
#[derive(Debug, Default)]
pub struct Wants {
    wanted: BTreeMap<Revision, Want>,
    /// Those of them that lie beyond the end of our history.
    foreign: BTreeSet<Revision>,
    rations: HashMap<String, Ration>,
    /// Places at which a list was paid for that has not begun yet, and when.
    paid: HashMap<usize, Instant>,
}

#[derive(Debug)]
struct Want {
    since: Instant,
    by: BTreeSet<Option<String>>,
}

/// What an identity has spent.
#[derive(Debug)]
struct Ration {
    since: Instant,
    lists: usize,
}

impl Wants {
    /// A proxy of this identity, if it proved one, has this revision.
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

    /// Whether a list of the objects at `place` is to begin: it is wanted, by somebody who has not
    /// spent its ration, and then pays. Not while one that was paid for has not begun. Who has
    /// proved no identity has no ration.
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

    /// The source was listed at `place`, newest state and all, and is at `revision`; the list was
    /// begun at `begun`. What was wanted before that and is not in it, is of another history.
    /// Returns whether there was such.
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

/// Whether this identity has a list left in this minute; takes it.
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
        // Every second another revision, each of another history.
        for second in 0..59 {
            wants.add((0, 1_000 + second), Some("collector"), at(second));
            due |= wants.list(0, at(second));
            // A watch lists every 5 s at the most.
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
