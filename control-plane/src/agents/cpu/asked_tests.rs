//! What is counted for requested pods, and for how long.

use super::*;
use crate::load::ReportInterval;
use bloc_policy::sync::latency::Histogram;
use bloc_policy::sync::{ServerLatency, ServiceLoad};
use serde_json::json;
use std::time::Duration;
use tokio::time::Instant;

/// A message that asks for these pods of `shop`.
fn asks(pods: &[&str]) -> CpuMessage {
    let pods: Vec<_> = pods.iter().map(|name| json!({"namespace": "shop", "name": name})).collect();
    CpuMessage::read(json!({"node": "n1", "asks": pods}).to_string().as_bytes()).unwrap()
}

/// A service that has answered these requests in `sum_us` microseconds.
fn load(counts: &[(u8, u64)], sum_us: u64) -> ServiceLoad {
    let latency = ServerLatency {
        response: Histogram { sum_us, counts: counts.to_vec() },
        execution: Histogram { sum_us: 7, counts: vec![(1, 1_000)] },
        ..ServerLatency::default()
    };
    ServiceLoad { departed: 1_000, latency: Some(latency), ..ServiceLoad::default() }
}

/// A table and its clock, in seconds.
fn table() -> (Cpus, impl Fn(f64) -> Instant) {
    let start = Instant::now();
    (Cpus::new(ReportInterval::default(), start), move |seconds| start + Duration::from_secs_f64(seconds))
}

/// Pods, answers and seconds.
fn answers(cpus: &Cpus, pods: &[&str]) -> Vec<(String, u64, f64)> {
    let answers = cpus.asks.answers(&asks(pods).asks);
    answers.into_iter().map(|of| (of.pod.key(), of.count, of.seconds)).collect()
}

#[test]
fn counts_the_responses_of_all_services_since_the_first_question() {
    let (mut cpus, at) = table();
    cpus.asks.add("a.shop", &[load(&[(1, 5)], 500)]);
    assert_eq!(answers(&cpus, &["a"]), []);
    assert!(cpus.receive(&asks(&["b", "a"]), at(0.0)));
    assert_eq!(answers(&cpus, &["a"]), [("a.shop".to_owned(), 0, 0.0)], "not what was before");
    cpus.asks.add("a.shop", &[load(&[(1, 5), (9, 2)], 1_500_000), load(&[(3, 4)], 250_001), ServiceLoad::default()]);
    cpus.asks.add("c.shop", &[load(&[(1, 5)], 500)]);
    assert!(cpus.receive(&asks(&["a"]), at(1.0)));
    cpus.asks.add("a.shop", &[load(&[(1, 1)], 1)]);
    let both = [("b.shop".to_owned(), 0, 0.0), ("a.shop".to_owned(), 12, 1.750_002)];
    assert_eq!(answers(&cpus, &["b", "c", "a"]), both, "in the order of the question");
    let text = serde_json::to_value(cpus.asks.answers(&asks(&["a"]).asks)).unwrap();
    assert_eq!(text, json!([{"namespace": "shop", "name": "a", "count": 12, "seconds": 1.750_002}]));
}

#[test]
fn sums_that_would_be_too_large_begin_at_0() {
    let (mut cpus, at) = table();
    cpus.receive(&asks(&["a"]), at(0.0));
    let mut add = |count, micros| {
        cpus.asks.add("a.shop", &[load(&[(1, count)], micros)]);
        let [(_, count, seconds)] = answers(&cpus, &["a"])[..] else { panic!("one pod") };
        (count, seconds)
    };
    assert_eq!(add(5, u64::MAX), (5, u64::MAX as f64 / 1e6));
    assert_eq!(add(1, 1), (0, 0.0), "the time");
    assert_eq!(add(u64::MAX, 1_000_000), (u64::MAX, 1.0));
    assert_eq!(add(1, 1), (0, 0.0), "the count");
    assert_eq!(add(2, 500_000), (2, 0.5));
}

#[test]
fn a_pod_that_is_not_asked_for_within_15_seconds_begins_at_0() {
    let (mut cpus, at) = table();
    cpus.receive(&asks(&["a", "b"]), at(0.0));
    cpus.asks.add("a.shop", &[load(&[(1, 5)], 500)]);
    cpus.receive(&asks(&["a"]), at(14.9));
    assert_eq!(answers(&cpus, &["a"])[0].1, 5);
    let known = |cpus: &Cpus, seconds| (cpus.asks.count(at(seconds)), cpus.asks.is_asked("a.shop", at(seconds)));
    assert_eq!([known(&cpus, 14.999), known(&cpus, 15.0)], [(2, true), (1, true)]);
    assert_eq!([known(&cpus, 29.8), known(&cpus, 29.9)], [(1, true), (0, false)]);
    assert!(!cpus.asks.is_asked("c.shop", at(0.0)));
    // A sweep just before.
    cpus.receive(&asks(&[]), at(29.5));
    let taken = cpus.taken();
    cpus.receive(&asks(&["a"]), at(29.9));
    assert_eq!((answers(&cpus, &["a"])[0].1, cpus.taken()), (0, taken), "also if nothing is swept");
}

#[test]
fn takes_memory_until_it_is_forgotten() {
    let (mut cpus, at) = table();
    cpus.receive(&asks(&[]), at(0.0));
    let none = cpus.taken();
    cpus.receive(&asks(&["a", "bcd"]), at(1.0));
    assert_eq!(cpus.taken(), none + 2 * 128 + 6 + 8);
    cpus.receive(&asks(&["a"]), at(2.0));
    assert_eq!(cpus.taken(), none + 2 * 128 + 6 + 8);
    cpus.receive(&asks(&[]), at(16.0));
    assert_eq!(cpus.taken(), none + 128 + 6);
    cpus.receive(&asks(&[]), at(17.0));
    assert_eq!(cpus.taken(), none);
}

#[test]
fn whom_there_is_no_room_for_is_not_counted() {
    let (mut cpus, at) = table();
    let name = "a".repeat(245);
    let each = 128 + 245 + 5 + 5;
    assert!(cpus.receive(&asks(&[]), at(0.0)));
    let fit = (MOST_BYTES - cpus.taken()) / each;
    for from in (0..fit).step_by(1_000) {
        let names: Vec<String> = (from..fit.min(from + 1_000)).map(|i| format!("{name}{i:05}")).collect();
        assert!(cpus.receive(&asks(&names.iter().map(String::as_str).collect::<Vec<_>>()), at(0.0)));
    }
    let rest = MOST_BYTES - cpus.taken();
    assert!((1..each).contains(&rest), "{rest}");
    let (long, known) = (format!("{name}x0000"), format!("{name}00000"));
    let short = "b".repeat(rest.saturating_sub(128 + 5).max(1));
    // Pods before and after the one without room count.
    assert!(!cpus.receive(&asks(&[&known, &long, &known]), at(1.0)));
    assert!(!cpus.asks.is_asked(&format!("{long}.shop"), at(1.0)));
    assert_eq!((cpus.asks.is_asked(&format!("{known}.shop"), at(15.9)), cpus.asks.count(at(15.9))), (true, 1));
    assert_eq!(cpus.receive(&asks(&[&short]), at(1.0)), rest > 128 + 5);
    assert!(cpus.receive(&asks(&[&long]), at(15.9)), "others are forgotten");
}
