//! `bloc-lab bounce`.

use crate::console::{bar, run_directory, tools};
use crate::experiments::bounce::{BUSY, Figures, Kind, Plan, Stand};
use anyhow::Context;
use bloc_mesh::envoy::BACK_OFF;
use bloc_mesh::quantity::{duration, number};
use bloc_mesh::target_directory;
use clap::Args;
use std::path::PathBuf;
use std::time::Duration;

/// Measure the cost of a bounce: the time that it adds, and the CPU of sender and server.
#[derive(Debug, Args)]
pub struct Bounce {
    /// Rounds of one block with busy servers and one without; 1 to 10000
    #[arg(long, default_value = "20", value_parser = |text: &str| number::<usize>(text, 1, 10_000))]
    rounds: usize,
    /// Requests per block; 10 to 100000
    #[arg(long, default_value = "1000", value_parser = |text: &str| number::<usize>(text, 10, 100_000))]
    block: usize,
    /// Time between two requests; with a pause, caches are as cold as in a sidecar with few
    /// requests; 0s to 1s
    #[arg(long, default_value = "0s", value_parser = |text: &str| duration(text, Duration::ZERO, Duration::from_secs(1)))]
    pause: Duration,
    /// Longest time that Envoy waits before a retry; 1ms to 1s
    #[arg(long, default_value = "1ms", value_parser = |text: &str| duration(text, BACK_OFF[0], Duration::from_secs(1)))]
    max_back_off: Duration,
    /// Bytes of a request's body; absent: GETs; 1 to 104857600
    #[arg(long, value_name = "BYTES", value_parser = |text: &str| number::<usize>(text, 1, 100 << 20))]
    body: Option<usize>,
    /// HTTP/2 between the Envoys
    #[arg(long)]
    http2: bool,
    /// Mutual TLS between the Envoys
    #[arg(long)]
    tls: bool,
    /// Where the figures go; default target/bounce.json
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

impl Bounce {
    /// Measures, prints, writes.
    pub async fn run(self) -> anyhow::Result<()> {
        let bar = bar("bounce".into());
        bar.set_length(self.rounds as u64);
        let kind = Kind { body: self.body, http2: self.http2, tls: self.tls, max_back_off: self.max_back_off };
        let mut stand = Stand::start(&tools()?, &run_directory("bounce"), kind).await?;
        let plan = Plan { rounds: self.rounds, block: self.block, pause: self.pause };
        let bounces = stand.measure(plan, |round| bar.set_position(round as u64)).await?;
        stand.end().await;
        bar.finish_and_clear();
        let figures = Figures::new(&bounces).context("no request was bounced")?;
        println!("{kind}; microseconds; {BUSY} of {} servers busy", BUSY + 1);
        for class in &figures.classes {
            let (p50, p99) = (class.p50_us, class.p99_us);
            println!("{} bounces  {:>7} requests  p50 {p50:>7.0}  p99 {p99:>7.0}", class.bounces, class.requests);
        }
        println!("the first bounce adds   p50 {:+.0}  p99 {:+.0}", figures.first_p50_us, figures.first_p99_us);
        if let Some(third) = figures.third_p50_us {
            println!("each of three adds      p50 {third:+.0}");
        }
        println!("CPU of a bounce         sender {:.0}  server {:.0}", figures.sender_cpu_us, figures.server_cpu_us);
        println!("connections a bounce    {:.3}", figures.connections);
        let (sender, server) = (figures.request_sender_cpu_us, figures.request_server_cpu_us);
        println!("CPU of a plain request  sender {sender:.0}  server {server:.0}");
        let json = self.json.unwrap_or_else(|| target_directory().join("bounce.json"));
        std::fs::write(&json, serde_json::to_string_pretty(&figures)? + "\n")
            .with_context(|| format!("--json {}", json.display()))?;
        println!("{}", json.display());
        Ok(())
    }
}
