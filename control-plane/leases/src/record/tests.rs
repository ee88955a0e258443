use super::*;

const fn part(millionths: u32) -> Part {
    Part::millionths(millionths)
}

fn ask(number: u64, holds: u32, wants: u32) -> Ask {
    Ask { name: "a/b".into(), number, part: part(holds), wants: part(wants), least: Part::ZERO, own: None }
}

/// A record in which `a` holds 400,000 after 5 falls of life 7, and `b` 500,000.
fn known() -> Record {
    let text =
        r#"{"new":false,"nodes":{"a":{"life":7,"number":5,"part":400000},"b":{"life":1,"number":0,"part":500000}}}"#;
    let record: Record = serde_json::from_str(text).unwrap();
    assert_eq!(serde_json::to_string(&record).unwrap(), text);
    record
}

/// What the record has for `a` after this request.
fn after(life: u64, ask: &Ask) -> (bool, Option<(u64, u64, u32, u32)>) {
    let mut record = known();
    let heard = record.receive("a", life, ask);
    assert!(record.held() <= Part::WHOLE);
    (heard, record.entry("a").map(|entry| (entry.life, entry.number, entry.part.get(), entry.over.get())))
}

#[test]
fn a_fall_needs_a_later_number() {
    assert_eq!(after(7, &ask(6, 300_000, 1)), (true, Some((7, 6, 300_000, 0))));
    assert_eq!(after(7, &ask(5, 300_000, 1)), (true, Some((7, 5, 400_000, 0))), "said before a rise");
    assert_eq!(after(8, &ask(0, 300_000, 1)), (true, Some((8, 0, 400_000, 0))), "a new life has not left anything");
    assert_eq!(after(8, &ask(1, 300_000, 1)), (true, Some((8, 1, 300_000, 0))));
}

#[test]
fn what_is_late_changes_nothing() {
    for (life, number) in [(7, 4), (6, 5), (6, 9), (0, 0)] {
        assert_eq!(after(life, &ask(number, 1, 1)), (false, Some((7, 5, 400_000, 0))), "life {life} number {number}");
    }
}

#[test]
fn a_node_may_claim_what_is_free() {
    assert_eq!(after(7, &ask(5, 450_000, 1)), (true, Some((7, 5, 450_000, 0))));
    assert_eq!(after(7, &ask(5, 600_000, 1)), (true, Some((7, 5, 500_000, 100_000))));
    assert_eq!(after(7, &ask(6, 600_000, 1)), (true, Some((7, 6, 500_000, 100_000))));
    let mut record = known();
    assert!(record.receive("c", 1, &ask(3, 600_000, 0)));
    assert_eq!(record.entry("c"), Some(&Entry { life: 1, number: 3, part: part(100_000), over: part(500_000) }));
    assert_eq!((record.held(), record.free_part()), (Part::WHOLE, Part::ZERO));
    // The excess ends with the fall that was asked for.
    assert!(record.receive("c", 1, &ask(4, 100_000, 0)));
    assert_eq!(record.entry("c"), Some(&Entry { life: 1, number: 4, part: part(100_000), over: Part::ZERO }));
}

#[test]
fn a_node_that_holds_and_wants_nothing_has_no_entry() {
    assert_eq!(after(7, &ask(6, 0, 0)), (true, None));
    assert_eq!(after(7, &ask(6, 0, 1)), (true, Some((7, 6, 0, 0))));
    assert_eq!(after(7, &Ask { least: part(1), ..ask(6, 0, 0) }), (true, Some((7, 6, 0, 0))));
    assert_eq!(after(7, &ask(5, 0, 0)), (true, Some((7, 5, 400_000, 0))), "it still holds something");
    let mut record = known();
    assert!(record.receive("c", 1, &ask(0, 0, 0)));
    assert!(record.entry("c").is_none());
    record.free("a");
    record.free("b");
    assert!(record.is_empty() && record.free_part() == Part::WHOLE);
}

#[test]
fn a_rise_takes_only_what_is_free_and_never_lowers() {
    let mut record = known();
    for (to, holds) in [(300_000, 400_000), (450_000, 450_000), (900_000, 500_000)] {
        record.raise("a", part(to));
        assert_eq!(record.part("a"), part(holds));
    }
    record.raise("nobody", part(1));
    assert_eq!(record.part("nobody"), Part::ZERO);
}

#[test]
fn the_largest_numbers_harm_nobody() {
    let largest = Ask {
        number: MOST_COUNT,
        part: part(u32::MAX),
        wants: part(u32::MAX),
        least: part(u32::MAX),
        own: Some(part(u32::MAX)),
        name: "a/b".into(),
    };
    assert_eq!(after(MOST_COUNT, &largest), (true, Some((MOST_COUNT, MOST_COUNT, 500_000, 500_000))));
    assert_eq!(after(MOST_COUNT + 1, &largest), (false, Some((7, 5, 400_000, 0))));
    assert_eq!(after(8, &Ask { number: u64::MAX, ..largest }), (false, Some((7, 5, 400_000, 0))));
}

/// The annotation of an object: its name and the record. Kubernetes allows 256 KiB.
fn annotation(record: &Record) -> usize {
    "bloc.dev/parts".len() + serde_json::to_string(record).unwrap().len()
}

#[test]
fn there_is_room_for_2_000_nodes_with_names_of_45_bytes() {
    let name = |number: usize| format!("ip-10-0-{number:05}.ap-northeast-1.compute.internal");
    assert_eq!(name(0).len(), 45);
    let mut record = Record::default();
    for number in 0..MOST_NODES {
        assert!(record.receive(&name(number), 1_764_200_000_000, &ask(1_000_000, 500, 1)), "{number}");
    }
    assert!(!record.receive("one-more", 1, &ask(0, 0, 1)));
    assert!(record.receive("one-more", 1, &ask(0, 0, 0)), "needs no room");
    assert!(record.receive(&name(7), 1_764_200_000_001, &ask(0, 500, 1)), "has its room");
    record.free(&name(3));
    assert!(record.receive("one-more", 1, &ask(0, 0, 1)), "there is room again");
}

#[test]
fn the_annotation_stays_below_256_kib_with_the_largest_numbers() {
    // No entry is longer: half of the limit is held, and the other half is over.
    let largest = ask(MOST_COUNT, 1_000_000, u32::MAX);
    for (length, count) in [(45, 2_000), (46, 1_984), (253, 769)] {
        let entry = Entry { life: MOST_COUNT, number: MOST_COUNT, part: part(500_000), over: part(500_000) };
        let mut record = Record::default();
        let names: Vec<String> = (0..MOST_NODES).map(|number| format!("{number:0>length$}")).collect();
        let taken = names.iter().filter(|name| record.receive(name, MOST_COUNT, &largest)).count();
        assert_eq!((taken, record.bytes()), (count, count * (length + ENTRY_BYTES)), "{length}");
        // The first one holds all. A record whose parts do not fit is no larger than this.
        for name in &names[..count] {
            record.put(name, entry);
        }
        let bytes = annotation(&record);
        assert!(bytes < 256 << 10 && bytes > 249 << 10, "{length}: {bytes}");
        assert!(bytes <= record.bytes() + 40, "{length}: {bytes}");
    }
    // Each byte counts as six.
    let mut record = Record::default();
    let hostile = (0..2_000_u32).map(|number| format!("{}{number}", "\u{1}\"\\".repeat(60)));
    let count = hostile.filter(|name| record.receive(name, MOST_COUNT, &largest)).count();
    assert!(count > 100 && annotation(&record) < 256 << 10, "{count}");
}

#[test]
fn the_sums_follow_each_change() {
    let mut record = known();
    record.raise("a", part(450_000));
    assert!(record.receive("a", 8, &ask(1, 100_000, 1)) && record.receive("c", 1, &ask(0, 0, 5)));
    record.free("b");
    let read: Record = serde_json::from_str(&serde_json::to_string(&record).unwrap()).unwrap();
    assert_eq!((read.held(), read.bytes()), (part(100_000), 2 * (1 + ENTRY_BYTES)));
    assert_eq!(record, read);
}

#[test]
fn a_record_with_fields_of_a_later_version_is_refused() {
    let read = |text: &str| serde_json::from_str::<Record>(text);
    assert_eq!(read(r#"{"nodes":{}}"#).unwrap(), Record::default());
    let mut new = Record::new();
    assert!(new.is_new());
    assert_eq!(serde_json::to_string(&new).unwrap(), r#"{"new":true,"nodes":{}}"#);
    new.settle();
    assert_eq!(new, Record::default());
    let over = r#"{"new":false,"nodes":{"a":{"life":1,"number":0,"part":2,"over":3}}}"#;
    assert_eq!(serde_json::to_string(&read(over).unwrap()).unwrap(), over);
    for text in [
        r#"{"nodes":{},"more":1}"#,
        r#"{"nodes":{"a":{"life":1,"number":0,"part":2,"more":3}}}"#,
        r#"{"nodes":{"a":{"life":1,"number":0}}}"#,
        r#"{"nodes":{"a":{"life":-1,"number":0,"part":2}}}"#,
        "{}",
    ] {
        assert!(read(text).is_err(), "{text}");
    }
}

#[test]
fn a_record_is_empty_without_nodes() {
    assert!(Record::new().is_empty() && !known().is_empty());
    assert_eq!(MOST_COUNT, 9_007_199_254_740_991, "the largest integer that JSON tools keep exactly");
}
