//! Where each claim applies, and its bound.

use super::*;
use crate::regimes::figures::POLICIES;
use crate::regimes::{Speeds, Trouble};
use std::collections::BTreeMap;

const CELL: Cell = Cell {
    servers: 10,
    concurrency: 1,
    times: Times::Fixed,
    mean_ms: 50,
    speeds: Speeds::Equal,
    load: 90,
    senders: 40,
    told: Told::Truth,
    trouble: Trouble::None,
};

fn figures(p50_ms: f64, p99_ms: f64, attempts: f64) -> Figures {
    Figures { p50_ms, p99_ms, mean_ms: p50_ms, attempts, shed: 0.0, goodput: 100.0, share: 1.0 }
}

/// Five equal runs: LR 100 and 500 ms, everything that sees all 50 and 100, the rest as LR.
fn runs(cell: Cell, bid: Figures) -> Runs {
    let of = POLICIES.map(|policy| {
        let figures = match policy {
            Bid => bid,
            LeastRequestFull | EnvoyLeastRequest | Bloc | Mu => figures(100.0, 500.0, 1.0),
            _ => figures(50.0, 100.0, 1.0),
        };
        (policy.name(), vec![figures; 5])
    });
    Runs { cell, of: BTreeMap::from(of) }
}

fn missed(cell: Cell, bid: Figures) -> Vec<Claim> {
    judge(&runs(cell, bid)).into_iter().filter(Verdict::is_missed).map(|verdict| verdict.claim).collect()
}

#[test]
fn a_claim_is_missed_when_the_median_and_four_of_five_exceed_the_bound() {
    let of = |of_bound: &[f64]| Verdict { claim: Claim::Goodput, of_bound: of_bound.to_vec() }.is_missed();
    assert!(of(&[0.9, 1.1, 1.1, 1.1, 1.1]));
    assert!(!of(&[0.9, 0.9, 1.1, 1.1, 1.1]));
    assert!(!of(&[1.0, 1.0, 1.0, 1.0, 1.0]));
    assert!(of(&[1.01]) && of(&[1.1, 1.1, 1.1]) && !of(&[0.9, 1.1, 1.1]));
}

#[test]
fn every_bound_holds_at_its_value_and_is_missed_beyond() {
    // OMN 100 + 0.2 * 400 + 3 + 20 = 203.
    assert_eq!(missed(CELL, figures(106.5, 203.0, 3.0)), []);
    assert_eq!(missed(CELL, figures(106.6, 203.1, 3.0)), [Claim::HarmlessMedian, Claim::TakesTheGap]);
    assert_eq!(missed(CELL, figures(1.0, 515.1, 1.0)), [Claim::HarmlessTail, Claim::TakesTheGap]);
    let slow = Cell { speeds: Speeds::OneAtHalf, ..CELL };
    assert_eq!(missed(slow, figures(103.0, 1.0, 1.0)), []);
    assert_eq!(missed(slow, figures(103.1, 1.0, 1.0)), [Claim::HarmlessMean]);
    let twenty = Cell { concurrency: 20, ..CELL };
    assert_eq!(missed(twenty, figures(1.0, 1.0, 1.4)), []);
    assert_eq!(missed(twenty, figures(1.0, 1.0, 1.41)), [Claim::FewAttemptsAtTwenty]);
    for (times, most) in [(Times::Fixed, 1.6), (Times::Lognormal, 2.2), (Times::Mixed, 2.2)] {
        for load in [50, 70] {
            let cell = Cell { times, load, ..CELL };
            assert_eq!(missed(cell, figures(1.0, 1.0, most)), []);
            assert_eq!(missed(cell, figures(1.0, 1.0, most + 0.01)), [Claim::FewAttemptsAtOne]);
        }
    }
    let held = Cell { times: Times::Lognormal, load: 70, told: Told::Hold, concurrency: 2, ..CELL };
    assert_eq!(missed(held, figures(1.0, 105.0, 1.0)), []);
    assert_eq!(missed(held, figures(1.0, 105.1, 1.0)), [Claim::BeatsShortestQueue]);
}

#[test]
fn under_overload_bids_are_compared_with_bloc_alone() {
    let cell = Cell { load: 200, ..CELL };
    let bid = |goodput, attempts| Figures { goodput, ..figures(1e6, 1e6, attempts) };
    assert_eq!(missed(cell, bid(98.0, 1.4)), []);
    assert_eq!(missed(cell, bid(97.9, 1.41)), [Claim::Goodput, Claim::OverloadAttempts]);
}

/// The claims that apply to a cell, if the best that sees everything has these figures, and LR
/// these.
fn claims(cell: Cell, lr: Figures, best: Figures) -> Vec<Claim> {
    let mut runs = runs(cell, figures(1.0, 1.0, 1.0));
    for policy in ["jsq", "shortest_response", "wait_plus_half"] {
        runs.of.insert(policy, vec![best; 5]);
    }
    runs.of.insert("least_request_full", vec![lr; 5]);
    judge(&runs).into_iter().map(|verdict| verdict.claim).collect()
}

/// Whether a claim applies to a cell where LR is far from the best.
fn applies(claim: Claim, cell: Cell) -> bool {
    claims(cell, figures(100.0, 500.0, 1.0), figures(50.0, 100.0, 1.0)).contains(&claim)
}

#[test]
fn nothing_is_to_be_gained_where_both_mean_and_p99_are_within_five_per_cent_of_the_best() {
    // The median says nothing.
    let of = |mean_ms, p99_ms| Figures { mean_ms, ..figures(1_000.0, p99_ms, 1.0) };
    let best = Figures { p50_ms: 1.0, ..of(100.0, 500.0) };
    for (mean, p99, free) in [
        (100.0, 500.0, true),
        (105.0, 525.0, true),
        (105.1, 525.0, false),
        (105.0, 525.1, false),
        (200.0, 500.0, false),
        (100.0, 900.0, false),
        (1.0, 1.0, true),
    ] {
        let claims = claims(CELL, of(mean, p99), best);
        assert_eq!(claims.contains(&Claim::FreeWithoutGain), free, "mean {mean}, p99 {p99}: {claims:?}");
    }
}

#[test]
fn where_nothing_is_to_be_gained_bids_may_not_try_further() {
    for (speeds, most) in
        [(Speeds::Equal, 1.05), (Speeds::Two, 1.25), (Speeds::OneAtHalf, 1.25), (Speeds::OneAtATenth, 1.25)]
    {
        for (attempts, is_missed) in [(most, false), (most + 0.001, true)] {
            let mut runs = runs(Cell { speeds, ..CELL }, figures(1.0, 1.0, attempts));
            for policy in ["jsq", "shortest_response", "wait_plus_half"] {
                runs.of.insert(policy, vec![figures(96.0, 480.0, 1.0); 5]);
            }
            let missed: Vec<_> = judge(&runs).into_iter().filter(Verdict::is_missed).collect();
            let missed: Vec<_> = missed.into_iter().map(|verdict| verdict.claim).collect();
            assert_eq!(missed == [Claim::FreeWithoutGain], is_missed, "{speeds:?}, {attempts}: {missed:?}");
        }
    }
}

#[test]
fn there_is_a_gap_where_the_p99_is_more_than_a_tenth_above_the_best() {
    for (p99, gap) in [(100.0, false), (110.0, false), (110.1, true), (500.0, true)] {
        let claims = claims(CELL, figures(100.0, p99, 1.0), figures(100.0, 100.0, 1.0));
        assert_eq!(claims.contains(&Claim::TakesTheGap), gap, "{p99}: {claims:?}");
    }
}

#[test]
fn bids_are_compared_with_the_shortest_queue_in_four_respects() {
    let held = Cell { times: Times::Lognormal, load: 70, told: Told::Hold, ..CELL };
    for (cell, compared) in [
        (held, true),
        (Cell { concurrency: 2, ..held }, true),
        (Cell { concurrency: 3, ..held }, false),
        (Cell { concurrency: 20, ..held }, false),
        (Cell { times: Times::Fixed, ..held }, false),
        (Cell { times: Times::Exponential, ..held }, false),
        (Cell { times: Times::Mixed, ..held }, false),
        (Cell { told: Told::Truth, ..held }, false),
        (Cell { told: Told::Nothing, ..held }, false),
        (Cell { load: 50, ..held }, false),
        (Cell { load: 71, ..held }, false),
        (Cell { load: 90, ..held }, false),
    ] {
        assert_eq!(applies(Claim::BeatsShortestQueue, cell), compared, "{cell:?}");
    }
}

#[test]
fn attempts_have_a_bound_at_twenty_places_and_at_one_with_a_middling_load() {
    for (concurrency, twenty) in [(1, false), (4, false), (19, false), (20, true), (21, false)] {
        assert_eq!(applies(Claim::FewAttemptsAtTwenty, Cell { concurrency, ..CELL }), twenty, "{concurrency}");
    }
    let middling = Cell { load: 60, ..CELL };
    for (cell, one) in [
        (middling, true),
        (Cell { times: Times::Lognormal, ..middling }, true),
        (Cell { times: Times::Mixed, ..middling }, true),
        (Cell { times: Times::Exponential, ..middling }, false),
        (Cell { concurrency: 2, ..middling }, false),
        (Cell { load: 49, ..middling }, false),
        (Cell { load: 50, ..middling }, true),
        (Cell { load: 70, ..middling }, true),
        (Cell { load: 71, ..middling }, false),
    ] {
        assert_eq!(applies(Claim::FewAttemptsAtOne, cell), one, "{cell:?}");
    }
}

#[test]
fn where_speeds_differ_the_mean_may_not_rise_and_where_they_are_equal_the_median() {
    for (speeds, claims) in [
        (Speeds::Equal, [true, false]),
        (Speeds::Two, [false, true]),
        (Speeds::OneAtHalf, [false, true]),
        (Speeds::OneAtATenth, [false, true]),
    ] {
        let cell = Cell { speeds, ..CELL };
        assert_eq!([Claim::HarmlessMedian, Claim::HarmlessMean].map(|claim| applies(claim, cell)), claims, "{cell:?}");
        assert!(applies(Claim::HarmlessTail, cell));
    }
}

#[test]
fn beyond_full_load_goodput_and_attempts_are_all_that_is_claimed() {
    let all = |load| claims(Cell { load, ..CELL }, figures(100.0, 500.0, 1.0), figures(50.0, 100.0, 1.0));
    assert_eq!(all(101), [Claim::Goodput, Claim::OverloadAttempts]);
    assert_eq!(all(100), [Claim::HarmlessTail, Claim::HarmlessMedian, Claim::TakesTheGap]);
}

#[test]
fn after_a_trouble_only_shares_count_and_those_of_each_routing() {
    let of = |trouble, policy: PolicyKind, share| {
        let cell = Cell { trouble, ..CELL };
        let mut runs = runs(cell, figures(1e6, 1e6, 1e6));
        runs.of.insert(policy.name(), vec![Figures { share, ..figures(1.0, 1.0, 1.0) }; 5]);
        let missed: Vec<Verdict> = judge(&runs).into_iter().filter(Verdict::is_missed).collect();
        missed.into_iter().map(|verdict| verdict.claim).collect::<Vec<_>>()
    };
    for policy in [Bloc, Bid, Mu] {
        for trouble in [Trouble::Cold, Trouble::Away] {
            assert_eq!(of(trouble, policy, 0.8), []);
            assert_eq!(of(trouble, policy, 0.79), [Claim::HasItsShare], "{trouble:?}, {policy:?}");
        }
        for trouble in [Trouble::Wrong, Trouble::Fast] {
            assert_eq!(of(trouble, policy, 1.2), []);
            assert_eq!(of(trouble, policy, 1.21), [Claim::DoesNotAttract], "{trouble:?}, {policy:?}");
        }
    }
}
