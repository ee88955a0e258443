//! From what the clients saw and the frontends counted to the figures of a column.

use super::figure::{Bound, Claim, Figure};
use crate::load::{ErrorKind, Outcome, Sample, quantile};
use crate::record::milliseconds;
use crate::timeline::{Point, recovery_s, sliding};
use serde::Serialize;
use std::collections::BTreeMap;
use std::time::Duration;

/// A client gives up after this time. A fault lasts three times as long, so that nobody can sit it
/// out; a request that is not answered counts in the percentiles with this time.
pub const PATIENCE: Duration = Duration::from_secs(2);
/// So long a fault may go unnoticed before the percentile during it counts.
pub const NOTICED: Duration = Duration::from_secs(2);
/// The percentile is below twice the undisturbed one within this time after a fault, in seconds.
pub const SETTLE_S: f64 = 5.0;
/// Retries beyond those after rejections, per request.
pub const BUDGET: f64 = 0.2;
/// What each frontend may retry at once beyond that share.
pub const BURST: u64 = 10;
/// How much later than in stock Envoy somebody may take requests again where all had died, in
/// seconds: Envoys compile the module when they start. Four at once took 3 s longer on two cores.
const LATER_S: f64 = 6.0;
/// What an unlucky moment may do to a percentile, as a factor and in milliseconds.
const NOISE: Bound = Bound::NoWorse { times: 1.5, plus: 20.0 };

const WINDOW: Duration = Duration::from_secs(3);
const STEP: Duration = Duration::from_millis(100);
/// The percentile must stay down for so long, lest a lucky second counts.
const STAY_S: f64 = 2.0;
/// Fewer requests than this have no 99th percentile worth a bound.
const ENOUGH: usize = 100;

/// Something that is promised of a run without columns, as the soak is.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Promise {
    /// What about.
    pub what: &'static str,
    /// What is promised.
    pub promised: String,
    /// What was measured.
    pub measured: String,
    /// Whether it holds.
    pub holds: bool,
}

/// When what happened, in seconds from the start of the load.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Moments {
    /// The fault begins.
    pub began_s: f64,
    /// It is complete: what was to be killed is gone.
    pub complete_s: f64,
    /// It is mended: what was killed takes requests again.
    pub mended_s: f64,
}

/// What kind of fault it was.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Kind {
    /// It kills processes, and the requests in them.
    pub kills: bool,
    /// Nobody can take a request while it lasts.
    pub leaves_nobody: bool,
}

/// What the frontends counted meanwhile.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Counted {
    /// Requests.
    pub requests: u64,
    /// Retries that reached a server.
    pub retries: u64,
    /// Attempts that a server rejected or bounced.
    pub rejections: u64,
    /// Requests whose last attempt was rejected.
    pub exhausted: u64,
    /// The frontends.
    pub frontends: u64,
}

impl Counted {
    /// Retries after something else than a rejection.
    pub fn other_retries(&self) -> u64 {
        self.retries.saturating_sub(self.rejections.saturating_sub(self.exhausted))
    }
}

/// What was seen of a fault.
#[derive(Clone, Copy, Debug)]
pub struct Seen<'a> {
    /// The requests.
    pub samples: &'a [Sample],
    /// What kind of fault it was.
    pub kind: Kind,
    /// When it was.
    pub at: Moments,
    /// What the frontends counted, if they count on.
    pub counted: Option<Counted>,
    /// Twice the undisturbed percentile, in milliseconds.
    pub limit_ms: f64,
}

/// When a request began, from the start of the load.
fn began_s(sample: &Sample) -> f64 {
    sample.ended.saturating_sub(sample.latency).as_secs_f64()
}

/// Whether somebody said no: a rejection of ours, or Envoy's answer where a circuit breaker is open.
pub fn is_refusal(outcome: Outcome) -> bool {
    matches!(outcome, Outcome::Shed | Outcome::Error(ErrorKind::Status(503)))
}

/// The requests without an answer of the application that was asked for, by what came instead.
pub fn by_outcome<'a>(samples: impl Iterator<Item = &'a Sample>) -> String {
    let mut kinds: BTreeMap<Outcome, usize> = BTreeMap::new();
    for sample in samples.filter(|sample| sample.outcome != Outcome::Ok) {
        *kinds.entry(sample.outcome).or_default() += 1;
    }
    let name = |outcome: &Outcome| match outcome {
        Outcome::Ok => "answered".to_owned(),
        Outcome::Shed => "rejected".to_owned(),
        Outcome::Error(kind) => kind.to_string(),
    };
    let parts: Vec<String> = kinds.iter().map(|(outcome, count)| format!("{count} {}", name(outcome))).collect();
    parts.join(", ")
}

/// Whether a request was in a process when it was killed, or nobody could take it.
fn is_excused(sample: &Sample, kind: Kind, at: Moments) -> bool {
    let (began, ended) = (began_s(sample), sample.ended.as_secs_f64());
    let inside = kind.kills && began <= at.complete_s && ended >= at.began_s;
    let nobody = kind.leaves_nobody && began <= at.mended_s && ended >= at.began_s;
    inside || nobody
}

/// How long nobody takes a request.
fn nobody(seen: &Seen<'_>) -> Option<Figure> {
    let what = "until somebody takes requests again";
    let bound = Bound::NoWorse { times: 1.0, plus: LATER_S };
    seen.kind.leaves_nobody.then(|| took(what, Some(seen.at.mended_s - seen.at.began_s), bound))
}

/// Requests without an answer, errors of the application among them; without those that were in
/// what was killed, or that nobody could take.
fn unanswered(seen: &Seen<'_>, bound: Bound) -> Figure {
    let failed = seen.samples.iter().filter(|sample| sample.outcome != Outcome::Ok);
    let (excused, counted): (Vec<&Sample>, Vec<&Sample>) =
        failed.partition(|sample| is_excused(sample, seen.kind, seen.at));
    let mut shown = format!("{} of {}", counted.len(), seen.samples.len());
    if !counted.is_empty() {
        shown += &format!(" ({})", by_outcome(counted.iter().copied()));
    }
    match excused.len() {
        0 => {}
        nobody if seen.kind.leaves_nobody => {
            shown += &format!("; and {nobody} that nobody could take");
        }
        inside => shown += &format!("; and {inside} in what was killed"),
    }
    let value = Some(counted.len() as f64);
    Figure { what: "requests without an answer", value, shown, bound }
}

/// The 99th percentile of the requests that began while the fault was in force, from [`NOTICED`]
/// on; none if there are too few.
fn p99_during(seen: &Seen<'_>, bound: Bound) -> Option<Figure> {
    let from = seen.at.complete_s + NOTICED.as_secs_f64();
    let meanwhile = seen.samples.iter().filter(|one| (from..seen.at.mended_s).contains(&began_s(one)));
    let mut latencies: Vec<Duration> = meanwhile.map(felt).collect();
    // Nobody can be fast where nobody is left.
    if latencies.len() < ENOUGH || seen.kind.leaves_nobody {
        return None;
    }
    latencies.sort_unstable();
    let value = quantile(&latencies, 0.99).map(milliseconds);
    Some(figure_ms("p99 while it lasts, from 2 s on", value, bound))
}

/// What a client felt.
fn felt(sample: &Sample) -> Duration {
    if sample.outcome == Outcome::Ok { sample.latency } else { PATIENCE }
}

fn figure_ms(what: &'static str, value: Option<f64>, bound: Bound) -> Figure {
    let shown = value.map_or_else(|| "-".to_owned(), |ms| format!("{ms:.0} ms"));
    Figure { what, value, shown, bound }
}

/// How long the percentile takes to be below the limit after the fault.
fn back(seen: &Seen<'_>, bound: Bound) -> Figure {
    let value = recovery_s(&p99(seen.samples), seen.at.mended_s, seen.limit_ms, STAY_S);
    Figure { what: "p99 below twice the undisturbed, after it", value, shown: seconds(value), bound }
}

fn seconds(value: Option<f64>) -> String {
    value.map_or_else(|| "never".to_owned(), |seconds| format!("{seconds:.1} s"))
}

/// Retries beyond those after rejections, as a share of the requests.
fn retries(counted: Counted, bound: Bound) -> Figure {
    let others = counted.other_retries();
    let beyond = others.saturating_sub(BURST * counted.frontends);
    Figure {
        what: "retries beyond those of rejections, a request",
        value: Some(beyond as f64 / counted.requests.max(1) as f64),
        shown: format!("{others} of {} requests", counted.requests),
        bound,
    }
}

/// The figures of a fault. Where the row is more than no harm, all requests have to be answered that
/// somebody could take.
pub fn fault(seen: &Seen<'_>, claim: Claim) -> Vec<Figure> {
    let no_harm = claim == Claim::NoHarm;
    // Chance decides which requests are where when something breaks, and how many of a hundred a
    // server gets that fails its share.
    let few = Bound::NoWorse { times: 1.3, plus: (seen.samples.len() as f64 / 200.0).max(3.0) };
    let or = |harmless, promised| if no_harm { harmless } else { promised };
    let mut figures = vec![unanswered(seen, or(few, Bound::AtMost(0.0)))];
    figures.extend(nobody(seen));
    figures.extend(p99_during(seen, or(NOISE, Bound::AtMost(seen.limit_ms))));
    let later = Bound::NoWorse { times: 1.0, plus: 2.0 };
    figures.push(back(seen, or(later, Bound::AtMost(SETTLE_S))));
    let budget = or(Bound::NoWorse { times: 1.0, plus: BUDGET }, Bound::AtMost(BUDGET));
    figures.extend(seen.counted.map(|counted| retries(counted, budget)));
    figures
}

/// The 99th percentile over time, in milliseconds; what was not answered counts as [`PATIENCE`].
pub fn p99(samples: &[Sample]) -> Vec<Point> {
    let counted: Vec<Sample> = samples
        .iter()
        .map(|sample| Sample { latency: felt(sample), outcome: Outcome::Ok, ended: sample.ended })
        .collect();
    sliding(&counted, 0.99, WINDOW, STEP)
}

/// Why nothing can be said: the machine had other things to do even before the fault began.
pub fn restless(samples: &[Sample], at: Moments, limit_ms: f64) -> Option<String> {
    let before = p99(samples).into_iter().take_while(|point| point.at_s < at.began_s);
    let worst = before.map(|point| point.value).fold(0.0, f64::max);
    (worst > limit_ms)
        .then(|| format!("the machine is busy: p99 was {worst:.0} ms before the fault, above {limit_ms:.0}"))
}

/// Twice the 99th percentile of what ended before `end_s`, in milliseconds.
pub fn twice_the_undisturbed(samples: &[Sample], end_s: f64) -> f64 {
    let before = samples.iter().filter(|sample| sample.ended.as_secs_f64() < end_s);
    let mut latencies: Vec<Duration> = before.map(felt).collect();
    latencies.sort_unstable();
    2.0 * quantile(&latencies, 0.99).map_or(0.0, milliseconds)
}

/// Answered requests between two moments, as a share of what the service can answer.
pub fn goodput(samples: &[Sample], from_s: f64, to_s: f64, capacity_rps: f64) -> f64 {
    let inside = |sample: &&Sample| (from_s..to_s).contains(&sample.ended.as_secs_f64());
    let answered = samples.iter().filter(|sample| sample.outcome == Outcome::Ok).filter(inside);
    answered.count() as f64 / ((to_s - from_s) * capacity_rps)
}

/// A figure out of a goodput.
pub fn goodput_figure(what: &'static str, good: f64, bound: Bound) -> Figure {
    Figure { what, value: Some(good), shown: format!("{good:.2}"), bound }
}

/// Requests that were neither answered nor refused: their clients waited in vain.
pub fn in_vain(what: &'static str, samples: &[Sample], bound: Bound) -> Figure {
    let vain = samples.iter().filter(|one| one.outcome != Outcome::Ok && !is_refusal(one.outcome));
    let (count, refused) = (vain.clone().count(), samples.iter().filter(|one| is_refusal(one.outcome)));
    let kinds = if count == 0 { String::new() } else { format!(" ({})", by_outcome(vain)) };
    let shown = format!("{count} of {}{kinds}; {} refused", samples.len(), refused.count());
    Figure { what, value: Some(count as f64), shown, bound }
}

/// The 99th percentile of the answered requests.
pub fn p99_answered(what: &'static str, samples: &[Sample], bound: Bound) -> Figure {
    let answered = samples.iter().filter(|sample| sample.outcome == Outcome::Ok);
    let mut latencies: Vec<Duration> = answered.map(|sample| sample.latency).collect();
    latencies.sort_unstable();
    figure_ms(what, quantile(&latencies, 0.99).map(milliseconds), bound)
}

/// Requests without an answer, whatever the reason.
pub fn without_an_answer(what: &'static str, samples: &[Sample], bound: Bound) -> Figure {
    let failed: Vec<&Sample> = samples.iter().filter(|sample| sample.outcome != Outcome::Ok).collect();
    let mut shown = format!("{} of {}", failed.len(), samples.len());
    if !failed.is_empty() {
        shown += &format!(" ({})", by_outcome(failed.iter().copied()));
    }
    // Nothing asked is nothing answered.
    let value = (!samples.is_empty()).then_some(failed.len() as f64);
    Figure { what, value, shown, bound }
}

/// Of a time in seconds that something took.
pub fn took(what: &'static str, value: Option<f64>, bound: Bound) -> Figure {
    Figure { what, value, shown: seconds(value), bound }
}

/// Requests per second that came out in a way, second by second.
pub fn per_second(samples: &[Sample], counts: impl Fn(Outcome) -> bool) -> Vec<Point> {
    let end = samples.iter().map(|sample| sample.ended.as_secs()).max().map_or(0, |last| last + 1);
    let mut seconds = vec![0u32; usize::try_from(end).unwrap_or(0)];
    for sample in samples.iter().filter(|sample| counts(sample.outcome)) {
        if let Some(second) = seconds.get_mut(sample.ended.as_secs() as usize) {
            *second += 1;
        }
    }
    let point = |(n, count): (usize, u32)| Point { at_s: n as f64 + 0.5, value: count.into() };
    seconds.into_iter().enumerate().map(point).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const AT: Moments = Moments { began_s: 4.0, complete_s: 4.1, mended_s: 10.0 };

    /// A request that began and ended then, in milliseconds.
    fn request(began: u64, ended: u64, outcome: Outcome) -> Sample {
        Sample { latency: Duration::from_millis(ended - began), outcome, ended: Duration::from_millis(ended) }
    }

    fn error(began: u64, ended: u64) -> Sample {
        request(began, ended, Outcome::Error(ErrorKind::Status(500)))
    }

    /// 20 ms each, a hundred a second, for 20 s.
    fn well() -> Vec<Sample> {
        (0..2_000).map(|n| request(n * 10, n * 10 + 20, Outcome::Ok)).collect()
    }

    fn seen(samples: &[Sample]) -> Seen<'_> {
        let counted = Counted { requests: 100, retries: 70, rejections: 40, exhausted: 10, frontends: 2 };
        Seen { samples, kind: Kind::default(), at: AT, counted: Some(counted), limit_ms: 60.0 }
    }

    #[test]
    fn only_what_was_in_the_killed_process_is_excused() {
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
        assert_eq!(figure.shown, "3 of 5 (1 rejected, 2 status 500); and 2 in what was killed");
        assert_eq!(count(Kind::default()).value, Some(5.0), "nothing was killed");
        let nobody = Kind { kills: true, leaves_nobody: true };
        assert_eq!(count(nobody).value, Some(2.0), "before it began and after it ended");
    }

    /// Whether each figure of a promise holds.
    fn holds(seen: &Seen<'_>) -> Vec<bool> {
        let figures = fault(seen, Claim::Ours);
        figures.iter().map(|figure| figure.bound.holds(figure.value, None)).collect()
    }

    #[test]
    fn each_promise_of_a_fault_can_be_broken() {
        assert_eq!(holds(&seen(&well())), [true; 4]);
        let mut one_lost = well();
        one_lost.push(error(5_000, 5_010));
        assert_eq!(holds(&seen(&one_lost)), [false, true, true, true]);
        let mut slow = well();
        // Within the fault, and over before it ends.
        slow.extend((0..10).map(|n| request(6_200 + n, 6_900, Outcome::Ok)));
        assert_eq!(holds(&seen(&slow)), [true, false, true, true]);
        let mut early = well();
        early.extend((0..10).map(|n| request(4_200 + n, 4_900, Outcome::Ok)));
        assert_eq!(holds(&seen(&early)), [true; 4], "before it can be noticed");
        let mut late = well();
        late.extend((0..60).map(|n| request(11_000, 11_100 + n * 100, Outcome::Ok)));
        assert_eq!(holds(&seen(&late)), [true, true, false, true]);
        let samples = well();
        let mut more = seen(&samples);
        // 40 beyond rejections: 20 at once are allowed, and a fifth of 100 requests.
        more.counted = more.counted.map(|counted| Counted { retries: 71, ..counted });
        assert_eq!(holds(&more), [true, true, true, false]);
    }

    #[test]
    fn harm_is_what_is_worse_than_stock() {
        let stock = fault(&seen(&well()), Claim::NoHarm);
        let harmless = |samples: &[Sample]| -> Vec<bool> {
            let ours = fault(&seen(samples), Claim::NoHarm);
            let pairs = ours.iter().zip(&stock);
            pairs.map(|(ours, stock)| ours.bound.holds(ours.value, stock.value)).collect()
        };
        let mut few = well();
        few.extend((0..10).map(|n| error(5_000 + n, 5_010 + n)));
        assert_eq!(harmless(&few), [true; 4]);
        few.extend((0..10).map(|n| error(5_000 + n, 5_010 + n)));
        assert_eq!(harmless(&few), [false, true, true, true], "stock has lost none");
        let mut slow = well();
        slow.extend((0..10).map(|n| request(6_200 + n, 6_300, Outcome::Ok)));
        assert_eq!(harmless(&slow), [true, false, true, true]);
    }

    #[test]
    fn a_fault_that_is_too_short_or_leaves_nobody_has_no_percentile() {
        let (at, samples) = (Moments { mended_s: 6.2, ..AT }, well());
        assert!(p99_during(&seen(&samples), NOISE).is_some());
        assert!(p99_during(&Seen { at, ..seen(&samples) }, NOISE).is_none());
        let kind = Kind { kills: true, leaves_nobody: true };
        assert!(p99_during(&Seen { kind, ..seen(&samples) }, NOISE).is_none());
    }

    #[test]
    fn where_nobody_is_left_it_counts_how_long() {
        let (kind, samples) = (Kind { kills: true, leaves_nobody: true }, well());
        let until = |mended_s, claim| {
            let seen = Seen { kind, at: Moments { mended_s, ..AT }, ..seen(&samples) };
            let mut figures = fault(&seen, claim);
            figures.retain(|figure| figure.what == "until somebody takes requests again");
            figures.pop().unwrap()
        };
        for claim in [Claim::NoHarm, Claim::Ours] {
            let (stock, later) = (until(10.0, claim).value, until(15.9, claim));
            assert!(later.bound.holds(later.value, stock));
            assert!(!later.bound.holds(until(16.1, claim).value, stock));
        }
        assert!(nobody(&seen(&samples)).is_none(), "somebody is left");
    }

    #[test]
    fn what_is_late_before_the_fault_is_not_the_faults() {
        let mut samples = well();
        assert_eq!(restless(&samples, AT, 60.0), None);
        samples.push(request(5_000, 6_000, Outcome::Ok));
        assert_eq!(restless(&samples, AT, 60.0), None, "it was late afterwards");
        samples.extend((0..9).map(|n| request(1_000, 2_000 + n, Outcome::Ok)));
        assert!(restless(&samples, AT, 60.0).is_some());
    }

    #[test]
    fn goodput_counts_answers_only_and_a_breaker_refuses() {
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
    fn what_came_out_is_counted_second_by_second() {
        let samples = [error(0, 10), error(0, 2_100), request(0, 2_200, Outcome::Ok)];
        let points = per_second(&samples, |outcome| outcome != Outcome::Ok);
        let values: Vec<f64> = points.iter().map(|point| point.value).collect();
        assert_eq!(values, [1.0, 0.0, 1.0]);
    }
}
