//! The comparison of capacity estimators: its phases have the stated load, and its main results
//! hold.

use bloc_figures::service_time::ServiceTime;
use bloc_sim::Scenario;
use bloc_sim::estimators::{Phase, SLO, Source, mean, scenario, simulate};
use std::time::Duration;

const PHASE: Duration = Duration::from_secs(60);
const SEEDS: u64 = 3;
const FIXED: &str = "fixed:250ms";

fn phases(source: Source, service_time: &str) -> Vec<Phase> {
    let service_time: ServiceTime = service_time.parse().unwrap();
    let runs: Vec<_> =
        (1..=SEEDS).map(|seed| simulate(source, &scenario(service_time, PHASE, seed), PHASE).unwrap()).collect();
    let means = (0..4).map(|place| mean(&runs.iter().map(|phases| phases[place]).collect::<Vec<_>>())).collect();
    println!("{source:?} {service_time} {means:#?}");
    means
}

fn capacities(phases: &[Phase]) -> Vec<f64> {
    phases.iter().map(|phase| phase.capacity.unwrap()).collect()
}

#[test]
fn the_same_seed_gives_the_same_result() {
    let once = |seed| {
        let service_time = "normal:250ms/125ms".parse().unwrap();
        simulate(Source::Vegas, &scenario(service_time, PHASE, seed), PHASE).unwrap()
    };
    assert_eq!(once(7), once(7));
    assert_ne!(once(7), once(8));
}

#[test]
fn each_phase_has_its_stated_load() {
    let base = scenario(FIXED.parse().unwrap(), PHASE, 1);
    for (phase, expected) in [(0, 48.0 * 60.0), (1, 12.0 * 60.0), (2, 48.0 * 60.0), (3, 48.0 * 60.0)] {
        let case = Scenario { warm_up: PHASE * phase, duration: PHASE, ..base.clone() };
        let outcome = bloc_sim::run(&case).unwrap();
        let arrivals = outcome.requests as f64;
        // Four standard deviations of a Poisson count.
        assert!((arrivals - expected).abs() < 4.0 * f64::sqrt(expected), "phase {phase}: {arrivals}, not {expected}");
        assert_eq!(outcome.requests, outcome.ok + outcome.shed + outcome.errors);
    }
    let phases = phases(Source::Static, FIXED);
    assert!(phases[1].shed == 0.0 && phases[2].shed > 0.1 && phases[3].shed > 0.5, "{phases:?}");
    assert!(
        phases.iter().all(|phase| phase.goodput < 1.02 || phase.shed == 0.0),
        "an overloaded phase has more goodput than the servers can do"
    );
}

#[test]
fn slo_finds_the_best_static_capacity_and_follows_a_slowdown() {
    let (known, slo) = (phases(Source::Static, FIXED), phases(Source::Slo, FIXED));
    assert_eq!(capacities(&known), [f64::from(SLO); 4]);
    assert_eq!(capacities(&slo), [8.0, 8.0, 8.0, 4.0]);
    for (known, slo) in known.iter().zip(&slo).take(3) {
        let off = [known.goodput - slo.goodput, known.in_time - slo.in_time];
        assert!(off.iter().all(|off| off.abs() < 0.02), "as good as the known optimum: {known:?}, {slo:?}");
    }
    assert!(known[3].in_time < 0.05 && slo[3].in_time > 0.75, "{:?} {:?}", known[3], slo[3]);
    assert!(slo[3].goodput > 0.98);
    let untold = phases(Source::SloUntold, FIXED);
    assert!((3.5..=4.5).contains(&capacities(&untold)[3]), "it reaches the optimum, too");
    assert!(untold[3].in_time < slo[3].in_time, "but later");
}

#[test]
fn a_margin_below_the_slo_helps_when_service_times_vary() {
    let (slo, margin) = (phases(Source::Slo, "normal:250ms/125ms"), phases(Source::SloMargin, "normal:250ms/125ms"));
    assert_eq!(capacities(&phases(Source::SloMargin, FIXED)), [6.0, 6.0, 6.0, 3.0]);
    for place in [0, 2, 3] {
        assert!(margin[place].in_time > slo[place].in_time + 0.05, "phase {place}");
        assert!(margin[place].goodput > slo[place].goodput - 0.02, "phase {place}");
    }
}

#[test]
fn the_average_estimator_lowers_its_capacity_and_never_raises_it() {
    let average = phases(Source::Average, FIXED);
    let ends = capacities(&average);
    assert!(ends.is_sorted_by(|earlier, later| earlier >= later), "{ends:?}");
    assert!(ends[0] > 8.0 && ends[2] < 2.5, "{ends:?}");
    assert!(average[2].goodput < 0.95, "and the servers idle under overload: {average:?}");
}

#[test]
fn published_estimators_miss_the_slo_more_often() {
    for service_time in [FIXED, "uniform:40ms-650ms", "normal:250ms/125ms"] {
        let slo = phases(Source::Slo, service_time);
        for source in [Source::Gradient2, Source::Gradient2Low, Source::Vegas, Source::Aimd, Source::AimdSlo] {
            let published = phases(source, service_time);
            for place in [2, 3] {
                assert!(published[place].in_time < slo[place].in_time, "{source:?} {service_time}, phase {place}");
                assert!(published[place].p99_ms > slo[place].p99_ms, "{source:?} {service_time}, phase {place}");
            }
        }
    }
}

#[test]
fn among_published_estimators_only_aimd_slo_follows_a_slowdown() {
    let ends = |source| capacities(&phases(source, FIXED))[3];
    let aimd = ends(Source::AimdSlo);
    assert!((2.5..=5.0).contains(&aimd), "{aimd}");
    for source in [Source::Gradient2, Source::Gradient2Low, Source::Vegas, Source::Aimd] {
        assert!(ends(source) > 6.0, "{source:?} {}", ends(source));
    }
}
