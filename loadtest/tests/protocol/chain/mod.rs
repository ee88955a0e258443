//! Our filters among others that delay requests, with bodies of all sizes, over HTTP/1.1, HTTP/2
//! and mutual TLS: what clients and applications see, and what the counters say.
//!
//! Tests of one feature without such filters are not here but in the files beside this folder.

mod application;
mod clients;
mod combinations;
mod judge;
mod services;
mod testbed;

use clients::{CLIENTS, Clients, Tally};
use combinations::{Combination, Payload};
use futures_util::future::join_all;
use std::time::Duration;
use testbed::{Counters, Stand, Target};
use tokio::time::sleep;

/// Before the measurement: a sender explores until it has met each server, and collects chips as
/// requests overlap, so more of them overlap here.
const WARM_UP: usize = 180;
const REQUESTS: usize = 180;
/// With all servers full, for warm-up and measurement each.
const FULL: usize = 60;
/// Without our filters.
const STOCK: usize = 48;
/// A thread hands its counters to Envoy with the first request after a second.
const LATE: Duration = Duration::from_millis(1100);
/// How many groups share Envoys.
const GROUPS: usize = 5;

/// The results of one combination.
struct Course {
    calm: Side,
    crowded: Side,
    full: Side,
    stock: Tally,
}

/// Requests through our filters to one of the targets.
struct Side {
    /// All but those that only make the threads report their counters.
    tally: Tally,
    /// From the end of the warm-up to the end of the measurement.
    counted: Counters,
    /// From the start of the warm-up to the end of the measurement.
    all: Counters,
}

async fn side(stand: &Stand, number: usize, combination: &Combination, target: Target) -> Side {
    let name = target.name(number);
    let to = stand.sender.listener(&name).unwrap();
    let [mut clients, mut others] =
        [Clients::connect(to, combination.protocol).await, Clients::connect(to, combination.protocol).await];
    let payload = combination.payload;
    // Small ones serve as well for the warm-up, and are faster.
    let small = if payload == Payload::FourMegabytes { Payload::Kilobyte } else { payload };
    let (warm_up, requests) = if target == Target::Full { (FULL, FULL) } else { (WARM_UP, REQUESTS) };
    let (some, more) = tokio::join!(clients.send(warm_up / 2, small), others.send(warm_up / 2, small));
    let mut tally = some.and(more);
    sleep(LATE).await;
    let nudge = clients.nudge().await;
    let before = stand.counters(&name, tally.requests()).await;
    tally = tally.and(clients.send(requests, payload).await);
    sleep(LATE).await;
    let nudges = nudge.and(clients.nudge().await);
    assert_eq!(nudges.served.len(), 2 * CLIENTS, "{target:?}, idle: {combination}: {nudges:?}");
    // Without the last nudges, whose own counts nothing reports.
    let all = stand.counters(&name, tally.requests() + CLIENTS as u64).await;
    Side { tally, counted: all.since(&before), all }
}

async fn course(stand: &Stand, number: usize, combination: &Combination) -> Course {
    let sides = [Target::Calm, Target::Crowded, Target::Full].map(|target| side(stand, number, combination, target));
    let [calm, crowded, full] = join_all(sides).await.try_into().ok().expect("as many sides");
    let stock = stand.sender.listener(&Target::Stock.name(number)).unwrap();
    let stock = Clients::connect(stock, combination.protocol).await.send(STOCK, combination.payload).await;
    Course { calm, crowded, full, stock }
}

/// Runs each fifth combination, all at once, on the same Envoys.
async fn group(group: usize) {
    let combinations: Vec<_> = combinations::all().filter(|(number, _)| number % GROUPS == group).collect();
    let stand = Stand::start(&combinations).await;
    let courses = join_all(combinations.iter().map(|(number, combination)| course(&stand, *number, combination))).await;
    stand.idle().await;
    let mut wrong = Vec::new();
    for ((number, combination), course) in combinations.iter().zip(&courses) {
        let found = judge::course(&stand, *number, combination, course).await;
        wrong.extend(found.into_iter().map(|what| format!("{number}: {combination}: {what}")));
    }
    wrong.extend(judge::group(&stand, &combinations, &courses));
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[tokio::test(flavor = "multi_thread")]
async fn works_beside_other_filters_in_combination_group_0_of_5() {
    group(0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn works_beside_other_filters_in_combination_group_1_of_5() {
    group(1).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn works_beside_other_filters_in_combination_group_2_of_5() {
    group(2).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn works_beside_other_filters_in_combination_group_3_of_5() {
    group(3).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn works_beside_other_filters_in_combination_group_4_of_5() {
    group(4).await;
}
