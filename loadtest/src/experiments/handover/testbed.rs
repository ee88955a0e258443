//! The sidecars, and one round of one of them.

use super::application::Application;
use super::figures::Round;
use crate::experiments::cost::accounting::cpu_time;
use bloc_mesh::envoy::{Envoy, EnvoyError, Plugin, SERVICE, sidecar_inbound};
use bloc_mesh::load::{self, Load, LoadPlan, Outcome, Tally};
use bloc_policy::config::{PluginSpec, RoutingKind, ServiceSpec};
use serde_json::json;
use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// Why nothing was measured.
#[derive(Debug, thiserror::Error)]
pub enum HandoverError {
    /// An Envoy failed.
    #[error(transparent)]
    Envoy(#[from] EnvoyError),
    /// A socket, a directory or the kernel's records failed.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// Requests failed.
    #[error("{0} requests of {1} failed")]
    Failed(usize, usize),
}

/// A sidecar in front of the application.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Variant {
    /// Stock Envoy.
    NoFilter,
    /// The filter, which only measures.
    Measures(PathBuf),
    /// The filter of this module, which holds the queue.
    Holds(PathBuf),
}

impl Variant {
    /// Its row.
    pub fn name(&self) -> String {
        let of = |module: &Path| module.file_stem().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        match self {
            Self::NoFilter => "no filter".to_owned(),
            Self::Measures(module) => format!("hold: false, {}", of(module)),
            Self::Holds(module) => format!("hold: true, {}", of(module)),
        }
    }

    fn plugin(&self) -> Option<Plugin> {
        let (module, hold) = match self {
            Self::NoFilter => return None,
            Self::Measures(module) => (module, false),
            Self::Holds(module) => (module, true),
        };
        let (routing, concurrency, hold) = (Some(RoutingKind::Mu), Some(1), Some(hold));
        let spec = ServiceSpec { routing, concurrency, hold, ..ServiceSpec::default() };
        let services = BTreeMap::from([(SERVICE.to_owned(), spec)]);
        let configuration = PluginSpec { service: Some(SERVICE.to_owned()), services, ..PluginSpec::default() };
        let configuration = json!(configuration).to_string();
        Some(Plugin { module: module.clone(), configuration, control_plane: None })
    }
}

/// The load of a round.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// How long the application takes for a request.
    pub service_time: Duration,
    /// Clients that send their next request at once.
    pub clients: usize,
    /// How long a round lasts, without a fifth of a second before it.
    pub duration: Duration,
}

/// A running sidecar with its application.
#[derive(Debug)]
pub struct Sidecar {
    application: Application,
    envoy: Envoy,
    process: u32,
}

impl Sidecar {
    /// Starts one with this many workers; its files go to `directory`.
    ///
    /// # Errors
    /// It does not start.
    pub async fn start(
        envoy: &Path,
        directory: &Path,
        variant: &Variant,
        workers: usize,
        service_time: Duration,
    ) -> Result<Self, HandoverError> {
        fs::create_dir_all(directory)?;
        let application = Application::start(service_time)?;
        let bootstrap = sidecar_inbound(application.address(), variant.plugin().as_ref());
        let mut envoy = Envoy::start(envoy, directory, "sidecar", &bootstrap, workers).await?;
        let process = envoy.process().id().ok_or_else(|| io::Error::other("an Envoy has ended"))?;
        Ok(Self { application, envoy, process })
    }

    /// A round.
    ///
    /// # Errors
    /// A request fails, or Envoy has ended.
    pub async fn measure(&self, options: Options) -> Result<Option<Round>, HandoverError> {
        let warm_up = Duration::from_millis(200);
        let plan = LoadPlan {
            target: self.envoy.listener("inbound")?,
            path: "/".to_owned(),
            body: 0,
            load: Load::Closed { clients: options.clients },
            keep_alive: true,
            timeout: Duration::from_secs(20),
            warm_up,
            window: options.duration,
            outstanding_limit: options.clients,
            seed: 1,
        };
        let start = Instant::now();
        let counters = async {
            tokio::time::sleep_until(start + warm_up).await;
            self.application.take_gaps();
            let before = (cpu_time(self.process)?, sleeps(self.process)?);
            tokio::time::sleep_until(start + warm_up + options.duration).await;
            let (cpu, sleeps) = (cpu_time(self.process)?, sleeps(self.process)?);
            Ok::<_, io::Error>((self.application.take_gaps(), cpu.saturating_sub(before.0), sleeps - before.1))
        };
        let (measured, counters) = tokio::join!(load::run(&plan, start, Arc::new(Tally::default())), counters);
        let failed = measured.samples.iter().filter(|sample| sample.outcome != Outcome::Ok).count();
        if failed > 0 {
            return Err(HandoverError::Failed(failed, measured.samples.len()));
        }
        let (gaps, cpu, sleeps) = counters?;
        Ok(Round::new(gaps, cpu, sleeps))
    }

    /// Ends it.
    pub async fn end(self) {
        self.envoy.end().await;
    }
}

/// How often the threads of the process have gone to sleep so far.
fn sleeps(process: u32) -> io::Result<u64> {
    let mut sum = 0;
    for thread in fs::read_dir(format!("/proc/{process}/task"))? {
        // A thread may end between the two calls.
        let Ok(text) = fs::read_to_string(thread?.path().join("status")) else { continue };
        sum += voluntary(&text).unwrap_or_default();
    }
    Ok(sum)
}

fn voluntary(status: &str) -> Option<u64> {
    status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:")?.trim().parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_filter_holds_and_only_if_it_is_told() {
        let module = || PathBuf::from("/x/bloc.wasm");
        assert!(Variant::NoFilter.plugin().is_none());
        for (variant, holds, name) in [
            (Variant::Measures(module()), "\"hold\":false", "hold: false, bloc"),
            (Variant::Holds(module()), "\"hold\":true", "hold: true, bloc"),
        ] {
            let plugin = variant.plugin().unwrap();
            assert!(plugin.configuration.contains(holds), "{}", plugin.configuration);
            assert_eq!((plugin.module, variant.name().as_str()), (module(), name));
        }
    }

    #[test]
    fn counts_the_sleeps_of_all_threads() {
        assert_eq!(voluntary("x:\t1\nvoluntary_ctxt_switches:\t7\nnonvoluntary_ctxt_switches:\t9\n"), Some(7));
        let before = sleeps(std::process::id()).unwrap();
        std::thread::sleep(Duration::from_millis(2));
        assert!(sleeps(std::process::id()).unwrap() > before);
    }
}
