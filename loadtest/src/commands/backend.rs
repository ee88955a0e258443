//! `bloc-lab backend`.

use super::mesh_options::speed;
use anyhow::Context;
use bloc_figures::service_time::ServiceTime;
use bloc_mesh::backend::Backend;
use bloc_mesh::quantity::number;
use clap::Args;
use std::net::SocketAddr;
use tokio::net::TcpListener;

/// Serve as an application with a known service time.
#[derive(Debug, Args)]
pub struct Serve {
    /// Where to listen; port 0 means any free port
    #[arg(long, default_value = "127.0.0.1:0")]
    listen: SocketAddr,
    /// Its name in its answers
    #[arg(long, default_value = "backend")]
    name: String,
    /// fixed:50ms, uniform:40ms-650ms, normal:250ms/125ms (mean/deviation), exponential:10ms,
    /// lognormal:50ms/1.5 (mean/sigma), mix:10ms/400ms/0.05 (short/long/share of the long) or
    /// pareto:10ms/1.5 (mean/shape; the longest is 1000 times the shortest)
    #[arg(long, default_value = "fixed:50ms")]
    service_time: ServiceTime,
    /// Requests served at once; 1 to 1000
    #[arg(long, default_value = "1", value_parser = |text: &str| number::<usize>(text, 1, 1_000))]
    concurrency: usize,
    /// A request uses CPU for its service time, by the clock of its thread, on --concurrency
    /// threads
    #[arg(long, conflicts_with = "speed")]
    burn: bool,
    /// With --burn: requests that wait for a thread; it answers 503 to others; 1 to 100000
    #[arg(long, default_value = "100", requires = "burn", value_parser = |text: &str| number::<usize>(text, 1, 100_000))]
    queue: usize,
    /// Service times are divided by this; 0.01 to 100
    #[arg(long, default_value = "1", value_parser = speed)]
    speed: f64,
    /// Seed of the service times
    #[arg(long, default_value = "1")]
    seed: u64,
}

impl Serve {
    /// Serves until the process ends.
    pub async fn run(self) -> anyhow::Result<()> {
        let listener = TcpListener::bind(self.listen).await.with_context(|| format!("--listen {}", self.listen))?;
        println!("listening {}", listener.local_addr()?);
        let backend = if self.burn {
            Backend::burning(&self.name, self.service_time, [self.concurrency, self.queue], self.seed)
        } else {
            Backend::new(&self.name, self.service_time, self.concurrency, self.speed, self.seed)
        };
        backend.serve(listener).await;
        Ok(())
    }
}
