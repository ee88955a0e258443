//! Servers of different speeds (paper, section 4.3.3): one gateway sends to four servers, two of
//! which are twice as fast as the other two.
//!
//! Each server works on 4 requests at once. A fast one takes 100 ms for a request, so the total is
//! `2 * 4 / 0.1 s + 2 * 4 / 0.2 s = 120` requests per second. The paper's baseline is stock Envoy's
//! least request with two choices, also with a single gateway. `LeastRequestOfAll` is the other
//! baseline: full scan.

use crate::case::Case;
use bloc_figures::service_time::ServiceTime;
use bloc_figures::stats::rounded;
use bloc_mesh::MeshSpec;
use bloc_mesh::load::Load;
use bloc_mesh::policy::Policy;
use std::time::Duration;

/// The experiment's name in `summary.json`.
pub const EXPERIMENT: &str = "heterogeneous";
/// The load at which the aims hold, as a share of what all servers can do.
pub const LOAD_SHARE: f64 = 0.9;
/// The filters need some intervals of a second to measure a server's rate.
const WARM_UP: Duration = Duration::from_secs(5);

/// Four servers, two of them fast; `frontends` gateways.
pub fn mesh(policy: Policy, frontends: usize, seed: u64, control_plane: bool) -> MeshSpec {
    MeshSpec {
        backends: 4,
        concurrency: 4,
        speeds: vec![2.0, 2.0, 1.0, 1.0],
        hold: policy.holds(),
        two_choices: policy != Policy::LeastRequestOfAll,
        control_plane,
        seed,
        ..MeshSpec::fleet(policy, frontends, ServiceTime::Fixed(Duration::from_millis(200)))
    }
}

/// The case at `share` of the total rate, measured for `duration`.
pub fn case(mesh: MeshSpec, share: f64, duration: Duration) -> Case {
    let rate = rounded(share * mesh.total_rate(mesh.backends), 1e3);
    Case {
        experiment: Some(EXPERIMENT.to_owned()),
        mesh,
        load: Load::Poisson { rate },
        keep_alive: false,
        timeout: Duration::from_secs(20),
        warm_up: WARM_UP,
        duration,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bloc_mesh::policy::Choice;

    #[test]
    fn runs_the_servers_of_the_paper_at_90_percent_load() {
        let case = case(mesh(Policy::LeastRequest, 1, 1, true), LOAD_SHARE, Duration::from_secs(1));
        assert_eq!(case.load, Load::Poisson { rate: 108.0 }, "90% of 120 per second");
        assert_eq!(case.name(), "heterogeneous-least_request-1");
        assert_eq!(case.mesh.choice(), Choice::TwoChoices);
        let command = case.command();
        let scan = mesh(Policy::LeastRequestOfAll, 1, 1, true);
        assert_eq!((scan.choice(), scan.two_choices), (Choice::FullScan, false));
        assert!(command.contains("--two-choices --experiment heterogeneous --speeds 2,2,1,1"), "{command}");
    }
}
