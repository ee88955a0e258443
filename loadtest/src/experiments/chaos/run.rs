//! Runs one row after the other, as long as there is time.

use super::fault::FAULTS;
use super::figure::Claim;
use super::flood::{FLOOD, SENDERS};
use super::node_agent::BROKEN;
use super::order::Chaos;
use super::recovery::RECOVERIES;
use super::rollback::ROLLED_BACK;
use super::row::Row;
use super::testbed::Place;
use super::throttled::THROTTLED;
use super::two::OF_TWO;
use super::uploads::UPLOADS;
use super::{faults, flood, node_agent, recovery, rollback, throttled, two, uploads};
use bloc_mesh::MeshError;
use tokio::time::Instant;

/// Each row's name, as in [`Chaos::only`], and its claim.
pub fn claims() -> impl Iterator<Item = (&'static str, Claim)> {
    let recoveries = RECOVERIES.iter().map(|recovery| (recovery.name, recovery::CLAIM));
    let faults = FAULTS.iter().map(|fault| (fault.name(), fault.claim()));
    let of_two = OF_TWO.iter().map(|one| (one.name, one.claim()));
    let broken = BROKEN.iter().map(|broken| (broken.name, node_agent::CLAIM));
    faults.chain(of_two).chain(recoveries).chain(broken).chain([
        (ROLLED_BACK, rollback::CLAIM),
        (UPLOADS, uploads::CLAIM),
        (THROTTLED, throttled::CLAIM),
        (FLOOD, flood::FLOOD_CLAIM),
        (SENDERS, flood::SENDERS_CLAIM),
    ])
}

/// Runs the rows that `chaos` selects. Each result goes to `tell` at once.
///
/// # Errors
/// A mesh does not start, or a part of it does not do what it is told.
pub async fn run(chaos: &Chaos, place: Place<'_>, mut tell: impl FnMut(&Row)) -> Result<Vec<Row>, MeshError> {
    let ends = Instant::now() + chaos.limit;
    let mut rows = Vec::new();
    let mut add = |row: Row| {
        tell(&row);
        rows.push(row);
    };
    if chaos.wants(SENDERS) {
        add(flood::senders(chaos, ends, place).await?);
    }
    faults::run(chaos, ends, place, &mut add).await?;
    two::run(chaos, ends, place, &mut add).await?;
    if chaos.wants(FLOOD) {
        add(flood::flood(chaos, ends, place).await?);
    }
    if chaos.wants(ROLLED_BACK) {
        add(rollback::run(chaos, ends, place).await?);
    }
    if chaos.wants(UPLOADS) {
        add(uploads::run(chaos, ends, place).await?);
    }
    if chaos.wants(THROTTLED) {
        add(throttled::run(chaos, ends, place).await?);
    }
    recovery::run(chaos, ends, place, &mut add).await?;
    node_agent::run(chaos, ends, place, &mut add).await;
    Ok(rows)
}
