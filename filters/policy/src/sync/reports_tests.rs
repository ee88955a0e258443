//! Compares [`Reports`] with the events that really happened.

use super::*;
use crate::sync::ServiceEvents;
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::time::Duration;

const CLUSTER: &str = "control-plane";
const R1: End<'_> = End::Counted("0000000000000001");
const R2: End<'_> = End::Counted("0000000000000002");
/// How long a poll may go without an answer.
const WORKER_TIMEOUT: Duration = Duration::from_secs(40);

#[derive(Default)]
struct Data {
    values: RefCell<HashMap<String, (Vec<u8>, u32)>>,
    sets: Cell<u32>,
}

impl Shared for Data {
    fn get(&self, key: &str) -> (Option<Vec<u8>>, Cas) {
        let values = self.values.borrow();
        values.get(key).map_or((None, Cas::ABSENT), |(value, cas)| (Some(value.clone()), Cas::new(*cas)))
    }

    fn set(&self, key: &str, value: &[u8], cas: Cas) -> bool {
        let mut values = self.values.borrow_mut();
        let is_still = values.get(key).is_none_or(|(_, there)| *there == cas.get());
        if is_still {
            self.sets.set(self.sets.get() + 1);
            values.insert(key.to_owned(), (value.to_vec(), self.sets.get()));
        }
        is_still
    }

    fn overwrite(&self, key: &str, value: &[u8]) {
        self.values.borrow_mut().insert(key.to_owned(), (value.to_vec(), u32::MAX - 1));
    }
}

/// A proxy with its counters and its reports.
struct Proxy {
    data: Data,
    reports: Reports,
    load: Vec<ServiceLoad>,
    now: Timestamp,
    number: u64,
}

impl Proxy {
    fn new(services: &[&str]) -> Self {
        let load = services.iter().map(|name| ServiceLoad { service: (*name).to_owned(), ..ServiceLoad::default() });
        Self {
            data: Data::default(),
            reports: Reports::to(CLUSTER),
            load: load.collect(),
            now: Timestamp::ZERO.after(Duration::from_secs(1000)),
            number: 0,
        }
    }

    fn begin(&mut self) -> (ReportId, (Vec<ServiceLoad>, Last)) {
        self.number += 1;
        let id = ReportId { vm: 1, number: self.number };
        let times = (self.now, self.now.after(WORKER_TIMEOUT));
        (id, self.reports.begin(&self.data, id, times, || self.load.clone()))
    }

    fn end(&self, id: ReportId, end: End<'_>) {
        self.reports.end(&self.data, id, end, self.now);
    }

    fn pass(&mut self, seconds: u64) {
        self.now = self.now.after(Duration::from_secs(seconds));
    }

    /// A poll. Returns what it reports of the first service (arrived, departed), and `last`.
    fn poll(&mut self, end: End<'_>) -> (u64, u64, Last) {
        let (id, (load, last)) = self.begin();
        self.end(id, end);
        (load[0].arrived, load[0].departed, last)
    }
}

fn last(replica: &str, answered_ms: u64, reported_ms: Option<u64>) -> Last {
    Last { replica: replica.to_owned(), answered_ms, reported_ms }
}

#[test]
fn reports_totals_from_the_start_until_an_answer_counts_them() {
    let mut proxy = Proxy::new(&["a"]);
    (proxy.load[0].departed, proxy.load[0].arrived) = (5, 7);
    assert_eq!(proxy.poll(End::NotCounted), (7, 5, last("", 0, None)));
    assert_eq!(proxy.poll(R1), (7, 5, last("", 0, None)), "the first that counts, from the start");
    proxy.pass(3);
    (proxy.load[0].departed, proxy.load[0].arrived) = (8, 9);
    assert_eq!(proxy.poll(R2), (2, 3, last("0000000000000001", 3000, Some(3000))));
    proxy.pass(4);
    assert_eq!(proxy.poll(R2), (0, 0, last("0000000000000002", 4000, Some(4000))));
}

#[test]
fn an_uncounted_report_is_included_in_the_next_poll() {
    let mut proxy = Proxy::new(&["a"]);
    proxy.poll(R1);
    proxy.load[0].departed = 10;
    proxy.pass(5);
    assert_eq!(proxy.poll(End::NotCounted).1, 10);
    assert_eq!(proxy.poll(End::NotCounted).1, 10);
    (proxy.load[0].departed, proxy.load[0].arrived) = (12, 13);
    proxy.pass(5);
    assert_eq!(proxy.poll(R2), (13, 12, last("", 0, Some(10_000))));
    proxy.pass(5);
    assert_eq!(proxy.poll(R2), (0, 0, last("0000000000000002", 5000, Some(5000))));
}

#[test]
fn all_counters_are_reported() {
    let mut proxy = Proxy::new(&["a"]);
    let of = |n: u64, more: u64| ServiceEvents {
        departed_confident: n,
        chips_granted: n + more,
        chips_withheld: n + 2 * more,
        rejected_capacity: n + 3 * more,
        rejected_bid: n + 4 * more,
        rejected_deadline: n + 5 * more,
    };
    proxy.load[0].events = of(10, 1);
    let (id, (load, _)) = proxy.begin();
    assert_eq!(load[0].events, of(10, 1));
    proxy.end(id, R1);
    proxy.load[0].events = of(110, 3);
    proxy.load[0].capacity = Some(7);
    proxy.load[0].service_rate = Some(0.5);
    let (_, (load, _)) = proxy.begin();
    assert_eq!((load[0].events, load[0].capacity, load[0].service_rate), (of(100, 2), Some(7), Some(0.5)));
}

#[test]
fn concurrent_polls_report_each_event_only_once() {
    let mut proxy = Proxy::new(&["a"]);
    proxy.load[0].departed = 10;
    let (first, (load, said)) = proxy.begin();
    assert_eq!((load[0].departed, said.reported_ms), (10, None));
    proxy.load[0].departed = 13;
    proxy.pass(1);
    let (second, (load, said)) = proxy.begin();
    assert_eq!((load[0].departed, said.reported_ms), (3, Some(1000)), "the first poll carries the others");
    proxy.end(second, R2);
    proxy.end(first, End::NotCounted);
    proxy.pass(1);
    let (third, (load, said)) = proxy.begin();
    assert_eq!(load[0].departed, 10, "no replica has counted the first poll");
    assert_eq!(said, last("0000000000000002", 1000, None), "the second one was answered after all");
    proxy.end(third, R2);
    assert_eq!(proxy.poll(R1).1, 0);
}

#[test]
fn a_superseded_poll_counted_by_another_replica_is_not_repeated() {
    let mut proxy = Proxy::new(&["a"]);
    proxy.load[0].departed = 10;
    let (first, _) = proxy.begin();
    let (second, (load, _)) = proxy.begin();
    assert_eq!(load[0].departed, 0);
    proxy.end(first, R1);
    proxy.end(second, R2);
    assert_eq!(proxy.poll(R1).1, 0);
}

#[test]
fn repeats_the_report_of_a_gone_leader_once_its_poll_has_expired() {
    let mut proxy = Proxy::new(&["a"]);
    proxy.load[0].departed = 10;
    let (gone, _) = proxy.begin();
    proxy.pass(39);
    assert_eq!(proxy.poll(R1).1, 0, "it may still be answered");
    proxy.pass(1);
    assert_eq!(proxy.poll(R1).1, 10);
    proxy.end(gone, R1);
    assert_eq!(proxy.poll(R1).1, 0);
}

#[test]
fn only_eight_concurrent_polls_report_events_and_none_is_lost() {
    let mut proxy = Proxy::new(&["a"]);
    let begun: Vec<ReportId> = (0..20)
        .map(|_| {
            proxy.load[0].departed += 1;
            let (id, (load, said)) = proxy.begin();
            assert_eq!(load[0].departed, u64::from(proxy.load[0].departed <= 8));
            assert!(proxy.load[0].departed <= 8 || said.reported_ms == Some(0));
            id
        })
        .collect();
    begun.into_iter().for_each(|id| proxy.end(id, R1));
    assert_eq!(proxy.poll(R1).1, 12);
}

#[test]
fn a_service_missing_from_one_report_continues_where_it_was() {
    let mut proxy = Proxy::new(&["a", "b"]);
    proxy.load[1].departed = 10;
    proxy.poll(R1);
    let b = proxy.load.pop().unwrap();
    proxy.poll(R1);
    proxy.load.push(ServiceLoad { departed: 12, ..b });
    let (_, (load, _)) = proxy.begin();
    assert_eq!(load[1].departed, 2);
}

#[test]
fn a_service_with_reset_metrics_counts_from_zero_and_others_continue() {
    let mut proxy = Proxy::new(&["a", "b"]);
    for load in &mut proxy.load {
        (load.departed, load.events.chips_granted) = (10, 10);
    }
    proxy.poll(R1);
    let (under_way, _) = proxy.begin();
    (proxy.load[0].departed, proxy.load[0].events.chips_granted) = (12, 3);
    proxy.load[1].departed = 11;
    let (id, (load, _)) = proxy.begin();
    assert_eq!((load[0].departed, load[0].events.chips_granted), (12, 3));
    assert_eq!((load[1].departed, load[1].events.chips_granted), (1, 0));
    proxy.end(under_way, R1);
    proxy.end(id, R1);
    assert_eq!(proxy.poll(R1).1, 0);
}

#[test]
fn a_change_of_requests_in_flight_reports_no_new_arrival() {
    let mut proxy = Proxy::new(&["a"]);
    (proxy.load[0].arrived, proxy.load[0].in_flight) = (10, 10);
    assert_eq!(proxy.poll(R1).0, 10);
    for (in_flight, departed) in [(4, 0), (10, 10), (0, 10), (3, 10)] {
        (proxy.load[0].in_flight, proxy.load[0].departed) = (in_flight, departed);
        assert_eq!(proxy.poll(R1).0, 0);
    }
    proxy.load[0].arrived = 11;
    assert_eq!(proxy.poll(R1).0, 1);
}

#[test]
fn a_new_control_plane_gets_all_totals_and_the_old_one_no_repeats() {
    let mut proxy = Proxy::new(&["a"]);
    proxy.load[0].departed = 10;
    assert_eq!(proxy.poll(R1).1, 10);
    proxy.reports = Reports::to("another");
    assert_eq!(proxy.poll(R2), (0, 10, last("", 0, None)));
    assert_eq!(proxy.poll(R2), (0, 0, last("0000000000000002", 0, Some(0))));
    proxy.reports = Reports::to(CLUSTER);
    assert_eq!(proxy.poll(R1).1, 0);
}

#[test]
fn an_unreadable_ledger_restarts_from_the_current_counts() {
    for cut in 0..40 {
        let mut proxy = Proxy::new(&["a"]);
        proxy.load[0].departed = 10;
        let (id, _) = proxy.begin();
        let key = format!("{KEY}/{CLUSTER}");
        let mut garbage = proxy.data.get(&key).0.unwrap();
        if cut == 0 {
            garbage[0] = 0
        } else {
            garbage.truncate(garbage.len() - cut)
        }
        proxy.data.overwrite(&key, &garbage);
        proxy.end(id, R1);
        assert_eq!(proxy.poll(R1), (0, 0, last("", 0, Some(0))));
        proxy.load[0].departed = 11;
        proxy.pass(1);
        assert_eq!(proxy.poll(R1), (0, 1, last("0000000000000001", 1000, Some(1000))), "{cut}");
    }
}

#[test]
fn a_ledger_with_extreme_numbers_causes_no_panic() {
    let mut proxy = Proxy::new(&["a"]);
    proxy.poll(R1);
    let key = format!("{KEY}/{CLUSTER}");
    for number in [i64::MAX, i64::MIN, -1] {
        // The service's numbers are the last ones before the polls under way, of which there are
        // none.
        let mut absurd = proxy.data.get(&key).0.unwrap();
        let at = absurd.len() - 4 - 8 * 8;
        absurd[at..at + 8 * 8].copy_from_slice(&[number.to_le_bytes(); 8].concat());
        proxy.data.overwrite(&key, &absurd);
        proxy.load[0].departed = u64::MAX;
        proxy.poll(R1);
        proxy.poll(R1);
    }
}

#[test]
fn a_report_excludes_what_another_thread_reported_meanwhile() {
    let mut proxy = Proxy::new(&["a"]);
    let Proxy { data, reports, .. } = &proxy;
    let times = (proxy.now, proxy.now.after(WORKER_TIMEOUT));
    let departed = Cell::new(10);
    let read = || vec![ServiceLoad { service: "a".to_owned(), departed: departed.get(), ..ServiceLoad::default() }];
    let came = Cell::new(false);
    let (load, _) = reports.begin(data, ReportId { vm: 2, number: 1 }, times, || {
        let mine = read();
        if !came.replace(true) {
            // Another thread reports more than this one has read.
            departed.set(13);
            let id = ReportId { vm: 3, number: 1 };
            let (load, _) = reports.begin(data, id, times, read);
            assert_eq!(load[0].departed, 13);
            reports.end(data, id, R2, times.0);
            departed.set(14);
        }
        mine
    });
    assert_eq!(load[0].departed, 1);
    reports.end(data, ReportId { vm: 2, number: 1 }, R1, times.0);
    proxy.load[0].departed = 14;
    assert_eq!(proxy.poll(R1).1, 0);
}

#[test]
fn classifies_answers_by_status_and_replica_header() {
    assert_eq!(End::of(b"200", Some(b"0123456789abcdef")), End::Counted("0123456789abcdef"));
    assert_eq!(End::of(b"304", Some(b"a")), End::Counted("a"));
    let long = [b'a'; 65];
    for replica in [None, Some(&b""[..]), Some(b"a b"), Some(b"\xff"), Some(&long)] {
        assert_eq!(End::of(b"200", replica), End::NotCounted, "{replica:?}");
    }
    assert_eq!(End::of(b"400", Some(b"a")), End::NotCounted);
    assert_eq!(End::of(b"503", Some(b"a")), End::NotCounted);
}

/// Whatever happens to polls, the counted reports add up to the events.
#[test]
fn counted_reports_add_up_to_the_true_totals() {
    for seed in 0..500 {
        let mut rng = fastrand::Rng::with_seed(seed);
        let mut proxy = Proxy::new(&["a", "b"]);
        let mut under_way: Vec<(ReportId, Vec<ServiceLoad>, Last)> = Vec::new();
        let (mut counted, mut starts) = ([[0; 3]; 2], 0);
        for step in 0..200 {
            for load in &mut proxy.load {
                load.departed += rng.u64(0..5);
                load.events.rejected_bid += rng.u64(0..3);
                load.arrived += rng.u64(0..6);
                load.in_flight = rng.u64(0..3);
            }
            // Too short for a poll under way to expire.
            proxy.now = proxy.now.after(Duration::from_millis(rng.u64(0..200)));
            let closing = step >= 190;
            if closing || rng.bool() {
                let (id, (load, last)) = proxy.begin();
                under_way.push((id, load, last));
            }
            while !under_way.is_empty() && (closing || rng.bool()) {
                let (id, load, last) = under_way.swap_remove(rng.usize(..under_way.len()));
                let end = if closing { R1 } else { [R1, R1, R2, End::NotCounted, End::NotCounted][rng.usize(..5)] };
                proxy.end(id, end);
                if let End::Counted(_) = end {
                    for (sum, load) in counted.iter_mut().zip(load) {
                        let new = [load.departed, load.events.rejected_bid, load.arrived];
                        sum.iter_mut().zip(new).for_each(|(sum, new)| *sum += new);
                    }
                    starts += u32::from(last.reported_ms.is_none());
                }
            }
        }
        let books =
            [&proxy.load[0], &proxy.load[1]].map(|load| [load.departed, load.events.rejected_bid, load.arrived]);
        assert_eq!((counted, starts), (books, 1), "seed {seed}");
    }
}
