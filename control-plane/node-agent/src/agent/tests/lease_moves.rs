//! A cluster-wide limit: when a part may move to another node, and what is counted.

use super::leases::{asked, leased, part, stand, start, sum, tell};
use super::testbed::Stand;
use crate::agent::{JOIN_STEPS, WAIT};
use crate::cores::Cores;
use bloc_leases::Part;
use std::fs;

#[test]
fn quotas_of_an_earlier_agent_count_until_they_have_fallen() {
    let (mut stand, _) = stand(&[("a", 0.5), ("b", 0.5)], 500_000);
    stand.load.insert("a", (0.5, 1.0));
    stand.join();
    // After a crash, and later after a release.
    for released in [false, true] {
        if released {
            stand.agent.release();
        }
        let leases = start(&mut stand, 500_000);
        stand.steps(2);
        let grown = sum(&stand, &["a", "b"]);
        assert!(grown > 800, "{grown}");
        tell(&leases, 500_000, 200_000);
        for _ in 2..JOIN_STEPS {
            stand.steps(1);
            let quotas = sum(&stand, &["a", "b"]);
            assert!(i64::from(part(&leases)) >= ((quotas - 1) * 500).min(500_000), "{quotas} {}", part(&leases));
        }
        assert_eq!(sum(&stand, &["a", "b"]), grown);
        assert!(part(&leases) > 400_000, "{}", part(&leases));
        // The fall so far had its own number, so the goal is told again.
        tell(&leases, part(&leases), 200_000);
        stand.steps(4);
        let quotas = sum(&stand, &["a", "b"]);
        assert!(quotas <= 400 && part(&leases) <= 200_010, "{quotas} {}", part(&leases));
        tell(&leases, 500_000, 500_000);
        stand.steps(30);
    }
}

#[test]
fn quotas_of_an_earlier_agent_count_as_long_as_originals_cannot_be_kept() {
    let (mut stand, _) = stand(&[("a", 0.5), ("b", 0.5)], 500_000);
    stand.load.insert("a", (0.5, 1.0));
    stand.join();
    stand.agent.release();
    let leases = start(&mut stand, 500_000);
    let blocked = stand.path("state/originals.json.new");
    fs::create_dir(&blocked).unwrap();
    stand.steps(2);
    tell(&leases, 500_000, 200_000);
    stand.steps(30);
    assert!(stand.errors("state") > 0 && sum(&stand, &["a", "b"]) > 800);
    assert!(part(&leases) > 400_000, "{}", part(&leases));
    fs::remove_dir(&blocked).unwrap();
    tell(&leases, part(&leases), 200_000);
    stand.steps(20);
    assert!(part(&leases) <= 200_010, "{}", part(&leases));
}

#[test]
fn who_is_refused_loses_what_an_earlier_agent_gave_and_holds_up_nothing() {
    let (mut stand, _) = stand(&[("a", 0.5), ("b", 0.5)], 500_000);
    stand.load.insert("a", (0.6, 1.0));
    stand.join();
    stand.steps(10);
    assert!(stand.quotas("a")[0] > 600);
    // Its minimums now exceed the whole limit.
    stand.pods[0].containers[0].requests = Cores::new(1.9);
    stand.pods[1].containers[0].requests = Cores::new(0.2);
    stand.agent.release();
    let leases = start(&mut stand, 500_000);
    stand.steps(2);
    tell(&leases, 500_000, 100_000);
    stand.steps(3 * JOIN_STEPS);
    assert_eq!((stand.quotas("a")[0], stand.container("b").which.managed), (500, true));
    assert!(part(&leases) < 200_000, "{}", part(&leases));
}

#[test]
fn a_node_for_which_nothing_is_free_counts_that_each_second() {
    let (mut stand, _leases) = stand(&[("a", 0.5)], 0);
    stand.steps(WAIT * JOIN_STEPS);
    assert_eq!(stand.errors("limit"), 0, "it waits");
    stand.steps(20);
    let before = stand.errors("limit");
    stand.steps(50);
    assert_eq!(stand.errors("limit"), before + 5);
}

#[test]
fn a_part_below_what_containers_keep_counts_each_second() {
    let (mut stand, _leases) = stand(&[("a", 0.5), ("b", 0.5)], 500_000);
    for pod in &mut stand.pods {
        pod.containers[0].requests = Cores::new(0.3);
    }
    stand.tell();
    stand.join();
    assert_eq!((stand.errors("limit"), sum(&stand, &["a", "b"])), (0, 600));
    stand.configure(&leased().replace("limit: 2", "limit: 1"));
    stand.steps(10);
    let before = stand.errors("limit");
    stand.steps(50);
    assert_eq!((stand.errors("limit"), sum(&stand, &["a", "b"])), (before + 5, 600));
    // It holds just the minimums, which are already in force.
    stand.configure(&leased().replace("limit: 2", "limit: 1.2"));
    stand.steps(11);
    let before = stand.errors("limit");
    stand.steps(50);
    assert_eq!(stand.errors("limit"), before);
}

#[test]
fn what_cannot_be_put_back_is_not_given_back() {
    for yaml in [leased().replace("enforce", "observe"), "{mode: enforce}".to_owned()] {
        let (mut stand, leases) = stand(&[("a", 0.5)], 500_000);
        stand.load.insert("a", (0.6, 1.0));
        stand.join();
        stand.steps(10);
        let grown = stand.quotas("a")[0];
        assert!(grown > 600, "{grown}");
        let (file, away) = (stand.group("a").join("cpu.max"), stand.path("away"));
        fs::rename(&file, &away).unwrap();
        fs::create_dir(&file).unwrap();
        stand.configure(&yaml);
        stand.steps(20);
        assert_eq!(part(&leases), 500_000, "{yaml}");
        fs::remove_dir(&file).unwrap();
        fs::rename(&away, &file).unwrap();
        stand.steps(20);
        assert_eq!((part(&leases), stand.quotas("a")[0]), (0, 500), "{yaml}");
    }
}

#[test]
fn applications_without_containers_here_are_asked_about_once() {
    let mut stand = Stand::new(&[]);
    let leases = start(&mut stand, 0);
    assert_eq!(asked(&leases), None, "nobody knows who runs here");
    stand.steps(1);
    let ask = asked(&leases).unwrap();
    assert_eq!((ask.part, ask.wants, ask.least), (Part::ZERO, Part::ZERO, Part::ZERO));
    tell(&leases, 0, 0);
    stand.steps(20);
    assert_eq!(asked(&leases), None);
}
