//! One mesh for each column. All run at the same time, so the columns of a row can be measured one
//! right after the other.

use super::judge::{CLIENT_TIMEOUT, Counted};
use super::side::{SIDES, Side};
use crate::case::HEAD_START;
use bloc_mesh::envoy::{Guard, SERVICE};
use bloc_mesh::load::{self, Load, LoadPlan, Tally};
use bloc_mesh::{Mesh, MeshError, MeshSpec, Tools};
use indicatif::ProgressBar;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// Longer than outlier detection ejects a server after a row.
const EJECTED: Duration = Duration::from_secs(60);
const LOOK: Duration = Duration::from_millis(200);
/// The load under which frontends find out what Envoy retries, and how long.
const FINDS_OUT_SHARE: f64 = 0.8;
const FINDS_OUT: Duration = Duration::from_secs(10);

/// The meshes of the columns.
#[derive(Debug)]
pub struct Stand {
    /// In the order of [`SIDES`].
    pub meshes: Vec<(Side, Mesh)>,
}

/// What every [`Stand`] needs.
#[derive(Clone, Copy, Debug)]
pub struct Place<'a> {
    /// The programs.
    pub tools: &'a Tools,
    /// Where files and logs go.
    pub directory: &'a Path,
    /// Where progress goes.
    pub bar: &'a ProgressBar,
}

impl Stand {
    /// Starts a mesh for each column; `ours` is the one with our filters.
    ///
    /// # Errors
    /// A mesh does not start.
    pub async fn start(ours: &MeshSpec, guard: Guard, place: Place<'_>, name: &str) -> Result<Self, MeshError> {
        let mut meshes = Vec::new();
        for side in SIDES {
            let directory = place.directory.join(format!("{name}-{}", side.name()));
            place.bar.set_message(format!("{name}, {}", side.title()));
            let mesh = Mesh::start(&side.mesh(ours, guard), place.tools, &directory, place.bar).await?;
            finds_out(&mesh, side, ours.seed).await;
            meshes.push((side, mesh));
        }
        Ok(Self { meshes })
    }

    /// Checks that everything still runs, and ends it.
    ///
    /// # Errors
    /// A process had already ended.
    pub async fn end(self) -> Result<(), MeshError> {
        for (_, mut mesh) in self.meshes {
            mesh.check()?;
            mesh.end().await;
        }
        Ok(())
    }
}

/// Puts a tuned mesh under load before its first row: each of our frontends finds out how many
/// bounces Envoy retries, and may lose a request over that. No row counts these requests
/// (`protocol::overflow` does), so they are printed here.
pub async fn finds_out(mesh: &Mesh, side: Side, seed: u64) {
    if matches!(side, Side::Tuned | Side::OursTuned) {
        let plan = plan(mesh.gateway(), FINDS_OUT_SHARE * mesh.total_rate(), FINDS_OUT, seed);
        let tally = Arc::<Tally>::default();
        load::run(&plan, Instant::now() + HEAD_START, Arc::clone(&tally)).await;
        let (answered, shed, errors) = tally.counts();
        let (lost, sent) = (shed + errors, answered + shed + errors);
        eprintln!("before the first row, {}: {lost} of {sent} requests without an answer", side.title());
    }
}

/// Waits until outlier detection ejects no server, so that a row does not begin with the effects of
/// the one before.
///
/// # Errors
/// A frontend does not answer.
pub async fn nobody_is_ejected(mesh: &Mesh) -> Result<(), MeshError> {
    let ends = Instant::now() + EJECTED;
    let name = format!("cluster.{SERVICE}.outlier_detection.ejections_active");
    while mesh.frontends_sum(&name).await? > 0 && Instant::now() < ends {
        sleep(LOOK).await;
    }
    Ok(())
}

/// GETs on new connections, from clients that wait [`CLIENT_TIMEOUT`].
pub fn plan(target: SocketAddr, rate: f64, window: Duration, seed: u64) -> LoadPlan {
    LoadPlan {
        target,
        path: "/".to_owned(),
        body: 0,
        load: Load::Poisson { rate },
        keep_alive: false,
        timeout: CLIENT_TIMEOUT,
        warm_up: Duration::ZERO,
        window,
        outstanding_limit: 4_000,
        seed,
    }
}

/// What the frontends have counted since they started.
///
/// # Errors
/// A frontend does not answer.
pub async fn counted(mesh: &Mesh) -> Result<Counted, MeshError> {
    let ours = |name: &str| format!("wasmcustom.bloc.outbound.{SERVICE}.{name}");
    let sum = async |name: &str| mesh.frontends_sum(&ours(name)).await;
    let retries = mesh.frontends_sum(&format!("cluster.{SERVICE}.upstream_rq_retry")).await?;
    Ok(Counted {
        requests: mesh.frontends_sum("http.outbound.downstream_rq_total").await?,
        retries: retries.saturating_sub(sum("refused_retries").await?),
        rejections: sum("rejections").await? + sum("bounces").await?,
        exhausted: sum("retries_exhausted").await?,
        frontends: mesh.frontend_count() as u64,
    })
}

/// What was counted between two moments.
pub fn since(after: Counted, before: Counted) -> Counted {
    Counted {
        requests: after.requests.saturating_sub(before.requests),
        retries: after.retries.saturating_sub(before.retries),
        rejections: after.rejections.saturating_sub(before.rejections),
        exhausted: after.exhausted.saturating_sub(before.exhausted),
        frontends: after.frontends,
    }
}
