//! What a poll reports of the load: what happened since the reports that the control plane has counted.
//!
//! Each event is to count once, at whichever replica of the control plane, and whichever thread asks. The threads share a
//! ledger, one for each control plane: how much of each counter was counted, and how much the polls under way carry.
//!
//! ```text
//! report = counter - counted - under way
//! ```
//!
//! | the poll ends with | its part | `known` | the last answer |
//! |---|---|---|---|
//! | an answer with [`REPLICA_HEADER`](crate::sync::REPLICA_HEADER) | is counted | yes | this one |
//! | status 400 | is in the next report again | no | none, if no poll has begun since |
//! | anything else, or nothing until its time is over | is in the next report again | stays | none, likewise |
//!
//! While the control plane is not `known`, which is so at first, polls go without [`Last`]: their counters count from the start
//! of the proxy, and the ledger stays as it is. The time that the reports cover is counted in the same way, as one more counter.
//! Polls that a newer one has superseded end by the same table: another replica does not know that they are superseded.
//!
//! # When an event counts twice, or not at all
//!
//! Twice: the control plane has counted a report, and its answer does not reach the proxy, because the connection broke, or
//! because the VM or the root context of the leader ended with the poll under way. Not at all: a metric was reset before its last
//! events were reported, or the ledger cannot be read (a module of another version has written it), which is taken as if all had
//! been counted. A counter that falls was reset, and with it all of its service: they count from zero again.
//!
//! # Versions of the control plane
//!
//! Proxies and control plane may be upgraded in any order, and rolled back:
//!
//! | | proxies without [`Last`] | proxies with it |
//! |---|---|---|
//! | control plane without it | as before | no answer has the header, so [`Last`] is never sent |
//! | control plane with it | takes the counters as before | all of the above |
//! | the control plane is rolled back | as before | one poll gets 400, the next goes without [`Last`] |
//! | rolled forward again | as before | the next report holds all that no replica has counted since |
//!
//! While both versions of the control plane answer, a poll may get 400 each time that it comes from the new one to the old one;
//! the next one, half a second later, is served.
//!
//! Cold start: nothing is counted and nothing known. Cost: a read and a write of the ledger, some 200 bytes for each service, when
//! a poll begins and when it ends. Not in the papers.

use crate::shared::{Cas, Shared};
use crate::sync::{Last, ServiceEvents, ServiceLoad};
use crate::units::Timestamp;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::time::Duration;

const KEY: &str = "bloc/reports";
/// Reports under way at most, each of a poll that may be answered yet. A poll beyond that reports no events.
const MAX_UNDER_WAY: usize = 8;
/// The longest name of a replica, in bytes.
const MAX_REPLICA: usize = 64;
/// How often a step is tried when other threads come in between.
const TRIES: usize = 1000;

/// Names a report within a proxy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReportId {
    /// The VM that makes it.
    pub vm: u64,
    /// Its number among those of this VM.
    pub number: u64,
}

/// What became of a poll, as far as its report is concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End<'a> {
    /// This replica has answered, and has counted the report.
    Counted(&'a str),
    /// Status 400: perhaps a control plane that does not know [`Last`].
    Refused,
    /// It failed, or was answered without being counted.
    NotCounted,
}

impl<'a> End<'a> {
    /// What an answer with this status and this [`REPLICA_HEADER`](crate::sync::REPLICA_HEADER) says. A name that is none
    /// (1 to 64 visible ASCII characters) is as good as no header.
    pub fn of(status: &[u8], replica: Option<&'a [u8]>) -> Self {
        let name = |name: &&[u8]| (1..=MAX_REPLICA).contains(&name.len()) && name.iter().all(u8::is_ascii_graphic);
        match (status, replica.filter(name).and_then(|name| str::from_utf8(name).ok())) {
            (b"200" | b"304", Some(replica)) => Self::Counted(replica),
            (b"400", _) => Self::Refused,
            _ => Self::NotCounted,
        }
    }
}

/// The reports to one control plane.
#[derive(Clone, Debug)]
pub struct Reports {
    key: String,
}

impl Reports {
    /// Those to the control plane in this cluster. Each control plane is told everything.
    pub fn to(cluster: &str) -> Self {
        Self { key: format!("{KEY}/{cluster}") }
    }

    /// A poll begins: what it says of the load, and of the polls before it. After `until` it will have no answer. `load` reads
    /// the counters as they are since the start of the proxy, and is called again if another thread comes in between.
    pub fn begin(
        &self,
        shared: &impl Shared,
        id: ReportId,
        (now, until): (Timestamp, Timestamp),
        mut load: impl FnMut() -> Vec<ServiceLoad>,
    ) -> (Vec<ServiceLoad>, Option<Last>) {
        for _ in 0..TRIES {
            // Before the counters: those are then not less than what any report in the ledger carries.
            let (ledger, cas) = self.read(shared);
            let mut load = load();
            let mut ledger = ledger.unwrap_or_else(|| Ledger::as_if_counted(&load, now));
            let last = ledger.begin(id, (now, until), &mut load);
            if self.write(shared, &ledger, cas) {
                return (load, last);
            }
        }
        (load(), None)
    }

    /// A poll is over.
    pub fn end(&self, shared: &impl Shared, id: ReportId, end: End<'_>, now: Timestamp) {
        for _ in 0..TRIES {
            let (Some(mut ledger), cas) = self.read(shared) else { return };
            ledger.end(id, end, now);
            if self.write(shared, &ledger, cas) {
                return;
            }
        }
    }

    /// None if there is one that cannot be read.
    fn read(&self, shared: &impl Shared) -> (Option<Ledger>, Cas) {
        let (value, cas) = shared.get(&self.key);
        (value.map_or_else(|| Some(Ledger::default()), |value| serde_json::from_slice(&value).ok()), cas)
    }

    fn write(&self, shared: &impl Shared, ledger: &Ledger, cas: Cas) -> bool {
        serde_json::to_vec(ledger).is_ok_and(|value| shared.set(&self.key, &value, cas))
    }
}

/// What the threads share.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Ledger {
    known: bool,
    /// The poll that began last.
    newest: ReportId,
    /// The replica that answered last, and when, in nanoseconds of the host's clock.
    answer: Option<(String, u64)>,
    counted: Part,
    under_way: Vec<UnderWay>,
}

#[derive(Debug, Serialize, Deserialize)]
struct UnderWay {
    id: ReportId,
    /// In nanoseconds of the host's clock.
    until: u64,
    part: Part,
}

/// A part of what has happened.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Part {
    /// Whether it goes back to the start of the proxy.
    from_start: bool,
    /// Nanoseconds that it covers; from the zero of the host's clock if it goes back to the start.
    nanos: i64,
    services: BTreeMap<String, Events>,
}

/// Events at one service: what [`Events::of`] says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Events([i64; 8]);

impl Ledger {
    /// All of this, up to now, is taken to be counted.
    fn as_if_counted(load: &[ServiceLoad], now: Timestamp) -> Self {
        let services = load.iter().map(|load| (load.service.clone(), Events::of(load))).collect();
        let counted = Part { from_start: true, nanos: signed(now.as_nanos()), services };
        Self { counted, ..Self::default() }
    }

    fn begin(&mut self, id: ReportId, (now, until): (Timestamp, Timestamp), load: &mut [ServiceLoad]) -> Option<Last> {
        self.newest = id;
        self.under_way.retain(|poll| now.as_nanos() < poll.until);
        if !self.known {
            return None;
        }
        let full = self.under_way.len() >= MAX_UNDER_WAY;
        let covered = self.parts().fold(0_i64, |sum, part| sum.saturating_add(part.nanos));
        let mut part = Part {
            from_start: !full && !self.parts().any(|part| part.from_start),
            nanos: signed(now.as_nanos()).saturating_sub(covered),
            services: BTreeMap::new(),
        };
        for load in load {
            let now = Events::of(load);
            if now.are_below(self.reported(&load.service)) {
                self.forget(&load.service);
            }
            let new = if full { Events::default() } else { now.minus(self.reported(&load.service)) };
            new.write(load);
            part.services.insert(load.service.clone(), new);
        }
        let covers = Duration::from_nanos(if full { 0 } else { part.nanos.max(0).cast_unsigned() });
        let reported_ms = (!part.from_start).then(|| millis(covers));
        if !full {
            self.under_way.push(UnderWay { id, until: until.as_nanos(), part });
        }
        let (replica, answered) = self.answer.clone().unwrap_or_default();
        let answered = if replica.is_empty() { now } else { Timestamp::from_nanos(answered) };
        Some(Last { replica, answered_ms: millis(now.since(answered)), reported_ms })
    }

    fn end(&mut self, id: ReportId, end: End<'_>, now: Timestamp) {
        let at = self.under_way.iter().position(|poll| poll.id == id);
        let part = at.map(|at| self.under_way.remove(at).part);
        match end {
            End::Counted(replica) => {
                self.known = true;
                self.answer = Some((replica.to_owned(), now.as_nanos()));
                self.counted.add(part.unwrap_or_default());
                return;
            }
            End::Refused => self.known = false,
            End::NotCounted => {}
        }
        // The end of an older one says nothing of the replica that answered a newer one.
        self.answer.take_if(|_| self.newest == id);
    }

    fn parts(&self) -> impl Iterator<Item = &Part> {
        self.under_way.iter().map(|poll| &poll.part).chain([&self.counted])
    }

    /// What the reports have said of a service.
    fn reported(&self, service: &str) -> Events {
        self.parts().filter_map(|part| part.services.get(service)).fold(Events::default(), |sum, part| sum.plus(*part))
    }

    /// Nothing has been reported of this service.
    fn forget(&mut self, service: &str) {
        self.counted.services.remove(service);
        for poll in &mut self.under_way {
            poll.part.services.remove(service);
        }
    }
}

impl Part {
    fn add(&mut self, other: Self) {
        self.from_start |= other.from_start;
        self.nanos = self.nanos.saturating_add(other.nanos);
        for (service, part) in other.services {
            let sum = self.services.entry(service).or_default();
            *sum = sum.plus(part);
        }
    }
}

impl Events {
    /// What was let in, which may fall: a request that ends without an answer is in flight no more and has not departed. Then
    /// the counters, which rise only.
    fn of(load: &ServiceLoad) -> Self {
        let ServiceEvents {
            departed_confident,
            chips_granted,
            chips_withheld,
            rejected_capacity,
            rejected_bid,
            rejected_deadline,
        } = load.events;
        let let_in = load.departed.saturating_add(load.in_flight);
        let all = [
            let_in,
            load.departed,
            departed_confident,
            chips_granted,
            chips_withheld,
            rejected_capacity,
            rejected_bid,
            rejected_deadline,
        ];
        Self(all.map(signed))
    }

    fn write(self, load: &mut ServiceLoad) {
        let all = self.0.map(|count| count.max(0).cast_unsigned());
        let [
            let_in,
            departed,
            departed_confident,
            chips_granted,
            chips_withheld,
            rejected_capacity,
            rejected_bid,
            rejected_deadline,
        ] = all;
        (load.arrived, load.departed) = (let_in, departed);
        load.events = ServiceEvents {
            departed_confident,
            chips_granted,
            chips_withheld,
            rejected_capacity,
            rejected_bid,
            rejected_deadline,
        };
    }

    /// Whether a counter is lower than in the other.
    fn are_below(self, other: Self) -> bool {
        self.0.iter().zip(other.0).skip(1).any(|(own, other)| *own < other)
    }

    fn plus(self, other: Self) -> Self {
        self.with(other, i64::saturating_add)
    }

    fn minus(self, other: Self) -> Self {
        self.with(other, i64::saturating_sub)
    }

    fn with(mut self, other: Self, f: impl Fn(i64, i64) -> i64) -> Self {
        for (own, other) in self.0.iter_mut().zip(other.0) {
            *own = f(*own, other);
        }
        self
    }
}

fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
#[path = "reports_tests.rs"]
mod tests;
