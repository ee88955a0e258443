use super::*;

const fn part(millionths: u32) -> Part {
    Part::millionths(millionths)
}

const fn seconds(seconds: f64) -> Duration {
    Duration::from_millis((seconds * 1e3) as u64)
}

fn ask(number: u64, holds: u32, wants: u32) -> Ask {
    Ask { name: "a/b".into(), number, part: part(holds), wants: part(wants), least: Part::ZERO, own: None }
}

/// A replica whose writes succeed, and nodes that tell it what they need.
#[derive(Default)]
struct Lab {
    grantor: Grantor,
    record: Record,
    now: Duration,
}

impl Lab {
    /// One second in which each node asks for this much and holds what the record says. Returns the
    /// part and goal of each.
    fn second(&mut self, nodes: &[(&str, u32)]) -> Vec<(u32, u32)> {
        self.now += seconds(1.0);
        let mut told = Vec::new();
        for (node, wants) in nodes {
            let known = self.record.entry(node).copied().unwrap_or_default();
            told.push(self.receive(node, &ask(known.number, known.part.get(), *wants)));
        }
        told
    }

    fn receive(&mut self, node: &str, ask: &Ask) -> (u32, u32) {
        let told = self.grantor.receive(&mut self.record, node, 1, ask, self.now).unwrap();
        assert_eq!((told.name.as_str(), told.life, told.number), ("a/b", 1, ask.number));
        (told.part.get(), told.goal.get())
    }

    fn seconds(&mut self, count: u32, nodes: &[(&str, u32)]) -> Vec<(u32, u32)> {
        (0..count).map(|_| self.second(nodes)).last().unwrap()
    }

    /// Some seconds in which nodes lower what they hold to their goals.
    fn move_parts(&mut self, nodes: &[(&str, u32)]) {
        for _ in 0..8 {
            let told = self.second(nodes);
            for ((node, wants), (_, goal)) in nodes.iter().zip(told).filter(|(_, (holds, goal))| goal < holds) {
                self.lower(node, goal, *wants);
            }
        }
    }

    /// The node lowers its part to this.
    fn lower(&mut self, node: &str, to: u32, wants: u32) -> (u32, u32) {
        let number = self.record.entry(node).unwrap().number + 1;
        self.receive(node, &ask(number, to, wants))
    }
}

fn lab(nodes: &[(&str, u32)]) -> Lab {
    let mut lab = Lab::default();
    for (node, holds) in nodes {
        assert!(lab.record.receive(node, 1, &ask(0, *holds, 1)));
    }
    lab
}

#[test]
fn hears_before_it_gives() {
    let mut lab = lab(&[]);
    assert_eq!(lab.seconds(3, &[("a", 100_000), ("b", 300_000)]), [(0, 0), (0, 0)]);
    assert_eq!(lab.second(&[("a", 100_000), ("b", 300_000)]), [(400_000, 400_000), (600_000, 600_000)]);
    // The replica waits again after it heard nobody for some time.
    lab.now += LIVE;
    lab.record.free("a");
    assert_eq!(lab.seconds(3, &[("c", 100_000)]), [(0, 0)]);
    assert_eq!(lab.grantor.silent(&lab.record), ["b"]);
    assert_eq!(lab.second(&[("c", 100_000)]), [(400_000, 400_000)]);
}

#[test]
fn a_new_record_gives_nothing_until_all_could_say_what_they_hold() {
    let mut lab = Lab { record: Record::new(), ..Lab::default() };
    assert_eq!(lab.seconds(5, &[("a", 500_000)]), [(0, 0)]);
    assert_eq!(lab.receive("b", &ask(4, 300_000, 300_000)), (300_000, 300_000), "held before");
    lab.record.receive("b", 1, &ask(5, 0, 0));
    assert_eq!(lab.seconds(5, &[("a", 500_000)]), [(0, 0)]);
    assert!(lab.record.is_new());
    assert_eq!(lab.second(&[("a", 500_000)]), [(600_000, 600_000)]);
    // The replica waits after the next loss, too.
    lab.second(&[("a", 500_000)]);
    lab.record = Record::new();
    assert_eq!(lab.seconds(10, &[("a", 500_000)]), [(0, 0)]);
    // It waits again if nobody asked when this wait ended.
    lab.now += HEARS;
    assert_eq!(lab.seconds(10, &[("a", 500_000)]), [(0, 0)]);
}

#[test]
fn the_node_with_most_to_spare_leaves_it() {
    let nodes = [("a", 100_000), ("b", 100_000), ("c", 500_000)];
    let mut lab = lab(&[("a", 300_000), ("b", 600_000), ("c", 100_000)]);
    let should = 200_000;
    assert_eq!(lab.seconds(4, &nodes), [(300_000, 300_000), (600_000, should), (100_000, 100_000)]);
    assert_eq!(lab.lower("b", 200_000, 100_000), (200_000, 200_000));
    assert_eq!(lab.receive("a", &ask(0, 300_000, 100_000)), (300_000, 300_000), "is not told");
    assert_eq!(lab.receive("c", &ask(0, 100_000, 500_000)), (500_000, 500_000));
}

#[test]
fn another_node_leaves_something_if_the_first_one_does_not() {
    let nodes = [("a", 100_000), ("b", 100_000), ("c", 250_000)];
    let mut lab = lab(&[("a", 400_000), ("b", 500_000), ("c", 100_000)]);
    let goals = |told: Vec<(u32, u32)>| (told[0].1, told[1].1);
    let should = 283_333;
    assert_eq!(goals(lab.seconds(7, &nodes)), (400_000, should));
    assert_eq!(goals(lab.seconds(3, &nodes)), (should, should));
}

#[test]
fn many_nodes_leave_a_little_for_one_more() {
    let names: Vec<String> = (0..60).map(|number| format!("n{number:02}")).collect();
    let mut nodes: Vec<(&str, u32)> = names.iter().map(|name| (name.as_str(), 500_000)).collect();
    let mut lab = lab(&[]);
    lab.seconds(5, &nodes);
    nodes.push(("o", 500_000));
    lab.move_parts(&nodes);
    assert!(lab.record.part("o").get() >= 1_000_000 / 61 * 95 / 100, "{:?}", lab.record.part("o"));
    // This also holds for a node that needs more than before.
    nodes.iter_mut().for_each(|(_, wants)| *wants = 10_000);
    lab.seconds(2, &nodes);
    nodes[7].1 = 200_000;
    lab.move_parts(&nodes);
    assert!(lab.record.part("n07").get() >= 190_000, "{:?}", lab.record.part("n07"));
}

#[test]
fn what_is_left_is_for_the_node_that_lacks_it() {
    // `a` should get more of the rest; `b` lacks CPU.
    let mut lab = lab(&[("a", 200_000), ("b", 100_000), ("c", 600_000)]);
    let told = lab.seconds(4, &[("a", 100_000), ("b", 300_000), ("c", 100_000)]);
    assert_eq!(told[0], (200_000, 200_000));
    assert_eq!(told[1], (200_000, 200_000));
}

#[test]
fn small_differences_are_not_worth_a_write() {
    let mut lab = lab(&[("a", 960_000)]);
    assert_eq!(lab.seconds(4, &[("a", 100_000)]), [(960_000, 960_000)]);
    assert_eq!(lab.seconds(1, &[("a", 1_000_000)]), [(960_000, 960_000)]);
    let mut lab = self::lab(&[("a", 950_000)]);
    assert_eq!(lab.seconds(4, &[("a", 1_000_000)]), [(1_000_000, 1_000_000)]);
}

#[test]
fn no_more_than_the_containers_limits() {
    let own = |holds, own: Option<u32>| Ask { own: own.map(part), ..ask(0, holds, 500_000) };
    let mut lab = lab(&[]);
    for _ in 0..4 {
        lab.now += seconds(1.0);
        lab.receive("a", &own(0, Some(300_000)));
        lab.receive("b", &own(0, Some(100_000)));
    }
    assert_eq!((lab.record.part("a"), lab.record.part("b")), (part(200_000), part(200_000)));
    lab.receive("b", &own(200_000, None));
    lab.receive("a", &own(200_000, Some(300_000)));
    assert_eq!(lab.record.part("a"), part(500_000), "one has no limit");
}

#[test]
fn silent_nodes_keep_what_they_hold_and_those_that_left_are_to_leave_it() {
    let mut lab = lab(&[("a", 0), ("b", 600_000)]);
    assert_eq!(lab.seconds(4, &[("a", 500_000)]), [(400_000, 400_000)]);
    assert_eq!(lab.grantor.silent(&lab.record), ["b"]);
    assert_eq!(lab.receive("b", &ask(0, 600_000, 0)), (600_000, 0));
    assert_eq!(lab.seconds(1, &[("a", 500_000)]), [(400_000, 400_000)]);
    assert_eq!(lab.receive("b", &ask(1, 0, 0)), (0, 0));
    assert_eq!(lab.seconds(1, &[("a", 500_000)]), [(1_000_000, 1_000_000)]);
    assert_eq!(lab.receive("a", &ask(0, 1_000_000, 0)), (1_000_000, 0), "it was heard before");
    let mut early = self::lab(&[("b", 600_000)]);
    assert_eq!(early.receive("b", &ask(0, 600_000, 0)), (600_000, 0), "needs no time to hear others");
}

#[test]
fn what_silent_nodes_hold_is_not_divided() {
    let mut lab = lab(&[("b", 600_000)]);
    assert_eq!(lab.seconds(4, &[("a", 500_000), ("c", 500_000)]), [(200_000, 200_000), (200_000, 200_000)]);
}

#[test]
fn late_asks_are_told_how_far_the_record_is() {
    let mut lab = lab(&[]);
    lab.grantor.receive(&mut lab.record, "a", 7, &ask(3, 0, 1), lab.now);
    let record = lab.record.clone();
    let mut receive =
        |node, life, number| lab.grantor.receive(&mut lab.record, node, life, &ask(number, 9, 9), lab.now);
    for (life, number) in [(6, 5), (7, 2)] {
        let told = Told { name: "a/b".into(), life: 7, number: 3, part: Part::ZERO, goal: Part::ZERO };
        assert_eq!(receive("a", life, number), Some(told));
    }
    assert_eq!(receive("a", u64::MAX, 0), None);
    assert_eq!(receive("b", 1, u64::MAX), None);
    assert_eq!(lab.record, record);
}

#[test]
fn a_node_lowers_what_the_record_has_no_room_for() {
    let mut lab = lab(&[("a", 700_000)]);
    assert_eq!(lab.receive("b", &ask(2, 500_000, 500_000)), (500_000, 300_000));
    let written = lab.record.clone();
    assert_eq!(lab.receive("b", &ask(2, 500_000, 500_000)), (500_000, 300_000));
    assert_eq!(lab.record, written, "one write");
    assert_eq!(lab.receive("b", &ask(3, 300_000, 500_000)), (300_000, 300_000));
}

#[test]
fn a_node_that_claims_all_there_is_gets_half() {
    let all =
        |holds| Ask { wants: part(u32::MAX), least: part(u32::MAX), own: Some(part(u32::MAX)), ..ask(0, holds, 0) };
    let mut lab = lab(&[]);
    for _ in 0..5 {
        lab.now += seconds(1.0);
        let holds = lab.record.part("a").get();
        lab.receive("a", &all(holds));
        lab.receive("b", &Ask { least: part(1_000_000), ..ask(0, lab.record.part("b").get(), 0) });
    }
    assert_eq!((lab.record.part("a"), lab.record.part("b")), (part(500_000), part(500_000)));
}

#[test]
fn a_node_is_silent_from_exactly_so_long_on() {
    let mut lab = lab(&[("a", 100_000), ("b", 100_000)]);
    lab.second(&[("a", 1), ("b", 1)]);
    let heard = lab.now;
    for (after, silent) in [(LIVE - Duration::from_millis(1), vec![]), (LIVE, vec!["b"])] {
        lab.now = heard + after;
        lab.receive("a", &ask(0, 100_000, 1));
        assert_eq!(lab.grantor.silent(&lab.record), silent, "{after:?}");
    }
}

#[test]
fn a_record_may_be_another_loss_if_nobody_was_heard_for_exactly_so_long() {
    for (pause, is_new) in [(HEARS - Duration::from_millis(1), false), (HEARS, true)] {
        let mut lab = Lab { record: Record::new(), ..Lab::default() };
        lab.second(&[("a", 1)]);
        let began = lab.now;
        lab.now += pause - seconds(1.0);
        lab.second(&[("a", 1)]);
        while lab.now < began + NEW {
            lab.second(&[("a", 1)]);
        }
        assert_eq!(lab.record.is_new(), is_new, "{pause:?}");
    }
}

#[test]
fn what_was_told_to_leave_is_expected_for_exactly_so_long() {
    // `a` could give up enough but does not; then `b` is told, too.
    for (waits, goal) in [(LEAVES - Duration::from_millis(1), 300_000), (LEAVES, 233_333)] {
        let mut lab = lab(&[("a", 600_000), ("b", 300_000), ("c", 100_000)]);
        let nodes = [("a", 100_000), ("b", 100_000), ("c", 400_000)];
        lab.seconds(3, &[("a", 600_000), ("b", 300_000), ("c", 100_000)]);
        let told = lab.second(&nodes);
        assert_eq!(told[1].1, 300_000, "{told:?}");
        // The last request has made the plan in which `a` is told.
        let began = lab.now;
        lab.now = began + waits;
        lab.receive("a", &ask(0, 600_000, 100_000));
        let (_, now) = lab.receive("b", &ask(0, 300_000, 100_000));
        assert_eq!(now, goal, "{waits:?}");
    }
}

#[test]
fn who_lacks_nothing_gets_more_only_if_it_is_worth_a_write() {
    // One node should hold the whole limit. From 950,000, only 997,500 or more is worth a write.
    for (held, raised) in [(952_380, 1_000_000), (952_381, 952_381)] {
        let mut lab = lab(&[("a", held)]);
        let told = lab.seconds(4, &[("a", 100_000)]);
        assert_eq!(told, [(raised, raised)], "{held}");
    }
}

#[test]
fn with_many_nodes_a_plan_holds_for_a_moment() {
    // All nodes hold the same and want it. Then the first one needs nothing, and the last one needs
    // more.
    for (count, after, is_old) in
        [(FEW, Duration::ZERO, false), (FEW + 1, PLAN - Duration::from_millis(1), true), (FEW + 1, PLAN, false)]
    {
        let each = 1_000_000 / u32::try_from(count).unwrap();
        let names: Vec<String> = (0..count).map(|nth| format!("n{nth:03}")).collect();
        let all: Vec<(&str, u32)> = names.iter().map(|name| (name.as_str(), each)).collect();
        let mut lab = lab(&all);
        lab.seconds(4, &all);
        lab.now += PLAN;
        // This makes a plan.
        let (first, last) = (all[0].0, all[count - 1].0);
        lab.receive(first, &ask(0, each, each));
        lab.receive(last, &ask(0, each, 2 * each));
        lab.now += after;
        let (_, goal) = lab.receive(first, &ask(0, each, 1));
        assert_eq!(goal == each, is_old, "{count} nodes after {after:?}: {goal}");
    }
}

#[test]
fn keeps_the_largest_for_ten_to_twenty_seconds() {
    let part = Part::millionths;
    let mut need = Steady::new(part(100), Duration::ZERO);
    for (second, value, kept) in [(1, 106, 106), (2, 98, 106), (10, 99, 106), (19, 98, 106), (20, 100, 100)] {
        need.receive(part(value), Duration::from_secs(second));
        assert_eq!(need.get(), part(kept), "after {second} s");
    }
}

#[test]
fn a_large_fall_counts_at_once() {
    let mut need = Steady::new(Part::millionths(100), Duration::ZERO);
    need.receive(Part::millionths(92), Duration::from_secs(1));
    assert_eq!(need.get(), Part::millionths(100));
    need.receive(Part::millionths(91), Duration::from_secs(1));
    assert_eq!(need.get(), Part::millionths(91));
}
