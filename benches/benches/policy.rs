//! The decisions, natively: what a sender and a server compute for each request. Inputs are made
//! outside the measured loop; results are checked.

use bloc_benches::fleet::{SEED, Work, report, serve, server};
use bloc_policy::config::RoutingKind;
use bloc_policy::routing::mu::estimate::{Estimate, Fleet, Limit};
use bloc_policy::server::admission::Admission;
use bloc_policy::server::service_rate::ServiceRate;
use bloc_policy::server::steps::OneThread;
use bloc_policy::units::{Concurrency, Ratio, Timestamp};
use bloc_policy::wire::bid::{self, Bid};
use bloc_policy::wire::load_report::LoadReport;
use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use std::hint::black_box;
use std::time::Duration;

const SERVERS: [u32; 4] = [3, 10, 100, 1000];
/// The places without bids: the first one, and three retries.
const FEWEST: usize = 4;
/// With more servers than these, enough are open for all bids.
const FEW: u32 = 10;

/// The choice alone, and a whole request: choice, begin, answer and end.
fn choice(c: &mut Criterion) {
    let routings = [
        ("bloc", RoutingKind::Bloc, 4),
        ("bid", RoutingKind::Bid, 9),
        ("least_request", RoutingKind::LeastRequest, 4),
        ("mu", RoutingKind::Mu, 4),
    ];
    for (what, measured) in [("choose", Work::choose as fn(&mut Work) -> usize), ("sender", Work::request)] {
        let mut group = c.benchmark_group(what);
        for (name, routing, places) in routings {
            for servers in SERVERS {
                let Ok(mut work) = Work::new(routing, servers) else { panic!("no sender to {servers} servers") };
                // The list has each server once; with few servers, those that are open again may
                // follow. A server that has just rejected takes a bid from it, of which only few
                // servers leave too few.
                let fewest = if servers > FEW { places } else { FEWEST };
                let places = fewest.min(servers as usize)..=places;
                group.bench_function(BenchmarkId::new(name, servers), |b| {
                    b.iter(|| assert!(places.contains(&measured(&mut work))));
                });
                assert_eq!(work.in_flight(), servers, "{what} by {name}: one for each server, however many there were");
            }
        }
        group.finish();
    }
}

fn inbound(c: &mut Criterion) {
    let mut group = c.benchmark_group("server");
    let mut rng = fastrand::Rng::with_seed(SEED);
    let headroom = Ratio::new(0.8).expect("a ratio");
    let admission = Admission::new(Some(Concurrency::new(10)), headroom);
    group.bench_function("chip", |b| {
        // An empty server draws too, and always grants a chip.
        b.iter(|| assert!(admission.grants_chip(black_box(Concurrency::new(0)), &mut rng)));
    });
    let ((mut answering, mut clock), (mut server, now)) = (server().expect("a server"), server().expect("a server"));
    let (deadline, thread) = (Some(Duration::from_secs(1)), OneThread::default());
    let before = server.bare_report(Concurrency::new(3));
    group.bench_function("admit", |b| {
        b.iter(|| assert!(server.arrive(black_box(Concurrency::new(7)), None, deadline, &thread, now).is_ok()));
    });
    group.bench_function("bounce", |b| {
        let bid = Some(Bid { most: Duration::from_millis(150), fleet: Some(Duration::from_millis(90)) });
        b.iter(|| assert!(server.arrive(black_box(Concurrency::new(7)), bid, deadline, &thread, now).is_err()));
    });
    assert_eq!(server.bare_report(Concurrency::new(3)), before, "requests that only arrive change no measurement");
    // Whole requests, one at a time: whatever departs has arrived, and time passes in between, so
    // that the server is the same after any number of them.
    group.bench_function("request", |b| {
        b.iter(|| assert_eq!(serve(&mut answering, &mut clock, &mut rng).capacity, Some(10)));
    });
    group.finish();
}

fn estimates(c: &mut Criterion) {
    let mut group = c.benchmark_group("estimate");
    let mut fleet = Fleet::new(Duration::from_secs(1));
    (fleet.wait, fleet.most, fleet.senders) = (0.2, 40.0, 3.0);
    let now = Timestamp::ZERO.after(Duration::from_secs(1));
    let mut estimate = Estimate::default();
    let limit = Limit::new(10, 7.0);
    group.bench_function("observe", |b| b.iter(|| estimate.observe(black_box(&report(7)), 3, limit, now)));
    let later = now.after(Duration::from_millis(100));
    group.bench_function("queue", |b| {
        b.iter(|| assert!(estimate.standing(black_box(3)).known_queue(&fleet, 40.0, later) > 0.0));
    });
    let mut rate = ServiceRate::default();
    group.bench_function("service_rate", |b| {
        b.iter(|| {
            rate.observe(black_box(38.2), headroom(), now);
            assert!(rate.get() > Some(38.2));
        });
    });
    group.finish();
}

fn headroom() -> Ratio {
    Ratio::new(0.93).expect("a ratio")
}

fn headers(c: &mut Criterion) {
    let mut group = c.benchmark_group("header");
    let (load, mut text) = (report(7), String::new());
    load.encode(&mut text);
    let (length, header) = (text.len(), text.clone());
    group.bench_function("load_encode", |b| {
        b.iter(|| {
            black_box(&load).encode(&mut text);
            assert_eq!(text.len(), length);
        });
    });
    group.bench_function("load_decode", |b| {
        b.iter(|| assert_eq!(LoadReport::decode(black_box(header.as_bytes())), Some(load)))
    });
    let Ok(work) = Work::new(RoutingKind::Bid, 10) else { panic!("no sender") };
    group.bench_function("bid", |b| b.iter(|| assert!(black_box(&work).bid().is_some())));
    let amount = Bid { most: Duration::from_micros(187_300), fleet: Some(Duration::from_millis(90)) };
    group.bench_function("bid_encode", |b| {
        b.iter(|| {
            bid::encode(black_box(amount), &mut text);
            assert_eq!(text, "187.3;exec=90");
        });
    });
    let header = b"187.3;exec=90";
    group.bench_function("bid_decode", |b| b.iter(|| assert_eq!(bid::decode(black_box(header)), Some(amount))));
    group.finish();
}

/// Forty benches take two minutes this way, not ten; half a second lets caches, branch predictors
/// and clocks settle.
fn brief() -> Criterion {
    Criterion::default()
        .warm_up_time(Duration::from_millis(500))
        .measurement_time(Duration::from_millis(1500))
        .sample_size(50)
}

criterion_group!(name = benches; config = brief(); targets = choice, inbound, estimates, headers);
criterion_main!(benches);
