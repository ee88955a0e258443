//! What is measured: kinds of traffic and servers, and the candidates that each kind compares.

use super::claims::Name;
use crate::case::Case;
use crate::heterogeneous;
use crate::rounds;
use bloc_figures::service_time::ServiceTime;
use bloc_figures::stats::rounded;
use bloc_mesh::MeshSpec;
use bloc_mesh::envoy::Guard;
use bloc_mesh::load::Load;
use bloc_mesh::policy::Policy;
use bloc_policy::config::CapacitySpec;
use std::time::Duration;

/// The names of all kinds, in the order in which they run.
pub const KINDS: [&str; 6] = ["one-place", "few-places", "many-places", "unequal", "overload", "cheap"];

/// Sidecars of all kinds but `unequal`, whose frontends are gateways.
const FRONTENDS: usize = 40;
/// The load of the kinds without overload, as a share of the servers' total rate.
const SHARE: f64 = 0.9;
/// The load of `overload`, as a share of the servers' total rate.
const OVERLOAD: f64 = 1.5;
/// How long the clients of `overload` wait for an answer.
const CLIENT_TIMEOUT: Duration = Duration::from_secs(2);
/// How long all other clients wait for an answer.
const TIMEOUT: Duration = Duration::from_secs(20);
/// Requests in flight that a server of `overload` admits with BLOC.
const CAPACITY: i64 = 10;
/// The same limit for stock Envoy: 3 from each of 40 senders are 120 in flight, where ten servers
/// of BLOC admit 100; 2 would leave servers idle. An attempt may take nearly as long as clients
/// wait.
const GUARD: Guard = Guard { requests: 3, attempt: Duration::from_millis(1_900) };
/// Requests per second of `cheap`. Two cores keep up with them, whatever the filters do.
const CHEAP_RATE: f64 = 300.0;
/// Under load, Envoy's engine recompiles a module's hot functions, some tenths of a second for each
/// worker. The filters also have to measure the servers' rates.
const FIRST_WARM_UP: Duration = Duration::from_secs(10);
/// Later rounds only need a queue. A shorter warm-up flatters the baselines, whose queues grow
/// longest.
const WARM_UP: Duration = Duration::from_secs(4);

/// One kind of servers and traffic.
#[derive(Clone, Debug)]
pub struct Kind {
    /// Its name in ids, files and `--only`.
    pub name: &'static str,
    /// What it is, for a reader who has read nothing else.
    pub what: &'static str,
    /// What is compared, each on a mesh of its own.
    pub candidates: Vec<Candidate>,
}

/// A policy on a mesh, under the load of its kind.
#[derive(Clone, Debug)]
pub struct Candidate {
    /// Its name, unique in its kind.
    pub name: Name,
    /// The case, as it runs in the first round.
    pub case: Case,
}

/// All kinds in the order of [`KINDS`], each candidate measured for `duration`. `seed` is that of
/// the first round.
pub fn kinds(duration: Duration, seed: u64) -> Vec<Kind> {
    let fleets = |mesh: MeshSpec| {
        [
            (Name::TwoChoices, Policy::LeastRequest, FRONTENDS),
            (Name::FullScan, Policy::LeastRequestOfAll, FRONTENDS),
            (Name::Bids, Policy::Bid, FRONTENDS),
            (Name::Central, Policy::LeastRequest, 1),
        ]
        .map(|(name, policy, frontends)| (name, MeshSpec { policy, frontends, ..mesh.clone() }))
    };
    let fixed = |millis| ServiceTime::Fixed(Duration::from_millis(millis));
    let exponential = |millis| ServiceTime::Exponential(Duration::from_millis(millis));
    let fleet = |backends, concurrency, time| MeshSpec {
        backends,
        concurrency,
        ..MeshSpec::fleet(Policy::LeastRequest, FRONTENDS, time)
    };
    let kind = |name, what, load: fn(&MeshSpec) -> f64, meshes: Vec<(Name, MeshSpec)>| Kind {
        name,
        what,
        candidates: meshes
            .into_iter()
            .map(|(candidate, mesh)| {
                let load = Load::Poisson { rate: load(&mesh) };
                let mesh = MeshSpec { seed, ..mesh };
                Candidate { name: candidate, case: case(name, mesh, load, duration) }
            })
            .collect(),
    };
    let [one_place, cheap] = [fixed(50), fixed(2)].map(|time| fleet(10, 1, time));
    vec![
        kind(
            "one-place",
            "10 servers, one request at a time, 50 ms each, 90% load: the case that suits bids best",
            usual_load,
            fleets(one_place.clone()).into(),
        ),
        kind(
            "few-places",
            "10 servers, 2 requests at a time, exponential 100 ms, 90% load",
            usual_load,
            fleets(fleet(10, 2, exponential(100))).into(),
        ),
        kind(
            "many-places",
            "5 servers, 20 requests at a time, exponential 500 ms, 90% load",
            usual_load,
            fleets(fleet(5, 20, exponential(500))).into(),
        ),
        kind(
            "unequal",
            "4 servers, two of them twice as fast, 4 requests at a time in 100 or 200 ms, 90% load",
            usual_load,
            unequal(seed),
        ),
        kind(
            "overload",
            "10 servers, one request at a time, 50 ms each, 150% load, clients that wait for 2 s",
            |mesh| rounded(OVERLOAD * mesh.total_rate(mesh.backends), 1e3),
            overload(&one_place),
        ),
        kind(
            "cheap",
            "10 servers, one request at a time, 2 ms each, 6% load: filters only cost CPU",
            |_| CHEAP_RATE,
            [(Name::TwoChoices, Policy::LeastRequest), (Name::Noop, Policy::NoopFilters), (Name::Bids, Policy::Bid)]
                .map(|(name, policy)| (name, MeshSpec { policy, ..cheap.clone() }))
                .into(),
        ),
    ]
}

/// One gateway that sees all requests, and ten that see a part each.
fn unequal(seed: u64) -> Vec<(Name, MeshSpec)> {
    let candidates = [
        (Name::TwoChoicesOne, Policy::LeastRequest, 1),
        (Name::FullScanOne, Policy::LeastRequestOfAll, 1),
        (Name::MuOne, Policy::Mu, 1),
        (Name::TwoChoicesTen, Policy::LeastRequest, 10),
        (Name::FullScanTen, Policy::LeastRequestOfAll, 10),
        (Name::MuTen, Policy::Mu, 10),
        (Name::BidsTen, Policy::Bid, 10),
    ];
    candidates.map(|(name, policy, gateways)| (name, heterogeneous::mesh(policy, gateways, seed, true))).into()
}

/// The candidates under overload. A new one is one more line here, and a [`Name`].
fn overload(mesh: &MeshSpec) -> Vec<(Name, MeshSpec)> {
    let capacity = Some(CapacitySpec::Static { limit: CAPACITY });
    vec![
        (Name::TwoChoices, mesh.clone()),
        (Name::Tuned, MeshSpec { guard: Some(GUARD), ..mesh.clone() }),
        (Name::Bloc, MeshSpec { policy: Policy::Bloc, capacity, ..mesh.clone() }),
    ]
}

fn usual_load(mesh: &MeshSpec) -> f64 {
    rounded(SHARE * mesh.total_rate(mesh.backends), 1e3)
}

fn case(kind: &str, mesh: MeshSpec, load: Load, duration: Duration) -> Case {
    Case {
        experiment: Some(kind.to_owned()),
        mesh,
        load,
        keep_alive: kind == "cheap",
        timeout: if kind == "overload" { CLIENT_TIMEOUT } else { TIMEOUT },
        warm_up: FIRST_WARM_UP,
        duration,
    }
}

/// The case as it runs in this round, counted from 0. The mesh runs since the first round.
pub fn in_round(case: &Case, round: usize) -> Case {
    let case = rounds::in_round(case, round);
    if round == 0 { case } else { Case { warm_up: WARM_UP, ..case } }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bloc_mesh::envoy::Balancing;

    fn all() -> Vec<Kind> {
        kinds(Duration::from_secs(15), 3)
    }

    #[test]
    fn all_candidates_of_a_kind_have_the_same_load_and_servers() {
        let kinds = all();
        assert_eq!(kinds.iter().map(|kind| kind.name).collect::<Vec<_>>(), KINDS);
        let loads: Vec<String> = kinds.iter().map(|kind| kind.candidates[0].case.load.to_string()).collect();
        assert_eq!(loads, ["180", "180", "180", "108", "300", "300"].map(|rate| format!("poisson:{rate}")));
        assert_eq!(kinds.iter().map(|kind| kind.candidates.len()).collect::<Vec<_>>(), [4, 4, 4, 7, 3, 3]);
        for kind in &kinds {
            let first = &kind.candidates[0].case;
            for Candidate { case, .. } in &kind.candidates {
                assert_eq!((case.load, case.arrivals_seed()), (first.load, first.arrivals_seed()), "{}", kind.name);
                let same = |mesh: &MeshSpec| (mesh.service_time, mesh.backends, mesh.concurrency, mesh.speeds.clone());
                assert_eq!(same(&case.mesh), same(&first.mesh), "{}", kind.name);
                assert_eq!(
                    case.mesh.hold,
                    case.mesh.policy == Policy::Mu,
                    "holding costs the other policies 0.3 ms a request"
                );
            }
        }
    }

    #[test]
    fn each_candidate_uses_the_balancing_that_its_name_says() {
        for Candidate { name, case } in all().into_iter().flat_map(|kind| kind.candidates) {
            let balancing = case.mesh.policy.balancing(case.mesh.frontends, case.mesh.two_choices);
            let expected = match name {
                Name::TwoChoices | Name::TwoChoicesOne | Name::TwoChoicesTen | Name::Tuned | Name::Noop => {
                    Balancing::LeastRequestOfTwo
                }
                Name::FullScan | Name::FullScanOne | Name::FullScanTen | Name::Central => Balancing::LeastRequestOfAll,
                _ => Balancing::ChosenByFilter,
            };
            assert_eq!(balancing, expected, "{name:?}");
        }
    }

    #[test]
    fn rounds_after_the_first_have_other_arrivals_and_a_shorter_warm_up() {
        let case = &all()[0].candidates[0].case;
        let [first, second] = [0, 1].map(|round| in_round(case, round));
        assert_eq!(first, *case);
        assert_eq!((first.warm_up, second.warm_up), (FIRST_WARM_UP, WARM_UP));
        assert_ne!(first.arrivals_seed(), second.arrivals_seed());
        let measured: Duration = all()
            .iter()
            .flat_map(|kind| &kind.candidates)
            .flat_map(|candidate| (0..5).map(|round| in_round(&candidate.case, round)))
            .map(|case| case.warm_up + case.duration)
            .sum();
        assert!(measured < Duration::from_secs(44 * 60 + 30), "{measured:?}, and the starts of 26 meshes");
    }
}
