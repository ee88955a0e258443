//! What is told of pods.

use super::stand::{CONFIG, Stand, max};
use crate::agent::JOIN_STEPS;
use crate::report::{PodName, joining, limited, used};
use std::fs;

/// Whether the quotas of both pods are the agent's.
fn managed(stand: &Stand) -> [Option<bool>; 2] {
    let of = |name: &str| stand.agent.pods().find(|pod| pod.name == name).and_then(|pod| pod.managed);
    [of("checkout-a"), of("checkout-b")]
}

#[test]
fn a_quota_is_the_agents_once_the_container_is_under_the_limit_and_until_somebody_else_writes_it() {
    let mut stand = Stand::new(&[("a", 0.5), ("b", 0.5)]);
    stand.second("a", 0.25);
    stand.tell();
    stand.steps(JOIN_STEPS);
    assert_eq!(managed(&stand), [None, None], "it is to be");
    let joining = |stand: &Stand| joining(&stand.agent.pods().collect::<Vec<_>>()).len();
    assert_eq!(joining(&stand), 2);
    stand.steps(2);
    assert_eq!((managed(&stand), joining(&stand)), ([Some(true), Some(true)], 0));
    for uid in ["a", "b"] {
        fs::write(stand.group(uid).join("cpu.max"), max(0.3)).unwrap();
    }
    stand.steps(10);
    assert_eq!(managed(&stand), [Some(true), Some(false)], "there is a second container in the first pod");
    stand.configure(&CONFIG.replace("enforce", "observe"));
    stand.steps(10);
    assert_eq!(managed(&stand), [Some(false), Some(false)]);
    stand.join();
    assert_eq!(managed(&stand), [Some(false), Some(false)], "an observer sets nothing");
}

#[test]
fn an_observer_tells_no_quotas() {
    let mut stand = Stand::new(&[("a", 0.5), ("b", 0.5)]);
    let told = |stand: &Stand| limited(stand.agent.pods().collect()).len();
    stand.join();
    assert_eq!(told(&stand), 2);
    stand.configure(&CONFIG.replace("enforce", "observe"));
    stand.join();
    assert_eq!((told(&stand), stand.agent.pods().count()), (0, 2));
}

#[test]
fn a_quota_stays_the_agents_while_the_container_comes_anew_with_another_floor() {
    let mut stand = Stand::new(&[("a", 0.5), ("b", 0.5)]);
    stand.join();
    stand.configure(&CONFIG.replace("floor: 50m", "floor: 200m"));
    for _ in 0..=JOIN_STEPS {
        stand.steps(1);
        assert_eq!(managed(&stand), [Some(true), Some(true)]);
    }
    stand.join();
    assert_eq!((managed(&stand), stand.quotas("a")[0]), ([Some(true), Some(true)], 200));
}

#[test]
fn all_pods_of_the_node_are_told_also_those_of_no_application_or_without_a_group() {
    let mut stand = Stand::new(&[("a", 0.5), ("b", 0.5), ("c", 0.5)]);
    stand.pods[1].labels.clear();
    fs::remove_dir_all(stand.pod("c")).unwrap();
    assert_eq!(stand.agent.hosts(), None, "not known yet");
    stand.tell();
    stand.steps(1);
    let hosts = |stand: &Stand| {
        let hosts = stand.agent.hosts().unwrap();
        hosts.iter().map(|(pod, has)| format!("{}/{} {has}", pod.namespace, pod.name)).collect::<Vec<_>>()
    };
    assert_eq!(hosts(&stand), ["shop/checkout-a true", "shop/checkout-b false", "shop/checkout-c true"]);
    stand.pods.pop();
    stand.tell();
    // Whatever is asked for of the application.
    stand.configure(&CONFIG.replace(
        "cpu: {limit: 1, floor: 50m, grow: 0.5, shrink: 0.8, slack: 125m, window: 2}",
        "memory: {limit: 1Gi}",
    ));
    stand.steps(10);
    assert_eq!(hosts(&stand), ["shop/checkout-a true", "shop/checkout-b false"]);
    stand.configure("mode: enforce\napps: {}");
    stand.steps(10);
    assert_eq!(hosts(&stand), ["shop/checkout-a false", "shop/checkout-b false"]);
}

#[test]
fn the_use_of_a_pod_is_that_of_its_containers_in_the_last_second() {
    let mut stand = Stand::new(&[("a", 0.5), ("b", 0.5)]);
    let second = stand.second("a", 0.25);
    stand.tell();
    stand.steps(2);
    drop(stand.status());
    stand.load.insert("a", (0.25, 0.0));
    fs::write(second.join("cpu.stat"), "usage_usec 125000\nnr_periods 0\nnr_throttled 0\n").unwrap();
    stand.steps(10);
    let used = used(&stand.status());
    let of = |name: &str| used[&PodName { namespace: "shop".to_owned(), name: name.to_owned() }];
    assert!((of("checkout-a") - 0.375).abs() < 1e-6 && of("checkout-b") == 0.0, "{used:?}");
}
