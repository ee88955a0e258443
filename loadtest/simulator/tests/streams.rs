//! Idle streams do not count as work: 50 of them at each server do not raise the response times.

use bloc_figures::stats::median;
use bloc_sim::Scenario;
use bloc_sim::policies::PolicyKind;
use std::time::Duration;

const SEEDS: std::ops::RangeInclusive<u64> = 1..=5;

/// 40 senders, 10 servers that take 50 ms for one request at a time, at half of their capacity.
fn p99(policy: PolicyKind, hold: bool, idle_streams: u32, stream_idle: &str, seed: u64) -> f64 {
    let mut scenario = Scenario {
        policy,
        idle_streams,
        service_time: "fixed:50ms".parse().unwrap(),
        load: "share:0.5".parse().unwrap(),
        warm_up: Duration::from_secs(20),
        duration: Duration::from_secs(120),
        seed,
        ..Scenario::default()
    };
    scenario.service.concurrency = Some(1);
    scenario.service.hold = Some(hold);
    scenario.service.capacity = None;
    scenario.service.stream_idle = Some(stream_idle.to_owned());
    bloc_sim::run(&scenario).unwrap().p99_ms.unwrap()
}

fn median_p99(policy: PolicyKind, hold: bool, idle_streams: u32, stream_idle: &str) -> f64 {
    let all: Vec<f64> = SEEDS.map(|seed| p99(policy, hold, idle_streams, stream_idle, seed)).collect();
    median(&all).unwrap()
}

#[test]
fn idle_streams_leave_the_response_times_as_they_are() {
    for hold in [false, true] {
        for policy in [PolicyKind::Bid, PolicyKind::Bloc, PolicyKind::Mu] {
            let without = median_p99(policy, hold, 0, "1s");
            let with = median_p99(policy, hold, 50, "1s");
            println!("{} hold {hold}: p99 {with} ms with 50 idle streams, {without} ms without", policy.name());
            assert!(with <= 1.1 * without, "{} hold {hold}: {with} ms, {without} ms without", policy.name());
        }
    }
}

/// The simulator can show the fault: with a `stream_idle` of an hour, open streams always count.
#[test]
fn streams_that_count_as_work_lengthen_the_tail_by_half() {
    for (hold, least) in [(false, 1.5), (true, 2.0)] {
        let without = median_p99(PolicyKind::Bid, hold, 0, "1h");
        let with = median_p99(PolicyKind::Bid, hold, 50, "1h");
        println!("bid hold {hold}: p99 {with} ms with 50 streams that count, {without} ms without");
        assert!(with > least * without, "hold {hold}: {with} ms, {without} ms without");
    }
}
