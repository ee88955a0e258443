//! Large and small bodies, sent to servers that bounce.
//!
//! Envoy can retry a request only while its buffer holds the whole body. A larger one fails if it
//! is bounced, so it must not be bounced.

use super::figure::{Bound, Claim, Figure};
use super::judge;
use super::order::Chaos;
use super::row::{Column, Row};
use super::side::Side;
use super::testbed::{Place, Stand, plan};
use crate::case::HEAD_START;
use bloc_figures::service_time::ServiceTime;
use bloc_mesh::envoy::{Guard, SERVICE};
use bloc_mesh::load::{self, LoadPlan, Tally};
use bloc_mesh::policy::Policy;
use bloc_mesh::{MeshError, MeshSpec};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// Its name on the command line.
pub const UPLOADS: &str = "uploads";
/// Its claim.
pub const CLAIM: Claim = Claim::NoHarm;

const WINDOW: Duration = Duration::from_secs(15);
/// Enough load that servers have queues, and bounce.
const SHARE: f64 = 0.9;
/// Three small bodies for each large one.
const SMALL: (usize, f64) = (1_000, 0.75);
const LARGE: (usize, f64) = (4_000_000, 0.25);
/// How long counters may lag.
const LAG: Duration = Duration::from_secs(6);

const STARTS: Duration = Duration::from_secs(30);
const GUARD: Guard = Guard { requests: 20, attempt: Duration::from_millis(1_500) };
/// Large requests take long behind others.
const CLIENT_TIMEOUT: Duration = Duration::from_secs(10);

/// A description in one line.
fn what() -> String {
    let [small, large] = [SMALL.0 / 1_000, LARGE.0 / 1_000_000];
    let (share, seconds) = (100.0 * SHARE, WINDOW.as_secs());
    format!(
        "of four POSTs three have {small} kB and one has {large} MB, {share:.0}% of what the servers can do, {seconds} s"
    )
}

/// Runs its own meshes under load, and judges what happened.
///
/// # Errors
/// A mesh does not start, or a part of it does not do what it is told.
pub async fn run(chaos: &Chaos, ends: Instant, place: Place<'_>) -> Result<Row, MeshError> {
    if Instant::now() + 4 * (WINDOW + LAG) + STARTS > ends {
        let why = format!("no time left of {:?}", chaos.limit);
        return Ok(Row::not_run(UPLOADS, what(), CLAIM, why));
    }
    let service_time = ServiceTime::Fixed(Duration::from_millis(100));
    // Always with bids: without a capacity nothing else bounces.
    let spec = MeshSpec { backends: 4, seed: chaos.seed, ..MeshSpec::fleet(Policy::Bid, 4, service_time) };
    let stand = Stand::start(&spec, chaos.guard(GUARD), place, UPLOADS).await?;
    let mut columns = Vec::new();
    for (side, mesh) in &stand.meshes {
        place.bar.set_message(format!("{UPLOADS}, {}", side.title()));
        let load = |(body, share): (usize, f64), number: usize| {
            let rate = share * SHARE * mesh.total_rate();
            let plan = plan(mesh.gateway(), rate, WINDOW, chaos.arrivals(number));
            LoadPlan { body, timeout: CLIENT_TIMEOUT, ..plan }
        };
        let (small, large) = (load(SMALL, 0), load(LARGE, 1));
        let start = Instant::now() + HEAD_START;
        let (small, large) = tokio::join!(
            load::run(&small, start, Arc::<Tally>::default()),
            load::run(&large, start, Arc::<Tally>::default())
        );
        let no_more = Bound::NoWorse { times: 1.0, plus: 0.0 };
        let mut figures = vec![
            judge::without_an_answer("small requests without an answer", &small.samples, no_more),
            judge::without_an_answer("large requests without an answer", &large.samples, no_more),
        ];
        // Tuned Envoy's retry budget may end the bids.
        if *side == Side::Ours {
            sleep(LAG).await;
            let name = format!("wasmcustom.bloc.outbound.{SERVICE}.bounces");
            let bounces = mesh.frontends_sum(&name).await?;
            // With fewer bounces, the row would test next to nothing.
            let some = Bound::AtLeast(50.0);
            let (value, shown) = (Some(bounces as f64), bounces.to_string());
            figures.push(Figure { what: "bounces", value, shown, bound: some });
        }
        columns.push(Column::new(*side, figures, &large.samples));
    }
    stand.end().await?;
    Ok(Row::new(UPLOADS, what(), CLAIM, columns))
}
