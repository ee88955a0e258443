//! The last poll of each proxy, kept for operators and to let a newer poll end the older one.
//!
//! Records of proxies that were silent for ten minutes are dropped, or after one minute if there is
//! no room. Ids come from outside, so everything remembered of a proxy is charged to the identity
//! that polls (see [`charge`](super::charge)). If there is still no room, the identity that takes
//! most loses its youngest record. An identity that invents proxies thus loses the invented ones.
//! One below its fair share (the whole divided by the number of identities) always gets room,
//! because another one then takes more.

use super::module::Module;
use super::names::Names;
use super::poll::Poll;
use super::subscription::{Name, Subscription};
use super::version::Version;
use super::window::Window;
use bloc_daemon::shares::{Share, Shares};
use bloc_policy::sync::{ServiceCalls, ServiceLoad};
use std::cell::Cell;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// Identifies a held poll within this process.
pub type PollId = u64;

/// The most bytes for all proxies. One that calls ten services takes some 20 kB, so 10,000 fit, and
/// 5,000 of one identity. With 64 MiB in transit, 16 MiB for node agents, 50 MiB for a large mesh's
/// services and as much for latencies, this is below 450 MiB of the manifests' 512 MiB.
pub const IN_ALL: usize = 208 << 20;
/// The most bytes for the proxies of one identity.
pub const OF_ONE: usize = 96 << 20;
/// How often to drop silent proxies, which takes a pass over all records.
const SWEEP_EVERY: Duration = Duration::from_secs(5);
/// How long a silent proxy is remembered: a caller polls every 30 s, and may reach another replica
/// a dozen times in a row.
const KEEP: Duration = Duration::from_secs(600);
/// The same when there is no room for another proxy.
const KEEP_IF_FULL: Duration = Duration::from_secs(60);

/// The order of records by age: higher is younger.
type Serial = u64;

/// All proxies by id.
#[derive(Debug)]
pub struct Proxies {
    records: BTreeMap<String, Record>,
    names: Names,
    /// Bytes, by identity.
    memory: Shares,
    /// The proxies of each identity by age.
    ages: BTreeMap<(Arc<str>, Serial), String>,
    gone: Vec<Gone>,
    /// When silent proxies were last dropped, and when for lack of room.
    swept: Option<Instant>,
    cramped: Option<Instant>,
    next: Serial,
}

impl Default for Proxies {
    fn default() -> Self {
        Self {
            records: BTreeMap::new(),
            names: Names::default(),
            memory: Shares::capped(OF_ONE, IN_ALL),
            ages: BTreeMap::new(),
            gone: Vec::new(),
            swept: None,
            cramped: None,
            next: 0,
        }
    }
}

/// What a dropped or changed record leaves behind elsewhere.
#[derive(Debug)]
pub struct Gone {
    /// Whose record it was.
    pub proxy: String,
    /// The poll held for it, if the whole record is gone.
    pub held: Option<PollId>,
    /// The services that it no longer serves.
    pub left: Vec<Name>,
}

/// What is remembered of one proxy.
#[derive(Debug)]
pub struct Record {
    pub(super) version: Option<Version>,
    pub(super) subscription: Arc<Subscription>,
    pub(super) load: Vec<ServiceLoad>,
    /// The module that it runs, and the services of `version` that the module could not read.
    pub(crate) module: Module,
    pub(super) unread: Vec<String>,
    /// How its calls ended, until this is counted.
    pub(super) calls: Vec<ServiceCalls>,
    /// The time that the counters in `load` cover; `None`: since the start of the proxy.
    pub(super) span: Option<Duration>,
    pub(super) seen: Instant,
    pub(super) held: Option<PollId>,
    /// The cores that its pod's node agent gave it, and when it was last told them.
    pub(crate) cpu: Option<f64>,
    pub(crate) told: Option<Instant>,
    /// When it counts at this replica.
    pub(super) window: Window,
    /// Since when it has presented its version although a newer state exists for it.
    pub(super) behind: Option<Instant>,
    /// Since when it has presented its version although this replica knows less.
    pub(super) ahead: Option<Instant>,
    /// The digest in force of its subscription, as it gets it, and the generation of the catalog
    /// for this. Cached because the status needs the digest of every proxy.
    pub(super) digest: Cell<Option<(u64, u64)>>,
    /// The identity that it belongs to, if proved.
    identity: Option<String>,
    /// The bytes that it takes, and who is charged for them.
    memory: Share,
    serial: Serial,
}

impl Record {
    /// Its workload: from its certificate, such as `shop/frontend` in the trust domain
    /// `cluster.local`, and `DOMAIN/shop/frontend` in another one. Without a certificate, the first
    /// service that it serves, or its id.
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
                memory: self.memory.share(Arc::clone(&poll.payer)),
                serial: self.next - 1,
                version: None,
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
                ahead: None,
                digest: Cell::new(None),
            }
        });
        if *record.memory.owner() != poll.payer {
            self.ages.remove(&(Arc::clone(record.memory.owner()), record.serial));
            record.memory = self.memory.share(Arc::clone(&poll.payer));
        }
        record.memory.set(charge);
        self.ages.entry((Arc::clone(&poll.payer), record.serial)).or_insert_with(|| poll.proxy.clone());
        if record.version != poll.version {
            (record.behind, record.ahead) = (None, None);
        }
        record.version.clone_from(&poll.version);
        if !record.subscription.is_of(&poll.services, &poll.serves) {
            // Subscribes first, so that names in both stay.
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

    /// Makes room for the record of the proxy that polls: `charge` bytes in all, including what it
    /// already takes. Returns whether there is room.
    ///
    /// If necessary, drops silent proxies, then the youngest records of the identity that takes
    /// most. They stay dropped whatever the result, see [`gone`](Self::gone). Without room, the
    /// record of the polling proxy is dropped, too, if it has one.
    pub fn make_room(&mut self, poll: &Poll, charge: usize, now: Instant) -> bool {
        if is_due(&mut self.swept, now) {
            self.sweep(KEEP, now);
        }
        loop {
            // Its own record may be gone by now.
            let known = self.records.get(&poll.proxy);
            let serial = known.map_or(self.next, |record| record.serial);
            let before = known.map(|record| &record.memory).filter(|memory| *memory.owner() == poll.payer);
            let more = charge.saturating_sub(before.map_or(0, Share::amount));
            let Some(payer) = self.memory.in_the_way(&poll.payer, more) else { return true };
            if is_due(&mut self.cramped, now) {
                self.sweep(KEEP_IF_FULL, now);
                continue;
            }
            let mut records = self.ages.range((Arc::clone(&payer), 0)..=(Arc::clone(&payer), Serial::MAX));
            match records.next_back() {
                Some(((_, youngest), proxy)) if payer != poll.payer || *youngest > serial => {
                    let proxy = proxy.clone();
                    self.forget(&proxy);
                }
                _ => {
                    self.forget(&poll.proxy);
                    return false;
                }
            }
        }
    }

    /// What dropped records and changed subscriptions have left behind since the last call.
    pub fn gone(&mut self) -> Vec<Gone> {
        std::mem::take(&mut self.gone)
    }

    /// The bytes that all records take.
    #[cfg(test)]
    pub fn taken(&self) -> usize {
        self.memory.taken()
    }

    /// Drops a record, and releases everything that belongs to it.
    fn forget(&mut self, proxy: &str) {
        let Some((proxy, record)) = self.records.remove_entry(proxy) else { return };
        self.names.release(&record.subscription);
        self.ages.remove(&(Arc::clone(record.memory.owner()), record.serial));
        self.gone.push(Gone { held: record.held, left: record.subscription.serves.to_vec(), proxy });
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

    /// Whether a proxy counts at this replica at `at`: now or shortly before.
    pub fn count_here(&self, proxy: &str, at: Instant) -> bool {
        self.records.get(proxy).is_some_and(|record| record.window.contains(at))
    }

    /// The number of proxies that count at this replica.
    pub fn counted(&self, now: Instant) -> usize {
        self.records.values().filter(|record| record.window.contains(now)).count()
    }

    /// Drops the records of proxies silent for `keep`.
    fn sweep(&mut self, keep: Duration, now: Instant) {
        let is_silent = |record: &Record| record.held.is_none() && now.saturating_duration_since(record.seen) >= keep;
        let silent = self.records.iter().filter(|(_, record)| is_silent(record));
        let silent: Vec<String> = silent.map(|(proxy, _)| proxy.clone()).collect();
        silent.iter().for_each(|proxy| self.forget(proxy));
    }
}

/// Whether a sweep is due, given the last one.
fn is_due(last: &mut Option<Instant>, now: Instant) -> bool {
    let is_due = last.is_none_or(|last| now.saturating_duration_since(last) >= SWEEP_EVERY);
    if is_due {
        *last = Some(now);
    }
    is_due
}

#[cfg(test)]
#[path = "proxies_tests.rs"]
mod tests;
