//! What is remembered of each proxy, its last poll: for operators, and so that a newer poll ends the older one.
//!
//! Records of proxies that were not heard of for an hour are dropped, and their number is bounded, because ids come from
//! outside.

use super::StoreError;
use super::poll::Poll;
use super::polls::PollId;
use super::version::Version;
use bloc_policy::sync::ServiceLoad;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// Proxies that are remembered at most: five times the largest mesh that this is meant for.
const MAX_PROXIES: usize = 50_000;
/// How long a silent proxy is remembered.
const KEEP: Duration = Duration::from_secs(3600);

/// All proxies by id.
#[derive(Debug, Default)]
pub struct Proxies {
    records: BTreeMap<String, Record>,
    swept: Option<Instant>,
}

/// What is remembered of one proxy.
#[derive(Debug)]
pub struct Record {
    pub(super) version: Option<Version>,
    pub(super) subscription: Arc<BTreeSet<String>>,
    pub(super) services: Vec<String>,
    pub(super) serves: Vec<String>,
    pub(super) load: Vec<ServiceLoad>,
    pub(super) seen: Instant,
    pub(super) held: Option<PollId>,
    /// Whose it is, if that was proved.
    identity: Option<String>,
    wait: Duration,
}

impl Record {
    /// Whether it holds a poll, or was heard of within its last two waits.
    pub fn is_connected(&self, now: Instant) -> bool {
        self.held.is_some() || now.saturating_duration_since(self.seen) <= self.wait * 2
    }
}

impl Proxies {
    /// The record of the proxy behind `poll`, brought up to date.
    ///
    /// # Errors
    /// If there is no room for another proxy, or it is somebody else's.
    pub fn note(&mut self, poll: &Poll, now: Instant) -> Result<&mut Record, StoreError> {
        self.sweep(now);
        if self.records.len() >= MAX_PROXIES && !self.records.contains_key(&poll.proxy) {
            return Err(StoreError::TooManyProxies);
        }
        if self.records.get(&poll.proxy).is_some_and(|record| record.identity != poll.identity) {
            return Err(StoreError::NotYours);
        }
        let record = self.records.entry(poll.proxy.clone()).or_insert_with(|| Record {
            identity: poll.identity.clone(),
            version: None,
            subscription: Arc::default(),
            services: Vec::new(),
            serves: Vec::new(),
            load: Vec::new(),
            seen: now,
            held: None,
            wait: poll.wait,
        });
        record.version.clone_from(&poll.version);
        record.subscription = Arc::clone(&poll.subscription);
        record.services.clone_from(&poll.services);
        record.serves.clone_from(&poll.serves);
        record.load.clone_from(&poll.load);
        record.wait = poll.wait;
        record.seen = now;
        Ok(record)
    }

    /// The record of a proxy.
    pub fn get_mut(&mut self, proxy: &str) -> Option<&mut Record> {
        self.records.get_mut(proxy)
    }

    /// All records, by id.
    pub fn iter(&self) -> impl Iterator<Item = (&String, &Record)> {
        self.records.iter()
    }

    /// How many proxies are connected.
    pub fn connected(&self, now: Instant) -> usize {
        self.records.values().filter(|record| record.is_connected(now)).count()
    }

    /// Looks through all records once a minute at most, so that its cost does not count.
    fn sweep(&mut self, now: Instant) {
        let due = self.swept.is_none_or(|swept| now.saturating_duration_since(swept) >= Duration::from_secs(60));
        if due {
            self.swept = Some(now);
            self.records.retain(|_, r| r.held.is_some() || now.saturating_duration_since(r.seen) < KEEP);
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
    fn connected_is_who_was_heard_of_within_two_waits() {
        let (mut proxies, start) = (Proxies::default(), Instant::now());
        proxies.note(&poll("p"), start).unwrap();
        assert_eq!(proxies.connected(start + Duration::from_secs(60)), 1);
        assert_eq!(proxies.connected(start + Duration::from_secs(61)), 0);
        proxies.get_mut("p").unwrap().held = Some(1);
        assert_eq!(proxies.connected(start + Duration::from_secs(61)), 1);
    }

    #[test]
    fn silent_proxies_are_forgotten_and_their_number_is_bounded() {
        let (mut proxies, start) = (Proxies::default(), Instant::now());
        for i in 0..MAX_PROXIES {
            assert!(proxies.note(&poll(&i.to_string()), start).is_ok());
        }
        assert_eq!(proxies.note(&poll("one-more"), start).err(), Some(StoreError::TooManyProxies));
        assert!(proxies.note(&poll("0"), start).is_ok(), "a known one is still served");
        assert!(proxies.note(&poll("one-more"), start + KEEP).is_ok());
        assert_eq!(proxies.iter().count(), 1);
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
