//! The simulation as a whole.

use super::cgroup::PERIOD;
use super::load::Load;
use super::*;
use bloc_node_agent::Cores;
use bloc_node_agent::cpu::Rule;
use std::time::Duration;

const S: u64 = 1_000_000_000;

fn small() -> Case {
    Case { duration: Duration::from_secs(80), ..Case::default() }
}

fn nodes(over: Over) -> Allocator {
    Allocator::Nodes { nodes: 2, over, rule: Rule::default() }
}

#[test]
fn leases_give_a_burst_what_the_other_node_does_not_need_within_the_limit() {
    let [equal, leases] = [Over::Equal, Over::Leases].map(|over| run(&small(), nodes(over)));
    assert!(equal.answered < equal.requests * 99 / 100, "{equal:?}");
    assert!(leases.answered > leases.requests * 99 / 100, "{leases:?}");
    assert!(leases.p50_ms < 0.5 * equal.p50_ms && leases.sum > 0.95, "{leases:?} {equal:?}");
    assert!(leases.sum <= 1.0 + 1e-9 && equal.sum <= 1.0 + 1e-9, "{leases:?} {equal:?}");
    let one = Allocator::Nodes { nodes: 1, over: Over::Leases, rule: Rule::default() };
    assert!(
        (0.99..1.01).contains(&(run(&small(), one).p50_ms / run(&small(), agent()).p50_ms)),
        "one node needs no leases"
    );
}

fn agent() -> Allocator {
    Allocator::Agent(Rule::default())
}

#[test]
fn bursts_wander_and_all_containers_have_their_turn() {
    // The requests of ten seconds each, in cores.
    let loads = |case: &Case, key: usize| {
        let mut load = Load::new(case, key);
        let mut cores = Vec::new();
        for until in 1..=8 {
            let mut sum = 0;
            while let Some((when, need)) = load.next(until * 10 * S) {
                assert!(when < until * 10 * S);
                sum += need;
            }
            cores.push(sum as f64 / 1e10);
        }
        cores
    };
    let case = small();
    for key in 0..4 {
        for (at, cores) in loads(&case, key).into_iter().enumerate() {
            let around = if at == 2 * key { 0.5..0.7 } else { 0.02..0.11 };
            assert!(around.contains(&cores), "{key} {at} {cores}");
        }
    }
    // Two of eight at once: the second one begins half of `every` later.
    let eight = Case { containers: 8, ..small() };
    assert!((0.5..0.7).contains(&loads(&eight, 1)[2]) && (0.5..0.7).contains(&loads(&eight, 5)[3]));
    assert!(loads(&eight, 1)[3] < 0.11 && loads(&eight, 5)[2] < 0.11);
    assert_eq!(loads(&case, 1), loads(&case, 1));
    assert_ne!(loads(&case, 1), loads(&Case { seed: 2, ..small() }, 1));
    assert_ne!(loads(&case, 0)[1], loads(&case, 2)[1]);
    let phases: Vec<u64> = (0..4).map(|key| Load::new(&case, key).phase).collect();
    assert!(phases.iter().all(|phase| (1..=PERIOD).contains(phase)) && phases[0] != phases[1]);
}

#[test]
fn a_peak_is_the_largest_mean_of_ten_seconds_of_each_container() {
    let peaks = peaks(&small());
    assert!(peaks.iter().all(|peak| (0.5..0.75).contains(peak)), "{peaks:?}");
    assert_ne!(peaks[0], peaks[1]);
    let quiet = super::peaks(&Case { burst: Duration::ZERO, ..small() });
    assert!(quiet.iter().all(|peak| (0.06..0.15).contains(peak)), "{quiet:?}");
}

#[test]
fn every_request_counts_also_the_one_that_nobody_waits_for() {
    let (agent, equal) = (run(&small(), agent()), run(&small(), Allocator::Equal));
    assert_eq!(agent.requests, equal.requests, "all see the same");
    // 80 s of 4 * 0.06 and half of the time 0.54 more, 10 ms each.
    assert!((3_800..4_400).contains(&agent.requests), "{agent:?}");
    assert!(agent.answered as f64 >= 0.99 * agent.requests as f64, "{agent:?}");
    assert!(equal.answered as f64 <= 0.7 * equal.requests as f64, "{equal:?}");
    assert_eq!((equal.p99_ms, equal.p999_ms), (1_000.0, 1_000.0), "who gives up has waited for so long");
    assert!(agent.p50_ms < 20.0 && agent.p50_ms < agent.p99_ms && agent.p99_ms < agent.p999_ms, "{agent:?}");
    let patient = run(&Case { patience: Duration::from_secs(100), ..small() }, Allocator::Equal);
    assert_eq!(patient.answered, patient.requests);
    assert!(patient.p999_ms > 5_000.0, "{patient:?}");
}

#[test]
fn quotas_are_counted_against_the_limit() {
    let equal = run(&small(), Allocator::Equal);
    assert_eq!((equal.sum, equal.writes, equal.slack_p99), (1.0, 0.0, 0.25));
    assert!((0.2..0.25).contains(&equal.slack_p50) && (0.2..0.5).contains(&equal.throttled), "{equal:?}");
    assert!((0.4..0.7).contains(&equal.used), "{equal:?}");
    let peak = run(&small(), Allocator::Peak(1.5));
    assert!((3.0..4.5).contains(&peak.sum) && (0.8..1.5).contains(&peak.used), "{peak:?}");
    let agent = run(&small(), agent());
    assert!(agent.sum <= 1.0 + 1e-9 && agent.sum > 0.9, "{agent:?}");
    assert!((2.0..8.0).contains(&agent.writes), "{agent:?}");
    let koordinator = run(&small(), Allocator::Koordinator { node: Cores::new(2.0) });
    assert!((1.5..=3.0).contains(&koordinator.sum), "it breaks the limit: {koordinator:?}");
    let half = run(&Case { limit: Cores::new(0.5), ..small() }, Allocator::Equal);
    assert_eq!((half.sum, half.slack_p99), (1.0, 0.125));
}

#[test]
fn the_agent_is_what_it_is_said_to_be() {
    let case = Case { duration: Duration::from_secs(400), ..Case::default() };
    let (fixed, equal) = (run(&case, Allocator::Peak(1.5)), run(&case, Allocator::Equal));
    let small = run(&case, agent());
    assert!(small.answered as f64 >= 1.25 * equal.answered as f64, "{small:?} {equal:?}");
    assert!(small.slack_p50 <= 0.25 * fixed.slack_p50, "{small:?} {fixed:?}");
    let same = run(&Case { limit: Cores::new(fixed.sum), ..case }, agent());
    assert!(same.slack_p50 <= 0.25 * fixed.slack_p50 && same.p999_ms <= 1.5 * fixed.p999_ms, "{same:?} {fixed:?}");
}
