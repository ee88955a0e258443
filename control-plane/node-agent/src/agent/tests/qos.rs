//! CPU shares move by response times, and are put back.

use super::qos_testbed::{CONFIG, IN_TIME, LATE, Stand, name};
use crate::agent::Agent;
use crate::cgroup::Version;
use crate::cores::Cores;
use crate::qos::Answers;
use crate::report::PodName;
use std::collections::BTreeSet;
use std::fs;
use std::time::Duration;

/// One of four cores each; `a` is late, the other one is not.
fn two() -> Stand {
    let mut stand = Stand::new(&[("a", "burstable", 1_000), ("b", "burstable", 1_000)]);
    stand.load.extend([("a", LATE), ("b", IN_TIME)]);
    stand
}

#[test]
fn who_is_late_gets_shares_of_who_is_not_and_the_pods_follow() {
    let mut stand = two();
    stand.seconds(1);
    assert_eq!((stand.numbers("a"), stand.numbers("b")), ([1_000; 2], [1_000; 2]), "it has just come");
    stand.seconds(1);
    assert_eq!(stand.shares(), [1_034.0, 1_014.0]);
    // 1,034 of 1,024.
    assert_eq!((stand.numbers("a"), stand.numbers("b")), ([1_010; 2], [990; 2]));
    assert!(stand.originals().contains("burstable/poda/ca") && stand.originals().contains("burstable/podb\""));
    let shown = stand.container("a");
    assert_eq!((shown.shares, shown.requested, shown.response), (1_034.0, 1_024.0, Some(0.3)));
    assert!(shown.which.managed && shown.which.foreign == 0);
    assert_eq!(stand.app().target, Duration::from_millis(200));
    assert_eq!(stand.agent.status().writes, 4);
    stand.load.clear();
    stand.seconds(3);
    assert_eq!((stand.shares(), stand.agent.status().writes), (vec![1_034.0, 1_014.0], 4), "nobody was judged");
}

#[test]
fn each_keeps_what_gives_it_what_it_requests_on_a_node_where_all_want_more() {
    let mut stand = two();
    stand.seconds(62);
    // Two of four cores are requested.
    assert_eq!(stand.shares(), [1_536.0, 512.0]);
    assert_eq!((stand.numbers("a"), stand.numbers("b")), ([1_500; 2], [500; 2]));
    // A pod outside the application takes room.
    stand.add(("c", "", 1_000));
    stand.pods[2].labels.clear();
    stand.tell();
    stand.seconds(1);
    assert_eq!(stand.shares(), [1_280.0, 768.0], "three of four");
}

#[test]
fn on_a_node_that_is_fully_requested_nothing_moves() {
    let mut stand = two();
    stand.restart(2.0);
    stand.seconds(10);
    assert_eq!(stand.shares(), [1_024.0; 2]);
    assert_eq!(stand.agent.status().writes, 0);
    stand.pods[1].containers[0].requests = Cores::new(1.5);
    stand.tell();
    stand.seconds(10);
    assert_eq!(stand.shares(), [1_024.0, 1_536.0], "more is requested than there is");
}

#[test]
fn pods_of_two_parents_do_not_exchange() {
    let mut stand = Stand::new(&[("a", "burstable", 1_000), ("b", "", 1_000)]);
    stand.load.extend([("a", LATE), ("b", IN_TIME)]);
    stand.seconds(10);
    assert_eq!((stand.shares(), stand.agent.status().writes), (vec![1_024.0; 2], 0));
    stand.add(("c", "burstable", 500));
    stand.load.insert("c", IN_TIME);
    stand.tell();
    stand.seconds(2);
    // a, b, c.
    assert_eq!(stand.shares(), [1_029.0, 1_024.0, 507.0]);
}

#[test]
fn a_pod_without_requests_has_the_least_weight_and_may_get_more() {
    let mut stand = Stand::new(&[("a", "burstable", 0), ("b", "burstable", 1_000)]);
    stand.load.extend([("a", LATE), ("b", IN_TIME)]);
    stand.seconds(6);
    // Weight 1 is up to 26.217 shares; an eighth of them moves each second.
    assert_eq!((stand.shares(), stand.numbers("a")), (vec![42.602335, 1_007.614486], [2; 2]));
    stand.load.extend([("a", IN_TIME), ("b", LATE)]);
    stand.seconds(5);
    assert_eq!(stand.numbers("a"), [1; 2]);
}

#[test]
fn who_has_the_least_weight_gives_nothing() {
    let mut stand = Stand::new(&[("a", "burstable", 0), ("b", "burstable", 1_000)]);
    stand.load.extend([("a", Duration::ZERO), ("b", LATE)]);
    stand.seconds(10);
    assert_eq!((stand.shares(), stand.numbers("b")), (vec![26.216822, 1_024.0], [1_000; 2]));
}

#[test]
fn a_pod_has_as_much_more_as_its_containers_and_what_the_others_have() {
    for version in [Version::V1, Version::V2] {
        let mut stand = Stand::with(version, &[("a", "burstable", 1_000), ("b", "burstable", 1_000)]);
        let sidecar = stand.second("a", "istio-proxy", 500);
        if version == Version::V1 {
            // Its file has more than its requests.
            stand.pods[0].containers[1].requests = Cores::ZERO;
        }
        stand.load.extend([("a", LATE), ("b", IN_TIME)]);
        stand.tell();
        stand.seconds(11);
        assert_eq!(stand.shares(), [1_124.0, 924.0]);
        let (container, pod, beside, other) = match version {
            Version::V1 => (1_124, 1_636, 512, 924),
            // 1,500 * (1,536 + 100) / 1,536
            Version::V2 => (1_098, 1_598, 500, 902),
        };
        assert_eq!((stand.numbers("a"), stand.number(&sidecar)), ([container, pod], beside));
        assert_eq!(stand.numbers("b"), [other; 2]);
    }
}

#[test]
fn both_containers_of_a_pod_are_late_if_the_pod_is() {
    let mut stand = two();
    let second = stand.second("a", "second", 500);
    stand.tell();
    stand.seconds(2);
    // a, its second one, b.
    assert_eq!(stand.shares(), [1_030.666667, 515.333333, 1_014.0]);
    assert_eq!((stand.numbers("a"), stand.number(&second)), ([1_007, 1_510], 503));
    // Those that do not run yet also count for their pod.
    let mut missing = stand.pods[0].containers[1].clone();
    missing.id = "missing".to_owned();
    stand.pods[1].containers.push(missing.clone());
    missing.id = "another".to_owned();
    stand.pods[1].containers.push(missing);
    stand.tell();
    stand.seconds(1);
    assert_eq!(stand.shares()[2], 1_004.0);
    assert_eq!(stand.numbers("b"), [980, 990], "2,028 of 2,048");
}

#[test]
fn a_container_of_version_1_has_what_its_file_says() {
    let mut stand = Stand::with(Version::V1, &[("a", "burstable", 1_000), ("b", "burstable", 1_000)]);
    for pod in &mut stand.pods {
        pod.containers[0].requests = Cores::new(0.5);
    }
    stand.tell();
    stand.load.extend([("a", LATE), ("b", IN_TIME)]);
    stand.seconds(3);
    assert_eq!((stand.numbers("a"), stand.numbers("b")), ([1_044; 2], [1_004; 2]));
    assert_eq!(stand.container("a").requested, 1_024.0);
}

#[test]
fn at_the_end_each_has_its_original() {
    for end in [Agent::release, Agent::restore] {
        let mut stand = two();
        stand.seconds(20);
        assert_eq!(stand.numbers("b"), [814; 2]);
        assert!(end(&mut stand.agent).is_empty());
        assert_eq!((stand.numbers("a"), stand.numbers("b")), ([1_000; 2], [1_000; 2]));
        stand.restart(4.0);
        stand.seconds(3);
        assert_eq!((stand.numbers("a"), stand.numbers("b")), ([1_020; 2], [980; 2]));
    }
}

#[test]
fn after_a_crash_the_next_start_knows_the_originals() {
    let mut stand = two();
    stand.seconds(20);
    stand.restart(4.0);
    stand.load.clear();
    stand.seconds(1);
    assert_eq!((stand.numbers("a"), stand.numbers("b")), ([1_000; 2], [1_000; 2]), "it starts anew");
    stand.load.extend([("a", LATE), ("b", IN_TIME)]);
    stand.seconds(2);
    assert_eq!(stand.numbers("b"), [980; 2]);
    stand.restart(4.0);
    stand.configure("{}");
    stand.seconds(1);
    assert_eq!((stand.numbers("a"), stand.numbers("b")), ([1_000; 2], [1_000; 2]), "it is not managed");
    assert!(!stand.originals().contains("pod"));
}

#[test]
fn what_is_no_longer_managed_gets_its_own_back() {
    let without = CONFIG.replace("shop/checkout", "shop/other").replace("app: checkout", "app: other");
    let quotas = CONFIG.replace("qos: {target: 200ms}", "cpu: {limit: 1}");
    for yaml in [without, quotas, CONFIG.replace("enforce", "observe"), "{mode: enforce}".to_owned()] {
        let mut stand = two();
        stand.seconds(20);
        stand.configure(&yaml);
        stand.seconds(1);
        assert_eq!((stand.numbers("a"), stand.numbers("b")), ([1_000; 2], [1_000; 2]), "{yaml}");
        assert!(!stand.originals().contains("pod"), "{yaml}");
    }
}

#[test]
fn shares_that_somebody_else_writes_are_adopted_and_left_alone_for_a_minute() {
    let mut stand = two();
    stand.add(("c", "burstable", 1_000));
    stand.load.insert("c", IN_TIME);
    stand.tell();
    stand.seconds(11);
    assert_eq!(stand.shares(), [1_224.0, 924.0, 924.0]);
    stand.write(&stand.group("b"), 800);
    stand.load.clear();
    stand.seconds(1);
    assert_eq!((stand.numbers("b"), stand.number(&stand.group("a"))), ([800, 1_000], 1_098));
    assert_eq!(stand.shares(), [1_124.0, 1_024.0, 924.0], "what it gave goes back");
    let shown = stand.container("b").which;
    assert_eq!((shown.managed, shown.foreign, stand.container("a").which.foreign), (false, 1, 0));
    stand.load.insert("b", LATE);
    stand.seconds(9);
    // As the API reports an in-place resize.
    stand.pods[1].containers[0].requests = Cores::milli(800);
    stand.tell();
    stand.seconds(50);
    assert_eq!((stand.numbers("b"), stand.shares()[1]), ([800, 1_000], 819.2));
    stand.load.insert("c", IN_TIME);
    stand.seconds(2);
    assert!(stand.container("b").which.managed);
    assert_eq!((stand.numbers("b"), stand.shares()[1]), ([810, 1_012], 829.2));
    stand.agent.restore();
    assert_eq!((stand.numbers("a"), stand.numbers("b")), ([1_000; 2], [800, 1_000]));
}

#[test]
fn shares_of_a_pod_that_somebody_else_writes_stay_too() {
    let mut stand = two();
    stand.seconds(11);
    stand.write(&stand.pod("b"), 2_000);
    stand.seconds(1);
    assert_eq!((stand.numbers("a"), stand.numbers("b")), ([1_000; 2], [1_000, 2_000]));
    assert!(!stand.container("b").which.managed);
    stand.agent.release();
    assert_eq!(stand.numbers("b"), [1_000, 2_000]);
}

#[test]
fn what_somebody_else_writes_just_before_the_end_stays() {
    for end in [Agent::release, Agent::restore] {
        let mut stand = two();
        stand.seconds(11);
        stand.write(&stand.group("b"), 777);
        end(&mut stand.agent);
        assert_eq!((stand.numbers("a"), stand.numbers("b")), ([1_000; 2], [777, 1_000]));
    }
}

#[test]
fn what_one_that_is_gone_had_of_others_goes_back() {
    let mut stand = two();
    stand.add(("c", "burstable", 1_000));
    stand.load.insert("c", IN_TIME);
    stand.tell();
    stand.seconds(11);
    assert_eq!(stand.shares(), [1_224.0, 924.0, 924.0]);
    fs::remove_dir_all(stand.group("a")).unwrap();
    stand.seconds(1);
    assert_eq!(stand.app().containers.len(), 2, "it cannot be written");
    assert_eq!(stand.number(&stand.pod("a")), 1_000, "for another one that starts in it");
    stand.seconds(1);
    assert_eq!((stand.numbers("b"), stand.numbers("c")), ([1_000; 2], [1_000; 2]));
    fs::create_dir(stand.group("a")).unwrap();
    stand.write(&stand.group("a"), 1_000);
    stand.seconds(2);
    assert_eq!(stand.numbers("a"), [1_020; 2], "it is there again");
    fs::remove_dir_all(stand.pod("a")).unwrap();
    stand.pods.remove(0);
    stand.tell();
    stand.seconds(1);
    assert!(!stand.originals().contains("poda") && stand.originals().contains("podb"), "{}", stand.originals());
    assert_eq!(stand.errors("write"), 0);
}

#[test]
fn a_container_that_is_not_wanted_any_more_is_as_before_and_so_are_the_others() {
    let mut stand = two();
    stand.seconds(11);
    stand.pods[0].labels.clear();
    stand.tell();
    stand.seconds(1);
    assert_eq!((stand.numbers("a"), stand.numbers("b")), ([1_000; 2], [1_000; 2]));
    assert!(!stand.originals().contains("poda"));
    assert_eq!(stand.agent.asks(), BTreeSet::from([name("b")]));
}

#[test]
fn an_observer_writes_nothing_and_shows_what_it_would_do() {
    let mut stand = two();
    stand.configure(&CONFIG.replace("enforce", "observe"));
    stand.seconds(11);
    assert_eq!(stand.shares(), [1_124.0, 924.0]);
    assert_eq!((stand.numbers("a"), stand.numbers("b")), ([1_000; 2], [1_000; 2]));
    assert_eq!((stand.agent.status().writes, stand.originals().as_str()), (0, ""));
    assert_eq!(stand.agent.asks().len(), 2);
    stand.configure(CONFIG);
    stand.seconds(1);
    assert_eq!(stand.shares(), [1_024.0; 2], "it starts anew");
}

#[test]
fn another_target_holds_from_the_next_second_on() {
    let mut stand = two();
    stand.seconds(2);
    stand.configure(&CONFIG.replace("200ms", "40ms, step: 50"));
    stand.seconds(1);
    assert_eq!(stand.shares(), [1_029.0, 1_019.0], "both are late: half of it comes back");
    stand.load.insert("b", Duration::from_millis(30));
    stand.seconds(1);
    assert_eq!((stand.shares(), stand.app().target), (vec![1_157.0, 891.0], Duration::from_millis(40)));
}

#[test]
fn other_requests_are_its_own_from_then_on() {
    let mut stand = two();
    stand.seconds(11);
    stand.pods[1].containers[0].requests = Cores::milli(500);
    stand.tell();
    stand.load.clear();
    stand.seconds(1);
    assert_eq!(
        (stand.shares(), stand.numbers("a"), stand.numbers("b")),
        (vec![1_024.0, 512.0], [1_000; 2], [1_000; 2])
    );
    assert!(stand.container("b").which.managed);
}

#[test]
fn only_pods_that_are_asked_for_count() {
    let mut stand = two();
    stand.seconds(1);
    assert_eq!(stand.agent.asks(), BTreeSet::from([name("a"), name("b")]));
    stand.load.clear();
    let late = Answers { count: 20, time: Duration::from_secs(60) };
    let other = PodName { namespace: "other".to_owned(), name: "checkout-a".to_owned() };
    for pod in [&other, &name("c")] {
        stand.agent.answered(pod, late);
    }
    stand.agent.answered(&name("b"), Answers { count: 20, time: Duration::ZERO });
    stand.seconds(1);
    assert_eq!((stand.shares(), stand.container("a").response), (vec![1_024.0; 2], None));
    assert_eq!(stand.container("b").response, Some(0.0));
}

#[test]
fn nothing_is_written_while_the_originals_cannot_be_kept() {
    let mut stand = two();
    fs::create_dir_all(stand.path("state/shares.json.new")).unwrap();
    stand.seconds(3);
    assert_eq!((stand.numbers("a"), stand.agent.status().writes), ([1_000; 2], 0));
    assert!(!stand.container("a").which.managed && stand.errors("state") >= 3);
    fs::remove_dir(stand.path("state/shares.json.new")).unwrap();
    stand.seconds(2);
    assert_eq!(stand.numbers("a"), [1_010; 2]);
    // So is what an earlier agent left.
    fs::create_dir_all(stand.path("state/shares.json.new")).unwrap();
    stand.restart(4.0);
    stand.seconds(2);
    assert_eq!((stand.numbers("a"), stand.numbers("b")), ([1_000; 2], [1_000; 2]));
}

#[test]
fn one_that_cannot_be_written_or_read_is_left_alone() {
    let mut stand = two();
    stand.seconds(1);
    // The open file can be read; the path cannot be written.
    let file = stand.file(&stand.group("a"));
    fs::rename(&file, stand.path("moved")).unwrap();
    fs::create_dir(&file).unwrap();
    stand.seconds(1);
    assert_eq!((stand.errors("write"), stand.container("a").which.managed), (1, false));
    stand.seconds(1);
    assert_eq!((stand.numbers("b"), stand.shares()), ([1_000; 2], vec![1_024.0; 2]));
    let mut stand = two();
    stand.write(&stand.group("a"), 0);
    stand.seconds(3);
    assert!(stand.errors("read") >= 3 && stand.app().containers.len() == 1);
    assert_eq!(stand.numbers("b"), [1_000; 2]);
}
