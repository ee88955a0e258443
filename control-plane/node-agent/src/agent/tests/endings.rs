//! Quotas are put back, and an agent starts again.

use super::testbed::{CONFIG, Stand, max, read};
use crate::agent::Agent;
use std::fs;

#[test]
fn what_is_no_longer_managed_gets_its_original_quota() {
    let without = CONFIG.replace("shop/checkout", "shop/other").replace("app: checkout", "app: other");
    let observe = CONFIG.replace("enforce", "observe");
    for yaml in [&without, &observe, &"{mode: enforce}".to_owned(), &"{}".to_owned()] {
        let mut stand = Stand::new(&[("a", 0.5)]);
        stand.join();
        assert_eq!(stand.quotas("a"), [125, 550]);
        stand.configure(yaml);
        stand.steps(11);
        assert_eq!(stand.quotas("a"), [500, 550], "{yaml}");
        assert!(!stand.originals().contains("pod"), "{yaml}");
    }
    let mut stand = Stand::new(&[("a", 0.5)]);
    stand.join();
    stand.pods[0].labels.clear();
    stand.tell();
    stand.steps(11);
    assert_eq!(stand.quotas("a"), [500, 550]);
    assert!(!stand.originals().contains("pod"));
}

#[test]
fn a_release_takes_nothing_and_a_restart_knows_the_originals() {
    let mut stand = Stand::new(&[("a", 0.5), ("b", 0.5)]);
    stand.join();
    stand.load.insert("a", (0.6, 1.0));
    stand.steps(10);
    let [grown, pod] = stand.quotas("a");
    assert!(grown > 600, "{grown}");
    stand.agent.release();
    assert_eq!((stand.quotas("a"), stand.quotas("b")), ([grown, pod], [500, 550]));
    stand.load.insert("a", (0.125, 0.0));
    stand.restart();
    stand.join();
    assert_eq!((stand.quotas("a"), stand.quotas("b")), ([250, 550], [125, 550]));
    stand.agent.restore();
    assert_eq!((stand.quotas("a"), stand.quotas("b")), ([500, 550], [500, 550]));
}

#[test]
fn after_a_crash_the_next_start_knows_the_originals() {
    let mut stand = Stand::new(&[("a", 0.5), ("b", 0.5)]);
    stand.join();
    assert_eq!(stand.quotas("a"), [125, 550]);
    stand.restart();
    stand.join();
    stand.agent.restore();
    assert_eq!((stand.quotas("a"), stand.quotas("b")), ([500, 550], [500, 550]));
    assert!(!stand.originals().contains("pod"));
}

#[test]
fn an_agent_that_starts_under_full_load_takes_over() {
    let mut stand = Stand::new(&[("a", 0.5), ("b", 0.5)]);
    stand.load.insert("a", (0.5, 1.0));
    stand.load.insert("b", (0.125, 0.0));
    stand.steps(60);
    let (a, b) = (stand.quotas("a")[0], stand.quotas("b")[0]);
    assert!(a > 650 && b < 300, "{a} {b}");
    // The guardian does this at the start. Both use all that they have.
    stand.agent.release();
    let b = b.max(500);
    stand.load.insert("a", (a as f64 / 1_000.0, 1.0));
    stand.load.insert("b", (b as f64 / 1_000.0, 1.0));
    stand.restart();
    stand.steps(100);
    assert!(stand.container("a").which.managed && stand.container("b").which.managed);
    let (a, b) = (stand.quotas("a")[0], stand.quotas("b")[0]);
    assert!(a + b <= 1_001 && b > 400, "the smaller one grows: {a} {b}");
    assert_eq!(stand.errors("limit"), 0);
}

#[test]
fn a_resize_of_a_container_that_was_refused_is_not_undone() {
    let mut stand = Stand::new(&[("a", 0.5), ("b", 0.5)]);
    stand.configure(&CONFIG.replace("limit: 1", "limit: 0.09"));
    stand.steps(12);
    assert_eq!(stand.originals(), "");
    stand.write("a", 0.3);
    stand.steps(12);
    stand.agent.restore();
    assert_eq!(stand.quotas("a"), [300, 350]);
}

#[test]
fn what_changed_after_a_release_is_not_undone_by_a_restore() {
    let mut stand = Stand::new(&[("a", 0.5), ("b", 0.5)]);
    stand.join();
    stand.agent.release();
    stand.write("a", 0.8);
    for end in [Agent::release, Agent::restore] {
        stand.agent = super::testbed::agent(stand.path("").as_path());
        end(&mut stand.agent);
        assert_eq!((stand.quotas("a"), stand.quotas("b")), ([800, 850], [500, 550]));
    }
}

#[test]
fn a_file_of_another_boot_or_with_unknown_members_harms_nothing() {
    let mut stand = Stand::new(&[("a", 0.5), ("b", 0.5)]);
    stand.join();
    let kept = stand.originals();
    let newer = kept.replace("\"kind\": \"container\",", "\"kind\": \"container\", \"memory\": 5,");
    assert_ne!(newer, kept);
    fs::write(stand.path("state/originals.json"), &newer).unwrap();
    stand.restart();
    stand.agent.restore();
    assert_eq!((stand.quotas("a"), stand.quotas("b")), ([500, 550], [500, 550]));
    let boot = kept.split("\"boot\": \"").nth(1).unwrap().split('"').next().unwrap();
    assert!(!boot.is_empty());
    stand.write("a", 0.2);
    fs::write(stand.path("state/originals.json"), kept.replace(boot, "another")).unwrap();
    stand.restart();
    stand.agent.restore();
    assert_eq!(stand.quotas("a"), [200, 250]);
    // An entry that cannot be parsed does not hide the others.
    fs::write(stand.path("state/originals.json"), kept.replacen("\"pod\"", "\"slice\"", 1)).unwrap();
    stand.restart();
    stand.agent.restore();
    assert_eq!((stand.quotas("a")[0], stand.quotas("b")), (500, [500, 550]));
    fs::write(stand.path("state/originals.json"), "{").unwrap();
    stand.restart();
    assert_eq!(fs::read_to_string(stand.path("state/originals.unreadable.json")).unwrap(), "{");
}

#[test]
fn what_changed_between_a_release_and_the_next_start_is_the_original() {
    let mut stand = Stand::new(&[("a", 0.5), ("b", 0.5)]);
    stand.join();
    stand.agent.release();
    fs::write(stand.group("a").join("cpu.max"), max(0.8)).unwrap();
    stand.restart();
    stand.join();
    stand.agent.restore();
    assert_eq!((read(&stand.group("a")), read(&stand.group("b"))), (800, 500));
}

#[test]
fn a_start_puts_back_what_it_does_not_manage() {
    let mut stand = Stand::new(&[("a", 0.5), ("b", 0.5)]);
    stand.join();
    stand.restart();
    stand.pods.pop();
    stand.tell();
    stand.join();
    assert_eq!((stand.quotas("a"), stand.quotas("b")), ([125, 550], [500, 550]));
    assert!(!stand.originals().contains("podb"));
    stand.restart();
    stand.configure("{}");
    stand.steps(11);
    assert_eq!(stand.quotas("a"), [500, 550]);
}

#[test]
fn nothing_is_written_while_the_originals_cannot_be_kept() {
    let mut stand = Stand::new(&[("a", 0.5)]);
    fs::create_dir(stand.path("state/originals.json.new")).unwrap();
    stand.steps(31);
    assert_eq!((stand.quotas("a"), stand.status().writes), ([500, 550], 0));
    assert!(stand.errors("state") >= 3);
    fs::remove_dir(stand.path("state/originals.json.new")).unwrap();
    stand.join();
    assert_eq!(stand.quotas("a"), [125, 550]);
}
