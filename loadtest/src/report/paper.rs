//! The measurements of the paper's authors: section 5.6.2, closed loop, service time 250 ms, on a
//! cluster of four servers.

use bloc_mesh::policy::Policy;

/// One row of the paper.
#[derive(Clone, Copy, Debug)]
pub struct PaperRow {
    /// The policy.
    pub policy: Policy,
    /// How many frontends.
    pub frontends: usize,
    /// 10th, 50th, 90th, 99th percentile in seconds.
    pub percentiles_s: [f64; 4],
    /// Requests that failed after their retries, in percent.
    pub failed_percent: Option<f64>,
}

/// The service time of these measurements, in milliseconds.
pub const SERVICE_MS: f64 = 250.0;

/// The figures.
pub const CLOSED_LOOP: [PaperRow; 3] = [
    PaperRow {
        policy: Policy::LeastRequest,
        frontends: 40,
        percentiles_s: [1.16, 2.52, 4.00, 5.17],
        failed_percent: None,
    },
    PaperRow {
        policy: Policy::LeastRequest,
        frontends: 1,
        percentiles_s: [2.27, 2.57, 2.84, 3.07],
        failed_percent: None,
    },
    PaperRow {
        policy: Policy::Bloc,
        frontends: 40,
        percentiles_s: [2.50, 2.57, 2.62, 2.67],
        failed_percent: Some(6.5),
    },
];

/// The paper's row for a policy with this number of frontends.
pub fn row(policy: Policy, frontends: usize) -> Option<&'static PaperRow> {
    CLOSED_LOOP.iter().find(|row| row.policy == policy && row.frontends == frontends)
}
