//! The sequence of the measurement: start all variants, check that each works, load them in turn,
//! measure the workers' memory, start them again.

use super::accounting::{Cores, cpu_time, pin, resident};
use super::figures::{Figures, Start};
use super::load::AS_A_SIDECAR;
use super::load::{LoadError, Seen, Wrk};
use super::variant::{Modules, SERVERS, Variant, servers};
use bloc_mesh::envoy::{Envoy, EnvoyError};
use bloc_mesh::http::{self, HttpError};
use indicatif::ProgressBar;
use serde::Serialize;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::time::{Instant, sleep};

const ANSWER_LIMIT: Duration = Duration::from_secs(20);
const ANSWER_POLL: Duration = Duration::from_millis(5);
/// Before the first round: adaptive limits open, connections are made, V8 optimises the code.
const WARM_UP: Duration = Duration::from_secs(1);
/// The number of workers of the second Envoy, whose memory is compared.
const WORKERS: usize = 4;

/// Why there are no figures.
#[derive(Debug, thiserror::Error)]
pub enum CostError {
    /// An Envoy failed.
    #[error(transparent)]
    Envoy(#[from] EnvoyError),
    /// An Envoy does not answer.
    #[error(transparent)]
    Http(#[from] HttpError),
    /// A measurement failed.
    #[error("{variant}: {source}")]
    Load {
        /// The variant.
        variant: &'static str,
        /// Why.
        source: LoadError,
    },
    /// A filter does not do the work whose cost is measured.
    #[error("the answer is not as expected: {0}")]
    Fault(String),
    /// A file failed, or the kernel's records.
    #[error(transparent)]
    Io(#[from] std::io::Error),
}

/// How much is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Options {
    /// Rounds; each loads every variant.
    pub rounds: usize,
    /// How long each load lasts, in seconds.
    pub seconds: u64,
    /// Connections at saturation.
    pub connections: usize,
    /// How often each variant is started to measure the time of a start.
    pub starts: usize,
}

/// The parts of the measurement.
#[derive(Clone, Debug)]
pub struct Bench {
    /// Envoy.
    pub envoy: PathBuf,
    /// The modules.
    pub modules: Modules,
    /// Configurations and logs.
    pub directory: PathBuf,
    /// How much.
    pub options: Options,
}

/// A running Envoy that is measured, and when it started.
struct Standing {
    variant: Variant,
    envoy: Envoy,
    process: u32,
    address: SocketAddr,
}

impl Bench {
    /// Measures `variants`. The others are compared with the first.
    ///
    /// # Errors
    /// An Envoy does not start, a filter does not work, a request fails, wrk or `taskset` is
    /// missing.
    pub async fn run(&self, variants: &[Variant], progress: &ProgressBar) -> Result<Figures, CostError> {
        std::fs::create_dir_all(&self.directory)?;
        let directory = self.directory.canonicalize()?;
        let cores = Cores::of(std::thread::available_parallelism().map_or(1, usize::from));
        let Options { rounds, starts, .. } = self.options;
        progress.set_length((variants.len() * (2 * rounds + starts + 1)) as u64);

        let mut upstream = Envoy::start(&self.envoy, &directory, "upstream", &servers(), 1).await?;
        pin(id(&mut upstream)?, &cores.upstream).await?;
        let names = (0..SERVERS).map(|n| format!("upstream-{n}"));
        let servers = names.map(|name| upstream.listener(&name)).collect::<Result<Vec<_>, _>>()?;
        let place = Place { bench: self, directory: &directory, servers: &servers, cores: &cores };
        let wrk = Wrk::new(&directory, &cores.load)?;

        let mut figures = Figures::new(variants);
        let mut standing = Vec::new();
        for &variant in variants {
            let (one, start) = place.start(variant, 1).await?;
            figures.started(variant, start);
            standing.push(one);
            progress.inc(1);
        }
        for one in &standing {
            one.load(wrk.saturate(one.address, self.options.connections, WARM_UP).await)?;
        }
        for round in 0..rounds {
            // Each variant goes first equally often.
            standing.rotate_left(usize::from(round > 0));
            for one in &standing {
                one.measure(&wrk, self.options, &mut figures).await?;
                progress.inc(2);
            }
        }
        for one in standing {
            figures.memory(one.variant, resident(one.process)?);
            one.envoy.end().await;
        }
        for &variant in variants {
            let (one, _) = place.start(variant, WORKERS).await?;
            one.load(wrk.saturate(one.address, self.options.connections, WARM_UP).await)?;
            figures.memory_of_workers(variant, resident(one.process)?, WORKERS);
            one.envoy.end().await;
            progress.inc(1);
        }
        for _ in 1..starts {
            for &variant in variants {
                let (one, start) = place.start(variant, 1).await?;
                figures.started(variant, start);
                one.envoy.end().await;
                progress.inc(1);
            }
        }
        upstream.end().await;
        Ok(figures)
    }
}

impl Standing {
    /// A round: load at saturation, then at half of that.
    async fn measure(&self, wrk: &Wrk, options: Options, figures: &mut Figures) -> Result<(), CostError> {
        let time = Duration::from_secs(options.seconds);
        let before = cpu_time(self.process)?;
        let began = Instant::now();
        let seen = self.load(wrk.saturate(self.address, options.connections, time).await)?;
        let cpu = cpu_time(self.process)? - before;
        figures.saturated(self.variant, seen, cpu, began.elapsed());

        let half = figures.saturation(self.variant).unwrap_or_default() / 2.0;
        let before = cpu_time(self.process)?;
        let seen = self.load(wrk.paced(self.address, half, time).await)?;
        figures.half_loaded(self.variant, seen, cpu_time(self.process)? - before);
        Ok(())
    }

    fn load(&self, seen: Result<Seen, LoadError>) -> Result<Seen, CostError> {
        seen.map_err(|source| CostError::Load { variant: self.variant.name(), source })
    }
}

/// Where the Envoys are started.
struct Place<'a> {
    bench: &'a Bench,
    directory: &'a Path,
    servers: &'a [SocketAddr],
    cores: &'a Cores,
}

impl Place<'_> {
    /// Starts a variant and waits for its first answer, which is checked.
    async fn start(&self, variant: Variant, workers: usize) -> Result<(Standing, Start), CostError> {
        let bootstrap = variant.bootstrap(self.servers, &self.bench.modules);
        let began = Instant::now();
        let mut envoy =
            Envoy::start(&self.bench.envoy, self.directory, &variant.file_name(), &bootstrap, workers).await?;
        let (process, address) = (id(&mut envoy)?, envoy.listener("outbound")?);
        let answer = loop {
            match http::fetch(address, "/", &AS_A_SIDECAR, ANSWER_LIMIT).await {
                Ok(answer) if answer.status().is_success() => break answer,
                other if began.elapsed() > ANSWER_LIMIT => break other?,
                _ => sleep(ANSWER_POLL).await,
            }
        };
        let start = Start { time: began.elapsed(), cpu: cpu_time(process)?, resident: resident(process)? };
        pin(process, &self.cores.measured).await?;
        match variant.fault(&answer) {
            Some(fault) => Err(CostError::Fault(fault)),
            None => Ok((Standing { variant, envoy, process, address }, start)),
        }
    }
}

fn id(envoy: &mut Envoy) -> Result<u32, CostError> {
    let gone = || std::io::Error::other("an Envoy has ended");
    Ok(envoy.process().id().ok_or_else(gone)?)
}
