//! The options that describe a mesh, shared by `run` and `up`.

use anyhow::Context;
use bloc_lab::backend::ServiceTime;
use bloc_lab::mesh::{MeshSpec, Tools};
use bloc_lab::policy::Policy;
use bloc_lab::quantity::{NotAllowed, duration, number};
use clap::Args;
use std::time::Duration;

/// A mesh.
#[derive(Debug, Args)]
pub struct MeshOptions {
    /// What balances the load
    #[arg(long, value_enum, default_value = "bloc")]
    policy: Policy,
    /// Frontends, each with a sidecar of its own; 1 to 200
    #[arg(long, default_value = "40", value_parser = |text: &str| number::<usize>(text, 1, 200))]
    frontends: usize,
    /// Backends, each with a sidecar of its own; 1 to 100
    #[arg(long, default_value = "10", value_parser = |text: &str| number::<usize>(text, 1, 100))]
    backends: usize,
    /// fixed:50ms, uniform:40ms-650ms, normal:250ms/125ms (mean/deviation) or exponential:10ms
    #[arg(long, default_value = "fixed:50ms")]
    service_time: ServiceTime,
    /// Requests that a backend serves at once; 1 to 1000
    #[arg(long, default_value = "1", value_parser = |text: &str| number::<usize>(text, 1, 1_000))]
    concurrency: usize,
    /// Speed factors of the backends, handed out in turn; 0.01 to 100 each
    #[arg(long, value_delimiter = ',', value_parser = speed)]
    speeds: Vec<f64>,
    /// bloc: requests in flight that a backend's sidecar admits; 1 to 1000000, or none
    #[arg(long, default_value = "10", value_parser = capacity)]
    capacity: Capacity,
    /// bloc: how long a server without a chip is left alone; 1ms to 1h
    #[arg(long, default_value = "200ms", value_parser = reset_interval)]
    reset_interval: Duration,
    /// bloc: retries after a rejection; 0 to 10
    #[arg(long, default_value = "3", value_parser = |text: &str| number::<u32>(text, 0, 10))]
    retries: u32,
    /// bloc: no control plane, only the static configuration
    #[arg(long)]
    no_control_plane: bool,
    /// Worker threads of each Envoy; 1 to 16
    #[arg(long, default_value = "1", value_parser = |text: &str| number::<usize>(text, 1, 16))]
    workers: usize,
    /// Determines service times and arrivals
    #[arg(long, default_value = "1")]
    seed: u64,
}

#[derive(Clone, Copy, Debug)]
struct Capacity(Option<u32>);

impl MeshOptions {
    /// The mesh that they describe.
    pub fn spec(&self) -> MeshSpec {
        MeshSpec {
            policy: self.policy,
            frontends: self.frontends,
            backends: self.backends,
            service_time: self.service_time,
            concurrency: self.concurrency,
            speeds: self.speeds.clone(),
            capacity: self.capacity.0,
            reset_interval: self.reset_interval,
            retries: self.retries,
            control_plane: !self.no_control_plane,
            workers: self.workers,
            seed: self.seed,
        }
    }
}

/// The programs beside this one.
pub fn tools() -> anyhow::Result<Tools> {
    let lab = std::env::current_exe().context("where this program is")?;
    Ok(Tools::beside(&lab)?)
}

/// A speed factor.
pub fn speed(text: &str) -> Result<f64, NotAllowed> {
    number(text, 0.01, 100.0)
}

fn capacity(text: &str) -> Result<Capacity, NotAllowed> {
    match text {
        "none" => Ok(Capacity(None)),
        _ => number(text, 1, 1_000_000)
            .map(|limit| Capacity(Some(limit)))
            .map_err(|NotAllowed(range)| NotAllowed(format!("{range}, or none"))),
    }
}

fn reset_interval(text: &str) -> Result<Duration, NotAllowed> {
    duration(text, Duration::from_millis(1), Duration::from_secs(3600))
}
