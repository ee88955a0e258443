//! What threads share of a service's latencies, and what reports take
//! (`filters/adr/0016-latencies.md`).
//!
//! Each thread adds its growth about once a second. A report takes it all under its id; if the
//! report is not counted, the next one takes it again. Growth older than [`KEEP`] would count as
//! new, so it is dropped.
//!
//! ```text
//! entry = FORMAT since:8 next-block:varint slots pending:growth under-way
//! slots = varint { slot:varint count:varint }
//! under-way = varint { vm:8 number:8 until:8 since:8 growth }
//! ```

use super::dispersion::{NUMBERS, Slots};
use super::growth::{Growth, Reader, varint};
use crate::proxy::shared::Shared;
use crate::sync::ledger::ReportId;
use crate::units::Timestamp;
use std::time::Duration;

/// The longest time that growth waits for a report.
pub const KEEP: Duration = Duration::from_secs(120);
/// The first byte. Another value means another version of this file.
const FORMAT: u8 = 1;
/// How often to retry a step when other threads write in between.
const TRIES: usize = 1000;
/// The most reports under way. Further ones take nothing.
const MAX_UNDER_WAY: usize = 8;

/// Which side of a service this proxy is on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Side {
    /// It serves the service. Numbers: those of [`Slots::close`]; histograms: response and
    /// execution.
    Server,
    /// It calls the service. Numbers: those of [`Calls`](super::Calls); histograms: one.
    Caller,
}

impl Side {
    fn key(self, service: &str) -> String {
        let side = match self {
            Self::Server => "server",
            Self::Caller => "caller",
        };
        format!("bloc/latency/{side}/{service}")
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Entry {
    /// When the pending growth began to wait; zero: there is none.
    since: Timestamp,
    slots: Slots,
    pending: Growth,
    under_way: Vec<UnderWay>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct UnderWay {
    id: ReportId,
    /// No answer arrives after this.
    until: Timestamp,
    /// When its growth began to wait for a report that counts.
    since: Timestamp,
    growth: Growth,
}

/// A thread hands over its measurements.
pub fn hand_over(shared: &impl Shared, side: Side, service: &str, growth: &Growth, slots: &Slots, now: Timestamp) {
    change(shared, &side.key(service), |entry| {
        entry.forget_old(now);
        entry.wait(growth, now);
        entry.slots.add(slots);
        entry.slots.forget_old(now);
        Some(())
    });
}

/// Takes what there is for a report, which ends by `until`. None if there is nothing.
pub fn take(
    shared: &impl Shared,
    side: Side,
    service: &str,
    id: ReportId,
    (now, until): (Timestamp, Timestamp),
) -> Option<Growth> {
    change(shared, &side.key(service), |entry| {
        entry.expire(now);
        entry.forget_old(now);
        if side == Side::Server {
            let blocks = entry.slots.close(now);
            if blocks != [0; NUMBERS] {
                entry.wait(&Growth { numbers: blocks.to_vec(), histograms: Vec::new() }, now);
            }
        }
        if entry.pending.is_empty() || entry.under_way.len() >= MAX_UNDER_WAY {
            return None;
        }
        let growth = std::mem::take(&mut entry.pending);
        entry.under_way.push(UnderWay { id, until, since: entry.since, growth: growth.clone() });
        Some(growth)
    })
}

/// The report ended. If not `counted`, the next one takes its growth again.
pub fn settle(shared: &impl Shared, side: Side, service: &str, id: ReportId, counted: bool) {
    change(shared, &side.key(service), |entry| {
        let at = entry.under_way.iter().position(|report| report.id == id)?;
        let report = entry.under_way.remove(at);
        if !counted {
            entry.wait(&report.growth, report.since);
        }
        Some(())
    });
}

/// Changes an entry, unless `f` returns none.
fn change<T>(shared: &impl Shared, key: &str, mut f: impl FnMut(&mut Entry) -> Option<T>) -> Option<T> {
    for _ in 0..TRIES {
        let (value, cas) = shared.get(key);
        let mut entry = value.and_then(|value| Entry::decode(&value)).unwrap_or_default();
        let result = f(&mut entry)?;
        if shared.set(key, &entry.encode(), cas) {
            return Some(result);
        }
    }
    None
}

impl Entry {
    /// Takes back the growth of reports that will never be settled, because their VM is gone.
    fn expire(&mut self, now: Timestamp) {
        let (over, left) = std::mem::take(&mut self.under_way).into_iter().partition(|report| now >= report.until);
        self.under_way = left;
        let over: Vec<UnderWay> = over;
        over.iter().for_each(|report| self.wait(&report.growth, report.since));
    }

    /// Adds growth that has waited for a report since this time.
    fn wait(&mut self, growth: &Growth, since: Timestamp) {
        self.since = if self.pending.is_empty() { since } else { self.since.min(since) };
        self.pending.add(growth);
    }

    fn forget_old(&mut self, now: Timestamp) {
        if now.since(self.since) > KEEP {
            self.pending = Growth::default();
        }
    }

    fn encode(&self) -> Vec<u8> {
        let mut out = vec![FORMAT];
        out.extend(self.since.as_nanos().to_le_bytes());
        varint(&mut out, self.slots.next);
        varint(&mut out, self.slots.counts.len() as u64);
        for (slot, count) in &self.slots.counts {
            varint(&mut out, *slot);
            varint(&mut out, *count);
        }
        self.pending.encode(&mut out);
        varint(&mut out, self.under_way.len() as u64);
        for UnderWay { id, until, since, growth } in &self.under_way {
            for number in [id.vm, id.number, until.as_nanos(), since.as_nanos()] {
                out.extend(number.to_le_bytes());
            }
            growth.encode(&mut out);
        }
        out
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        let mut from = Reader(bytes);
        if from.byte()? != FORMAT {
            return None;
        }
        let since = Timestamp::from_nanos(from.fixed()?);
        let slots = Slots { next: from.varint()?, counts: from.list(|from| Some((from.varint()?, from.varint()?)))? };
        let pending = from.growth()?;
        let under_way = from.list(|from| {
            let id = ReportId { vm: from.fixed()?, number: from.fixed()? };
            let (until, since) = (Timestamp::from_nanos(from.fixed()?), Timestamp::from_nanos(from.fixed()?));
            Some(UnderWay { id, until, since, growth: from.growth()? })
        })?;
        from.0.is_empty().then_some(Self { since, slots, pending, under_way })
    }
}

impl Reader<'_> {
    fn fixed(&mut self) -> Option<u64> {
        let (bytes, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(u64::from_le_bytes(*bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::super::Histogram;
    use super::*;
    use crate::proxy::shared::Cas;
    use proptest::prelude::*;
    use std::cell::{Cell, RefCell};
    use std::collections::HashMap;

    /// The data of one thread. Another one writes in between, this many times.
    #[derive(Default)]
    struct Data {
        values: RefCell<HashMap<String, (Vec<u8>, u32)>>,
        races: Cell<usize>,
        sets: Cell<usize>,
    }

    impl Shared for Data {
        fn get(&self, key: &str) -> (Option<Vec<u8>>, Cas) {
            self.values
                .borrow()
                .get(key)
                .cloned()
                .map_or((None, Cas::ABSENT), |(value, cas)| (Some(value), Cas::new(cas)))
        }

        fn set(&self, key: &str, value: &[u8], cas: Cas) -> bool {
            let races = self.races.get();
            self.races.set(races.saturating_sub(1));
            let there = self.values.borrow().get(key).map(|(_, there)| *there);
            let set = races == 0 && there.is_none_or(|there| there == cas.get());
            if set {
                self.sets.set(self.sets.get() + 1);
                self.overwrite(key, value);
            }
            set
        }

        fn overwrite(&self, key: &str, value: &[u8]) {
            let mut values = self.values.borrow_mut();
            let next = values.get(key).map_or(1, |(_, there)| there + 1);
            values.insert(key.to_owned(), (value.to_vec(), next));
        }
    }

    fn at(seconds: u64) -> Timestamp {
        Timestamp::from_nanos(seconds * 1_000_000_000)
    }

    fn id(number: u64) -> ReportId {
        ReportId { vm: 1, number }
    }

    fn growth(requests: u64) -> Growth {
        Growth {
            numbers: vec![requests],
            histograms: vec![Histogram { sum_us: requests, counts: vec![(9, requests)] }],
        }
    }

    fn add(data: &Data, requests: u64, seconds: u64) {
        hand_over(data, Side::Caller, "s", &growth(requests), &Slots::default(), at(seconds));
    }

    fn report(data: &Data, number: u64, seconds: u64) -> Option<Growth> {
        take(data, Side::Caller, "s", id(number), (at(seconds), at(seconds + 40)))
    }

    #[test]
    fn a_report_takes_what_all_threads_have_handed_over() {
        let data = Data::default();
        assert_eq!(report(&data, 1, 100), None);
        assert_eq!(data.sets.get(), 0, "nothing is written for nothing");
        add(&data, 3, 100);
        data.races.set(5);
        add(&data, 4, 101);
        assert_eq!(report(&data, 2, 102), Some(growth(7)));
        assert_eq!(report(&data, 3, 103), None);
        assert_eq!(take(&data, Side::Server, "s", id(4), (at(103), at(143))), None, "another side");
        assert_eq!(take(&data, Side::Caller, "t", id(4), (at(103), at(143))), None, "another service");
    }

    #[test]
    fn what_was_not_counted_is_in_the_next_report() {
        let data = Data::default();
        for (counted, again) in [(true, None), (false, Some(growth(7)))] {
            add(&data, 7, 100);
            report(&data, 1, 100);
            settle(&data, Side::Caller, "s", id(1), counted);
            settle(&data, Side::Caller, "s", id(1), false);
            assert_eq!(report(&data, 2, 102), again);
            settle(&data, Side::Caller, "s", id(2), true);
        }
        add(&data, 1, 200);
        report(&data, 3, 200);
        add(&data, 2, 201);
        report(&data, 4, 201);
        settle(&data, Side::Caller, "s", id(3), false);
        settle(&data, Side::Caller, "s", id(4), true);
        assert_eq!(report(&data, 5, 203), Some(growth(1)), "each report has its own");
    }

    #[test]
    fn a_report_whose_vm_is_gone_is_given_back_when_its_time_is_over() {
        let data = Data::default();
        add(&data, 7, 100);
        report(&data, 1, 100);
        add(&data, 1, 139);
        assert_eq!(report(&data, 2, 139), Some(growth(1)));
        settle(&data, Side::Caller, "s", id(2), true);
        add(&data, 2, 140);
        assert_eq!(report(&data, 3, 140), Some(growth(9)));
    }

    #[test]
    fn growth_that_nobody_takes_is_dropped() {
        let data = Data::default();
        add(&data, 7, 100);
        add(&data, 1, 220);
        assert_eq!(report(&data, 1, 220), Some(growth(8)));
        // Its age counts from when it was measured, however often it was under way.
        settle(&data, Side::Caller, "s", id(1), false);
        assert_eq!(report(&data, 2, 221), None);
        add(&data, 1, 421);
        assert_eq!(report(&data, 3, 421), Some(growth(1)));
        settle(&data, Side::Caller, "s", id(3), true);
        add(&data, 6, 500);
        assert_eq!(report(&data, 4, 621), None, "nobody has handed over anything since");
        add(&data, 1, 1_000);
        assert_eq!(report(&data, 5, 1_000), Some(growth(1)));
    }

    #[test]
    fn only_so_many_reports_are_under_way() {
        let data = Data::default();
        for number in 0..MAX_UNDER_WAY as u64 {
            add(&data, 1, 100);
            assert!(report(&data, number, 100).is_some());
        }
        add(&data, 5, 100);
        assert_eq!(report(&data, 20, 100), None);
        settle(&data, Side::Caller, "s", id(3), true);
        assert_eq!(report(&data, 21, 101), Some(growth(5)));
    }

    #[test]
    fn a_server_reports_blocks_of_arrivals() {
        let (data, mut slots) = (Data::default(), Slots::default());
        [10, 15, 20].into_iter().for_each(|seconds| slots.arrive(at(seconds)));
        hand_over(&data, Side::Server, "s", &growth(3), &slots, at(21));
        let report = |number, seconds| take(&data, Side::Server, "s", id(number), (at(seconds), at(seconds + 40)));
        assert_eq!(report(1, 22), Some(growth(3)));
        assert_eq!(report(2, 26), None);
        assert_eq!(report(3, 37).map(|growth| growth.numbers), Some(vec![1, 1, 1, 1, 1]), "10 s to 20 s is not whole");
    }

    #[test]
    fn what_cannot_be_read_counts_as_nothing() {
        let data = Data::default();
        data.overwrite("bloc/latency/caller/s", &[2, 0, 0]);
        add(&data, 3, 100);
        assert_eq!(report(&data, 1, 100), Some(growth(3)));
    }

    proptest! {
        #[test]
        fn decodes_any_bytes_without_a_panic_here_too(mut bytes in prop::collection::vec(any::<u8>(), 0..80)) {
            if let Some(first) = bytes.first_mut() {
                *first = FORMAT;
            }
            if let Some(entry) = Entry::decode(&bytes) {
                prop_assert_eq!(Entry::decode(&entry.encode()), Some(entry));
            }
        }
    }
}
