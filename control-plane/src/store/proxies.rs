//! The last poll of each proxy, kept for operators and to let a newer poll end the older one.
//!
//! Records of proxies that were silent for an hour are dropped. Ids come from outside, so each
//! record is charged to the identity that polled ([`budget`](super::budget)). When there is no
//! room, the records of proxies that were not heard of lately are dropped first: only operators
//! need them.

use super::budget::{Budget, Room, Serial};
use super::module::Module;
use super::names::Names;
use super::poll::Poll;
use super::polls::PollId;
use super::seal::Seal;
use super::subscription::{Name, Subscription};
use super::version::Version;
use super::window::Window;
use bloc_policy::sync::{ServiceCalls, ServiceLoad};
use std::cell::Cell;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// How often silent proxies are dropped to make room, which looks at all records.
const ROOM_EVERY: Duration = Duration::from_secs(1);
/// A proxy that was heard of within this time, twice the usual wait, is not dropped as silent.
const LATELY: Duration = Duration::from_secs(60);
/// How long a silent proxy is remembered.
const KEEP: Duration = Duration::from_secs(3600);

/// All proxies by id.
#[derive(Debug, Default)]
pub struct Proxies {
    records: BTreeMap<String, Record>,
    names: Names,
    budget: Budget,
    gone: Vec<Gone>,
    swept: Option<Instant>,
    made_room: Option<Instant>,
    next: Serial,
}

/// What a dropped or changed record leaves behind elsewhere.
#[derive(Debug)]
pub struct Gone {
    /// Whose record it was.
    pub proxy: String,
    /// The poll that is held for it, if the whole record is gone.
    pub held: Option<PollId>,
    /// The services that it no longer serves.
    pub left: Vec<Name>,
}

/// What is remembered of one proxy.
#[derive(Debug)]
pub struct Record {
    pub(super) version: Option<Version>,
    /// Whether the seal of `version` holds.
    is_issued: bool,
    pub(super) subscription: Arc<Subscription>,
    pub(super) load: Vec<ServiceLoad>,
    /// The module that it runs, and the services of `version` that this could not read.
    pub(super) module: Module,
    pub(super) unread: Vec<String>,
    /// How its calls ended, until that is counted.
    pub(super) calls: Vec<ServiceCalls>,
    /// The time that the counters in `load` cover; `None`: since the start of the proxy.
    pub(super) span: Option<Duration>,
    pub(super) seen: Instant,
    pub(super) held: Option<PollId>,
    /// The cores that it has, of what its pod's node agent says, and when it was last told of them.
    pub(super) cpu: Option<f64>,
    pub(super) told: Option<Instant>,
    /// When it counts at this replica.
    pub(super) window: Window,
    /// Since when it has presented its version although there is a newer state for it.
    pub(super) behind: Option<Instant>,
    /// The digest in force of its subscription as it gets it, and the generation of the catalog
    /// that it is of. Cached because the status needs it of all proxies.
    pub(super) digest: Cell<Option<(u64, u64)>>,
    /// The identity that it belongs to, if that was proved.
    identity: Option<String>,
    /// Who is charged, the place of the record there, and the bytes.
    payer: Arc<str>,
    serial: Serial,
    charge: usize,
}

impl Record {
    fn was_heard_of_lately(&self, now: Instant) -> bool {
        self.held.is_some() || now.saturating_duration_since(self.seen) <= LATELY
    }
}

impl Record {
    /// Checks whether the seal of its version holds.
    pub fn check(&mut self, seal: &Seal) {
        self.is_issued = self.version.as_ref().is_some_and(|version| seal.holds(version));
    }

    /// Its version, if one of our replicas has certainly issued it.
    pub fn issued(&self) -> Option<&Version> {
        self.version.as_ref().filter(|_| self.is_issued)
    }

    /// The identity that it belongs to, if that was proved.
    pub fn identity(&self) -> Option<&str> {
        self.identity.as_deref()
    }

    /// The workload that it belongs to: what its certificate says, such as `shop/frontend` in the
    /// trust domain `cluster.local`, and `DOMAIN/shop/frontend` in another one. Without a
    /// certificate, the first service that it serves, or its id.
    pub fn workload(&self, proxy: &str) -> String {
        if let Some(identity) = &self.identity {
            let id = identity.strip_prefix("spiffe://").unwrap_or(identity);
            let id = id.strip_prefix("cluster.local/ns/").unwrap_or(id);
            return id.replacen("/ns/", "/", 1).replacen("/sa/", "/", 1);
        }
        self.subscription.serves.first().map_or(proxy, |name| &name.text).to_owned()
    }
}

impl Proxies {
    /// Whether the id of this poll belongs to another identity.
    pub fn is_of_another(&self, poll: &Poll) -> bool {
        self.records.get(&poll.proxy).is_some_and(|record| record.identity != poll.identity)
    }

    /// Updates the record of the proxy that polls, and charges it with `charge` bytes.
    pub fn note(&mut self, poll: &Poll, charge: usize, now: Instant) -> &mut Record {
        let record = self.records.entry(poll.proxy.clone()).or_insert_with(|| {
            self.next += 1;
            Record {
                identity: poll.identity.clone(),
                payer: Arc::clone(&poll.payer),
                serial: self.next - 1,
                charge: 0,
                version: None,
                is_issued: false,
                subscription: Arc::default(),
                load: Vec::new(),
                module: Module::default(),
                unread: Vec::new(),
                calls: Vec::new(),
                span: None,
                seen: now,
                held: None,
                cpu: None,
                told: None,
                window: Window::default(),
                behind: None,
                digest: Cell::new(None),
            }
        });
        if record.charge != charge || record.payer != poll.payer {
            self.budget.release(&record.payer, record.serial, record.charge);
            (record.payer, record.charge) = (Arc::clone(&poll.payer), charge);
            self.budget.charge(&record.payer, record.serial, &Arc::from(&*poll.proxy), charge);
        }
        if record.version != poll.version {
            record.behind = None;
        }
        record.version.clone_from(&poll.version);
        record.is_issued = false;
        if !record.subscription.is_of(&poll.services, &poll.serves) {
            // The new subscription first, so that names in both stay.
            let next = self.names.subscribe(&poll.services, &poll.serves);
            let before = std::mem::replace(&mut record.subscription, next);
            record.digest = Cell::new(None);
            self.names.release(&before);
            let is_served = |name: &Name| poll.serves.binary_search_by(|served| (**served).cmp(&name.text)).is_ok();
            let left: Vec<Name> = before.serves.iter().filter(|name| !is_served(name)).cloned().collect();
            if !left.is_empty() {
                self.gone.push(Gone { proxy: poll.proxy.clone(), held: None, left });
            }
        }
        if record.module.features != poll.module.features {
            record.digest = Cell::new(None);
        }
        record.module.clone_from(&poll.module);
        record.unread.clone_from(&poll.unread);
        record.calls.clone_from(&poll.calls);
        record.load.clone_from(&poll.load);
        record.cpu = poll.cpu;
        record.span = poll.span();
        record.seen = now;
        record
    }

    /// Makes room for the record of the proxy that polls, `charge` bytes in all, what it takes
    /// already included. Returns whether there is room.
    ///
    /// Drops the records of other proxies if it must: first those that were not heard of
    /// [`LATELY`], then the youngest ones of the identity that [`Budget`] names. They stay dropped,
    /// whatever is returned, see [`gone`](Self::gone). Without room, the record of the polling
    /// proxy is dropped, too, if it has one.
    pub fn make_room(&mut self, poll: &Poll, charge: usize, now: Instant) -> bool {
        self.sweep(now);
        loop {
            // Its own record may have been silent too, and be gone now.
            let known = self.records.get(&poll.proxy);
            let serial = known.map_or(self.next, |record| record.serial);
            let before = known.filter(|record| record.payer == poll.payer).map_or(0, |record| record.charge);
            let more = charge.saturating_sub(before);
            match self.budget.room(&poll.payer, serial, more) {
                Room::Free => return true,
                Room::After(_) | Room::Full if self.forget_silent(&poll.payer, more, now) => {}
                Room::After(proxy) => self.forget(&proxy),
                Room::Full => {
                    self.forget(&poll.proxy);
                    return false;
                }
            }
        }
    }

    /// What dropped records, and records of changed subscriptions, have left behind since the last
    /// call.
    pub fn gone(&mut self) -> Vec<Gone> {
        std::mem::take(&mut self.gone)
    }

    /// The bytes that all records take.
    #[cfg(test)]
    pub fn taken(&self) -> usize {
        self.budget.taken()
    }

    fn forget(&mut self, proxy: &str) {
        self.retain(Some(proxy), |_| false);
    }

    /// Forgets silent proxies before any others are evicted: those of `payer` alone if the `more`
    /// bytes exceed the limit of one identity, otherwise those of all. Limited to once in a while,
    /// because it looks at all records.
    fn forget_silent(&mut self, payer: &str, more: usize, now: Instant) -> bool {
        if self.budget.is_beyond_its_own(payer, more) {
            let Some(proxies) = self.budget.proxies_of(payer, now) else { return false };
            for proxy in proxies {
                if self.records.get(&*proxy).is_some_and(|record| !record.was_heard_of_lately(now)) {
                    self.forget(&proxy);
                }
            }
            return true;
        }
        let due = self.made_room.is_none_or(|last| now.saturating_duration_since(last) >= ROOM_EVERY);
        if due {
            self.made_room = Some(now);
            self.retain(None, |record| record.was_heard_of_lately(now));
        }
        due
    }

    /// Drops records that are not `kept`, all or only one, and releases everything that belongs to
    /// them.
    fn retain(&mut self, only: Option<&str>, kept: impl Fn(&Record) -> bool) {
        let Self { records, names, budget, gone, .. } = self;
        let mut drop = |proxy: String, record: Record| {
            names.release(&record.subscription);
            budget.release(&record.payer, record.serial, record.charge);
            gone.push(Gone { held: record.held, left: record.subscription.serves.to_vec(), proxy });
        };
        if let Some((proxy, record)) = only.and_then(|proxy| records.remove_entry(proxy)) {
            drop(proxy, record);
        }
        if only.is_none() {
            let ends: Vec<String> =
                records.iter().filter(|(_, record)| !kept(record)).map(|(proxy, _)| proxy.clone()).collect();
            for proxy in ends {
                if let Some(record) = records.remove(&proxy) {
                    drop(proxy, record);
                }
            }
        }
    }

    /// The id of a service's name that a proxy subscribed to.
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

    /// All records, mutable.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut Record> {
        self.records.values_mut()
    }

    /// Whether a proxy counts at this replica at `at`, which is now or shortly before.
    pub fn count_here(&self, proxy: &str, at: Instant) -> bool {
        self.records.get(proxy).is_some_and(|record| record.window.contains(at))
    }

    /// The number of proxies that count at this replica.
    pub fn counted(&self, now: Instant) -> usize {
        self.records.values().filter(|record| record.window.contains(now)).count()
    }

    /// Drops old records; at most once a minute, so that the cost is negligible.
    fn sweep(&mut self, now: Instant) {
        let due = self.swept.is_none_or(|swept| now.saturating_duration_since(swept) >= Duration::from_secs(60));
        if due {
            self.swept = Some(now);
            self.retain(None, |r| r.held.is_some() || now.saturating_duration_since(r.seen) < KEEP);
        }
    }
}

#[cfg(test)]
#[path = "proxies_tests.rs"]
mod tests;
