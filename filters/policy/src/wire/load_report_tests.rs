//! The codec of the load report, compared with the sfv crate.

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
    fn our_decoder_and_the_sfv_crate_read_back_an_encoded_report(
        chip: bool,
        queue: Option<u32>,
        capacity: Option<u32>,
        rate in prop::option::of(1u64..1_000_000_000),
        confidence in prop::option::of(0u64..=1000),
        exec in prop::option::of(1u64..1_000_000_000),
        service in prop::option::of(1u64..1_000_000_000),
        cpu in prop::option::of(0u64..=1000),
        fleet: bool,
        held: bool,
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
            cpu: decimal(cpu).and_then(Ratio::new),
            fleet,
            held,
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
        prop_assert_eq!(sfv_number(&oracle, "cpu"), decimal(cpu));
        prop_assert!(text.len() < MAX_LENGTH / 2);
    }

    /// What we accept the sfv crate accepts too, and both read the same numbers.
    #[test]
    fn accepts_only_text_that_the_sfv_crate_reads_the_same(
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
    fn decodes_any_bytes_without_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..600)) {
        let _ = LoadReport::decode(&bytes);
    }
}

#[test]
fn skips_unknown_members_and_bad_numbers_and_rejects_bad_syntax() {
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

#[test]
fn a_server_reads_the_fleet_and_has_held_a_request_if_it_says_so() {
    let reads = |text: &str| LoadReport::decode(text.as_bytes()).map(|report| [report.fleet, report.held]);
    for (value, read) in [("=1", true), ("", true), ("=0.5", false), ("=?0", false), ("=x", false)] {
        assert_eq!(reads(&format!("fleet{value}")), Some([read, false]), "{value}");
        assert_eq!(reads(&format!("held{value}")), Some([false, read]), "{value}");
    }
    assert_eq!((reads("chip"), reads("fleet=\"x\""), reads("held=\"x\"")), (Some([false; 2]), None, None));
}

#[test]
fn a_server_that_may_not_be_sure_offers_at_most_what_one_does_that_is_like_the_fleet() {
    let report = LoadReport {
        queue: Some(3),
        service: Some(10.0),
        execution: Some(Duration::from_millis(100)),
        fleet: true,
        ..LoadReport::default()
    };
    let millis = |report: LoadReport, fleet| report.highest_offer(fleet).map(|seconds| (seconds * 1e3).round());
    for (fleet, most) in [(None, 400.0), (Some(0.2), 800.0), (Some(0.1), 400.0), (Some(0.06), 380.0)] {
        assert_eq!(millis(report, fleet), Some(most), "{fleet:?}");
    }
    assert_eq!(millis(LoadReport { fleet: false, ..report }, Some(0.2)), Some(400.0));
    assert_eq!(millis(LoadReport { execution: None, ..report }, Some(0.2)), Some(400.0));
    assert_eq!(millis(LoadReport { queue: None, ..report }, Some(0.2)), None);
}

#[test]
fn offers_its_whole_response_time_unless_both_sides_know_the_fleet() {
    let (queue, service, execution) = (Some(2), Some(10.0), Some(Duration::from_millis(200)));
    let reads = LoadReport { queue, service, execution, fleet: true, ..LoadReport::default() };
    let millis = |report: LoadReport, fleet| report.offer(fleet).map(|seconds| (seconds * 1e3).round());
    assert_eq!(millis(reads, Some(0.1)), Some(250.0), "300 ms, of which half of 200 is half of 100");
    assert_eq!(millis(reads, None), Some(300.0));
    assert_eq!(millis(LoadReport { fleet: false, ..reads }, Some(0.1)), Some(300.0));
    assert_eq!(millis(LoadReport { execution: None, ..reads }, Some(0.1)), Some(300.0));
    assert_eq!(millis(LoadReport { queue: None, ..reads }, Some(0.1)), None);
}

#[test]
fn decodes_up_to_the_maximum_length() {
    let of_length = |length: usize| format!("queue=1, {}", "a".repeat(length - 9));
    assert!(LoadReport::decode(of_length(MAX_LENGTH).as_bytes()).is_some_and(|report| report.queue == Some(1)));
    assert_eq!(LoadReport::decode(of_length(MAX_LENGTH + 1).as_bytes()), None);
}

#[test]
fn a_chip_is_a_member_that_is_true_or_at_least_one() {
    for (text, chip) in [("chip", true), ("chip=?1", true), ("chip=1", true), ("chip=?0", false), ("chip=0", false)] {
        let report = LoadReport::decode(format!("{text},queue=2").as_bytes()).unwrap();
        assert_eq!((report.chip, report.queue), (chip, Some(2)), "{text}");
    }
}

#[test]
fn omits_numbers_that_are_negative_or_too_large_for_a_decimal() {
    assert_eq!([-1.0, f64::NAN, 1e12, f64::INFINITY].map(thousandths), [None; 4]);
    assert_eq!([0.0, 1.000_4, 999_999_999_999.999].map(thousandths), [Some(0), Some(1_000), Some(999_999_999_999_999)]);
    assert_eq!(micros(Duration::from_micros(999_999_999_999_999)), Some(999_999_999_999_999));
    assert_eq!(micros(Duration::from_micros(1_000_000_000_000_000)), None);
}

#[test]
fn skips_members_whose_name_has_any_characters_that_a_key_may_have() {
    for key in ["a", "*", "a1", "a_-.*z9"] {
        let report = LoadReport::decode(format!("{key}=5,queue=2").as_bytes());
        assert_eq!(report.and_then(|report| report.queue), Some(2), "{key}");
    }
    for key in ["", "1a", "A", "aB", "a b"] {
        assert_eq!(LoadReport::decode(format!("{key}=5,queue=2").as_bytes()), None, "{key}");
    }
}
