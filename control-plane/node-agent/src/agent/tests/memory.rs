//! Memory moves between containers, and is put back.

use super::memory_testbed::{CONFIG, Stand};
use crate::bytes::Bytes;
use std::fs;

#[test]
fn containers_start_with_their_part_and_a_step_above_it() {
    let mut stand = Stand::new(&[("a", 500, 100), ("b", 500, 500)]);
    stand.seconds(2);
    assert_eq!((stand.limits("a"), stand.limits("b")), ([400, 416], [550, 566]));
    assert_eq!((stand.of_pod("a"), stand.of_pod("b")), (500, 566), "a pod has its own or more");
    let app = stand.app();
    assert_eq!((app.limit, app.pool), (Bytes::mebi(1_000), Bytes::mebi(50)));
    let shown = stand.container("b");
    assert_eq!((shown.limit, shown.used), (Some(Bytes::mebi(550)), Bytes::mebi(500)));
    assert_eq!(app.oom_kills["checkout-b"], 3);
    assert!(shown.which.managed);
    assert!(stand.originals().contains("podb/cb"));
}

#[test]
fn what_is_not_used_is_taken_each_five_seconds() {
    let mut stand = Stand::new(&[("a", 500, 100), ("b", 500, 500)]);
    stand.seconds(4);
    assert_eq!(stand.limits("a"), [400, 416]);
    stand.seconds(3);
    assert_eq!((stand.limits("a"), stand.limits("b")), ([150, 166], [550, 566]));
    stand.uses("a", 110, 0);
    stand.seconds(6);
    assert_eq!(stand.limits("a"), [150, 166], "it has only less of a margin");
    stand.uses("a", 40, 0);
    stand.seconds(6);
    assert_eq!(stand.limits("a"), [90, 106]);
}

#[test]
fn who_is_at_its_limit_gets_more_between_two_steps() {
    let mut stand = Stand::new(&[("a", 500, 100), ("b", 500, 500)]);
    stand.seconds(7);
    stand.uses("a", 149, 0);
    stand.asks("a");
    assert_eq!(stand.limits("a"), [166, 182]);
    stand.uses("a", 181, 0);
    stand.asks("a");
    assert_eq!(stand.limits("a"), [198, 214], "until it has a step to go");
    assert_eq!((stand.app().grants, stand.app().refused_grants), (2, 0));
    // An alarm is missed.
    stand.uses("a", 190, 0);
    stand.seconds(1);
    assert_eq!(stand.limits("a"), [214, 230]);
    stand.asks("a");
    assert_eq!(stand.limits("a"), [214, 230], "it has a step to go");
}

#[test]
fn if_nobody_has_memory_the_kernel_decides_without_holding_it_up() {
    let mut stand = Stand::new(&[("a", 500, 400), ("b", 500, 500)]);
    stand.seconds(2);
    assert_eq!((stand.limits("a"), stand.limits("b")), ([450, 466], [550, 566]));
    stand.uses("a", 449, 0);
    stand.uses("b", 549, 0);
    stand.asks("a");
    assert_eq!(stand.limits("a"), [466, 466]);
    assert_eq!((stand.app().grants, stand.app().refused_grants), (0, 1));
    stand.seconds(1);
    assert_eq!((stand.limits("a"), stand.limits("b")), ([466, 466], [566, 566]));
    stand.uses("b", 400, 0);
    stand.seconds(1);
    assert_eq!((stand.limits("a"), stand.limits("b")), ([466, 482], [534, 550]), "from what the other has to spare");
    assert_eq!(stand.app().pool, Bytes::ZERO);
}

#[test]
fn nothing_is_taken_that_is_in_use_when_somebody_asks() {
    let mut stand = Stand::new(&[("a", 500, 100), ("b", 500, 100)]);
    stand.seconds(2);
    assert_eq!((stand.limits("a"), stand.limits("b")), ([400, 416], [400, 416]));
    // Since it was last read.
    stand.uses("b", 390, 0);
    for _ in 0..20 {
        stand.uses("a", stand.limits("a")[0] - 1, 0);
        stand.asks("a");
    }
    assert_eq!((stand.limits("a"), stand.limits("b")), ([616, 616], [400, 416]));
}

#[test]
fn page_cache_is_no_use_and_is_taken_little_by_little() {
    let mut stand = Stand::new(&[("a", 2_000, 0), ("b", 300, 0)]);
    stand.uses("a", 100, 1_400);
    stand.seconds(1);
    assert_eq!(stand.limits("a"), [1_244, 1_516], "256 MiB of cache at once, and never below what is in use");
    stand.uses("b", 390, 0);
    stand.asks("b");
    assert_eq!(stand.limits("a")[0], 1_244, "what was taken is not given back");
    stand.uses("b", 0, 0);
    stand.uses("a", 100, 1_144);
    stand.seconds(1);
    assert_eq!(stand.limits("a"), [988, 1_260]);
    stand.uses("a", 100, 300);
    stand.seconds(1);
    assert_eq!(stand.limits("a"), [400, 416]);
    stand.seconds(5);
    assert_eq!(stand.limits("a"), [150, 416]);
    stand.uses("a", 100, 50);
    stand.seconds(1);
    assert_eq!(stand.limits("a"), [150, 166]);
    let grants = stand.app().grants;
    stand.asks("a");
    assert_eq!(stand.app().grants, grants, "the kernel takes the cache");
}

#[test]
fn cache_that_is_not_on_the_disk_yet_is_not_taken() {
    let mut stand = Stand::new(&[("a", 2_000, 0)]);
    stand.uses("a", 100, 1_000);
    let stat = format!("inactive_file {}\nfile_dirty {}\nfile_writeback 0\n", 1_000 << 20, 990 << 20);
    fs::write(stand.group("a").join("memory.stat"), stat).unwrap();
    stand.seconds(1);
    assert_eq!(stand.limits("a"), [1_090, 1_116], "only what is clean");
}

#[test]
fn a_limit_that_somebody_else_writes_is_adopted_and_left_alone_for_a_minute() {
    let mut stand = Stand::new(&[("a", 500, 100), ("b", 500, 500)]);
    stand.seconds(2);
    stand.write("a", "memory.max", 300);
    stand.seconds(1);
    assert_eq!(stand.limits("a"), [0, 300], "what the agent has written does not hold it up");
    let shown = stand.container("a");
    assert_eq!((shown.which.managed, shown.which.foreign, shown.limit), (false, 1, Some(Bytes::mebi(300))));
    stand.asks("a");
    stand.seconds(59);
    assert_eq!(stand.limits("a"), [0, 300]);
    stand.seconds(8);
    assert_eq!(stand.limits("a"), [150, 166]);
    stand.agent.restore();
    assert_eq!(stand.limits("a"), [0, 300]);
}

#[test]
fn a_high_limit_that_somebody_else_writes_is_kept_and_the_maximum_is_its_own() {
    let mut stand = Stand::new(&[("a", 500, 100)]);
    stand.seconds(7);
    stand.write("a", "memory.high", 140);
    stand.seconds(1);
    assert_eq!(stand.limits("a"), [140, 500]);
    stand.agent.restore();
    assert_eq!(stand.limits("a"), [140, 500]);
}

#[test]
fn what_a_paused_container_had_of_the_limit_stays_reserved() {
    let mut stand = Stand::new(&[("a", 500, 100), ("b", 500, 500)]);
    stand.seconds(7);
    assert_eq!(stand.limits("a"), [150, 166]);
    stand.write("a", "memory.max", 500);
    stand.uses("a", 20, 0);
    for _ in 0..40 {
        stand.uses("b", stand.limits("b")[0] - 1, 0);
        stand.seconds(1);
    }
    assert_eq!((stand.limits("a"), stand.limits("b")), ([0, 500], [866, 866]));
}

#[test]
fn a_resize_after_a_restore_that_had_to_wait_is_kept() {
    let mut stand = Stand::new(&[("a", 500, 100), ("b", 500, 500)]);
    stand.seconds(7);
    stand.uses("b", 549, 0);
    stand.asks("b");
    stand.configure("{mode: enforce}");
    stand.seconds(2);
    assert_eq!(stand.limits("b"), [0, 582]);
    fs::write(stand.pod("b").join("memory.max"), (2_000_u64 << 20).to_string()).unwrap();
    stand.write("b", "memory.max", 2_000);
    stand.seconds(5);
    stand.uses("b", 480, 0);
    stand.seconds(2);
    assert_eq!((stand.limits("b"), stand.of_pod("b")), ([0, 2_000], 2_000));
    assert!(!stand.originals().contains("pod"));
}

/// The node's page cache, or a label, may change before the container uses less.
#[test]
fn an_observer_keeps_the_original_of_what_could_not_be_restored() {
    let mut stand = Stand::new(&[("a", 500, 100), ("b", 500, 500)]);
    stand.seconds(7);
    stand.uses("b", 549, 0);
    stand.asks("b");
    stand.configure(&CONFIG.replace("enforce", "observe"));
    stand.seconds(2);
    assert_eq!(stand.limits("b"), [0, 582]);
    stand.pods[1].labels.clear();
    stand.tell();
    stand.seconds(2);
    assert!(stand.originals().contains("podb"), "{}", stand.originals());
    stand.uses("b", 480, 0);
    stand.seconds(2);
    assert_eq!(stand.limits("b"), [0, 500]);
    assert!(!stand.originals().contains("podb"), "{}", stand.originals());
}

#[test]
fn what_an_observer_restores_late_is_nobody_elses_write() {
    let mut stand = Stand::new(&[("a", 500, 100), ("b", 500, 500)]);
    stand.seconds(7);
    stand.uses("b", 549, 0);
    stand.asks("b");
    stand.configure(&CONFIG.replace("enforce", "observe"));
    stand.seconds(2);
    assert_eq!(stand.limits("b"), [0, 582]);
    stand.uses("b", 480, 0);
    stand.seconds(3);
    assert_eq!((stand.limits("b"), stand.container("b").which.foreign), ([0, 500], 0));
}

#[test]
fn a_pod_has_as_much_more_as_its_containers_that_are_not_restored_yet() {
    let mut stand = Stand::new(&[("a", 500, 100), ("b", 500, 500)]);
    let group = stand.second("b", 500, 50);
    stand.tell();
    stand.seconds(7);
    stand.uses("b", 549, 0);
    stand.asks("b");
    assert_eq!(stand.limits("b"), [566, 582]);
    stand.agent.restore();
    let second = fs::read_to_string(group.join("memory.max")).unwrap();
    assert_eq!((stand.limits("b")[1], second, stand.of_pod("b")), (582, (500_u64 << 20).to_string(), 1_082));
}

#[test]
fn a_pod_that_uses_more_itself_is_lowered_later_and_its_container_managed() {
    let mut stand = Stand::new(&[("a", 500, 100), ("b", 500, 500)]);
    stand.seconds(7);
    assert_eq!(stand.of_pod("b"), 566);
    stand.uses("b", 300, 0);
    // Files of a memory-backed volume of the pod.
    fs::write(stand.pod("b").join("memory.current"), format!("{}", 560_u64 << 20)).unwrap();
    stand.seconds(6);
    assert_eq!((stand.limits("b"), stand.of_pod("b")), ([350, 366], 566));
    assert!(stand.container("b").which.managed);
}

#[test]
fn what_is_no_longer_managed_gets_its_own_back_and_a_restore_forgets_it() {
    let without = CONFIG.replace("shop/checkout", "shop/other").replace("app: checkout", "app: other");
    for yaml in [without, CONFIG.replace("enforce", "observe"), "{mode: enforce}".to_owned()] {
        let mut stand = Stand::new(&[("a", 500, 100), ("b", 500, 480)]);
        stand.seconds(2);
        assert_eq!(stand.of_pod("b"), 546);
        stand.configure(&yaml);
        stand.seconds(2);
        assert_eq!((stand.limits("a"), stand.limits("b"), stand.of_pod("b")), ([0, 500], [0, 500], 500), "{yaml}");
        assert!(!stand.originals().contains("pod"), "{yaml}");
    }
}

#[test]
fn a_container_that_uses_more_than_its_own_keeps_it_until_it_needs_less() {
    let mut stand = Stand::new(&[("a", 500, 100), ("b", 500, 500)]);
    stand.seconds(7);
    stand.uses("b", 549, 0);
    stand.asks("b");
    assert_eq!(stand.limits("b"), [566, 582]);
    stand.configure(&CONFIG.replace("enforce", "observe"));
    stand.seconds(2);
    assert_eq!((stand.limits("a"), stand.limits("b")), ([0, 500], [0, 582]), "nobody is killed nor held up");
    assert_eq!(stand.of_pod("b"), 582);
    assert!(stand.originals().contains("podb/cb") && stand.errors("in_use") > 0);
    stand.uses("b", 480, 0);
    stand.seconds(2);
    assert_eq!((stand.limits("b"), stand.of_pod("b")), ([0, 500], 500));
    assert!(!stand.originals().contains("pod"));
}

#[test]
fn a_release_holds_nobody_up_and_the_next_start_takes_over_what_is_full() {
    let mut stand = Stand::new(&[("a", 500, 300), ("b", 500, 500)]);
    stand.seconds(7);
    stand.uses("b", 549, 0);
    stand.asks("b");
    stand.agent.release();
    assert_eq!((stand.limits("a"), stand.limits("b")), ([0, 500], [0, 582]));
    assert_eq!(stand.of_pod("b"), 582);
    stand.uses("a", 420, 0);
    stand.uses("b", 570, 0);
    stand.restart();
    stand.seconds(2);
    assert_eq!(stand.errors("limit"), 0);
    assert_eq!((stand.limits("a"), stand.limits("b")), ([441, 441], [591, 591]), "what is left is shared");
    stand.uses("b", 450, 0);
    stand.agent.restore();
    assert_eq!((stand.limits("a"), stand.limits("b"), stand.of_pod("b")), ([0, 500], [0, 500], 500));
    assert!(!stand.originals().contains("pod"));
}

#[test]
fn if_the_limit_leaves_no_room_all_keep_their_own() {
    let mut stand = Stand::new(&[("a", 600, 460), ("b", 600, 500)]);
    stand.seconds(2);
    assert_eq!((stand.limits("a"), stand.limits("b")), ([0, 600], [0, 600]));
    assert!(stand.errors("limit") > 0 && !stand.container("a").which.managed);
    stand.uses("a", 400, 0);
    stand.seconds(1);
    assert_eq!((stand.limits("a"), stand.limits("b")), ([450, 466], [550, 566]));
}

#[test]
fn who_comes_later_gets_what_the_others_do_not_use() {
    let mut stand = Stand::new(&[("a", 500, 100), ("b", 500, 500)]);
    stand.seconds(2);
    for (uid, used) in [("c", 400), ("d", 130)] {
        stand.add(uid, 400);
        stand.uses(uid, used, 0);
    }
    stand.tell();
    stand.seconds(1);
    assert_eq!((stand.limits("c"), stand.limits("d")), ([0, 400], [180, 196]), "there is room for one");
    assert_eq!((stand.limits("a")[0], stand.limits("b")[0]), (270, 550));
    assert!(stand.errors("limit") > 0);
}

#[test]
fn a_limit_is_at_most_what_the_containers_had_unless_it_is_overridden() {
    let mut stand = Stand::new(&[("a", 300, 50), ("b", 300, 50)]);
    stand.seconds(1);
    assert_eq!(stand.app().limit, Bytes::mebi(600));
    stand.configure(&format!("overrideLimits: true\n{CONFIG}"));
    stand.seconds(2);
    assert_eq!(stand.app().limit, Bytes::mebi(1_000));
    stand.configure(&CONFIG.replace("1000Mi", "190Mi"));
    stand.seconds(2);
    assert_eq!(stand.app().limit, Bytes::mebi(1_000), "they use more, with the margin");
    assert!(stand.errors("limit") > 0);
    stand.configure(&CONFIG.replace("1000Mi", "210Mi"));
    stand.seconds(2);
    assert_eq!((stand.app().limit, stand.limits("a")[0] + stand.limits("b")[0]), (Bytes::mebi(210), 200));
}

#[test]
fn a_container_keeps_what_it_requests() {
    let mut stand = Stand::new(&[("a", 500, 10)]);
    stand.pods[0].containers[0].memory = Bytes::mebi(300);
    stand.tell();
    stand.seconds(7);
    assert_eq!(stand.limits("a"), [300, 316]);
    stand.pods[0].containers[0].memory = Bytes::mebi(350);
    stand.tell();
    stand.seconds(7);
    assert_eq!(stand.limits("a"), [350, 366]);
}

#[test]
fn an_observer_writes_nothing_and_shows_what_it_would() {
    let mut stand = Stand::new(&[("a", 500, 100), ("b", 500, 500)]);
    stand.configure(&CONFIG.replace("enforce", "observe"));
    stand.seconds(7);
    assert_eq!((stand.limits("a"), stand.limits("b")), ([0, 500], [0, 500]));
    assert_eq!(stand.container("a").limit, Some(Bytes::mebi(150)));
    stand.uses("a", 149, 0);
    stand.seconds(1);
    assert_eq!(stand.container("a").limit, Some(Bytes::mebi(166)));
    assert_eq!((stand.app().grants, stand.originals()), (1, String::new()));
}

#[test]
fn what_cannot_be_read_or_written_is_paused_with_at_least_its_own() {
    let mut stand = Stand::new(&[("a", 500, 100), ("b", 500, 300)]);
    stand.seconds(7);
    assert_eq!(stand.limits("a"), [150, 166]);
    fs::write(stand.group("a").join("memory.current"), "x").unwrap();
    stand.seconds(1);
    assert_eq!(stand.limits("a"), [150, 166]);
    stand.seconds(1);
    assert_eq!(stand.limits("a"), [0, 500]);
    assert!(stand.errors("read") > 0 && !stand.container("a").which.managed);
}

#[test]
fn without_memory_in_the_tree_it_says_so_and_does_nothing() {
    let mut stand = Stand::new(&[("a", 500, 100)]);
    fs::write(stand.pod("a").parent().unwrap().join("cgroup.controllers"), "cpu\n").unwrap();
    stand.restart();
    stand.seconds(2);
    assert!(stand.errors("read") > 0);
    assert_eq!((stand.limits("a"), stand.app().containers.len()), ([0, 500], 0));
}
