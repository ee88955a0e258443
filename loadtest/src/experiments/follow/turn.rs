//! What is measured.

use super::case::{FollowCase, Way};
use super::plan::{AIM, CORES, Estimator, FIRST, HALVES, SLO, TIMEOUT, WARM_UP, WINDOW, WORK, arrivals};
use super::testbed::{Order, Programs, Stand};
use crate::case::HEAD_START;
use crate::experiments::quota::figures::{Figure, Turn, quantiles};
use anyhow::{bail, ensure};
use bloc_mesh::load::{Client, Outcome, Sample, Tally, at_arrivals};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, sleep, sleep_until};

/// Requests that wait at once; no more are admitted, and the others are rejected at once.
const OUTSTANDING: usize = 4_000;
/// Longer than any turn of delays.
const LONG: Duration = Duration::from_secs(3_600);
/// Between two changes of the limit.
const REST: Duration = Duration::from_secs(1);

/// The turn of a case. A delay is measured at so many changes.
///
/// # Errors
/// A part does not start or ends early, or the quota does not change in time.
pub async fn turn(
    programs: Programs<'_>,
    directory: &Path,
    case: FollowCase,
    changes: usize,
    seed: u64,
) -> anyhow::Result<Turn> {
    match case {
        FollowCase::Answers(estimator, way) => {
            answers(programs, directory, &Order::new(estimator.capacity(), way, seed)).await
        }
        FollowCase::Delay => {
            let order = Order::new(Estimator::PerCore.capacity(), Way::Told, seed);
            delays(programs, directory, changes, &order).await
        }
    }
}

async fn answers(programs: Programs<'_>, directory: &Path, order: &Order) -> anyhow::Result<Turn> {
    let mut stand = Stand::start(programs, directory, order).await?;
    let start = Instant::now() + HEAD_START;
    let load = load(&stand, WARM_UP + HALVES + WINDOW, start, order.seed);
    let change = async {
        sleep_until(start + WARM_UP).await;
        let before = stand.capacity().await?;
        stand.limit(CORES / 2.0)?;
        let halved = stand.quota(|quota| quota < between()).await?;
        ensure!(halved < start + WARM_UP + HALVES, "the quota was not halved within {HALVES:?}");
        sleep_until(halved + WINDOW).await;
        anyhow::Ok(([before, stand.capacity().await?], halved - start))
    };
    let (samples, changed) = tokio::join!(load, change);
    let (capacity, halved) = changed?;
    stand.check()?;
    stand.end().await;
    Ok(seen(&samples, halved, capacity))
}

async fn load(stand: &Stand, length: Duration, start: Instant, seed: u64) -> Vec<Sample> {
    let client = Arc::new(Client::new(stand.address(), "/", true, TIMEOUT));
    let arrivals = arrivals(length, seed).into_iter().map(|at| (at, Arc::clone(&client)));
    at_arrivals(arrivals, Duration::ZERO, OUTSTANDING, start, Arc::<Tally>::default()).await
}

/// Between the two limits, in cores.
fn between() -> f64 {
    CORES * 0.75
}

fn seen(samples: &[Sample], halved: Duration, [before, after]: [u64; 2]) -> Turn {
    let within = |time: Duration| -> Vec<&Sample> {
        samples.iter().filter(|sample| sample.ended >= halved && sample.ended < halved + time).collect()
    };
    let window = within(WINDOW);
    let rejected = window.iter().filter(|sample| sample.outcome == Outcome::Shed).count();
    let times = window.iter().filter(|sample| sample.outcome == Outcome::Ok).map(|sample| sample.latency);
    let mut figures = Turn::from([
        (Figure::Admitted, (window.len() - rejected) as f64),
        (Figure::Rejected, rejected as f64),
        (Figure::CapacityBefore, before as f64),
        (Figure::CapacityAfter, after as f64),
    ]);
    figures.extend(quantiles(times, [(Figure::P50, 0.5), (Figure::P99, 0.99)]));
    let shares = [(Figure::InTimeShare, in_time(&window)), (Figure::FirstInTime, in_time(&within(FIRST)))];
    figures.extend(shares.into_iter().filter_map(|(figure, share)| Some((figure, share?))));
    figures
}

/// A request that has failed counts as admitted, and as not in time.
fn in_time(samples: &[&Sample]) -> Option<f64> {
    let admitted = samples.iter().filter(|sample| sample.outcome != Outcome::Shed).count();
    let is_good = |sample: &&&Sample| sample.outcome == Outcome::Ok && sample.latency <= SLO;
    (admitted > 0).then(|| samples.iter().filter(is_good).count() as f64 / admitted as f64)
}

/// Halves and doubles the limit in turn, so often. A delay is from the quota in the file to the
/// capacity in force.
async fn delays(programs: Programs<'_>, directory: &Path, changes: usize, order: &Order) -> anyhow::Result<Turn> {
    let mut stand = Stand::start(programs, directory, order).await?;
    let full = CORES * AIM.div_duration_f64(WORK);
    let measure = async {
        let (mut halvings, mut doublings) = (Vec::new(), Vec::new());
        stand.quota(|quota| quota > CORES * 0.95).await?;
        for number in 0..changes {
            sleep(REST).await;
            let halved = number % 2 == 0;
            // Past the middle between the two.
            let is_past = |share: f64| if halved { share < between() / CORES } else { share > between() / CORES };
            stand.limit(if halved { CORES / 2.0 } else { CORES })?;
            let written = stand.quota(|quota| is_past(quota / CORES)).await?;
            let in_force = stand.capacity_is(|capacity| is_past(capacity as f64 / full)).await?;
            let delays = if halved { &mut halvings } else { &mut doublings };
            delays.push(in_force - written);
        }
        anyhow::Ok((halvings, doublings))
    };
    let (halvings, doublings) = tokio::select! {
        delays = measure => delays?,
        _ = load(&stand, LONG, Instant::now() + HEAD_START, order.seed) => bail!("the load has ended"),
    };
    stand.check()?;
    stand.end().await;
    let mut figures =
        quantiles(halvings, [(Figure::HalvedP50, 0.5), (Figure::HalvedP90, 0.9), (Figure::HalvedMost, 1.0)]);
    figures.extend(quantiles(
        doublings,
        [(Figure::DoubledP50, 0.5), (Figure::DoubledP90, 0.9), (Figure::DoubledMost, 1.0)],
    ));
    Ok(figures)
}

#[cfg(test)]
mod tests {
    use super::*;
    use bloc_mesh::load::ErrorKind;

    #[test]
    fn counts_admitted_requests_that_end_in_the_ten_seconds() {
        let sample = |outcome, latency_ms, ended_ms| Sample {
            outcome,
            latency: Duration::from_millis(latency_ms),
            ended: Duration::from_millis(ended_ms),
        };
        let lost = Outcome::Error(ErrorKind::Timeout);
        let samples = [
            sample(Outcome::Ok, 1, 999),
            sample(Outcome::Ok, 500, 1_000),
            sample(Outcome::Ok, 501, 1_001),
            sample(Outcome::Ok, 1, 10_999),
            sample(lost, 2, 5_000),
            sample(Outcome::Shed, 3, 5_000),
            sample(Outcome::Ok, 1, 11_000),
            sample(lost, 1, 2_999),
            sample(Outcome::Ok, 1, 3_000),
        ];
        let expected = [
            (Figure::P50, 1.0),
            (Figure::P99, 501.0),
            (Figure::Admitted, 6.0),
            (Figure::Rejected, 1.0),
            (Figure::InTimeShare, 0.5),
            (Figure::FirstInTime, 1.0 / 3.0),
            (Figure::CapacityBefore, 20.0),
            (Figure::CapacityAfter, 10.0),
        ];
        assert_eq!(seen(&samples, Duration::from_secs(1), [20, 10]), Turn::from(expected));
        let nothing = seen(&[], Duration::ZERO, [0, 0]);
        let absent = [Figure::InTimeShare, Figure::FirstInTime, Figure::P50];
        assert!(absent.iter().all(|figure| !nothing.contains_key(figure)) && nothing[&Figure::Admitted] == 0.0);
    }
}
