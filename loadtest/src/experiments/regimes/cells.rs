//! The cells, their candidates and their bounds.

use crate::case::Case;
use crate::experiments::goals::{Bound, Candidate, Claim, Figure, Kind, Name};
use bloc_figures::service_time::ServiceTime;
use bloc_figures::stats::rounded;
use bloc_mesh::MeshSpec;
use bloc_mesh::load::Load;
use bloc_mesh::policy::Policy;
use bloc_policy::config::CapacitySpec;
use std::time::Duration;

/// The names of all cells, in the order in which they run.
pub const CELLS: [&str; 12] = [
    "one-place-50",
    "one-place-90",
    "one-place-95",
    "three-servers-90",
    "lognormal-held-70",
    "mixed-held-70",
    "four-places-90",
    "twenty-places-50",
    "twenty-places-90",
    "one-slow-90",
    "never-pause",
    "overload-200",
];

const FRONTENDS: usize = 40;
const TIMEOUT: Duration = Duration::from_secs(20);
/// Envoy's engine recompiles hot functions under load, and the filters measure the servers' speed.
const WARM_UP: Duration = Duration::from_secs(12);

/// What a cell compares bids with.
#[derive(Clone, Copy)]
enum Beside {
    /// Least request, full scan, in each sidecar, and in one that sees all.
    LeastRequest,
    /// BLOC with the same capacity.
    Bloc,
}

/// A cell as it stands in the table below.
struct Row {
    name: &'static str,
    what: &'static str,
    backends: usize,
    concurrency: usize,
    time: ServiceTime,
    slow: Option<f64>,
    hold: bool,
    /// The load as a share of the servers' total rate; none: 100 clients that never pause.
    share: Option<f64>,
    beside: Beside,
}

fn rows() -> [Row; 12] {
    let fixed = |millis| ServiceTime::Fixed(Duration::from_millis(millis));
    let exponential = |millis| ServiceTime::Exponential(Duration::from_millis(millis));
    let lognormal = ServiceTime::Lognormal(Duration::from_millis(50), 1.5);
    let mixed = ServiceTime::Mix(Duration::from_millis(10), Duration::from_millis(400), 0.05);
    let row = |name, what, (backends, concurrency), time, share| Row {
        name,
        what,
        backends,
        concurrency,
        time,
        slow: None,
        hold: false,
        share: Some(share),
        beside: Beside::LeastRequest,
    };
    [
        row("one-place-50", "10 servers, one request at a time, 50 ms, 50% load", (10, 1), fixed(50), 0.5),
        row("one-place-90", "10 servers, one request at a time, 50 ms, 90% load", (10, 1), fixed(50), 0.9),
        row("one-place-95", "10 servers, one request at a time, 50 ms, 95% load", (10, 1), fixed(50), 0.95),
        row("three-servers-90", "3 servers, one request at a time, 50 ms, 90% load", (3, 1), fixed(50), 0.9),
        Row {
            hold: true,
            ..row(
                "lognormal-held-70",
                "10 servers, one request at a time, lognormal 50 ms (sigma 1.5), `hold: true`, 70% load",
                (10, 1),
                lognormal,
                0.7,
            )
        },
        Row {
            hold: true,
            ..row(
                "mixed-held-70",
                "10 servers, one request at a time, 95% of 10 ms and 5% of 400 ms, `hold: true`, 70% load",
                (10, 1),
                mixed,
                0.7,
            )
        },
        row("four-places-90", "10 servers, 4 at a time, exponential 100 ms, 90% load", (10, 4), exponential(100), 0.9),
        row(
            "twenty-places-50",
            "5 servers, 20 at a time, exponential 250 ms, 50% load",
            (5, 20),
            exponential(250),
            0.5,
        ),
        row(
            "twenty-places-90",
            "5 servers, 20 at a time, exponential 250 ms, 90% load",
            (5, 20),
            exponential(250),
            0.9,
        ),
        Row {
            slow: Some(0.5),
            ..row(
                "one-slow-90",
                "5 servers, one of them at half speed, 20 at a time, exponential 250 ms, 90% load",
                (5, 20),
                exponential(250),
                0.9,
            )
        },
        Row {
            share: None,
            ..row(
                "never-pause",
                "10 servers, one at a time, 50 ms, 100 clients that never pause",
                (10, 1),
                fixed(50),
                0.0,
            )
        },
        Row {
            beside: Beside::Bloc,
            ..row("overload-200", "10 servers, one at a time, 50 ms, `capacity` 10, 200% load", (10, 1), fixed(50), 2.0)
        },
    ]
}

/// All cells, each candidate measured for `duration`. `seed` is that of the first round.
pub fn cells(duration: Duration, seed: u64) -> Vec<Kind> {
    rows().into_iter().map(|row| cell(&row, duration, seed)).collect()
}

fn cell(row: &Row, duration: Duration, seed: u64) -> Kind {
    let speeds = row.slow.map(|slow| std::iter::once(slow).chain((1..row.backends).map(|_| 1.0)).collect());
    let mesh = MeshSpec {
        backends: row.backends,
        concurrency: row.concurrency,
        speeds: speeds.unwrap_or_default(),
        seed,
        ..MeshSpec::fleet(Policy::LeastRequestOfAll, FRONTENDS, row.time)
    };
    let rate = |share: f64| Load::Poisson { rate: rounded(share * mesh.total_rate(mesh.backends), 1e3) };
    let load = row.share.map_or(Load::Closed { clients: 100 }, rate);
    let bids = MeshSpec { policy: Policy::Bid, hold: row.hold, ..mesh.clone() };
    let capacity = Some(CapacitySpec::Static { limit: 10 });
    let meshes = match row.beside {
        Beside::LeastRequest => vec![
            (Name::FullScan, mesh.clone()),
            (Name::Bids, bids),
            (Name::Central, MeshSpec { policy: Policy::LeastRequest, frontends: 1, ..mesh.clone() }),
        ],
        Beside::Bloc => vec![
            (Name::Bloc, MeshSpec { policy: Policy::Bloc, capacity: capacity.clone(), ..mesh.clone() }),
            (Name::Bids, MeshSpec { capacity, ..bids }),
        ],
    };
    let candidate = |(name, mesh)| Candidate {
        name,
        case: Case {
            experiment: Some(row.name.to_owned()),
            mesh,
            load,
            keep_alive: false,
            timeout: TIMEOUT,
            warm_up: WARM_UP,
            duration,
        },
    };
    Kind { name: row.name, what: row.what, candidates: meshes.into_iter().map(candidate).collect() }
}

const fn ratio(id: &'static str, figure: Figure, over: Name, most: f64) -> Claim {
    Claim { id, figure, of: Name::Bids, over: Some(over), bound: Some(Bound::AtMost(most)) }
}

const fn attempts(id: &'static str, most: f64) -> Claim {
    Claim { id, figure: Figure::Attempts, of: Name::Bids, over: None, bound: Some(Bound::AtMost(most)) }
}

const fn lost(id: &'static str) -> Claim {
    Claim { id, figure: Figure::Lost, of: Name::Bids, over: None, bound: Some(Bound::None) }
}

const fn beside(id: &'static str, figure: Figure) -> Claim {
    Claim { id, figure, of: Name::Bids, over: Some(Name::FullScan), bound: None }
}

/// The bounds. A p99 of 1.03 of full scan, and attempts at 50 and 70% load, are claims of the
/// simulator's map; the others are aims for this stand.
pub const BOUNDS: &[Claim] = {
    use Figure::{Attempts, Cpu, Mean, P50, P99};
    use Name::{Bloc, Central, FullScan};
    &[
        ratio("one-place-50/p99", P99, FullScan, 1.03),
        attempts("one-place-50/attempts", 1.6),
        ratio("one-place-90/p99", P99, FullScan, 0.40),
        ratio("one-place-90/p99-central", P99, Central, 1.4),
        ratio("one-place-90/cpu", Cpu, FullScan, 1.5),
        attempts("one-place-90/attempts", 1.9),
        beside("one-place-90/p50", P50),
        lost("one-place-90/lost"),
        ratio("one-place-95/p99", P99, FullScan, 0.50),
        ratio("one-place-95/cpu", Cpu, FullScan, 1.5),
        ratio("three-servers-90/p99", P99, FullScan, 1.03),
        beside("three-servers-90/p50", P50),
        ratio("lognormal-held-70/p99-central", P99, Central, 1.05),
        ratio("lognormal-held-70/cpu", Cpu, FullScan, 1.7),
        attempts("lognormal-held-70/attempts", 2.2),
        lost("lognormal-held-70/lost"),
        ratio("mixed-held-70/p99", P99, FullScan, 1.03),
        attempts("mixed-held-70/attempts", 2.2),
        ratio("four-places-90/p99-central", P99, Central, 1.12),
        ratio("four-places-90/cpu", Cpu, FullScan, 1.4),
        beside("four-places-90/p50", P50),
        ratio("twenty-places-50/p99", P99, FullScan, 1.03),
        attempts("twenty-places-50/attempts", 1.4),
        ratio("twenty-places-90/p99", P99, FullScan, 1.03),
        ratio("twenty-places-90/p50", P50, FullScan, 0.98),
        ratio("twenty-places-90/cpu", Cpu, FullScan, 1.3),
        attempts("twenty-places-90/attempts", 1.3),
        lost("twenty-places-90/lost"),
        ratio("one-slow-90/p99", P99, FullScan, 0.80),
        ratio("one-slow-90/mean", Mean, FullScan, 1.0),
        ratio("one-slow-90/cpu", Cpu, FullScan, 1.4),
        ratio("never-pause/p99", P99, FullScan, 0.60),
        lost("never-pause/lost"),
        ratio("overload-200/cpu", Cpu, Bloc, 1.1),
        ratio("overload-200/attempts", Attempts, Bloc, 1.1),
    ]
};

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn all() -> Vec<Kind> {
        cells(Duration::from_secs(15), 3)
    }

    #[test]
    fn each_cell_has_a_bound_and_each_bound_a_cell_with_its_candidates() {
        let all = all();
        assert_eq!(all.iter().map(|cell| cell.name).collect::<Vec<_>>(), CELLS);
        for bound in BOUNDS {
            let cell = all.iter().find(|cell| cell.name == bound.kind()).unwrap();
            for name in std::iter::once(bound.of).chain(bound.over) {
                assert!(cell.candidates.iter().any(|candidate| candidate.name == name), "{}: {name:?}", bound.id);
            }
        }
        assert!(CELLS.iter().all(|cell| BOUNDS.iter().any(|bound| bound.kind() == *cell && bound.bound.is_some())));
        assert_eq!(BOUNDS.iter().map(|bound| bound.id).collect::<BTreeSet<_>>().len(), BOUNDS.len());
    }

    #[test]
    fn candidates_of_a_cell_differ_only_in_who_balances() {
        for cell in all() {
            let first = &cell.candidates[0].case;
            for Candidate { name, case } in &cell.candidates {
                let same = |case: &Case| (case.mesh.service_time, case.mesh.speeds.clone(), case.load);
                assert_eq!(same(case), same(first), "{}", cell.name);
                let of_bids = *name == Name::Bids;
                assert_eq!(
                    (case.mesh.policy == Policy::Bid, case.mesh.hold),
                    (of_bids, of_bids && cell.name.contains("held"))
                );
                assert_eq!(case.mesh.capacity.is_some(), cell.name == "overload-200");
            }
        }
        let loads: Vec<String> = all().iter().map(|cell| cell.candidates[0].case.load.to_string()).collect();
        let rates = ["100", "180", "190", "54", "140", "237.288", "360", "200", "360", "324"]
            .map(|rate| format!("poisson:{rate}"));
        assert_eq!((&loads[..10], loads[10].as_str(), loads[11].as_str()), (&rates[..], "closed:100", "poisson:400"));
        assert_eq!(all()[9].candidates[1].case.mesh.speeds, [0.5, 1.0, 1.0, 1.0, 1.0]);
    }
}
