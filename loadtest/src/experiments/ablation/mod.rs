//! The effect of each part: chips without bids, bids without chips, both, neither. Four service
//! times show a user which part is worth its CPU.
//!
//! - *neither*: stock Envoy's least request, two choices, no filter.
//! - *chips*: `routing: bloc` with a capacity of 10.
//! - *bids*: `routing: bid` without a capacity. Then every answer carries a chip, no server is ever
//!   avoided, and chips decide nothing.
//! - *both*: `routing: bid` with that capacity.
//!
//! 40 frontends, 10 backends with one request at a time, and Poisson arrivals at 90% of what they
//! can do, but at most 900 a second, which two cores can just handle: at 10 ms these are 90%, at 1
//! ms 9%. All times except that of the measurement follow the service time. The reset interval is
//! four service times, at least 20 ms.

pub mod command;
pub mod page;

use crate::case::Case;
use crate::record::Record;
use bloc_mesh::MeshSpec;
use bloc_mesh::load::Load;
use bloc_mesh::policy::Policy;
use bloc_policy::config::CapacitySpec;
use std::time::Duration;

/// The prefix of the experiments' names in `summary.json`.
pub const PREFIX: &str = "ablation-";
/// The service times in milliseconds.
pub const SERVICE_TIMES: [u64; 4] = [1, 10, 50, 250];
/// The parts in use; each is the name of its experiment after [`PREFIX`].
pub const PARTS: [&str; 4] = ["neither", "chips", "bids", "both"];

const SHARE: f64 = 0.9;
const MOST_RATE: f64 = 900.0;
const WARM_UP: Duration = Duration::from_secs(3);
const LIMIT: i64 = 10;

/// The cases, each measured for `duration`. Cases of the longest service time have few requests and
/// are measured for twice as long.
pub fn cases(duration: Duration, seed: u64) -> Vec<Case> {
    let capacity = || Some(CapacitySpec::Static { limit: LIMIT });
    let case = |millis: u64, part: &str| {
        let service_time = Duration::from_millis(millis);
        let (policy, capacity) = match part {
            "chips" => (Policy::Bloc, capacity()),
            "bids" => (Policy::Bid, None),
            "both" => (Policy::Bid, capacity()),
            _ => (Policy::LeastRequest, None),
        };
        let reset_interval = (4 * service_time).max(Duration::from_millis(20));
        let mesh = MeshSpec { capacity, reset_interval, seed, ..MeshSpec::fleet(policy, 40, service_time.into()) };
        Case {
            experiment: Some(format!("{PREFIX}{part}")),
            load: Load::Poisson { rate: (SHARE * mesh.total_rate(mesh.backends)).min(MOST_RATE) },
            keep_alive: false,
            timeout: Duration::from_secs(20),
            warm_up: WARM_UP.max(30 * service_time),
            duration: if millis > 100 { 2 * duration } else { duration },
            mesh,
        }
    };
    SERVICE_TIMES.iter().flat_map(|&millis| PARTS.iter().map(move |part| case(millis, part))).collect()
}

/// Bounced attempts per request: because of their bid, and because of the capacity.
pub fn bounces(record: &Record) -> [f64; 2] {
    ["rejected_bid", "rejected_capacity"].map(|reason| {
        let count: u64 = record
            .counters
            .iter()
            .filter(|(name, _)| name.starts_with("bloc.inbound.") && name.ends_with(reason))
            .map(|(_, count)| count)
            .sum();
        count as f64 / record.row.requests.max(1) as f64
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::example::record;

    #[test]
    fn runs_four_variants_at_four_service_times_within_8_minutes() {
        let cases = cases(Duration::from_secs(15), 1);
        assert_eq!(cases.len(), 16);
        let loads: Vec<String> = cases.iter().step_by(4).map(|case| case.load.to_string()).collect();
        assert_eq!(loads, ["poisson:900", "poisson:900", "poisson:180", "poisson:36"]);
        let parts: Vec<_> = cases[..4].iter().map(|case| (case.mesh.policy, case.mesh.capacity.is_some())).collect();
        let expected = [(Policy::LeastRequest, false), (Policy::Bloc, true), (Policy::Bid, false), (Policy::Bid, true)];
        assert_eq!(parts, expected);
        let total: Duration = cases.iter().map(|case| case.warm_up + case.duration).sum();
        assert!(total < Duration::from_secs(8 * 60), "{total:?}, and the starts of 16 meshes");
    }

    #[test]
    fn counts_bounces_per_request_by_reason() {
        let mut record = record(Policy::Bid, 40, [1.0; 4], 1.0);
        record.row.requests = 100;
        for (name, count) in [
            ("bloc.inbound.backend.rejected_bid", 150),
            ("bloc.inbound.backend.rejected_capacity", 20),
            ("bloc.inbound.backend.rejected_deadline", 7),
            ("bloc.outbound.backend.rejections", 170),
        ] {
            record.counters.insert(name.to_owned(), count);
        }
        assert_eq!(bounces(&record), [1.5, 0.2]);
    }
}
