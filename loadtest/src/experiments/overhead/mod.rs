//! The cost of the hold queue for a request that does not wait: the same sidecar with and without
//! `concurrency`, and one without any filter.
//!
//! One client sends directly to the inbound sidecar on a kept connection, one request at a time.
//! All sidecars run at once and get a block of requests each in turn, so other work on the machine
//! affects them alike. The medians of neighbouring blocks are compared.

pub mod command;

use bloc_figures::service_time::ServiceTime;
use bloc_figures::stats::quantile;
use bloc_mesh::load::{Client, Outcome};
use bloc_mesh::policy::Policy;
use bloc_mesh::{Mesh, MeshError, MeshSpec, Tools};
use indicatif::ProgressBar;
use std::path::Path;
use std::time::Duration;
use tokio::time::Instant;

/// The sidecars that are compared.
pub const VARIANTS: [&str; 3] = ["no filter", "filter", "filter with hold queue"];

/// How many requests are sent.
#[derive(Clone, Copy, Debug)]
pub struct Overhead {
    /// Rounds of one block per sidecar.
    pub rounds: usize,
    /// Requests per block.
    pub block: usize,
    /// The request's path: `/cost/0` takes no time in the application, `/` a millisecond.
    pub path: &'static str,
}

/// The medians of each variant's blocks, round by round, and the failed requests.
#[derive(Clone, Debug, Default)]
pub struct Medians {
    /// One row per round, in the order of [`VARIANTS`].
    pub rounds: Vec<[Duration; 3]>,
    /// Requests that the application did not answer.
    pub failed: u64,
}

impl Medians {
    /// A variant's median over the rounds.
    pub fn of(&self, variant: usize) -> Option<Duration> {
        let mut all: Vec<Duration> = self.rounds.iter().filter_map(|round| round.get(variant).copied()).collect();
        all.sort_unstable();
        quantile(&all, 0.5)
    }

    /// The additional time of `variant` over `base` in the same round: tenth, fiftieth and
    /// ninetieth percentile, in microseconds.
    pub fn difference_us(&self, variant: usize, base: usize) -> Option<[f64; 3]> {
        let micros = |time: &Duration| time.as_secs_f64() * 1e6;
        let difference = |round: &[Duration; 3]| Some(micros(round.get(variant)?) - micros(round.get(base)?));
        let mut all: Vec<f64> = self.rounds.iter().filter_map(difference).collect();
        all.sort_unstable_by(f64::total_cmp);
        let at = |share| quantile(&all, share);
        Some([at(0.1)?, at(0.5)?, at(0.9)?])
    }
}

/// The three running sidecars with their applications.
#[derive(Debug)]
pub struct Sidecars(Vec<Mesh>);

impl Sidecars {
    /// Starts them.
    ///
    /// # Errors
    /// A sidecar does not start.
    pub async fn start(tools: &Tools, directory: &Path, bar: &ProgressBar) -> Result<Self, MeshError> {
        let mut meshes = Vec::new();
        for (name, (policy, hold)) in ["stock", "filter", "hold"].iter().zip([
            (Policy::LeastRequest, false),
            (Policy::Mu, false),
            (Policy::Mu, true),
        ]) {
            meshes.push(Mesh::start(&mesh(policy, hold), tools, &directory.join(name), bar).await?);
        }
        Ok(Self(meshes))
    }

    /// Sends requests to them in turn.
    pub async fn measure(&self, overhead: Overhead) -> Medians {
        let client = |mesh: &Mesh| {
            mesh.endpoints().first().map(|at| Client::new(*at, overhead.path, true, Duration::from_secs(5)))
        };
        let clients: Vec<Client> = self.0.iter().filter_map(client).collect();
        let mut medians = Medians::default();
        for round in 0..overhead.rounds {
            let mut row = [Duration::ZERO; 3];
            for turn in 0..clients.len() {
                // Each variant goes first equally often.
                let variant = (turn + round) % clients.len();
                let mut times = Vec::with_capacity(overhead.block);
                for _ in 0..overhead.block {
                    let began = Instant::now();
                    let outcome = clients[variant].request().await;
                    times.push(began.elapsed());
                    medians.failed += u64::from(outcome != Outcome::Ok);
                }
                times.sort_unstable();
                row[variant] = quantile(&times, 0.5).unwrap_or_default();
            }
            medians.rounds.push(row);
        }
        medians
    }

    /// Ends them.
    pub async fn end(self) {
        for mesh in self.0 {
            mesh.end().await;
        }
    }
}

fn mesh(policy: Policy, hold: bool) -> MeshSpec {
    let spec = crate::heterogeneous::mesh(policy, 1, 1, false);
    let service_time = ServiceTime::Fixed(Duration::from_millis(1));
    MeshSpec { backends: 1, speeds: vec![], service_time, hold, ..spec }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_are_taken_within_a_round() {
        let us = Duration::from_micros;
        // The machine slows down by a factor of ten; the difference does not.
        let rounds = vec![[us(10), us(100), us(105)], [us(10), us(1_000), us(1_007)], [us(10), us(500), us(499)]];
        let medians = Medians { rounds, failed: 0 };
        assert_eq!(medians.of(1), Some(us(500)));
        let [low, middle, high] = medians.difference_us(2, 1).unwrap();
        assert!(
            (low + 1.0).abs() < 1e-6 && (middle - 5.0).abs() < 1e-6 && (high - 7.0).abs() < 1e-6,
            "{low} {middle} {high}"
        );
        assert_eq!(Medians::default().difference_us(2, 1), None);
    }
}
