//! A cluster-wide limit: this node uses what it holds.

use super::testbed::{CONFIG, Stand, agent};
use crate::agent::{JOIN_STEPS, WAIT};
use crate::cores::Cores;
use crate::lease::{Contents, Leases};
use bloc_leases::{Ask, Lease, Part, Told};
use std::collections::BTreeMap;
use std::fs;

const APP: &str = "shop/checkout";

/// With a limit of 2 cores for all nodes.
pub(super) fn leased() -> String {
    CONFIG.replace("limit: 1", "limit: 2, over: cluster")
}

/// A node that holds this part, in millionths.
pub(super) fn stand(pods: &[(&'static str, f64)], part: u32) -> (Stand, Leases) {
    let mut stand = Stand::new(pods);
    let leases = start(&mut stand, part);
    (stand, leases)
}

/// Starts another agent with this part on disk.
pub(super) fn start(stand: &mut Stand, part: u32) -> Leases {
    let parts = BTreeMap::from([(APP.to_owned(), Part::millionths(part))]);
    let parts = if part == 0 { BTreeMap::new() } else { parts };
    let leases = Leases::new(&Contents { life: 1, parts });
    stand.agent = agent(&stand.path("")).with_leases(Some(leases.clone()));
    stand.configure(&leased());
    stand.tell();
    leases
}

pub(super) fn asked(leases: &Leases) -> Option<Ask> {
    leases.due().asks.into_iter().next()
}

/// The control plane says that this node holds `part` and is to keep `goal` of it.
pub(super) fn tell(leases: &Leases, part: u32, goal: u32) {
    let (life, ask) = (leases.due().contents.life, asked(leases).unwrap());
    let (part, goal) = (Part::millionths(part), Part::millionths(goal));
    leases.receive(&[Some(vec![Told { name: APP.to_owned(), life, number: ask.number, part, goal }])]);
}

pub(super) fn part(leases: &Leases) -> u32 {
    leases.lease(APP).part.get()
}

/// Their quotas together, in thousandths of a core.
pub(super) fn sum(stand: &Stand, pods: &[&str]) -> i64 {
    pods.iter().map(|pod| stand.quotas(pod)[0]).sum()
}

#[test]
fn without_a_part_containers_keep_their_own_quotas_and_the_node_says_what_it_wants() {
    let (mut stand, leases) = stand(&[("a", 0.5), ("b", 0.5)], 0);
    stand.load.insert("a", (0.25, 0.0));
    stand.steps(50);
    assert_eq!((stand.quotas("a"), stand.quotas("b"), stand.status().writes), ([500, 550], [500, 550], 0));
    let ask = asked(&leases).unwrap();
    // Of 2 cores: 0.25 and 0 in use, and 0.125 of slack for each.
    let wants = Part::millionths(250_000);
    let least = Part::millionths(50_000);
    let own = Some(Part::millionths(500_000));
    assert_eq!(ask, Ask { name: APP.to_owned(), number: 0, part: Part::ZERO, wants, least, own });
    assert_eq!(stand.errors("limit"), 0, "it waits");
    tell(&leases, 400_000, 400_000);
    stand.steps(JOIN_STEPS + 2);
    assert_eq!((stand.quotas("a"), stand.quotas("b")), ([375, 550], [125, 550]));
    let app = stand.status().cpu[APP].clone();
    assert_eq!((app.limit, app.lease.unwrap().part.get()), (Cores::new(0.8), 400_000));
    // It grows up to the part, although its own limit and the whole limit are more.
    stand.load.insert("a", (0.5, 1.0));
    stand.steps(40);
    let sum = sum(&stand, &["a", "b"]);
    assert!(sum <= 800 && sum > 780, "{sum}");
    assert!(asked(&leases).unwrap().wants.get() > 400_000, "who is throttled wants more than there is");
}

#[test]
fn what_others_need_falls_at_once_though_it_is_used() {
    let (mut stand, leases) = stand(&[("a", 0.5), ("b", 0.5)], 500_000);
    stand.load.insert("a", (0.5, 0.5));
    stand.load.insert("b", (0.25, 0.0));
    stand.join();
    assert!(sum(&stand, &["a", "b"]) > 800);
    tell(&leases, 500_000, 300_000);
    assert_eq!(part(&leases), 500_000, "not before the quotas");
    stand.steps(1);
    let quotas = sum(&stand, &["a", "b"]);
    assert!(quotas <= 600 && quotas > 590, "{quotas}");
    assert!((300_000..=300_010).contains(&part(&leases)), "{}", part(&leases));
    assert_eq!(asked(&leases).unwrap().number, 1);
    // Nothing is left to fall.
    stand.steps(20);
    assert_eq!(asked(&leases).unwrap().number, 1);
    tell(&leases, 500_000, 500_000);
    stand.steps(20);
    assert!(sum(&stand, &["a", "b"]) > 700, "{}", sum(&stand, &["a", "b"]));
}

#[test]
fn what_containers_keep_at_least_is_not_given() {
    let (mut stand, leases) = stand(&[("a", 0.5), ("b", 0.5)], 500_000);
    stand.pods[0].containers[0].requests = Cores::new(0.3);
    stand.configure(&leased().replace("limit: 2", "limit: 1"));
    // Both do not fit beside the others, so only the smaller one keeps some of the limit.
    stand.add("c", 0.7);
    stand.add("d", 0.6);
    stand.pods[2].containers[0].requests = Cores::new(0.7);
    stand.pods[3].containers[0].requests = Cores::new(0.6);
    // This one never fits.
    stand.add("e", 2.0);
    stand.pods[4].containers[0].requests = Cores::new(1.5);
    stand.tell();
    stand.join();
    assert_eq!(asked(&leases).unwrap().least.get(), 950_000);
    assert!(asked(&leases).unwrap().wants.get() >= 950_000);
    stand.pods.truncate(2);
    stand.tell();
    stand.steps(11);
    assert_eq!(asked(&leases).unwrap().least.get(), 350_000);
    tell(&leases, 500_000, 0);
    stand.steps(1);
    assert_eq!((stand.quotas("a")[0], stand.quotas("b")[0], part(&leases)), (300, 50, 350_000));
    // A joining one counts, too.
    stand.add("f", 0.5);
    stand.tell();
    stand.steps(10);
    tell(&leases, 500_000, 0);
    stand.steps(1);
    assert_eq!((stand.quotas("f")[0], part(&leases)), (500, 400_000));
    stand.steps(11);
    assert_eq!(stand.quotas("f")[0], 50);
}

#[test]
fn what_is_left_is_given_back_when_containers_have_their_own_quotas() {
    let without = "{mode: enforce}".to_owned();
    let observe = leased().replace("enforce", "observe");
    let gone = leased().replace("{app: checkout}", "{app: other}");
    for yaml in [without, observe, gone] {
        let (mut stand, leases) = stand(&[("a", 0.5)], 500_000);
        stand.join();
        assert_eq!((stand.quotas("a"), part(&leases)), ([125, 550], 500_000));
        stand.configure(&yaml);
        for _ in 0..12 {
            stand.steps(1);
            assert!(part(&leases) > 0 || stand.quotas("a") == [500, 550], "{yaml}");
        }
        assert_eq!((stand.quotas("a"), part(&leases)), ([500, 550], 0), "{yaml}");
        let ask = asked(&leases).unwrap();
        assert_eq!((ask.number, ask.wants, ask.least), (1, Part::ZERO, Part::ZERO));
        tell(&leases, 0, 0);
        stand.steps(12);
        assert_eq!(asked(&leases), None, "{yaml}");
    }
}

#[test]
fn a_limit_of_the_node_again_needs_no_part() {
    let (mut stand, leases) = stand(&[("a", 0.5)], 100_000);
    stand.join();
    stand.configure(CONFIG);
    stand.steps(11);
    assert_eq!((part(&leases), stand.status().cpu[APP].limit), (0, Cores::new(0.5)));
    assert_eq!((stand.quotas("a"), stand.status().cpu[APP].lease), ([125, 550], None));
}

#[test]
fn without_a_part_a_limit_over_nodes_gives_containers_their_own_quotas_back() {
    let (mut stand, leases) = stand(&[("a", 0.5)], 0);
    stand.configure(CONFIG);
    stand.join();
    assert_eq!(stand.quotas("a"), [125, 550]);
    stand.configure(&leased());
    stand.steps(1);
    assert_eq!(stand.quotas("a"), [500, 550], "at once");
    stand.steps(30);
    assert_eq!((stand.quotas("a"), stand.originals().contains("pod")), ([500, 550], false));
    assert!(asked(&leases).unwrap().wants > Part::ZERO);
}

#[test]
fn an_agent_that_starts_again_uses_what_is_on_its_disk_and_gives_nothing_back_too_early() {
    let (mut stand, _) = stand(&[("a", 0.5), ("b", 0.5)], 500_000);
    stand.load.insert("a", (0.5, 1.0));
    stand.join();
    stand.agent.release();
    let leases =
        Leases::new(&Contents { life: 1, parts: BTreeMap::from([(APP.to_owned(), Part::millionths(300_000))]) });
    stand.agent = agent(&stand.path("")).with_leases(Some(leases.clone()));
    stand.steps(20);
    stand.configure(&leased());
    stand.steps(20);
    assert_eq!((part(&leases), asked(&leases)), (300_000, None), "nobody knows the pods");
    stand.tell();
    stand.steps(20 + JOIN_STEPS);
    let quotas = sum(&stand, &["a", "b"]);
    assert!(quotas <= 600 && quotas > 570, "{quotas}");
    assert_eq!(part(&leases), 300_000);
}

#[test]
fn who_uses_more_than_a_new_part_waits_and_then_gets_what_there_is() {
    let (mut stand, leases) = stand(&[("a", 0.5), ("b", 0.5)], 250_000);
    stand.load.insert("a", (0.5, 0.5));
    stand.load.insert("b", (0.25, 0.0));
    stand.steps(WAIT * JOIN_STEPS);
    assert_eq!((stand.quotas("a"), stand.quotas("b"), stand.errors("limit")), ([500, 550], [500, 550], 0));
    assert!(asked(&leases).unwrap().wants.get() > 400_000);
    stand.steps(3 * JOIN_STEPS);
    let quotas = sum(&stand, &["a", "b"]);
    assert!(quotas <= 500 && quotas > 490, "{quotas}");
    // If the node gets more in time, the quotas do not fall.
    let (mut other, leases) = self::stand(&[("a", 0.5), ("b", 0.5)], 250_000);
    other.load.insert("a", (0.5, 0.5));
    other.steps(30);
    tell(&leases, 500_000, 500_000);
    other.steps(12);
    assert!(other.container("a").which.managed && other.quotas("a")[0] >= 500);
    // The wait is the same if it held nothing for long.
    let (mut late, leases) = self::stand(&[("a", 0.5)], 0);
    late.load.insert("a", (0.5, 0.5));
    late.steps((WAIT + 3) * JOIN_STEPS);
    tell(&leases, 100_000, 100_000);
    late.steps(3 * JOIN_STEPS);
    assert_eq!(late.quotas("a")[0], 500);
}

#[test]
fn what_could_not_be_lowered_is_not_given() {
    let (mut stand, leases) = stand(&[("a", 0.5), ("b", 0.5)], 500_000);
    stand.load.insert("a", (0.5, 0.0));
    stand.join();
    let before = stand.quotas("a")[0];
    assert_eq!(before, 625);
    // The open file can be read; the path cannot be written.
    let file = stand.group("a").join("cpu.max");
    let away = stand.path("away");
    fs::rename(&file, &away).unwrap();
    fs::create_dir(&file).unwrap();
    tell(&leases, 500_000, 200_000);
    stand.steps(5);
    assert!(stand.errors("write") >= 1);
    // 0.625 of 2 cores are in force, and what the other one has.
    assert!(part(&leases) >= 312_500, "{}", part(&leases));
    fs::remove_dir(&file).unwrap();
    fs::rename(&away, &file).unwrap();
}

#[test]
fn own_limits_are_told_unless_they_do_not_matter() {
    let own = |change: &dyn Fn(&mut Stand)| {
        let (mut stand, leases) = stand(&[("a", 0.5), ("b", 0.3)], 0);
        change(&mut stand);
        stand.steps(20);
        asked(&leases).unwrap().own.map(Part::get)
    };
    assert_eq!(own(&|_| {}), Some(400_000));
    assert_eq!(own(&|stand| stand.configure(&leased().replace("apps:", "overrideLimits: true\napps:"))), None);
    let unlimited = |stand: &mut Stand| {
        for group in [stand.group("a"), stand.pod("a")] {
            fs::write(group.join("cpu.max"), "max 100000").unwrap();
        }
    };
    assert_eq!(own(&unlimited), None);
}

#[test]
fn an_observer_asks_for_nothing_and_shows_the_whole_limit() {
    let (mut stand, leases) = stand(&[("a", 3.0)], 0);
    stand.configure(&leased().replace("enforce", "observe"));
    stand.steps(20);
    assert_eq!((asked(&leases), leases.lease(APP)), (None, Lease::default()));
    let app = stand.status().cpu[APP].clone();
    assert_eq!((app.limit, app.lease), (Cores::new(2.0), None));
    assert!(stand.container("a").which.managed);
}

#[test]
fn without_its_disk_an_agent_leaves_what_the_last_one_gave_for_a_while() {
    let (mut stand, _) = stand(&[("a", 0.5), ("b", 0.5)], 500_000);
    stand.load.insert("a", (0.6, 1.0));
    stand.join();
    stand.steps(10);
    stand.agent.release();
    let grown = stand.quotas("a")[0];
    assert!(grown > 600, "{grown}");
    start(&mut stand, 0);
    stand.steps((WAIT - 1) * JOIN_STEPS);
    assert_eq!(stand.quotas("a")[0], grown);
    stand.steps(3 * JOIN_STEPS);
    assert_eq!((stand.quotas("a"), stand.quotas("b")), ([500, 550], [500, 550]));
}
