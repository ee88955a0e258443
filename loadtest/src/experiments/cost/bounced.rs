//! The cost of a bounce, in routing `bid`: of large requests, and with and without a back-off.

use super::bounds::Bound;
use crate::console::run_directory;
use crate::experiments::bounce::{self, Kind, Plan, Stand};
use anyhow::Context;
use bloc_figures::stats::Spread;
use bloc_mesh::Tools;
use serde::Serialize;
use std::fmt;
use std::time::Duration;

/// The large request whose bounces are measured.
const POST: Kind = Kind { body: Some(100_000), ..Kind::PLAIN };
/// Requests in a block.
const BLOCK: usize = 300;
/// Envoy's longest wait before a retry if a route sets a `base_interval` of 1 ms alone.
const BACK_OFF: Duration = Duration::from_millis(10);
/// How often both are measured in turn.
const PAIRS: usize = 5;
/// Blocks of each kind in one measurement of a pair.
const ROUNDS: usize = 2;
/// CPU of a bounce that is repeated at once, at most this share of one after a back-off.
const MOST: f64 = 0.9;

/// The cost of a bounce of such a request.
#[derive(Debug, Serialize)]
pub struct Bounced {
    #[serde(flatten)]
    kind: Kind,
    #[serde(flatten)]
    figures: bounce::Figures,
}

impl Bounced {
    /// Large requests over HTTP/1.1 and over HTTP/2.
    ///
    /// # Errors
    /// An Envoy fails, or nothing was bounced.
    pub async fn measure(tools: &Tools, rounds: usize) -> anyhow::Result<Vec<Self>> {
        let mut measured = Vec::new();
        for http2 in [false, true] {
            let kind = Kind { http2, ..POST };
            let mut stand = Stand::start(tools, &run_directory("cost-bounce"), kind).await?;
            let figures = figures(&mut stand, rounds).await?;
            stand.end().await;
            measured.push(Self { kind, figures });
        }
        Ok(measured)
    }
}

impl fmt::Display for Bounced {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kind, figures } = self;
        let (sender, server) = (figures.sender_cpu_us, figures.server_cpu_us);
        let (p50, connections) = (figures.first_p50_us, figures.connections);
        write!(
            f,
            "a bounced {kind}: CPU {sender:.0} us at the sender, {server:.0} us at the server; p50 {p50:+.0} us; \
             {connections:.2} connections"
        )
    }
}

/// A bounce that Envoy repeats at once beside one that it repeats after a back-off of up to 10 ms.
#[derive(Debug, Serialize)]
pub struct AtOnce {
    /// CPU time of sender and server in microseconds, pair by pair: at once, then after a back-off.
    cpu_us: Vec<[f64; 2]>,
}

impl AtOnce {
    /// Pairs of measurements, each kind first in every second.
    ///
    /// # Errors
    /// An Envoy fails, or nothing was bounced.
    pub async fn measure(tools: &Tools) -> anyhow::Result<Self> {
        let late = Kind { max_back_off: BACK_OFF, ..Kind::PLAIN };
        let directory = run_directory("cost-at-once");
        let mut stands = [
            Stand::start(tools, &directory.join("at-once"), Kind::PLAIN).await?,
            Stand::start(tools, &directory.join("back-off"), late).await?,
        ];
        let mut cpu_us = Vec::new();
        for pair in 0..PAIRS {
            let mut cost = [0.0; 2];
            for turn in [pair % 2, (pair + 1) % 2] {
                let figures = figures(&mut stands[turn], ROUNDS).await?;
                cost[turn] = figures.sender_cpu_us + figures.server_cpu_us;
            }
            cpu_us.push(cost);
        }
        for stand in stands {
            stand.end().await;
        }
        Ok(Self { cpu_us })
    }

    fn ratios(&self) -> Vec<f64> {
        self.cpu_us.iter().map(|[at_once, late]| at_once / late).collect()
    }

    /// The bound; none without a measurement.
    pub fn bound(&self) -> Option<Bound> {
        let ratios = self.ratios();
        let Spread { median, range: [least, most] } = Spread::of(&ratios)?;
        let what = format!(
            "CPU of a bounce that is repeated at once, over one after a back-off of up to {} ms, median of {} pairs \
             ({least:.2} to {most:.2})",
            BACK_OFF.as_millis(),
            ratios.len()
        );
        Some(Bound { what, value: median, most: MOST })
    }
}

async fn figures(stand: &mut Stand, rounds: usize) -> anyhow::Result<bounce::Figures> {
    let plan = Plan { rounds, block: BLOCK, pause: Duration::ZERO };
    bounce::Figures::new(&stand.measure(plan, |_| ()).await?).context("no request was bounced")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bound_is_the_median_of_the_ratios_of_each_pair() {
        let at_once = |cpu_us: &[[f64; 2]]| AtOnce { cpu_us: cpu_us.to_vec() }.bound();
        let bound = at_once(&[[100.0, 200.0], [120.0, 150.0], [90.0, 300.0]]).unwrap();
        assert_eq!((bound.value, bound.holds()), (0.5, true));
        assert!(bound.what.ends_with("median of 3 pairs (0.30 to 0.80)"), "{bound}");
        assert!(!at_once(&[[95.0, 100.0]]).unwrap().holds());
        assert_eq!(at_once(&[]), None);
    }
}
