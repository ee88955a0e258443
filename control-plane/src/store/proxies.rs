//! What is remembered of each proxy: its last poll, and the last answer that it was given and for which subscription.
//!
//! The remembered answer tells whether the version that a proxy presents proves what it has; see [`Record::has_received`].
//! Records of proxies that were not heard of for an hour are dropped, and their number is bounded, because ids come from
//! outside.

use super::poll::Poll;
use super::polls::PollId;
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
    pub(super) acknowledged: u64,
    pub(super) services: Vec<String>,
    pub(super) serves: Vec<String>,
    pub(super) load: Vec<ServiceLoad>,
    pub(super) seen: Instant,
    pub(super) held: Option<PollId>,
    wait: Duration,
    answered: Option<Answered>,
}

#[derive(Debug)]
struct Answered {
    version: u64,
    subscription: Arc<BTreeSet<String>>,
}

impl Record {
    /// Whether `poll` presents the very version that this proxy was last answered with, for at least this subscription. Then it
    /// has that state; otherwise the answer may have been lost, or the subscription has grown since.
    pub fn has_received(&self, poll: &Poll) -> bool {
        self.answered.as_ref().is_some_and(|answered| {
            answered.version == poll.version && poll.subscription.is_subset(&answered.subscription)
        })
    }

    /// Whether it was ever answered with a state.
    pub fn was_answered(&self) -> bool {
        self.answered.is_some()
    }

    /// Remembers that `poll` is answered with `version`.
    pub fn answer(&mut self, poll: &Poll, version: u64) {
        self.answered = Some(Answered { version, subscription: Arc::clone(&poll.subscription) });
    }

    /// Whether it holds a poll, or was heard of within its last two waits.
    pub fn is_connected(&self, now: Instant) -> bool {
        self.held.is_some() || now.saturating_duration_since(self.seen) <= self.wait * 2
    }
}

impl Proxies {
    /// The record of the proxy behind `poll`, brought up to date; `None` if there is no room for another proxy.
    pub fn note(&mut self, poll: &Poll, now: Instant) -> Option<&mut Record> {
        self.sweep(now);
        if self.records.len() >= MAX_PROXIES && !self.records.contains_key(&poll.proxy) {
            return None;
        }
        let record = self.records.entry(poll.proxy.clone()).or_insert_with(|| Record {
            acknowledged: 0,
            services: Vec::new(),
            serves: Vec::new(),
            load: Vec::new(),
            seen: now,
            held: None,
            wait: poll.wait,
            answered: None,
        });
        record.acknowledged = poll.version;
        record.services.clone_from(&poll.services);
        record.serves.clone_from(&poll.serves);
        record.load.clone_from(&poll.load);
        record.wait = poll.wait;
        record.seen = now;
        Some(record)
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

    fn poll(proxy: &str, version: u64, services: &[&str]) -> Poll {
        let services = services.iter().map(ToString::to_string).collect();
        Poll::try_from(SyncRequest { proxy: proxy.into(), version, services, ..SyncRequest::default() }).unwrap()
    }

    #[test]
    fn an_answer_counts_when_its_version_comes_back_for_no_more_services() {
        let mut proxies = Proxies::default();
        let record = proxies.note(&poll("p", 0, &["a", "b"]), Instant::now()).unwrap();
        assert!(!record.has_received(&poll("p", 0, &["a", "b"])));
        record.answer(&poll("p", 0, &["a", "b"]), 7);
        assert!(record.has_received(&poll("p", 7, &["a", "b"])));
        assert!(record.has_received(&poll("p", 7, &["a"])));
        assert!(!record.has_received(&poll("p", 7, &["a", "c"])));
        assert!(!record.has_received(&poll("p", 6, &["a"])));
    }

    #[test]
    fn connected_is_who_was_heard_of_within_two_waits() {
        let (mut proxies, start) = (Proxies::default(), Instant::now());
        proxies.note(&poll("p", 0, &[]), start).unwrap();
        assert_eq!(proxies.connected(start + Duration::from_secs(60)), 1);
        assert_eq!(proxies.connected(start + Duration::from_secs(61)), 0);
        proxies.get_mut("p").unwrap().held = Some(1);
        assert_eq!(proxies.connected(start + Duration::from_secs(61)), 1);
    }

    #[test]
    fn silent_proxies_are_forgotten_and_their_number_is_bounded() {
        let (mut proxies, start) = (Proxies::default(), Instant::now());
        for i in 0..MAX_PROXIES {
            assert!(proxies.note(&poll(&i.to_string(), 0, &[]), start).is_some());
        }
        assert!(proxies.note(&poll("one-more", 0, &[]), start).is_none());
        assert!(proxies.note(&poll("0", 0, &[]), start).is_some(), "a known one is still served");
        assert!(proxies.note(&poll("one-more", 0, &[]), start + KEEP).is_some());
        assert_eq!(proxies.iter().count(), 1);
    }
}
