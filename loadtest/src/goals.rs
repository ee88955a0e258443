//! What bids must show on real Envoys: the cases, and each claim with its aim.
//!
//! 40 frontends, 10 backends that serve one request at a time, Poisson arrivals. *Central* is one frontend, which sees everything: least request of all, where speeds differ Mu's
//! (queue + 1) / capacity. Every claim compares runs of the same rounds with the same arrivals; the values are medians of the rounds.

use crate::backend::ServiceTime;
use crate::case::Case;
use crate::load::Load;
use crate::mesh::MeshSpec;
use crate::policy::Policy;
use crate::record::Record;
use crate::rounds::Runs;
use serde::Serialize;
use std::time::Duration;

/// Long enough for the engine to have compiled the hot functions anew, which costs each worker some tenths of a second once.
const WARM_UP: Duration = Duration::from_secs(10);
const FRONTENDS: usize = 40;
/// Requests per second of the 2 ms cases: with CPU to spare, and near what two cores can do for 52 processes.
const FAST_RATES: [(&str, f64); 2] = [("2ms-300", 300.0), ("2ms-900", 900.0)];
/// Clients of the 2 ms case that asks for throughput: more than the machine can keep up with.
const FAST_CLIENTS: usize = 40;

/// The cases, each measured for `duration`.
pub fn cases(duration: Duration, seed: u64) -> Vec<Case> {
    let case = |name: &str, mesh: MeshSpec, load| Case {
        experiment: Some(name.to_owned()),
        mesh: MeshSpec { seed, ..mesh },
        load,
        keep_alive: name.starts_with("2ms"),
        timeout: Duration::from_secs(20),
        warm_up: WARM_UP,
        duration,
    };
    let at = |share: f64, mesh: &MeshSpec| Load::Poisson {
        rate: crate::record::rounded(share * mesh.total_rate(mesh.backends), 1e3),
    };
    let candidates = |time: ServiceTime| {
        [(Policy::LeastRequest, FRONTENDS), (Policy::Bid, FRONTENDS), (Policy::LeastRequest, 1)]
            .map(|(policy, frontends)| MeshSpec::fleet(policy, frontends, time))
    };
    let fixed = |millis| ServiceTime::Fixed(Duration::from_millis(millis));
    let mut cases = Vec::new();
    for mesh in candidates(fixed(50)) {
        for (name, share) in [("50ms-90", 0.9), ("50ms-95", 0.95)] {
            cases.push(case(name, mesh.clone(), at(share, &mesh)));
        }
    }
    let [least, bid, _] = candidates(fixed(50));
    for mesh in [least, bid, MeshSpec::fleet(Policy::Mu, 1, fixed(50))] {
        let mesh = MeshSpec { speeds: vec![2.0, 1.0], ..mesh };
        cases.push(case("two-speeds-95", mesh.clone(), at(0.95, &mesh)));
    }
    let [least, bid, _] = candidates(ServiceTime::Exponential(Duration::from_millis(10)));
    for mesh in [least, bid] {
        cases.push(case("10ms-exponential-90", mesh.clone(), at(0.9, &mesh)));
    }
    let [least, bid, _] = candidates(fixed(2));
    for mesh in [least, bid, MeshSpec::fleet(Policy::NoopFilters, FRONTENDS, fixed(2))] {
        for (name, rate) in FAST_RATES {
            cases.push(case(name, mesh.clone(), Load::Poisson { rate }));
        }
        cases.push(case("2ms-closed", mesh, Load::Closed { clients: FAST_CLIENTS }));
    }
    cases
}

/// A claim, and what was measured.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Goal {
    /// The cases' name.
    pub experiment: String,
    /// What is compared.
    pub what: &'static str,
    /// What it is to be.
    pub aim: String,
    /// The medians of the two that are compared; of what is counted there is no other.
    pub values: (f64, Option<f64>),
    /// What the aim is about: their ratio, or the count.
    pub measured: f64,
    /// Whether it is so; none: this is no claim, but there to compare with.
    pub holds: Option<bool>,
}

/// A policy in so many frontends.
type Candidate = (Policy, usize);

const BIDS: Candidate = (Policy::Bid, FRONTENDS);
const LEAST: Candidate = (Policy::LeastRequest, FRONTENDS);
const CENTRAL: Candidate = (Policy::LeastRequest, 1);
const CENTRAL_MU: Candidate = (Policy::Mu, 1);
/// What any Wasm filters cost.
const NOOP: Candidate = (Policy::NoopFilters, FRONTENDS);

#[derive(Clone, Copy)]
enum Aim {
    AtMost(f64),
    AtLeast(f64),
    /// Beside the claims.
    Nothing,
}

/// The claims about these runs; those whose runs are not there, or were not answered, are left out.
pub fn goals(runs: &[Runs]) -> Vec<Goal> {
    let p50 = |record: &Record| record.row.p50_ms;
    let p99 = |record: &Record| record.row.p99_ms;
    let cpu = |record: &Record| record.row.envoy_cpu_ms_per_request;
    let rate = |record: &Record| Some(record.row.throughput_rps);
    let mut goals = Vec::new();
    let mut add = |goal: Option<Goal>| goals.extend(goal);
    for name in ["50ms-90", "50ms-95"] {
        add(ratio(runs, name, "p99, bids / least request", p99, [BIDS, LEAST], Aim::AtMost(0.4)));
        add(ratio(runs, name, "p99, bids / central", p99, [BIDS, CENTRAL], Aim::AtMost(1.25)));
        add(ratio(runs, name, "CPU per request, bids / least request", cpu, [BIDS, LEAST], Aim::AtMost(1.5)));
        add(unanswered(runs, name));
    }
    let name = "two-speeds-95";
    add(ratio(runs, name, "p99, bids / least request", p99, [BIDS, LEAST], Aim::AtMost(0.25)));
    let what = "p99, bids / central (queue + 1) / capacity";
    add(ratio(runs, name, what, p99, [BIDS, CENTRAL_MU], Aim::AtMost(1.35)));
    let name = "10ms-exponential-90";
    add(ratio(runs, name, "p99, bids / least request", p99, [BIDS, LEAST], Aim::AtMost(0.6)));
    for (name, _) in FAST_RATES {
        add(ratio(runs, name, "p50, bids / least request", p50, [BIDS, LEAST], Aim::AtMost(1.0 / 0.97)));
        add(ratio(runs, name, "answered/s, bids / least request", rate, [BIDS, LEAST], Aim::AtLeast(0.97)));
        add(ratio(runs, name, "p50, no-op filters / least request", p50, [NOOP, LEAST], Aim::Nothing));
    }
    let name = "2ms-closed";
    add(ratio(runs, name, "answered/s, bids / least request", rate, [BIDS, LEAST], Aim::AtLeast(0.97)));
    add(ratio(runs, name, "answered/s, no-op filters / least request", rate, [NOOP, LEAST], Aim::Nothing));
    goals
}

/// The runs of a case with this candidate.
fn find<'a>(runs: &'a [Runs], experiment: &str, candidate: Candidate) -> Option<&'a Runs> {
    let named = |run: &&Runs| run.case.experiment.as_deref() == Some(experiment);
    runs.iter().filter(named).find(|run| (run.case.mesh.policy, run.case.mesh.frontends) == candidate)
}

fn ratio(
    runs: &[Runs],
    experiment: &str,
    what: &'static str,
    value: impl Fn(&Record) -> Option<f64>,
    candidates: [Candidate; 2],
    aim: Aim,
) -> Option<Goal> {
    let [Some(one), Some(other)] = candidates.map(|candidate| find(runs, experiment, candidate)?.median(&value)) else {
        return None;
    };
    let measured = one / other;
    let (aim, holds) = match aim {
        Aim::AtMost(most) => (format!("at most {most:.2}"), Some(measured <= most)),
        Aim::AtLeast(least) => (format!("at least {least:.2}"), Some(measured >= least)),
        Aim::Nothing => ("-".to_owned(), None),
    };
    Some(Goal { experiment: experiment.to_owned(), what, aim, values: (one, Some(other)), measured, holds })
}

/// Requests with bids, in all rounds, that no application answered.
fn unanswered(runs: &[Runs], experiment: &str) -> Option<Goal> {
    let bids = find(runs, experiment, BIDS)?;
    let count = bids.records.iter().map(|record| record.row.shed + record.row.errors).sum::<u64>() as f64;
    Some(Goal {
        experiment: experiment.to_owned(),
        what: "shed or failed with bids, all rounds",
        aim: "none".to_owned(),
        values: (count, None),
        measured: count,
        holds: Some(count == 0.0),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::example::record;
    use crate::rounds::by_mesh;

    /// Two rounds of every case: with bids and without.
    fn runs(bids: [f64; 4], others: [f64; 4], rps: [f64; 2]) -> Vec<Runs> {
        let run = |case: Case| {
            let ours = case.mesh.policy == Policy::Bid;
            let (percentiles, rps) = if ours { (bids, rps[0]) } else { (others, rps[1]) };
            let record = record(case.mesh.policy, case.mesh.frontends, percentiles, rps);
            Runs { case, records: vec![record.clone(), record] }
        };
        cases(Duration::from_secs(1), 1).into_iter().map(run).collect()
    }

    #[test]
    fn the_cases_are_those_of_the_claims() {
        let cases = cases(Duration::from_secs(20), 1);
        let load = |name: &str| cases.iter().find(|case| case.name() == name).unwrap().load.to_string();
        assert_eq!(load("50ms-95-bid-40"), "poisson:190");
        assert_eq!(load("two-speeds-95-mu-1"), "poisson:285");
        assert_eq!(load("10ms-exponential-90-least_request-40"), "poisson:900");
        assert!(!cases.iter().any(|case| case.mesh.hold), "whoever holds loses 2 ms a request");
        assert_eq!(by_mesh(&cases).len(), 3 + 3 + 2 + 3);
    }

    #[test]
    fn every_claim_is_there_and_each_bound_counts() {
        let all = goals(&runs([1.0, 97.0, 1.0, 25.0], [1.0, 97.0, 1.0, 100.0], [97.0, 100.0]));
        assert_eq!(all.len(), 2 * 4 + 2 + 1 + 2 * 3 + 2);
        assert!(all.iter().all(|goal| goal.holds != Some(false)), "{all:?}");
        assert_eq!(all.iter().filter(|goal| goal.holds.is_none()).count(), 3);
        let mut bad = runs([1.0, 100.1, 1.0, 100.0], [1.0, 97.0, 1.0, 70.0], [96.9, 100.0]);
        for run in bad.iter_mut().filter(|run| run.case.mesh.policy == Policy::Bid) {
            run.records[1].row.shed = 1;
            run.records.iter_mut().for_each(|record| record.row.envoy_cpu_ms_per_request = Some(1.6));
        }
        let all = goals(&bad);
        assert!(all.iter().all(|goal| goal.holds != Some(true)), "{all:?}");
    }

    #[test]
    fn what_was_not_run_is_not_claimed() {
        let mut some = runs([1.0; 4], [1.0; 4], [1.0; 2]);
        some.retain(|run| run.case.mesh.frontends == 1 || run.case.mesh.policy == Policy::Bid);
        let whats: Vec<_> = goals(&some).iter().map(|goal| (goal.experiment.clone(), goal.what)).collect();
        assert_eq!(whats.len(), 2 * 2 + 1, "{whats:?}");
    }
}
