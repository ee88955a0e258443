//! Overload: from few senders, from many, and from one of many.
//!
//! A circuit breaker limits the requests in flight of one sender. If the number of senders is
//! known, a good limit protects the servers as well as a limit at the servers does. If that number
//! changes, or the traffic moves to one sender, no limit is good: many senders fill the servers'
//! queues beyond what clients wait for, and one sender cannot use all servers.

use super::figure::{Bound, Claim};
use super::judge::{self, CLIENT_TIMEOUT};
use super::order::Chaos;
use super::row::{Column, Row};
use super::side::Side;
use super::testbed::{Place, Stand, plan};
use crate::case::HEAD_START;
use bloc_figures::service_time::ServiceTime;
use bloc_mesh::envoy::Guard;
use bloc_mesh::load::{self, Sample, Tally};
use bloc_mesh::{Mesh, MeshError, MeshSpec, Role};
use bloc_policy::config::CapacitySpec;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// The name of the flood on the command line.
pub const FLOOD: &str = "flood";
/// The name of the row with more senders.
pub const SENDERS: &str = "senders";

/// The claim of the flood: stock Envoy tuned for this number of senders does as well.
pub const FLOOD_CLAIM: Claim = Claim::Untuned;
/// The claim of the row with more senders.
pub const SENDERS_CLAIM: Claim = Claim::Ours;

/// The load, as a multiple of the servers' total rate.
const SHARE: f64 = 5.0;
/// Answered requests as a share of the servers' total rate.
const GOODPUT: f64 = 0.9;
/// The 99th percentile of the answered requests, in milliseconds: 10 requests of 100 ms each, and
/// half as much again.
const ANSWERED_MS: f64 = 1_500.0;
/// Time for the meshes to start, and for the queues to empty.
const STARTS: Duration = Duration::from_secs(30);
/// A new server's first requests are not counted.
const FIRST_S: f64 = 1.0;
const FEW: usize = 4;
const MANY: usize = 20;
/// What four servers of 10 requests a second can have queued within the 2 s that clients wait, per
/// sender.
const GUARD: Guard = Guard { requests: 10, attempt: Duration::from_millis(1_500) };
/// The same for twenty senders: three each are 60, which take 1.5 s; four each would take 2 s.
const GUARD_OF_MANY: Guard = Guard { requests: 3, ..GUARD };

/// Four servers of 10 requests a second each. Five times that is as much as two cores can generate
/// and carry.
fn mesh(chaos: &Chaos, senders: usize) -> MeshSpec {
    let service_time = ServiceTime::Fixed(Duration::from_millis(100));
    MeshSpec {
        backends: 4,
        capacity: Some(CapacitySpec::Static { limit: 10 }),
        seed: chaos.seed,
        ..MeshSpec::fleet(chaos.policy, senders, service_time)
    }
}

async fn flooded(chaos: &Chaos, mesh: &Mesh, target: SocketAddr, number: usize) -> Vec<Sample> {
    let plan = plan(target, SHARE * mesh.total_rate(), chaos.flood, chaos.arrivals(number));
    load::run(&plan, Instant::now() + HEAD_START, Arc::<Tally>::default()).await.samples
}

fn goodput(chaos: &Chaos, mesh: &Mesh, samples: &[Sample]) -> f64 {
    judge::goodput(samples, FIRST_S, chaos.flood.as_secs_f64(), mesh.total_rate())
}

/// The flood from the number of senders that the limit was chosen for.
///
/// # Errors
/// A mesh does not start, or one of its processes ends early.
pub async fn flood(chaos: &Chaos, ends: Instant, place: Place<'_>) -> Result<Row, MeshError> {
    let seconds = chaos.flood.as_secs();
    let what = format!("{SHARE} times what the servers can do, from {FEW} senders, for {seconds} s");
    let claim = FLOOD_CLAIM;
    if Instant::now() + 4 * chaos.flood + STARTS > ends {
        return Ok(Row::not_run(FLOOD, what, claim, format!("no time left of {:?}", chaos.limit)));
    }
    let stand = Stand::start(&mesh(chaos, FEW), chaos.guard(GUARD), place, FLOOD).await?;
    let mut columns = Vec::new();
    for (side, mesh) in &stand.meshes {
        place.bar.set_message(format!("{FLOOD}, {}", side.title()));
        let samples = flooded(chaos, mesh, mesh.gateway(), 0).await;
        let good = goodput(chaos, mesh, &samples);
        let figures = vec![
            judge::goodput_figure("goodput, of the capacity", good, Bound::AtLeast(GOODPUT)),
            judge::in_vain("requests that waited in vain", &samples, Bound::AtMost(0.0)),
            judge::p99_answered("p99 of the answered", &samples, Bound::AtMost(ANSWERED_MS)),
        ];
        columns.push(Column::new(*side, figures, &samples));
    }
    stand.end().await?;
    Ok(Row::new(FLOOD, what, claim, columns))
}

/// The flood from five times as many senders, then all of it from one of them.
///
/// # Errors
/// A mesh does not start, or one of its processes ends early.
pub async fn senders(chaos: &Chaos, ends: Instant, place: Place<'_>) -> Result<Row, MeshError> {
    let seconds = chaos.flood.as_secs();
    let what =
        format!("{SHARE} times what the servers can do, from {MANY} senders for {seconds} s, then from one of them");
    let claim = SENDERS_CLAIM;
    if Instant::now() + 8 * chaos.flood + 2 * STARTS > ends {
        return Ok(Row::not_run(SENDERS, what, claim, format!("no time left of {:?}", chaos.limit)));
    }
    let stand = Stand::start(&mesh(chaos, MANY), chaos.guard(GUARD_OF_MANY), place, SENDERS).await?;
    let mut columns = Vec::new();
    for (side, mesh) in &stand.meshes {
        place.bar.set_message(format!("{SENDERS}, {}", side.title()));
        let many = flooded(chaos, mesh, mesh.gateway(), 0).await;
        drain(*side).await;
        let one = flooded(chaos, mesh, mesh.entrance(Role::Frontend(0))?, 1).await;
        let figure = |what, samples: &[Sample]| {
            judge::goodput_figure(what, goodput(chaos, mesh, samples), Bound::AtLeast(GOODPUT))
        };
        let figures = vec![
            figure("goodput from 20 senders", &many),
            figure("goodput from one of them", &one),
            judge::in_vain("requests of 20 senders in vain", &many, Bound::AtMost(0.0)),
            judge::in_vain("requests of one of them in vain", &one, Bound::AtMost(0.0)),
        ];
        columns.push(Column::new(*side, figures, &many));
        drain(*side).await;
    }
    stand.end().await?;
    Ok(Row::new(SENDERS, what, claim, columns))
}

/// Waits until the servers have finished a flood. Without limits they queue most of it; requests
/// whose clients have given up are withdrawn.
async fn drain(side: Side) {
    sleep(if side == Side::Stock { 2 * CLIENT_TIMEOUT } else { CLIENT_TIMEOUT }).await;
}
