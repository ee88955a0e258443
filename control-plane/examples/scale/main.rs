//! Measures the control plane at the size of a large mesh: `cargo run --release -p
//! bloc-control-plane --example scale -- target/release/bloc-control-plane`.
//!
//! It measures. What the control plane must answer is tested in `tests`.
//!
//! It runs an API (the tests' fake one) with 1,000 Services of 50 endpoints each, two replicas, and
//! 10,000 simulated proxies that call five Services each; 1,000 of them also call the Service that
//! changes. It prints the time until a replica is ready, its memory and CPU, the delay from a
//! change at the API until the subscribers have their answers, and the effect of a restart of one
//! replica on the other.

#[path = "../../tests/common/fake_api.rs"]
#[allow(dead_code, missing_docs, reason = "the tests use the rest")]
mod fake_api;
mod fleet;
mod replica;
mod size;

use anyhow::{Context, Result};
use fake_api::FakeApi;
use fleet::Fleet;
use replica::Replica;
use size::{CONCERNED, PROXIES, SERVICES};
use std::path::PathBuf;
use std::time::Duration;
use tokio::time::{Instant, sleep};

const ENDPOINTS: usize = 50;
const CHANGES: usize = 20;

fn addresses(service: usize, count: usize) -> Vec<(String, bool)> {
    (0..count).map(|i| (format!("10.{}.{}.{}", service / 250, service % 250, i + 1), true)).collect()
}

fn set(api: &FakeApi, service: usize, count: usize) {
    let endpoints = addresses(service, count);
    let endpoints: Vec<(&str, bool)> = endpoints.iter().map(|(ip, ready)| (ip.as_str(), *ready)).collect();
    api.slice("shop", &format!("s{service}"), &endpoints);
}

#[tokio::main]
async fn main() -> Result<()> {
    rlimit::increase_nofile_limit(u64::MAX)?;
    let binary = PathBuf::from(std::env::args().nth(1).context("the path of bloc-control-plane")?);
    let api = FakeApi::start().await;
    api.pages_of(500);
    for service in 0..SERVICES {
        api.service("shop", &format!("s{service}"));
        set(&api, service, ENDPOINTS);
    }
    api.policy("shop", "services: {'*': {}}");

    let begin = Instant::now();
    let one = Replica::start(&binary, &api.url, "one").await?;
    println!("{SERVICES} services of {ENDPOINTS} endpoints: ready {} ms after the start", begin.elapsed().as_millis());
    let two = Replica::start(&binary, &api.url, "two").await?;
    println!("memory without proxies: {} MB", one.memory_mb()?);

    let fleet = Fleet::start([one.url.clone(), two.url.clone()]);
    fleet.settled(PROXIES).await;
    sleep(Duration::from_secs(5)).await;
    println!("memory with {PROXIES} proxies at two replicas: {} MB and {} MB", one.memory_mb()?, two.memory_mb()?);
    let (cpu, idle) = (one.cpu()?, Instant::now());
    sleep(Duration::from_secs(10)).await;
    println!(
        "CPU of one replica with {} held polls: {:.1}%",
        PROXIES / 2,
        100.0 * (one.cpu()? - cpu) / idle.elapsed().as_secs_f64()
    );

    let mut delays = Vec::new();
    let cpu = one.cpu()? + two.cpu()?;
    for change in 0..CHANGES {
        let begin = fleet.begin();
        set(&api, 0, ENDPOINTS - 1 - change % 2);
        delays.extend(fleet.answers(begin, CONCERNED).await);
        sleep(Duration::from_millis(500)).await;
    }
    let cpu = one.cpu()? + two.cpu()? - cpu;
    delays.sort_unstable();
    let at = |share: f64| delays[((delays.len() - 1) as f64 * share) as usize].as_millis();
    println!(
        "push to {CONCERNED} of {PROXIES}, {CHANGES} times: p50 {} ms, p99 {} ms, longest {} ms; CPU {:.0} ms for each change",
        at(0.5),
        at(0.99),
        at(1.0),
        1000.0 * cpu / CHANGES as f64
    );

    let before = fleet.polls();
    let begin = Instant::now();
    one.terminate().await?;
    let mut busiest = 0;
    let mut last = before;
    while begin.elapsed() < Duration::from_secs(20) {
        sleep(Duration::from_secs(1)).await;
        let now = fleet.polls();
        busiest = busiest.max(now - last);
        last = now;
    }
    println!(
        "one replica ended: its {} proxies came back within 20 s with at most {busiest} polls in a second; memory of the other {} MB",
        PROXIES / 2,
        two.memory_mb()?
    );
    let begin = fleet.begin();
    set(&api, 0, 7);
    let delays = fleet.answers(begin, CONCERNED).await;
    println!(
        "push to the same {CONCERNED} by one replica: longest {} ms",
        delays.iter().max().map_or(0, Duration::as_millis)
    );
    two.terminate().await
}
