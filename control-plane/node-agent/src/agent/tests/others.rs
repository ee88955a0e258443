//! Somebody else writes or removes groups; groups cannot be read or written.

use super::testbed::{Stand, max, read, read_file};
use crate::agent::JOIN_STEPS;
use crate::cores::Cores;
use std::fs;

#[test]
fn a_quota_that_somebody_else_has_written_is_left_alone_for_a_minute_and_becomes_the_original() {
    let mut stand = Stand::new(&[("a", 0.5), ("b", 0.5)]);
    stand.join();
    fs::write(stand.group("a").join("cpu.max"), max(0.7)).unwrap();
    stand.load.insert("b", (0.2, 1.0));
    stand.steps(600);
    assert_eq!(read(&stand.group("a")), 700);
    assert!(!stand.container("a").which.managed);
    assert_eq!((stand.container("a").which.foreign, stand.container("b").which.foreign), (1, 0));
    let b = read(&stand.group("b"));
    assert!(b > 800 && b <= 950, "what a keeps is reserved: {b}");
    stand.load.insert("b", (0.1, 0.0));
    stand.steps(30);
    assert!(stand.container("a").which.managed);
    assert_eq!(read(&stand.group("a")), 125);
    stand.agent.restore();
    assert_eq!((read(&stand.group("a")), stand.quotas("b")), (700, [500, 550]));
}

#[test]
fn a_quota_of_a_pod_that_somebody_else_has_written_stays_too() {
    let mut stand = Stand::new(&[("a", 0.5), ("b", 0.5)]);
    stand.join();
    fs::write(stand.pod("a").join("cpu.max"), max(0.9)).unwrap();
    stand.load.insert("a", (0.1, 1.0));
    stand.steps(12);
    assert_eq!(stand.quotas("a"), [500, 900], "it has its own quota in that time");
    assert!(!stand.container("a").which.managed && stand.container("b").which.managed);
    stand.agent.restore();
    assert_eq!((stand.quotas("a"), stand.quotas("b")), ([500, 900], [500, 550]));
}

#[test]
fn a_container_that_is_gone_leaves_its_room_to_others() {
    let mut stand = Stand::new(&[("a", 0.5), ("b", 0.5)]);
    stand.load.insert("b", (0.25, 0.0));
    stand.join();
    assert_eq!(stand.status().cpu["shop/checkout"].free, Cores::new(0.5));
    fs::remove_dir_all(stand.pod("b")).unwrap();
    stand.steps(2);
    assert_eq!(stand.status().cpu["shop/checkout"].containers.len(), 1);
    stand.pods.pop();
    stand.tell();
    stand.steps(12);
    assert!(!stand.originals().contains("podb"), "{}", stand.originals());
    assert!(stand.originals().contains("poda"));
    assert_eq!(stand.errors("write"), 0);
}

#[test]
fn a_container_that_restarts_in_its_pod_finds_the_pod_as_it_was() {
    let mut stand = Stand::new(&[("a", 0.5), ("b", 0.5)]);
    stand.join();
    stand.load.insert("a", (0.125, 1.0));
    stand.steps(20);
    assert!(read(&stand.pod("a")) > 800);
    let new = stand.pod("a").join("new");
    fs::create_dir(&new).unwrap();
    fs::write(new.join("cpu.max"), max(0.5)).unwrap();
    fs::write(new.join("cpu.stat"), "usage_usec 0\nnr_periods 0\nnr_throttled 0\n").unwrap();
    fs::remove_dir_all(stand.group("a")).unwrap();
    stand.pods[0].containers[0].id = "new".to_owned();
    stand.tell();
    stand.steps(10);
    assert_eq!(read(&stand.pod("a")), 550);
    stand.steps(12 + JOIN_STEPS);
    assert_eq!((read(&new), read(&stand.pod("a"))), (125, 550));
    stand.agent.restore();
    assert_eq!((read(&new), read(&stand.pod("a"))), (500, 550));
}

#[test]
fn a_container_whose_quota_cannot_be_written_is_left_alone() {
    let mut stand = Stand::new(&[("a", 0.5), ("b", 0.5)]);
    let file = stand.group("a").join("cpu.max");
    stand.steps(5);
    // The open file can be read; the path cannot be written.
    fs::rename(&file, stand.group("a").join("moved")).unwrap();
    fs::create_dir(&file).unwrap();
    stand.steps(20);
    assert_eq!(stand.errors("write"), 1);
    assert!(!stand.container("a").which.managed && stand.container("b").which.managed);
    assert_eq!(stand.quotas("b"), [125, 550]);
}

#[test]
fn a_container_whose_counters_cannot_be_read_gets_its_own_quota() {
    let mut stand = Stand::new(&[("a", 0.5), ("b", 0.5)]);
    stand.join();
    stand.counted.remove("a");
    stand.load.remove("a");
    fs::write(stand.group("a").join("cpu.stat"), "nonsense\n").unwrap();
    stand.load.insert("b", (0.2, 1.0));
    stand.steps(9);
    assert_eq!(stand.quotas("a"), [125, 550]);
    assert!(stand.quotas("b")[0] > 500);
    stand.steps(1);
    assert_eq!((stand.quotas("a"), stand.errors("read")), ([500, 550], 10));
    assert!(!stand.container("a").which.managed && stand.container("b").which.managed);
}

/// A resize by the kubelet writes twice.
#[test]
fn a_second_write_of_somebody_else_is_noticed_too() {
    let mut stand = Stand::new(&[("a", 0.5), ("b", 0.5)]);
    stand.join();
    fs::write(stand.pod("a").join("cpu.max"), max(0.95)).unwrap();
    stand.steps(11);
    fs::write(stand.group("a").join("cpu.max"), max(0.9)).unwrap();
    stand.agent.release();
    assert_eq!(stand.quotas("a"), [900, 950]);
    stand.restart();
    stand.join();
    stand.agent.restore();
    assert_eq!(stand.quotas("a"), [900, 950]);
}

#[test]
fn a_quota_that_cannot_be_lowered_keeps_others_from_growing() {
    let mut stand = Stand::new(&[("a", 0.5), ("b", 0.5)]);
    stand.load.insert("a", (0.45, 0.0));
    stand.load.insert("b", (0.25, 1.0));
    let file = stand.group("a").join("cpu.max");
    stand.steps(12);
    let before = stand.quotas("b")[0];
    stand.load.insert("a", (0.0, 0.0));
    // The open file can be read; the path cannot be written.
    fs::rename(&file, stand.group("a").join("moved")).unwrap();
    fs::create_dir(&file).unwrap();
    stand.steps(30);
    let in_force = read_file(&stand.group("a").join("moved")) + stand.quotas("b")[0];
    assert!(stand.errors("write") >= 1);
    assert!(in_force <= 1_000, "{in_force}, {before} before");
}

#[test]
fn a_container_that_restarts_with_the_same_id_is_found_again() {
    let mut stand = Stand::new(&[("a", 0.5)]);
    stand.join();
    let (group, away) = (stand.group("a"), stand.path("away"));
    // The kernel fails reads of a removed group's open files; here only the path is gone.
    fs::rename(&group, &away).unwrap();
    stand.load.insert("a", (0.0, 1.0));
    stand.pods[0].containers[0].id = "other".to_owned();
    stand.tell();
    stand.steps(11);
    assert!(stand.status().cpu["shop/checkout"].containers.is_empty());
    fs::rename(&away, &group).unwrap();
    stand.write("a", 0.5);
    stand.pods[0].containers[0].id = "ca".to_owned();
    stand.tell();
    stand.load.insert("a", (0.0, 0.0));
    stand.steps(12 + JOIN_STEPS);
    assert_eq!(stand.quotas("a"), [125, 550]);
}

/// The kubelet writes the pod, then its containers.
#[test]
fn a_resize_of_a_second_container_of_a_pod_is_kept() {
    let mut stand = Stand::new(&[("a", 0.5), ("b", 0.5)]);
    let second = stand.second("a", 0.5);
    fs::write(stand.pod("a").join("cpu.max"), max(1.05)).unwrap();
    stand.tell();
    stand.steps(12 + JOIN_STEPS);
    assert_eq!(read(&second), 125);
    fs::write(stand.pod("a").join("cpu.max"), max(1.45)).unwrap();
    fs::write(second.join("cpu.max"), max(0.9)).unwrap();
    stand.steps(11);
    assert_eq!((stand.quotas("a"), read(&second)), ([500, 1_450], 900), "both are left alone");
    stand.agent.restore();
    assert_eq!((stand.quotas("a"), read(&second)), ([500, 1_450], 900));
}

#[test]
fn a_resize_of_a_pod_is_kept_though_its_container_goes_at_once() {
    let mut stand = Stand::new(&[("a", 0.5), ("b", 0.5)]);
    stand.join();
    stand.load.insert("a", (0.125, 1.0));
    stand.steps(20);
    assert!(read(&stand.pod("a")) > 800);
    fs::write(stand.pod("a").join("cpu.max"), max(0.7)).unwrap();
    fs::remove_dir_all(stand.group("a")).unwrap();
    stand.pods[0].containers.clear();
    stand.tell();
    stand.steps(11);
    assert_eq!(read(&stand.pod("a")), 700);
}

#[test]
fn a_group_with_a_burst_is_left_alone() {
    let mut stand = Stand::new(&[("a", 0.5), ("b", 0.5)]);
    fs::write(stand.group("a").join("cpu.max.burst"), "1000\n").unwrap();
    fs::write(stand.group("b").join("cpu.max.burst"), "0\n").unwrap();
    stand.steps(12 + JOIN_STEPS);
    assert_eq!((stand.quotas("a"), stand.quotas("b")[0]), ([500, 550], 125));
    assert!(stand.errors("burst") >= 1);
}

#[test]
fn a_group_that_gets_a_burst_leaves_and_the_others_may_have_their_own() {
    for of_pod in [false, true] {
        let mut stand = Stand::new(&[("a", 0.5), ("b", 0.5)]);
        stand.join();
        stand.load.insert("a", (0.125, 1.0));
        stand.steps(30);
        assert!(stand.quotas("a")[0] > 700, "{:?}", stand.quotas("a"));
        let burst = if of_pod { stand.pod("a") } else { stand.group("a") }.join("cpu.max.burst");
        fs::write(&burst, "60000\n").unwrap();
        stand.load.insert("a", (0.0, 0.0));
        stand.load.insert("b", (0.5, 1.0));
        stand.steps(100);
        assert!(stand.errors("burst") >= 1);
        // As little as the kernel allows.
        assert_eq!(stand.quotas("a"), if of_pod { [500, 600] } else { [600, 650] });
        assert!((490..=500).contains(&stand.quotas("b")[0]), "{:?}", stand.quotas("b"));
        fs::write(&burst, "0\n").unwrap();
        stand.steps(12 + JOIN_STEPS + 30);
        assert!(stand.quotas("b")[0] > 700, "it is back: {:?}", stand.quotas("b"));
        stand.agent.restore();
        assert_eq!(stand.quotas("a"), [500, 550]);
    }
}

/// 1 ms is the kernel's least quota.
#[test]
fn containers_for_whose_least_quotas_there_is_no_room_are_left_alone() {
    for (period, managed) in [(10_000, 2), (100_000, 3)] {
        let mut stand = Stand::new(&[("a", 0.2), ("b", 0.2), ("c", 0.2)]);
        stand.configure(&super::testbed::CONFIG.replace("limit: 1", "limit: 0.2"));
        for uid in ["a", "b", "c"] {
            fs::write(stand.group(uid).join("cpu.max"), format!("{} {period}", period / 5)).unwrap();
        }
        stand.steps(12 + JOIN_STEPS);
        let count = ["a", "b", "c"].iter().filter(|uid| stand.container(uid).which.managed).count();
        assert_eq!(count, managed, "{period}");
        assert_eq!(stand.errors("limit") > 0, managed < 3);
    }
}

#[test]
fn one_that_asks_for_too_much_keeps_no_other_one_out() {
    let mut stand = Stand::new(&[("a", 0.5), ("b", 0.5)]);
    stand.join();
    stand.add("c", 0.5);
    stand.add("d", 0.5);
    stand.pods[2].containers[0].requests = Cores::new(1.5);
    stand.tell();
    stand.steps(12 + JOIN_STEPS);
    assert_eq!((stand.quotas("c"), stand.quotas("d")[0]), ([500, 550], 125));
    assert!(!stand.container("c").which.managed && stand.container("d").which.managed);
    // The same holds for those that join together with it.
    drop(stand.agent.release());
    stand.restart();
    stand.steps(12 + JOIN_STEPS);
    assert_eq!((stand.quotas("c"), stand.quotas("d")[0]), ([500, 550], 125));
    assert!(!stand.container("c").which.managed && stand.container("d").which.managed && stand.errors("limit") >= 1);
}

#[test]
fn a_container_that_cannot_come_back_does_not_hold_others_down() {
    let mut stand = Stand::new(&[("a", 1.0), ("b", 1.0)]);
    stand.join();
    assert_eq!((stand.quotas("a")[0], stand.quotas("b")[0]), (125, 125));
    // Its minimum leaves no room for b's.
    stand.pods[0].containers[0].requests = Cores::new(0.97);
    stand.tell();
    stand.steps(12 + JOIN_STEPS);
    assert_eq!((stand.quotas("a")[0], stand.container("a").which.managed), (1_000, false));
    stand.load.insert("b", (0.125, 1.0));
    stand.steps(30);
    assert!(stand.quotas("b")[0] > 400, "{:?}", stand.quotas("b"));
}

#[test]
fn a_smaller_request_and_a_smaller_limit_at_once_are_taken() {
    let mut stand = Stand::new(&[("a", 1.0)]);
    stand.pods[0].containers[0].requests = Cores::new(0.9);
    stand.tell();
    stand.join();
    assert_eq!(stand.quotas("a")[0], 900);
    stand.pods[0].containers[0].requests = Cores::new(0.2);
    stand.write("a", 0.3);
    stand.tell();
    // The pause takes a minute.
    stand.steps(630);
    assert!(stand.container("a").which.managed);
    assert_eq!(stand.quotas("a")[0], 200);
    assert_eq!(stand.status().cpu["shop/checkout"].limit.to_string(), "300m");
}
