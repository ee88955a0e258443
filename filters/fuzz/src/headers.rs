//! The headers that sidecars send each other.

use bloc_policy::wire::bid::{ANY, Bid, Caller, encode};
use bloc_policy::wire::endpoints::{bare_key, decode_key, encode as encode_endpoints};
use bloc_policy::wire::load_report::LoadReport;
use bloc_policy::wire::orca;
use bloc_policy::wire::reason::Reason;
use sfv::{Dictionary, Parser};
use std::time::Duration;

/// The largest number in a header: RFC 9651, section 3.3.1, allows no more digits.
const MOST: f64 = 999_999_999_999_999.0;
/// Larger numbers are read, but not written.
const WRITTEN: f64 = 1e12;

/// The load report.
pub fn load_report(data: &[u8]) {
    let Some(report) = LoadReport::decode(data) else { return };
    check(&report, MOST);
    let text = std::str::from_utf8(data).expect("a dictionary is ASCII");
    let oracle: Result<Dictionary, _> = Parser::new(text).parse();
    assert!(oracle.is_ok(), "RFC 9651 refuses {text:?}");
    let numbers = [report.rate, report.service, report.execution.map(|time| time.as_secs_f64() * 1e3)];
    // (A bare confidence of 0.0004 is written as 0.) Such large numbers are never measured.
    if numbers.into_iter().flatten().all(|number| number < WRITTEN) {
        let mut text = String::new();
        report.encode(&mut text);
        assert_eq!(LoadReport::decode(text.as_bytes()), Some(report), "{text}");
    }
}

/// ORCA in its text format.
pub fn orca(data: &[u8]) {
    let Some(report) = orca::decode(data) else { return };
    check(&report, f64::MAX);
    assert!(report.chip && report.queue.is_some_and(|queue| queue <= 19), "{report:?}");
    let mut text = String::new();
    if orca::encode(&report, &mut text) {
        let again = orca::decode(text.as_bytes()).expect("what we write we read");
        // Each number is written to at least a thousandth.
        let close = |a: Option<f64>, b: Option<f64>| match (a, b) {
            (Some(a), Some(b)) if (1.0..1e12).contains(&a) => (a - b).abs() <= a * 1e-3,
            _ => true,
        };
        assert!(close(report.rate, again.rate), "{report:?} became {again:?}");
    }
}

/// The bid, and two other short values: the key of a request and the reason of a rejection.
pub fn bid(data: &[u8]) {
    if let Some(key) = decode_key(data) {
        let mut text = Vec::new();
        encode_endpoints(std::iter::empty(), key, &mut text);
        assert!(data.ends_with(&text) && bare_key(data).is_none_or(|bare| bare == *text), "{key:?}");
    }
    assert!(Reason::read(data).is_none_or(|reason| reason.as_str().as_bytes() == data));
    let caller = Caller::of(Some(data));
    match caller.bid {
        Some(bid) => {
            let times = |bid: Bid| [Some(bid.most), bid.fleet];
            let most = Some(Duration::from_secs_f64(MOST / 1e3));
            assert!(caller.has_filters && times(bid).iter().all(|time| *time <= most), "{bid:?}");
            let mut text = String::new();
            encode(bid, &mut text);
            let again = Caller::of(Some(text.as_bytes())).bid.expect("what we write we read");
            for (time, again) in times(bid).into_iter().zip(times(again)) {
                // The longest time that is written: 31 years, in milliseconds.
                let written = time.map(|time| time.min(Duration::from_micros(999_999_999_999_999)));
                // One microsecond is cut off; for 31 years in seconds, a float resolves only a
                // tenth of one.
                let off = written.zip(again).map(|(written, again)| again.abs_diff(written));
                assert_eq!(written.is_some(), again.is_some(), "{bid:?}");
                assert!(off <= Some(Duration::from_micros(2)), "{bid:?}, {again:?}");
            }
        }
        None if data == ANY.as_bytes() => assert!(caller.has_filters),
        None => assert_eq!(caller, Caller::of(None), "nonsense"),
    }
}

/// The limits of a report.
fn check(report: &LoadReport, most: f64) {
    for number in [report.rate, report.service].into_iter().flatten() {
        assert!(number > 0.0 && number <= most, "{report:?}");
    }
    for share in [report.confidence, report.cpu].into_iter().flatten() {
        assert!((0.0..=1.0).contains(&share.get()), "{report:?}");
    }
    let longest = Duration::from_secs_f64(MOST / 1e3);
    assert!(report.execution.is_none_or(|time| time <= longest), "{report:?}");
    // What a sender expects from it. The worst case is a queue of 2^32 at a thousandth of a request
    // per second.
    let worst = Duration::from_secs(u64::from(u32::MAX) * 1000 + 1000).max(longest);
    assert!(most > MOST || report.expected().is_none_or(|expected| expected <= worst), "{report:?}");
}
