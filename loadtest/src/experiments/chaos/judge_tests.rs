//! Tests of the figures of a column.

use super::*;

const AT: Moments = Moments { began_s: 4.0, complete_s: 4.1, mended_s: 10.0 };

/// A request with this start and end, in milliseconds.
fn request(began: u64, ended: u64, outcome: Outcome) -> Sample {
    Sample { latency: Duration::from_millis(ended - began), outcome, ended: Duration::from_millis(ended) }
}

fn error(began: u64, ended: u64) -> Sample {
    request(began, ended, Outcome::Error(ErrorKind::Status(500)))
}

/// Good answers: 20 ms each, a hundred a second, for 20 s.
fn well() -> Vec<Sample> {
    (0..2_000).map(|n| request(n * 10, n * 10 + 20, Outcome::Ok)).collect()
}

fn seen(samples: &[Sample]) -> Seen<'_> {
    let counted = Counted { requests: 100, retries: 70, rejections: 40, exhausted: 10, frontends: 2 };
    Seen { samples, kind: Kind::default(), at: AT, counted: Some(counted), limit_ms: 60.0 }
}

#[test]
fn excuses_only_requests_inside_the_killed_process() {
    let samples = [
        error(4_050, 4_060),
        error(3_000, 4_050),
        error(4_101, 4_110),
        error(3_000, 3_900),
        request(11_000, 11_001, Outcome::Shed),
    ];
    let count = |kind| unanswered(&Seen { kind, ..seen(&samples) }, Bound::AtMost(0.0));
    let kills = Kind { kills: true, ..Kind::default() };
    let figure = count(kills);
    assert_eq!(figure.value, Some(3.0));
    assert_eq!(figure.shown, "3 of 5 (1 rejected, 2 status 500)");
    let killed = Seen { kind: kills, ..seen(&samples) };
    assert_eq!(inside(&killed).and_then(|figure| figure.value), Some(2.0));
    assert!(inside(&seen(&samples)).is_none(), "nothing was killed");
    assert_eq!(count(Kind::default()).value, Some(5.0), "nothing was killed");
    let nobody = Kind { kills: true, leaves_nobody: true };
    assert_eq!(count(nobody).value, Some(2.0), "before it began and after it ended");
    assert!(inside(&Seen { kind: nobody, ..seen(&samples) }).is_none());
}

/// Whether each figure of a promise holds that is not compared with stock Envoy.
fn holds(seen: &Seen<'_>) -> Vec<bool> {
    let figures = fault(seen, Claim::Ours);
    let promised = figures.iter().filter(|figure| figure.bound.is_absolute());
    promised.map(|figure| figure.bound.holds(figure.value, None)).collect()
}

#[test]
fn detects_each_broken_promise_of_a_fault() {
    assert_eq!(holds(&seen(&well())), [true; 4]);
    let mut one_lost = well();
    one_lost.push(error(5_000, 5_010));
    assert_eq!(holds(&seen(&one_lost)), [false, true, true, true]);
    let mut slow = well();
    // They begin and end while the fault lasts.
    slow.extend((0..10).map(|n| request(6_200 + n, 6_900, Outcome::Ok)));
    assert_eq!(holds(&seen(&slow)), [true, false, true, true]);
    let mut early = well();
    early.extend((0..10).map(|n| request(4_200 + n, 4_900, Outcome::Ok)));
    assert_eq!(holds(&seen(&early)), [true; 4], "too early to be measured");
    let mut late = well();
    late.extend((0..60).map(|n| request(11_000, 11_100 + n * 100, Outcome::Ok)));
    assert_eq!(holds(&seen(&late)), [true, true, false, true]);
    let samples = well();
    let mut more = seen(&samples);
    // 40 retries other than after rejections. 20 at once are allowed, and a fifth of 100 requests.
    more.counted = more.counted.map(|counted| Counted { retries: 71, ..counted });
    assert_eq!(holds(&more), [true, true, true, false]);
}

#[test]
fn counts_as_harm_only_what_is_worse_than_stock_envoy() {
    let stock = fault(&seen(&well()), Claim::NoHarm);
    let harmless = |samples: &[Sample]| -> Vec<bool> {
        let ours = fault(&seen(samples), Claim::NoHarm);
        let pairs = ours.iter().zip(&stock);
        pairs.map(|(ours, stock)| ours.bound.holds(ours.value, stock.value)).collect()
    };
    let mut few = well();
    few.extend((0..3).map(|n| error(5_000 + n, 5_010 + n)));
    assert_eq!(harmless(&few), [true; 5]);
    few.push(error(5_000, 5_010));
    assert_eq!(harmless(&few), [false, true, true, true, true], "stock has lost none");
    let mut slow = well();
    slow.extend((0..10).map(|n| request(6_200 + n, 6_255 + n, Outcome::Ok)));
    assert_eq!(harmless(&slow), [true, true, false, true, true]);
    slow.extend((0..30).map(|n| request(6_200 + n, 6_300, Outcome::Ok)));
    assert_eq!(harmless(&slow), [true, false, false, true, true]);
}

#[test]
fn compares_the_share_of_slow_requests_when_p99_is_the_timeout() {
    // A hundred a second from 6.1 to 10 s; `count` more time out.
    let vain = |count: u64| {
        let mut samples = well();
        samples.extend((0..count).map(|n| request(6_200 + n, 8_200, Outcome::Error(ErrorKind::Timeout))));
        samples
    };
    let figures = |count| {
        let samples = vain(count);
        let figures = fault(&seen(&samples), Claim::NoHarm);
        ["p99 while it lasts, from 2 s on", "slower than twice the undisturbed p99 while it lasts"]
            .map(|what| figures.iter().find(|one| one.what == what).unwrap().clone())
    };
    let ([stock, slow], [ours, more]) = (figures(50), figures(150));
    assert_eq!((stock.value, ours.value), (Some(2_000.0), Some(2_000.0)));
    assert!(ours.bound.holds(ours.value, stock.value) && !more.bound.holds(more.value, slow.value));
}

#[test]
fn gives_no_p99_for_a_short_fault_or_one_that_leaves_no_server() {
    let (at, samples) = (Moments { mended_s: 6.2, ..AT }, well());
    assert!(p99_during(&seen(&samples), NOISE).is_some());
    assert!(p99_during(&Seen { at, ..seen(&samples) }, NOISE).is_none());
    let kind = Kind { kills: true, leaves_nobody: true };
    assert!(p99_during(&Seen { kind, ..seen(&samples) }, NOISE).is_none());
}

#[test]
fn bounds_the_length_of_an_outage_when_no_server_is_left() {
    let (kind, samples) = (Kind { kills: true, leaves_nobody: true }, well());
    let until = |mended_s, claim| {
        let seen = Seen { kind, at: Moments { mended_s, ..AT }, ..seen(&samples) };
        let mut figures = fault(&seen, claim);
        figures.retain(|figure| figure.what == "until somebody takes requests again");
        figures.pop().unwrap()
    };
    for claim in [Claim::NoHarm, Claim::Ours] {
        let (stock, later) = (until(10.0, claim).value, until(14.9, claim));
        assert!(later.bound.holds(later.value, stock));
        assert!(!later.bound.holds(until(15.1, claim).value, stock));
    }
    assert!(nobody(&seen(&samples)).is_none(), "a server is left");
}

#[test]
fn detects_slow_responses_before_the_fault() {
    let mut samples = well();
    assert_eq!(restless(&samples, AT, 60.0), None);
    samples.push(request(5_000, 6_000, Outcome::Ok));
    assert_eq!(restless(&samples, AT, 60.0), None, "it was late afterwards");
    samples.extend((0..9).map(|n| request(1_000, 2_000 + n, Outcome::Ok)));
    assert!(restless(&samples, AT, 60.0).is_some());
}

#[test]
fn goodput_counts_only_answers_and_a_503_counts_as_refused() {
    let mut samples = well();
    samples.extend((0..500).map(|n| request(n * 10, n * 10 + 1, Outcome::Shed)));
    assert!((goodput(&samples, 5.0, 15.0, 100.0) - 1.0).abs() < 0.01);
    samples.push(request(1, 2, Outcome::Error(ErrorKind::Status(503))));
    assert_eq!(in_vain("w", &samples, Bound::AtMost(0.0)).value, Some(0.0));
    samples.push(error(1, 2));
    assert_eq!(in_vain("w", &samples, Bound::AtMost(0.0)).value, Some(1.0));
    assert_eq!(without_an_answer("w", &samples, Bound::AtMost(0.0)).value, Some(502.0));
    assert_eq!(without_an_answer("w", &[], Bound::AtMost(0.0)).value, None, "nothing was asked");
}

#[test]
fn counts_outcomes_per_second() {
    let samples = [error(0, 10), error(0, 2_100), request(0, 2_200, Outcome::Ok)];
    let points = per_second(&samples, |outcome| outcome != Outcome::Ok);
    let values: Vec<f64> = points.iter().map(|point| point.value).collect();
    assert_eq!(values, [1.0, 0.0, 1.0]);
}
