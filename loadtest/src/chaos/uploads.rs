//! Large bodies among small ones, at servers that bounce.
//!
//! Envoy repeats a request only while it has all of its body in its buffer. A larger one that is
//! bounced fails, so it must not be bounced.

use super::judge::{self, Moments, Uploads};
use crate::backend::ServiceTime;
use crate::case::HEAD_START;
use crate::envoy::SERVICE;
use crate::load::{self, Load, LoadPlan, Tally};
use crate::mesh::{Mesh, MeshError, MeshSpec, Tools};
use crate::policy::Policy;
use indicatif::ProgressBar;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// Its name on the command line.
pub const UPLOADS: &str = "uploads";

const WINDOW: Duration = Duration::from_secs(15);
/// Enough that servers have queues, and bounce.
const SHARE: f64 = 0.9;
/// Three small ones for each large one.
const SMALL: (usize, f64) = (1_000, 0.75);
const LARGE: (usize, f64) = (4_000_000, 0.25);
/// So long counters may lag behind.
const LAG: Duration = Duration::from_secs(6);

/// What happens, in a line.
pub fn what() -> String {
    let [small, large] = [SMALL.0 / 1_000, LARGE.0 / 1_000_000];
    let (share, seconds) = (100.0 * SHARE, WINDOW.as_secs());
    format!(
        "of four POSTs three have {small} kB and one has {large} MB, {share:.0}% of what the servers can do, {seconds} s"
    )
}

/// How long the load lasts.
pub fn window() -> Duration {
    WINDOW + LAG
}

/// A mesh of its own under load, and what was seen of it.
///
/// # Errors
/// The mesh does not start, or a part of it does not do as it is told.
pub async fn run(seed: u64, tools: &Tools, directory: &Path, bar: &ProgressBar) -> Result<Uploads, MeshError> {
    let service_time = ServiceTime::Fixed(Duration::from_millis(100));
    let spec = MeshSpec { backends: 4, seed, ..MeshSpec::fleet(Policy::Bid, 4, service_time) };
    let mut mesh = Mesh::start(&spec, tools, directory, bar).await?;
    let plan = |(body, share): (usize, f64), number: u64| LoadPlan {
        target: mesh.gateway(),
        path: "/".to_owned(),
        body,
        load: Load::Poisson { rate: share * SHARE * spec.total_rate(spec.backends) },
        keep_alive: false,
        timeout: judge::PATIENCE,
        warm_up: Duration::ZERO,
        window: WINDOW,
        outstanding_limit: 4_000,
        seed: seed.wrapping_add(number),
    };
    let (small, large) = (plan(SMALL, 0), plan(LARGE, 1));
    let start = Instant::now() + HEAD_START;
    let (small, large) = tokio::join!(
        load::run(&small, start, Arc::<Tally>::default()),
        load::run(&large, start, Arc::<Tally>::default())
    );
    sleep(LAG).await;
    let bounces = mesh.frontends_sum(&format!("wasmcustom.bloc.outbound.{SERVICE}.bounces")).await?;
    mesh.check()?;
    mesh.end().await;
    let end = WINDOW.as_secs_f64();
    let at = Moments { began_s: 0.0, complete_s: 0.0, mended_s: end };
    Ok(Uploads { small: small.samples, large: large.samples, bounces, at })
}
