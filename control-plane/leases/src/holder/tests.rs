use super::*;

const APP: &str = "a/b";

const fn part(millionths: u32) -> Part {
    Part::millionths(millionths)
}

fn told(life: u64, number: u64, holds: u32, goal: u32) -> Told {
    Told { name: APP.into(), life, number, part: part(holds), goal: part(goal) }
}

/// Life, number, part and goal.
fn state(holder: &Holder) -> (u64, u64, u32, u32) {
    let (ask, lease) = (holder.ask(APP, part(1), part(2), Some(part(3))), holder.lease(APP));
    assert_eq!((ask.name.as_str(), ask.part), (APP, lease.part));
    assert_eq!((ask.wants, ask.least, ask.own), (part(1), part(2), Some(part(3))));
    (holder.life(), ask.number, lease.part.get(), lease.goal.get())
}

fn holder() -> Holder {
    let mut holder = Holder::new(7, [(APP.to_owned(), part(500))].into());
    holder.lower(APP, part(400));
    assert_eq!(state(&holder), (7, 1, 400, 400));
    holder
}

#[test]
fn starts_with_what_is_on_the_disk() {
    let disk: BTreeMap<_, _> = [(APP.to_owned(), part(500))].into();
    let holder = Holder::new(7, disk.clone());
    assert_eq!((state(&holder), holder.parts()), ((7, 0, 500, 500), disk));
    assert_eq!(state(&Holder::new(8, BTreeMap::new())), (8, 0, 0, 0));
}

#[test]
fn hears_only_what_is_said_to_its_life_and_number() {
    for (says, then) in [
        (told(7, 1, 600, 450), (7, 1, 600, 450)),
        (told(7, 1, 400, 300), (7, 1, 400, 300)),
        (told(7, 1, 600, 900), (7, 1, 600, 600)),
        (told(7, 1, 399, 300), (7, 1, 400, 400)),
        (told(7, 0, 600, 600), (7, 1, 400, 400)),
        (told(6, 1, 600, 600), (7, 1, 400, 400)),
        (told(6, 9, 600, 600), (7, 1, 400, 400)),
    ] {
        let mut holder = holder();
        holder.receive(&says);
        assert_eq!(state(&holder), then, "{says:?}");
    }
}

#[test]
fn begins_a_later_life_if_somebody_has_counted_on() {
    for (life, number) in [(7, 2), (8, 0), (8, u64::MAX)] {
        let mut holder = holder();
        holder.receive(&told(life, number, 600, 600));
        assert_eq!(state(&holder), (life + 1 + 7, 0, 400, 400), "no part is taken with it");
    }
    let mut holder = holder();
    for life in [MOST_COUNT, u64::MAX] {
        holder.receive(&told(life, 0, 600, 600));
        assert_eq!(state(&holder), (7, 1, 400, 400), "no replica would take a later one");
    }
}

#[test]
fn agents_that_follow_the_same_life_differ() {
    let follow = |life| {
        let mut holder = Holder::new(life, BTreeMap::new());
        holder.receive(&told(2_000_000, 0, 0, 0));
        holder.life()
    };
    assert_ne!(follow(1_000_000), follow(1_000_001));
    assert!(follow(1_999_999) <= 2_000_000 + SPREAD);
}

#[test]
fn counts_each_fall_also_of_an_application_that_is_left_and_comes_back() {
    let mut holder = holder();
    for not_less in [400, 401] {
        holder.lower(APP, part(not_less));
        assert_eq!(state(&holder), (7, 1, 400, 400));
    }
    holder.lower(APP, Part::ZERO);
    assert_eq!((state(&holder), holder.parts()), ((7, 2, 0, 0), BTreeMap::new()));
    holder.receive(&told(7, 2, 300, 300));
    assert_eq!(state(&holder), (7, 2, 300, 300));
    holder.lower("c/d", part(1));
    assert_eq!(holder.lease("c/d"), Lease::default());
}
