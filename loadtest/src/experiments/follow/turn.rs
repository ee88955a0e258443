//! What is measured.

use super::plan::{AIM, CORES, Estimator, FIRST, HALVES, SLO, TIMEOUT, Variant, WARM_UP, WINDOW, WORK, arrivals};
use super::stand::{Order, Programs, Stand};
use crate::case::HEAD_START;
use crate::record::milliseconds;
use anyhow::{bail, ensure};
use bloc_mesh::load::{Client, Outcome, Sample, Tally, at_arrivals, quantile};
use serde::Serialize;
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

/// What was seen in the time after the quota was halved.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Turn {
    /// Admitted requests that ended.
    pub admitted: usize,
    /// The share of them that were answered within the SLO; none: there were no requests.
    pub in_time: Option<f64>,
    /// The same of the first two seconds.
    pub first_in_time: Option<f64>,
    /// Median of the response times of answers, in milliseconds.
    pub p50_ms: Option<f64>,
    /// Their 99th percentile.
    pub p99_ms: Option<f64>,
    /// Requests that were rejected.
    pub rejected: usize,
    /// The capacity before the quota was halved, and at the end.
    pub capacity: [u64; 2],
}

/// A change of the quota.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Delay {
    /// Whether the quota was halved, or doubled.
    pub halved: bool,
    /// From the quota in the file to the capacity in force, in milliseconds.
    pub ms: f64,
}

/// The turn of a variant.
///
/// # Errors
/// A part does not start or ends early, or the quota is not halved in time.
pub async fn turn(programs: Programs<'_>, directory: &Path, variant: Variant, seed: u64) -> anyhow::Result<Turn> {
    let order = Order::new(variant.estimator.capacity(), variant.follows, seed);
    let mut stand = Stand::start(programs, directory, &order).await?;
    let start = Instant::now() + HEAD_START;
    let load = load(&stand, WARM_UP + HALVES + WINDOW, start, seed);
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

fn seen(samples: &[Sample], halved: Duration, capacity: [u64; 2]) -> Turn {
    let within = |time: Duration| -> Vec<&Sample> {
        samples.iter().filter(|sample| sample.ended >= halved && sample.ended < halved + time).collect()
    };
    let window = within(WINDOW);
    let rejected = window.iter().filter(|sample| sample.outcome == Outcome::Shed).count();
    let mut times: Vec<Duration> =
        window.iter().filter(|sample| sample.outcome == Outcome::Ok).map(|sample| sample.latency).collect();
    times.sort_unstable();
    Turn {
        admitted: window.len() - rejected,
        in_time: in_time(&window),
        first_in_time: in_time(&within(FIRST)),
        p50_ms: quantile(&times, 0.5).map(milliseconds),
        p99_ms: quantile(&times, 0.99).map(milliseconds),
        rejected,
        capacity,
    }
}

/// A request that has failed counts as admitted, and as not in time.
fn in_time(samples: &[&Sample]) -> Option<f64> {
    let admitted = samples.iter().filter(|sample| sample.outcome != Outcome::Shed).count();
    let is_good = |sample: &&&Sample| sample.outcome == Outcome::Ok && sample.latency <= SLO;
    (admitted > 0).then(|| samples.iter().filter(is_good).count() as f64 / admitted as f64)
}

/// Halves and doubles the limit in turn, so often.
///
/// # Errors
/// A part does not start or ends early, or a change does not come.
pub async fn delays(programs: Programs<'_>, directory: &Path, changes: usize, seed: u64) -> anyhow::Result<Vec<Delay>> {
    let order = Order::new(Estimator::PerCore.capacity(), true, seed);
    let mut stand = Stand::start(programs, directory, &order).await?;
    let full = CORES * AIM.div_duration_f64(WORK);
    let measure = async {
        let mut delays = Vec::new();
        stand.quota(|quota| quota > CORES * 0.95).await?;
        for number in 0..changes {
            sleep(REST).await;
            let halved = number % 2 == 0;
            // Past the middle between the two.
            let is_past = |share: f64| if halved { share < between() / CORES } else { share > between() / CORES };
            stand.limit(if halved { CORES / 2.0 } else { CORES })?;
            let written = stand.quota(|quota| is_past(quota / CORES)).await?;
            let in_force = stand.capacity_is(|capacity| is_past(capacity as f64 / full)).await?;
            delays.push(Delay { halved, ms: milliseconds(in_force - written) });
        }
        anyhow::Ok(delays)
    };
    let delays = tokio::select! {
        delays = measure => delays?,
        _ = load(&stand, LONG, Instant::now() + HEAD_START, seed) => bail!("the load has ended"),
    };
    stand.check()?;
    stand.end().await;
    Ok(delays)
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
        let expected = Turn {
            admitted: 6,
            in_time: Some(0.5),
            first_in_time: Some(1.0 / 3.0),
            p50_ms: Some(1.0),
            p99_ms: Some(501.0),
            rejected: 1,
            capacity: [20, 10],
        };
        assert_eq!(seen(&samples, Duration::from_secs(1), [20, 10]), expected);
        let nothing = seen(&[], Duration::ZERO, [0, 0]);
        assert_eq!((nothing.in_time, nothing.p50_ms, nothing.admitted), (None, None, 0));
    }
}
