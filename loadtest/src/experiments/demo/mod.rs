//! The paper's experiment of section 5.6.2, the same three candidates at 90% load, and servers of
//! different speeds (4.3.3).
//!
//! 100 closed-loop clients, 10 backends that serve one request at a time in 250 ms, capacity 10,
//! reset interval 1 s, 3 retries. At scale 0.2 all times are a fifth: 50 ms and 200 ms. Every
//! response time shrinks with them, so shapes and ratios stay.

pub mod command;

use crate::case::Case;
use crate::heterogeneous;
use bloc_figures::service_time::ServiceTime;
use bloc_figures::stats::rounded;
use bloc_mesh::MeshSpec;
use bloc_mesh::load::Load;
use bloc_mesh::policy::Policy;
use bloc_policy::config::CapacitySpec;
use std::time::Duration;

const BACKENDS: usize = 10;
const CLIENTS: usize = 100;
const LOAD_SHARE: f64 = 0.9;
const SERVICE_TIME: Duration = Duration::from_millis(250);
const RESET_INTERVAL: Duration = Duration::from_secs(1);
/// Six times the mean response time of the closed loop. Its clients start together and need that
/// long to spread out.
const WARM_UP: Duration = Duration::from_secs(15);
/// At scale 0.2 this is 10 s, so twelve cases with their meshes and warm-ups fit into five minutes.
const DURATION: Duration = Duration::from_secs(50);
/// At scale 0.2 this is 11 s, or some 1,200 requests. The servers' times are not scaled: the
/// experiment is about them.
const HETEROGENEOUS_DURATION: Duration = Duration::from_secs(55);

/// The cases at `scale` (1: the paper's times), each measured for `duration` (default 50 s times
/// `scale`).
pub fn cases(scale: f64, duration: Option<Duration>, seed: u64, control_plane: bool) -> Vec<Case> {
    let service_time = SERVICE_TIME.mul_f64(scale);
    let rate = rounded(LOAD_SHARE * BACKENDS as f64 / service_time.as_secs_f64(), 1e3);
    let loads = [Load::Closed { clients: CLIENTS }, Load::Poisson { rate }];
    let candidates = [(Policy::LeastRequest, 40), (Policy::LeastRequest, 1), (Policy::Bloc, 40)];
    let case = |load, (policy, frontends)| Case {
        experiment: None,
        mesh: MeshSpec {
            backends: BACKENDS,
            capacity: Some(CapacitySpec::Static { limit: 10 }),
            reset_interval: RESET_INTERVAL.mul_f64(scale),
            control_plane,
            seed,
            ..MeshSpec::fleet(policy, frontends, ServiceTime::Fixed(service_time))
        },
        load,
        keep_alive: false,
        timeout: Duration::from_secs(20),
        warm_up: WARM_UP.mul_f64(scale),
        duration: duration.unwrap_or(DURATION.mul_f64(scale)),
    };
    // Without a capacity, as in `goals`: bids shed nothing, so clients that never pause cannot ask
    // again at once. Both loads share a mesh: the start of 51 Envoys with the module takes 40 s.
    let bids = loads.map(|load| {
        let mut case = case(load, (Policy::Bid, 40));
        case.mesh.capacity = None;
        case
    });
    let gateways = [Policy::LeastRequest, Policy::LeastRequestOfAll, Policy::Mu, Policy::Bid];
    let heterogeneous = gateways.map(|policy| {
        let duration = duration.unwrap_or(HETEROGENEOUS_DURATION.mul_f64(scale));
        let mesh = heterogeneous::mesh(policy, 1, seed, control_plane);
        heterogeneous::case(mesh, heterogeneous::LOAD_SHARE, duration)
    });
    let overload = loads.into_iter().zip(bids).flat_map(|(load, bids)| {
        let cases = candidates.map(|candidate| case(load, candidate));
        cases.into_iter().chain([bids])
    });
    overload.chain(heterogeneous).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scale_0_2_runs_the_paper_at_a_fifth_of_its_times() {
        let cases = cases(0.2, None, 1, true);
        let names: Vec<String> = cases.iter().map(Case::name).collect();
        let expected = [
            "closed-loop-least_request-40",
            "closed-loop-least_request-1",
            "closed-loop-bloc-40",
            "closed-loop-bid-40",
            "poisson-least_request-40",
            "poisson-least_request-1",
            "poisson-bloc-40",
            "poisson-bid-40",
            "heterogeneous-least_request-1",
            "heterogeneous-least_request_of_all-1",
            "heterogeneous-mu-1",
            "heterogeneous-bid-1",
        ];
        assert_eq!(names, expected);
        let first = &cases[0];
        assert_eq!(first.mesh.service_time, ServiceTime::Fixed(Duration::from_millis(50)));
        assert_eq!(first.mesh.reset_interval, Duration::from_millis(200));
        assert_eq!((first.duration, first.warm_up), (Duration::from_secs(10), Duration::from_secs(3)));
        assert_eq!(cases[9].duration, Duration::from_secs(11));
        let capacities = cases.iter().map(|case| case.mesh.capacity.is_some());
        let none: Vec<usize> = capacities.enumerate().filter(|(_, some)| !some).map(|(place, _)| place).collect();
        assert_eq!(none[..2], [3, 7], "with bids, clients that never pause are not shed");
        let total: Duration = cases.iter().map(|case| case.warm_up + case.duration).sum();
        assert!(total < Duration::from_secs(170), "{total:?}, and the starts of 8 meshes, within 5 minutes");
        assert_eq!(cases[4].load, Load::Poisson { rate: 180.0 });
    }
}
