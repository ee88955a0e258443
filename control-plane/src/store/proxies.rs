//! What is remembered of each proxy, its last poll: for operators, and so that a newer poll ends the older one.
//!
//! Records of proxies that were not heard of for an hour are dropped, and their number is bounded, because ids come from
//! outside. Whoever makes up ids must not keep others out: one that has proved who it is has so many at most, and where nobody proves anything
//! those that hold no poll give way, since a record serves its proxy no purpose that its next poll would not.

use super::names::Names;
use super::outcome::StoreError;
use super::poll::Poll;
use super::polls::PollId;
use super::seal::Seal;
use super::subscription::Subscription;
use super::version::Version;
use super::window::Window;
use crate::load::Since;
use bloc_policy::sync::ServiceLoad;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// Proxies that are remembered at most: five times the largest mesh that this is meant for.
const MAX_PROXIES: usize = 50_000;
/// Proxies of one identity: more than an account has pods.
const MAX_OF_ONE: usize = 5_000;
/// How often room is made, which looks at all of them.
const ROOM_EVERY: Duration = Duration::from_secs(1);
/// How long a silent proxy is remembered.
const KEEP: Duration = Duration::from_secs(3600);

/// All proxies by id.
#[derive(Debug, Default)]
pub struct Proxies {
    records: BTreeMap<String, Record>,
    names: Names,
    swept: Option<Instant>,
    made_room: Option<Instant>,
    /// How many there are of each identity.
    of: HashMap<String, usize>,
}

/// What is remembered of one proxy.
#[derive(Debug)]
pub struct Record {
    pub(super) version: Option<Version>,
    /// Whether the seal of `version` holds.
    is_issued: bool,
    pub(super) subscription: Arc<Subscription>,
    pub(super) load: Vec<ServiceLoad>,
    /// What the counters in `load` count from.
    pub(super) since: Since,
    pub(super) seen: Instant,
    pub(super) held: Option<PollId>,
    /// When it counts at this replica.
    pub(super) window: Window,
    /// Since when it has presented the version that it has, and there is a newer state for it.
    pub(super) behind: Option<Instant>,
    /// Whose it is, if that was proved.
    identity: Option<String>,
}

impl Record {
    /// Looks whether the seal of its version holds.
    pub fn check(&mut self, seal: &Seal) {
        self.is_issued = self.version.as_ref().is_some_and(|version| seal.holds(version));
    }

    /// Its version, if a replica of ours has surely issued it.
    pub fn issued(&self) -> Option<&Version> {
        self.version.as_ref().filter(|_| self.is_issued)
    }

    /// Whose it is, if that was proved.
    pub fn identity(&self) -> Option<&str> {
        self.identity.as_deref()
    }
}

impl Proxies {
    /// The record of the proxy behind `poll`, brought up to date.
    ///
    /// # Errors
    /// If there is no room for another proxy, or it is somebody else's.
    pub fn note(&mut self, poll: &Poll, now: Instant) -> Result<&mut Record, StoreError> {
        self.sweep(now);
        if !self.records.contains_key(&poll.proxy) {
            self.admit(poll, now)?;
        }
        if self.records.get(&poll.proxy).is_some_and(|record| record.identity != poll.identity) {
            return Err(StoreError::NotYours);
        }
        let record = self.records.entry(poll.proxy.clone()).or_insert_with(|| Record {
            identity: poll.identity.clone(),
            version: None,
            is_issued: false,
            subscription: Arc::default(),
            load: Vec::new(),
            since: Since::Start,
            seen: now,
            held: None,
            window: Window::default(),
            behind: None,
        });
        if record.version != poll.version {
            record.behind = None;
        }
        record.version.clone_from(&poll.version);
        record.is_issued = false;
        if !record.subscription.is_of(&poll.services, &poll.serves) {
            // The new one first: names that are in both stay.
            let next = self.names.subscribe(&poll.services, &poll.serves);
            let before = std::mem::replace(&mut record.subscription, next);
            self.names.release(&before);
        }
        record.load.clone_from(&poll.load);
        record.since = poll.since();
        record.seen = now;
        Ok(record)
    }

    /// Whether there is room for a proxy that is not known.
    fn admit(&mut self, poll: &Poll, now: Instant) -> Result<(), StoreError> {
        if self.records.len() >= MAX_PROXIES && poll.identity.is_none() {
            let due = self.made_room.is_none_or(|last| now.saturating_duration_since(last) >= ROOM_EVERY);
            if due {
                self.made_room = Some(now);
                self.retain(|record| record.held.is_some());
            }
        }
        if self.records.len() >= MAX_PROXIES {
            return Err(StoreError::TooManyProxies);
        }
        if let Some(identity) = &poll.identity {
            let count = self.of.entry(identity.clone()).or_default();
            if *count >= MAX_OF_ONE {
                return Err(StoreError::TooManyProxies);
            }
            *count += 1;
        }
        Ok(())
    }

    fn retain(&mut self, kept: impl Fn(&Record) -> bool) {
        let Self { records, names, .. } = self;
        records.retain(|_, record| {
            let keep = kept(record);
            if !keep {
                names.release(&record.subscription);
            }
            keep
        });
    }

    /// The id of a service's name that proxies subscribed to.
    pub fn name_id(&self, service: &str) -> Option<u64> {
        self.names.id(service)
    }

    /// The record of a proxy.
    pub fn get(&self, proxy: &str) -> Option<&Record> {
        self.records.get(proxy)
    }

    /// The record of a proxy.
    pub fn get_mut(&mut self, proxy: &str) -> Option<&mut Record> {
        self.records.get_mut(proxy)
    }

    /// All records, by id.
    pub fn iter(&self) -> impl Iterator<Item = (&String, &Record)> {
        self.records.iter()
    }

    /// All records, to be changed.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut Record> {
        self.records.values_mut()
    }

    /// Whether a proxy counts at this replica at `at`, which is now or not much earlier.
    pub fn count_here(&self, proxy: &str, at: Instant) -> bool {
        self.records.get(proxy).is_some_and(|record| record.window.contains(at))
    }

    /// How many proxies count at this replica.
    pub fn counted(&self, now: Instant) -> usize {
        self.records.values().filter(|record| record.window.contains(now)).count()
    }

    /// Looks through all records once a minute at most, so that its cost does not count.
    fn sweep(&mut self, now: Instant) {
        let due = self.swept.is_none_or(|swept| now.saturating_duration_since(swept) >= Duration::from_secs(60));
        if due {
            self.swept = Some(now);
            self.retain(|r| r.held.is_some() || now.saturating_duration_since(r.seen) < KEEP);
            self.of.clear();
            for identity in self.records.values().filter_map(|record| record.identity.as_ref()) {
                *self.of.entry(identity.clone()).or_default() += 1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bloc_policy::sync::SyncRequest;

    fn poll(proxy: &str) -> Poll {
        Poll::try_from(SyncRequest { proxy: proxy.into(), ..SyncRequest::default() }).unwrap()
    }

    #[test]
    fn silent_proxies_are_forgotten_and_their_number_is_bounded() {
        let (mut proxies, start) = (Proxies::default(), Instant::now());
        for i in 0..MAX_PROXIES {
            proxies.note(&poll(&i.to_string()), start).unwrap().held = Some(i as u64);
        }
        assert_eq!(proxies.note(&poll("one-more"), start).err(), Some(StoreError::TooManyProxies));
        assert!(proxies.note(&poll("0"), start).is_ok(), "a known one is still served");
        for i in 1..MAX_PROXIES {
            proxies.get_mut(&i.to_string()).unwrap().held = None;
        }
        assert!(proxies.note(&poll("one-more"), start + KEEP).is_ok());
        assert_eq!(proxies.iter().map(|(id, _)| id.as_str()).collect::<Vec<_>>(), ["0", "one-more"]);
    }

    #[test]
    fn who_makes_up_ids_keeps_nobody_out() {
        let (mut proxies, start) = (Proxies::default(), Instant::now());
        proxies.note(&poll("honest"), start).unwrap().held = Some(1);
        for i in 1..MAX_PROXIES {
            proxies.note(&poll(&i.to_string()), start).unwrap();
        }
        assert!(proxies.note(&poll("another"), start).is_ok(), "those without a poll give way");
        assert_eq!(proxies.iter().map(|(id, _)| id.as_str()).collect::<Vec<_>>(), ["another", "honest"]);

        let from = |proxy: &str, identity: &str| poll(proxy).from(Some(identity.to_owned()));
        let mut proxies = Proxies::default();
        for i in 0..MAX_OF_ONE {
            proxies.note(&from(&i.to_string(), "liar"), start).unwrap();
        }
        assert_eq!(proxies.note(&from("one-more", "liar"), start).err(), Some(StoreError::TooManyProxies));
        assert!(proxies.note(&from("0", "liar"), start).is_ok(), "a known one is still served");
        assert!(proxies.note(&from("own", "honest"), start).is_ok());
        assert!(proxies.note(&from("one-more", "liar"), start + KEEP).is_ok(), "after an hour");
    }

    #[test]
    fn an_id_belongs_to_whom_it_was_first_heard_from() {
        let (mut proxies, start) = (Proxies::default(), Instant::now());
        let from = |identity: &str| poll("p").from(Some(identity.to_owned()));
        assert!(proxies.note(&from("one"), start).is_ok());
        assert_eq!(proxies.note(&from("other"), start).err(), Some(StoreError::NotYours));
        assert_eq!(proxies.note(&poll("p"), start).err(), Some(StoreError::NotYours));
        assert!(proxies.note(&from("one"), start).is_ok());
        proxies.note(&from("one"), start + KEEP).unwrap();
    }
}
