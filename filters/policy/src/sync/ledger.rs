//! How much of the proxy's counts was reported: what its threads share for
//! [`crate::sync::reports`], in little-endian bytes. A JSON reader would make the module an eighth
//! larger.
//!
//! ```text
//! ledger = FORMAT newest answer part u32 { id until part }
//! id     = u64 u64
//! answer = text u64            without an answer the text is empty
//! part   = from-start nanos u32 { text 8*i64 }
//! text   = u32 bytes
//! ```

use crate::sync::{Last, ServiceEvents, ServiceLoad};
use crate::units::Timestamp;
use crate::units::inserted::inserted;
use std::collections::BTreeMap;
use std::time::Duration;

/// The first byte. Another value means another version of this file.
const FORMAT: u8 = 1;
/// The most reports under way. Further polls report no events.
const MAX_UNDER_WAY: usize = 8;
/// The longest replica name, in bytes.
const MAX_REPLICA: usize = 64;
const EVENTS: usize = 8;

/// Identifies a report within a proxy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReportId {
    /// The VM that makes it.
    pub vm: u64,
    /// Its number among this VM's reports.
    pub number: u64,
}

/// How a poll ended, as far as its report is concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End<'a> {
    /// This replica answered, and has counted the report.
    Counted(&'a str),
    /// It failed, or the answer did not count it.
    NotCounted,
}

impl<'a> End<'a> {
    /// What an answer with this status and [`REPLICA_HEADER`](crate::sync::REPLICA_HEADER) means.
    /// An invalid name (valid: 1 to 64 visible ASCII characters) counts as none.
    pub fn of(status: &[u8], replica: Option<&'a [u8]>) -> Self {
        let name = |name: &&[u8]| (1..=MAX_REPLICA).contains(&name.len()) && name.iter().all(u8::is_ascii_graphic);
        match (status, replica.filter(name).and_then(|name| str::from_utf8(name).ok())) {
            (b"200" | b"304", Some(replica)) => Self::Counted(replica),
            _ => Self::NotCounted,
        }
    }
}

#[derive(Debug, Default)]
pub(crate) struct Ledger {
    newest: ReportId,
    /// The replica that answered last, and the host's clock at that time, in nanoseconds.
    answer: Option<(String, u64)>,
    counted: Part,
    under_way: Vec<UnderWay>,
}

#[derive(Debug)]
struct UnderWay {
    id: ReportId,
    /// In nanoseconds of the host's clock.
    until: u64,
    part: Part,
}

/// The events of a period.
#[derive(Debug, Default)]
struct Part {
    /// Whether it starts with the proxy.
    from_start: bool,
    /// Nanoseconds covered; from the clock's zero if it starts with the proxy.
    nanos: i64,
    services: BTreeMap<String, Events>,
}

/// The events of one service, in the order of [`Events::of`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Events([i64; EVENTS]);

impl Ledger {
    /// A ledger that treats everything up to now as counted.
    pub(crate) fn as_if_counted(load: &[ServiceLoad], now: Timestamp) -> Self {
        let services = inserted(load.iter().map(|load| (load.service.clone(), Events::of(load))));
        let counted = Part { from_start: true, nanos: signed(now.as_nanos()), services };
        Self { counted, ..Self::default() }
    }

    pub(crate) fn begin(
        &mut self,
        id: ReportId,
        (now, until): (Timestamp, Timestamp),
        load: &mut [ServiceLoad],
    ) -> Last {
        self.newest = id;
        self.under_way.retain(|poll| now.as_nanos() < poll.until);
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
        Last { replica, answered_ms: millis(now.since(answered)), reported_ms }
    }

    pub(crate) fn end(&mut self, id: ReportId, end: End<'_>, now: Timestamp) {
        let at = self.under_way.iter().position(|poll| poll.id == id);
        let part = at.map(|at| self.under_way.remove(at).part);
        match end {
            End::Counted(replica) => {
                self.answer = Some((replica.to_owned(), now.as_nanos()));
                self.counted.add(part.unwrap_or_default());
            }
            // An older poll's end says nothing about the replica that answered a newer one.
            End::NotCounted => drop(self.answer.take_if(|_| self.newest == id)),
        }
    }

    fn parts(&self) -> impl Iterator<Item = &Part> {
        self.under_way.iter().map(|poll| &poll.part).chain([&self.counted])
    }

    fn reported(&self, service: &str) -> Events {
        self.parts().filter_map(|part| part.services.get(service)).fold(Events::default(), |sum, part| sum.plus(*part))
    }

    /// Treats a service as never reported.
    fn forget(&mut self, service: &str) {
        self.counted.services.remove(service);
        for poll in &mut self.under_way {
            poll.part.services.remove(service);
        }
    }
}

/// A report that is not in the ledger, so it must not contain events.
pub(crate) fn without_events(load: &mut [ServiceLoad]) -> Last {
    load.iter_mut().for_each(|load| Events::default().write(load));
    Last { reported_ms: Some(0), ..Last::default() }
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
    fn of(load: &ServiceLoad) -> Self {
        let ServiceEvents {
            departed_confident,
            chips_granted,
            chips_withheld,
            rejected_capacity,
            rejected_bid,
            rejected_deadline,
        } = load.events;
        let all = [
            load.arrived,
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
            arrived,
            departed,
            departed_confident,
            chips_granted,
            chips_withheld,
            rejected_capacity,
            rejected_bid,
            rejected_deadline,
        ] = all;
        (load.arrived, load.departed) = (arrived, departed);
        load.events = ServiceEvents {
            departed_confident,
            chips_granted,
            chips_withheld,
            rejected_capacity,
            rejected_bid,
            rejected_deadline,
        };
    }

    /// Whether any counter is lower than in `other`.
    fn are_below(self, other: Self) -> bool {
        self.0.iter().zip(other.0).any(|(own, other)| *own < other)
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

impl Ledger {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = vec![FORMAT];
        encode_id(&mut out, self.newest);
        let (replica, answered) = self.answer.as_ref().map_or(("", 0), |(replica, at)| (replica, *at));
        encode_text(&mut out, replica);
        out.extend(answered.to_le_bytes());
        self.counted.encode(&mut out);
        encode_length(&mut out, self.under_way.len());
        for poll in &self.under_way {
            encode_id(&mut out, poll.id);
            out.extend(poll.until.to_le_bytes());
            poll.part.encode(&mut out);
        }
        out
    }

    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        let mut from = Reader(bytes);
        let [FORMAT] = from.bytes()? else { return None };
        let newest = from.id()?;
        let (replica, answered) = (from.text()?, from.u64()?);
        let counted = from.part()?;
        let under_way = (0..from.length()?)
            .map(|_| Some(UnderWay { id: from.id()?, until: from.u64()?, part: from.part()? }))
            .collect::<Option<_>>()?;
        let answer = (!replica.is_empty()).then_some((replica, answered));
        from.0.is_empty().then_some(Self { newest, answer, counted, under_way })
    }
}

impl Part {
    fn encode(&self, out: &mut Vec<u8>) {
        out.push(u8::from(self.from_start));
        out.extend(self.nanos.to_le_bytes());
        encode_length(out, self.services.len());
        for (service, Events(events)) in &self.services {
            encode_text(out, service);
            events.iter().for_each(|event| out.extend(event.to_le_bytes()));
        }
    }
}

fn encode_id(out: &mut Vec<u8>, id: ReportId) {
    out.extend(id.vm.to_le_bytes());
    out.extend(id.number.to_le_bytes());
}

fn encode_text(out: &mut Vec<u8>, text: &str) {
    encode_length(out, text.len());
    out.extend(text.as_bytes());
}

fn encode_length(out: &mut Vec<u8>, length: usize) {
    out.extend(u32::try_from(length).unwrap_or(u32::MAX).to_le_bytes());
}

struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    fn bytes<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (bytes, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*bytes)
    }

    fn u64(&mut self) -> Option<u64> {
        self.bytes().map(u64::from_le_bytes)
    }

    fn i64(&mut self) -> Option<i64> {
        self.bytes().map(i64::from_le_bytes)
    }

    fn length(&mut self) -> Option<usize> {
        self.bytes().and_then(|bytes| usize::try_from(u32::from_le_bytes(bytes)).ok())
    }

    fn id(&mut self) -> Option<ReportId> {
        Some(ReportId { vm: self.u64()?, number: self.u64()? })
    }

    fn text(&mut self) -> Option<String> {
        let length = self.length()?;
        let (text, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        str::from_utf8(text).ok().map(str::to_owned)
    }

    fn part(&mut self) -> Option<Part> {
        let [from_start @ 0..=1] = self.bytes()? else { return None };
        let nanos = self.i64()?;
        let mut services = BTreeMap::new();
        for _ in 0..self.length()? {
            let service = self.text()?;
            let mut events = [0; EVENTS];
            for event in &mut events {
                *event = self.i64()?;
            }
            services.insert(service, Events(events));
        }
        Some(Part { from_start: from_start == 1, nanos, services })
    }
}

fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
