//! A small part of the map of regimes, so that a claim that a change loses shows at once.

use bloc_policy::config::CapacitySpec;
use bloc_sim::Scenario;
use bloc_sim::policies::PolicyKind::{self, Bid, LeastRequestFull, Random};
use bloc_sim::regimes::{Cell, Claim, Figures, POLICIES, Runs, Size, corners, judge};

const SEEDS: u64 = 3;
const SIZE: Size = Size { answers: 5_000, warm_up: 500 };

/// Cells in which bids gain.
const GAINS: [&str; 4] = [
    "10 x 1, fixed 50 ms, 90%, 40 senders, no hold",
    "10 x 4, exponential 100 ms, 90%, 40 senders, concurrency unknown",
    "10 x 1, fixed 50 ms, one at a tenth, 70%, 40 senders, no hold",
    "5 x 20, exponential 250 ms, one at half speed, 90%, 40 senders, no hold",
];
/// Cells in which there is nothing to gain.
const NO_GAIN: [&str; 2] = [
    "5 x 20, exponential 250 ms, 90%, 40 senders, no hold",
    "10 x 20, exponential 50 ms, 90%, 40 senders, concurrency unknown",
];
const OVERLOAD: &str = "10 x 1, fixed 50 ms, 200%, 40 senders, no hold";

fn cell(name: &str) -> Cell {
    corners().into_iter().find(|cell| cell.to_string() == name).unwrap_or_else(|| panic!("no cell {name}"))
}

/// The cell's simulations; `change` is applied to those of bids.
fn simulate(cell: Cell, change: impl Fn(&mut Scenario)) -> Runs {
    let of_policy = |policy: PolicyKind| {
        let of_seed = |seed| {
            let mut scenario = cell.scenario(policy, seed, SIZE);
            if policy == Bid {
                change(&mut scenario);
            }
            Figures::of(&bloc_sim::run(&scenario).unwrap()).unwrap()
        };
        (policy.name(), (1..=SEEDS).map(of_seed).collect())
    };
    Runs { cell, of: POLICIES.into_iter().map(of_policy).collect() }
}

/// The claims that apply to a cell, and those that it misses.
fn claims(runs: &Runs) -> (Vec<Claim>, Vec<Claim>) {
    let verdicts = judge(runs);
    let missed = verdicts.iter().filter(|verdict| verdict.is_missed()).map(|verdict| verdict.claim).collect();
    (verdicts.iter().map(|verdict| verdict.claim).collect(), missed)
}

#[test]
fn bids_keep_the_claims() {
    for name in GAINS.into_iter().chain(NO_GAIN).chain([OVERLOAD]) {
        let (_, missed) = claims(&simulate(cell(name), |_| {}));
        assert_eq!(missed, [], "{name}");
    }
}

/// The claims that a cell misses if another policy takes the place of bids.
fn missed_by(policy: PolicyKind, name: &str) -> Vec<Claim> {
    claims(&simulate(cell(name), |scenario| scenario.policy = policy)).1
}

/// The claims say something: others miss them.
#[test]
fn least_request_misses_the_gain() {
    for name in GAINS {
        let missed = missed_by(LeastRequestFull, name);
        assert!(missed.contains(&Claim::TakesTheGap), "{name}: {missed:?}");
    }
}

#[test]
fn random_choice_does_harm_where_there_is_nothing_to_gain() {
    for name in NO_GAIN {
        let missed = missed_by(Random, name);
        assert!(missed.contains(&Claim::HarmlessMedian), "{name}: {missed:?}");
    }
}

#[test]
fn servers_that_admit_one_request_at_a_time_lose_goodput_under_overload() {
    let (_, missed) = claims(&simulate(cell(OVERLOAD), |scenario| {
        scenario.service.capacity = Some(CapacitySpec::Static { limit: 1 });
    }));
    assert_eq!(missed, [Claim::Goodput]);
}

#[test]
fn bids_that_cost_nothing_are_too_many() {
    for name in NO_GAIN {
        let runs = simulate(cell(name), |scenario| scenario.service.bounce_price = Some(0.0));
        let (applies, missed) = claims(&runs);
        assert!(applies.contains(&Claim::FreeWithoutGain), "{name}: {applies:?}");
        assert!(missed.contains(&Claim::FreeWithoutGain), "{name}: {missed:?}");
    }
}
