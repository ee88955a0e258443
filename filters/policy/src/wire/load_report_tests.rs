//! The codec of the load report, against an oracle.

use super::*;
use proptest::prelude::*;
use sfv::{BareItem, Dictionary, ListEntry, Parser};

fn sfv_number(dictionary: &Dictionary, key: &str) -> Option<f64> {
    match dictionary.get(key) {
        Some(ListEntry::Item(item)) => match &item.bare_item {
            BareItem::Integer(n) => Some(i64::from(*n) as f64),
            BareItem::Decimal(n) => Some(f64::from(*n)),
            BareItem::Boolean(b) => Some(f64::from(u8::from(*b))),
            _ => None,
        },
        _ => None,
    }
}

proptest! {
    #[test]
    fn what_is_written_is_read_back_by_us_and_by_the_oracle(
        chip: bool,
        queue: Option<u32>,
        capacity: Option<u32>,
        rate in prop::option::of(1u64..1_000_000_000),
        confidence in prop::option::of(0u64..=1000),
        exec in prop::option::of(1u64..1_000_000_000),
        service in prop::option::of(1u64..1_000_000_000),
    ) {
        let decimal = |thousandths: Option<u64>| thousandths.map(|n| n as f64 / 1e3);
        let report = LoadReport {
            chip,
            queue,
            capacity,
            rate: decimal(rate),
            confidence: decimal(confidence).and_then(Ratio::new),
            execution: decimal(exec).map(|ms| Duration::from_secs_f64(ms / 1e3)),
            service: decimal(service),
        };
        let mut text = String::from("left over");
        report.encode(&mut text);
        prop_assert_eq!(LoadReport::decode(text.as_bytes()), Some(report));
        let oracle: Dictionary = Parser::new(&text).parse().unwrap();
        prop_assert_eq!(sfv_number(&oracle, "queue"), queue.map(f64::from));
        prop_assert_eq!(sfv_number(&oracle, "capacity"), capacity.map(f64::from));
        prop_assert_eq!(sfv_number(&oracle, "rate"), decimal(rate));
        prop_assert_eq!(sfv_number(&oracle, "confidence"), decimal(confidence));
        prop_assert_eq!(sfv_number(&oracle, "exec"), decimal(exec));
        prop_assert_eq!(sfv_number(&oracle, "service"), decimal(service));
        prop_assert!(text.len() < MAX_LENGTH / 2);
    }

    /// Whatever we accept the oracle accepts, and both see the same numbers.
    #[test]
    fn nothing_is_read_that_the_oracle_refuses(
        text in "(chip|queue|capacity|rate|Rate|x)(=(-?[0-9]{1,16}(\\.[0-9]{0,4})?|\\?[01]|to/k:en|\"s\"))?(, ?(chip|queue|other)(=[0-9]{1,3})?){0,2}"
    ) {
        if let Some(report) = LoadReport::decode(text.as_bytes()) {
            let oracle: Dictionary = Parser::new(&text).parse().unwrap();
            prop_assert_eq!(report.queue, count(sfv_number(&oracle, "queue")));
            prop_assert_eq!(report.rate, positive(sfv_number(&oracle, "rate")));
            prop_assert_eq!(report.chip, sfv_number(&oracle, "chip").is_some_and(|n| n >= 1.0));
        }
    }

    #[test]
    fn any_bytes_are_survived(bytes in prop::collection::vec(any::<u8>(), 0..600)) {
        let _ = LoadReport::decode(&bytes);
    }
}

#[test]
fn unknown_members_are_passed_over_and_bad_numbers_are_no_numbers() {
    let read = |text: &str| LoadReport::decode(text.as_bytes());
    assert_eq!(read("chip=1, why=bid, rate=38.2, queue=7").and_then(|r| r.queue), Some(7));
    assert_eq!(read("  chip ,\tqueue=7\t").and_then(|r| r.queue), Some(7), "white space as it is allowed");
    assert_eq!(read("queue=-3").map(|r| r.queue), Some(None));
    assert_eq!(read("queue=999999999999999").map(|r| r.queue), Some(Some(u32::MAX)));
    for broken in [
        "",
        "queue=",
        "queue=nan;",
        "queue=1e9",
        "queue==1",
        ",chip=1",
        "queue=7,",
        "Queue=7",
        "chip=\u{e9}",
        "\tqueue=7",
        "queue=7\u{c}",
        "queue=7,\u{b}chip",
    ] {
        assert_eq!(read(broken), None, "{broken:?}");
    }
    assert_eq!(read("rate=0").map(|r| r.rate), Some(None));
    assert_eq!(
        read("rate=72100000000001").and_then(|r| r.rate),
        Some(72_100_000_000_001.0),
        "all fifteen digits count"
    );
    assert_eq!(read("rate=999999999999.999").and_then(|r| r.rate), Some(999_999_999_999.999));
    assert_eq!(read("confidence=1.001").map(|r| r.confidence), Some(None));
    assert_eq!(LoadReport::decode(&[b'a'; MAX_LENGTH + 1]), None);
}
