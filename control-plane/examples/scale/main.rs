//! Measures the control plane at the size of a large mesh: `cargo run --release -p
//! bloc-control-plane --example scale -- target/release/bloc-control-plane`.
//!
//! It runs the tests' fake API with 1,000 Services of 50 endpoints each, two replicas, and 10,000
//! simulated proxies that call five Services each; 1,000 of them also call the Service that
//! changes. It prints the time until a replica is ready, its memory and CPU, the delay from a
//! change at the API to the proxies' answers, and the effect of a restart of one replica on the
//! other.

#[path = "../../tests/common/fake_api.rs"]
#[allow(dead_code, missing_docs, reason = "the tests use the rest")]
mod fake_api;
mod fleet;
mod replica;

use anyhow::{Context, Result};
use bloc_figures::stats::quantile;
use fake_api::FakeApi;
use fleet::{CONCERNED, Fleet, PROXIES, SERVICES};
use replica::Replica;
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::time::{Instant, sleep};

const ENDPOINTS: usize = 50;
const CHANGES: usize = 20;

fn set(api: &FakeApi, service: usize, count: usize) {
    let ips = (0..count).map(|i| format!("10.{}.{}.{}", service / 250, service % 250, i + 1));
    let ips: Vec<String> = ips.collect();
    let endpoints: Vec<(&str, bool)> = ips.iter().map(|ip| (ip.as_str(), true)).collect();
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

    let fleet = Fleet::start([one.url.clone(), two.url.clone()]).await;
    sleep(Duration::from_secs(5)).await;
    println!("memory with {PROXIES} proxies at two replicas: {} MB and {} MB", one.memory_mb()?, two.memory_mb()?);
    let (cpu, idle) = (one.cpu()?, Instant::now());
    sleep(Duration::from_secs(10)).await;
    let cpu = 100.0 * (one.cpu()? - cpu) / idle.elapsed().as_secs_f64();
    println!("CPU of one replica with {} held polls: {cpu:.1}%", PROXIES / 2);

    let mut delays = Vec::new();
    let cpu = one.cpu()? + two.cpu()?;
    for change in 0..CHANGES {
        delays.extend(fleet.delays(|| set(&api, 0, ENDPOINTS - 1 - change % 2)).await);
        sleep(Duration::from_millis(500)).await;
    }
    let cpu = 1000.0 * (one.cpu()? + two.cpu()? - cpu) / CHANGES as f64;
    delays.sort_unstable();
    let at = |share: f64| quantile(&delays, share).unwrap_or_default().as_millis();
    let (p50, p99, longest) = (at(0.5), at(0.99), at(1.0));
    println!(
        "push to {CONCERNED} of {PROXIES}, {CHANGES} times: p50 {p50} ms, p99 {p99} ms, longest {longest} ms; CPU {cpu:.0} ms for each change"
    );

    let begin = Instant::now();
    let (mut last, mut busiest) = (fleet.polls.load(Ordering::Relaxed), 0);
    one.terminate().await?;
    while begin.elapsed() < Duration::from_secs(20) {
        sleep(Duration::from_secs(1)).await;
        let now = fleet.polls.load(Ordering::Relaxed);
        (busiest, last) = (busiest.max(now - last), now);
    }
    let (proxies, memory) = (PROXIES / 2, two.memory_mb()?);
    println!(
        "one replica ended: its {proxies} proxies came back within 20 s with at most {busiest} polls in a second; memory of the other {memory} MB"
    );
    let longest = fleet.delays(|| set(&api, 0, 7)).await.last().map_or(0, Duration::as_millis);
    println!("push to the same {CONCERNED} by one replica: longest {longest} ms");
    two.terminate().await
}
