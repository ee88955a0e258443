//! Containers come under the limit, and quotas move.

use super::testbed::{CONFIG, Stand, max};
use crate::agent::JOIN_STEPS;
use crate::cores::Cores;
use std::fs;

#[test]
fn a_container_comes_under_the_limit_with_its_use_and_the_slack_and_its_pod_follows() {
    let mut stand = Stand::new(&[("a", 0.5), ("b", 0.5)]);
    stand.load.insert("a", (0.25, 0.0));
    stand.steps(JOIN_STEPS);
    assert_eq!((stand.quotas("a"), stand.quotas("b")), ([500, 550], [500, 550]), "observed first");
    assert_eq!(stand.originals(), "");
    stand.steps(2);
    assert_eq!((stand.quotas("a"), stand.quotas("b")), ([375, 550], [125, 550]));
    assert!(stand.originals().contains("burstable/poda/ca"), "{}", stand.originals());
    assert!(stand.originals().contains("burstable/podb\""), "{}", stand.originals());
    let shown = stand.container("a");
    assert_eq!((shown.quota, shown.which.managed, shown.slack().is_some()), (Some(Cores::new(0.375)), true, true));
    assert!((shown.used.get() - 0.25).abs() < 1e-6, "{shown:?}");
    let app = stand.status().cpu["shop/checkout"].clone();
    assert_eq!((app.limit, app.free), (Cores::new(1.0), Cores::new(0.5)));
}

#[test]
fn a_throttled_container_gets_what_others_do_not_use() {
    let mut stand = Stand::new(&[("a", 0.5), ("b", 0.5)]);
    stand.join();
    assert_eq!(stand.quotas("a"), [125, 550]);
    stand.load.insert("a", (0.125, 1.0));
    stand.steps(1);
    // Half of the mean of 0 and 1, of the free 0.75.
    let [first, pod] = stand.quotas("a");
    assert!(first > 300 && pod == 550, "{first} {pod}");
    stand.steps(20);
    let [then, pod] = stand.quotas("a");
    assert!(then > 800 && pod == then + 50, "{then} {pod}");
    assert_eq!(stand.quotas("b"), [50, 550]);
    let throttled = stand.container("a").throttled;
    assert!(throttled > 0.5, "{throttled}");
}

#[test]
fn an_observer_writes_nothing_and_shows_what_it_would_do() {
    let mut stand = Stand::new(&[("a", 0.5), ("b", 0.5)]);
    stand.configure(&CONFIG.replace("enforce", "observe"));
    stand.load.insert("a", (0.25, 0.0));
    stand.join();
    assert_eq!(stand.container("a").quota, Some(Cores::new(0.375)));
    // More than its quota would be: it would be throttled and grow.
    stand.load.insert("a", (0.5, 0.0));
    stand.steps(20);
    let quota = stand.container("a").quota.unwrap();
    assert!(quota.get() >= 0.5, "{quota}");
    assert_eq!((stand.quotas("a"), stand.quotas("b")), ([500, 550], [500, 550]));
    assert_eq!((stand.status().writes, stand.originals().as_str()), (0, ""));
}

#[test]
fn the_limit_in_force_is_at_most_the_sum_of_the_containers_own() {
    let mut stand = Stand::new(&[("a", 0.3), ("b", 0.4)]);
    stand.join();
    let limit = |stand: &mut Stand| stand.status().cpu["shop/checkout"].limit;
    assert!((limit(&mut stand).get() - 0.7).abs() < 1e-9);
    fs::remove_dir_all(stand.pod("b")).unwrap();
    stand.pods.pop();
    stand.tell();
    stand.add("c", 0.2);
    stand.tell();
    stand.steps(12 + JOIN_STEPS);
    assert!((limit(&mut stand).get() - 0.5).abs() < 1e-9, "{}", limit(&mut stand));
    stand.configure(&CONFIG.replace("apps:", "overrideLimits: true\napps:"));
    stand.add("d", 0.2);
    stand.tell();
    stand.steps(12 + JOIN_STEPS);
    assert_eq!(limit(&mut stand), Cores::new(1.0));
}

#[test]
fn a_container_without_a_limit_counts_as_unlimited_and_gets_that_back() {
    let mut stand = Stand::new(&[("a", 0.5)]);
    for group in [stand.group("a"), stand.pod("a")] {
        fs::write(group.join("cpu.max"), "max 100000").unwrap();
    }
    stand.join();
    assert_eq!(stand.quotas("a"), [125, -1]);
    assert_eq!(stand.status().cpu["shop/checkout"].limit, Cores::new(1.0));
    stand.agent.release();
    assert_eq!(stand.quotas("a"), [-1, -1]);
}

#[test]
fn a_new_limit_holds_without_a_way_back_and_one_that_leaves_no_room_does_not() {
    let mut stand = Stand::new(&[("a", 0.5), ("b", 0.5)]);
    stand.load.insert("a", (0.25, 0.0));
    stand.join();
    stand.configure(&CONFIG.replace("limit: 1", "limit: 0.7"));
    stand.steps(11);
    assert_eq!((stand.quotas("a"), stand.quotas("b")), ([375, 550], [125, 550]));
    assert_eq!(stand.status().cpu["shop/checkout"].limit, Cores::new(0.7));
    stand.configure(&CONFIG.replace("limit: 1", "limit: 0.09"));
    stand.steps(11);
    assert_eq!(stand.status().cpu["shop/checkout"].limit, Cores::new(0.7));
    assert!(stand.errors("limit") >= 1);
    assert_eq!((stand.quotas("a"), stand.quotas("b")), ([375, 550], [125, 550]));
}

#[test]
fn without_room_containers_keep_their_own_quotas_and_are_tried_again() {
    let mut stand = Stand::new(&[("a", 0.5), ("b", 0.5)]);
    stand.configure(&CONFIG.replace("limit: 1", "limit: 0.09"));
    stand.steps(12);
    assert_eq!((stand.quotas("a"), stand.quotas("b")), ([500, 550], [500, 550]));
    assert_eq!(stand.errors("limit"), 1);
    stand.steps(20);
    assert_eq!(stand.errors("limit"), 3);
    stand.configure(CONFIG);
    stand.steps(12);
    assert_eq!(stand.quotas("a"), [125, 550]);
}

#[test]
fn a_container_without_a_group_is_looked_for_again() {
    let mut stand = Stand::new(&[("a", 0.5)]);
    let (here, away) = (stand.group("a"), stand.path("away"));
    fs::rename(&here, &away).unwrap();
    stand.steps(30);
    assert!(stand.status().cpu["shop/checkout"].containers.is_empty());
    fs::rename(&away, &here).unwrap();
    stand.steps(10 + JOIN_STEPS + 2);
    assert_eq!(stand.quotas("a"), [125, 550]);
}

#[test]
fn containers_that_are_not_selected_stay_as_they_are_and_a_request_is_kept() {
    let mut stand = Stand::new(&[("a", 0.5), ("b", 0.5)]);
    stand.pods[0].containers[0].name = "istio-proxy".to_owned();
    stand.pods[1].containers[0].requests = Cores::new(0.3);
    stand.tell();
    stand.join();
    assert_eq!((stand.quotas("a"), stand.quotas("b")), ([500, 550], [300, 550]));
}

#[test]
fn a_lower_limit_holds_though_the_containers_use_more() {
    let mut stand = Stand::new(&[("a", 0.5), ("b", 0.5)]);
    stand.load.insert("a", (0.5, 1.0));
    stand.load.insert("b", (0.25, 0.0));
    stand.join();
    stand.configure(&CONFIG.replace("limit: 1", "limit: 0.5"));
    stand.steps(11);
    let sum = stand.quotas("a")[0] + stand.quotas("b")[0];
    assert_eq!((stand.status().cpu["shop/checkout"].limit, sum), (Cores::new(0.5), 500));
}

#[test]
fn a_higher_floor_or_request_reaches_containers_that_run() {
    let mut stand = Stand::new(&[("a", 0.5), ("b", 0.5)]);
    stand.join();
    stand.configure(&CONFIG.replace("floor: 50m", "floor: 200m"));
    stand.steps(12);
    assert!(stand.quotas("a")[0] + stand.quotas("b")[0] <= 1_000, "not even for the time of the change");
    stand.steps(JOIN_STEPS);
    assert_eq!((stand.quotas("a")[0], stand.quotas("b")[0]), (200, 200));
    stand.pods[0].containers[0].requests = Cores::new(0.3);
    stand.tell();
    stand.steps(12 + JOIN_STEPS);
    assert_eq!((stand.quotas("a")[0], stand.quotas("b")[0]), (300, 200));
}

#[test]
fn the_limit_in_force_follows_the_containers_and_the_override() {
    let mut stand = Stand::new(&[("a", 0.3), ("b", 0.4)]);
    stand.configure(&CONFIG.replace("apps:", "overrideLimits: true\napps:"));
    stand.join();
    let limit = |stand: &mut Stand| stand.status().cpu["shop/checkout"].limit.to_string();
    assert_eq!(limit(&mut stand), "1000m");
    stand.configure(CONFIG);
    stand.steps(11);
    assert_eq!(limit(&mut stand), "700m");
    stand.pods.pop();
    stand.tell();
    stand.steps(11);
    assert_eq!(limit(&mut stand), "300m");
    fs::write(stand.group("a").join("cpu.max"), max(0.2)).unwrap();
    stand.steps(11);
    assert_eq!(limit(&mut stand), "200m");
}

#[test]
fn a_limit_of_the_pod_alone_counts() {
    let mut stand = Stand::new(&[("a", 0.5)]);
    fs::write(stand.group("a").join("cpu.max"), "max 100000").unwrap();
    stand.load.insert("a", (0.5, 1.0));
    stand.steps(40);
    assert_eq!(stand.status().cpu["shop/checkout"].limit.to_string(), "550m");
    assert!(stand.quotas("a")[0] <= 550 && stand.quotas("a")[1] == 550, "{:?}", stand.quotas("a"));
}

#[test]
fn containers_that_are_refused_get_their_own_quotas_back() {
    let mut stand = Stand::new(&[("a", 0.5), ("b", 0.5)]);
    stand.join();
    assert_eq!(stand.quotas("a"), [125, 550]);
    // The limit has no room for these floors.
    stand.configure(&CONFIG.replace("floor: 50m", "floor: 600m"));
    stand.steps(12 + JOIN_STEPS);
    assert!(stand.errors("limit") >= 1);
    assert_eq!((stand.quotas("a"), stand.quotas("b")), ([500, 550], [500, 550]));
}
