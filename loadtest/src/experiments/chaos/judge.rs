//! Computes the figures of a column from what the clients saw and the frontends counted.

use super::figure::{Bound, Claim, Figure};
use crate::record::milliseconds;
use crate::timeline::{Point, recovery_s, sliding};
use bloc_figures::stats::quantile;
use bloc_mesh::load::{ErrorKind, Outcome, Sample};
use serde::Serialize;
use std::collections::BTreeMap;
use std::time::Duration;

/// A client gives up after this time. A fault lasts three times as long, so no client can outwait
/// it. A request without an answer counts in the percentiles with this time.
pub const CLIENT_TIMEOUT: Duration = Duration::from_secs(2);
/// How long a fault may go unnoticed before the percentile during it counts.
pub const NOTICED: Duration = Duration::from_secs(2);
/// The percentile is below twice the undisturbed one within this time after a fault, in seconds.
pub const SETTLE_S: f64 = 5.0;
/// Retries other than those after rejections, per request.
pub const BUDGET: f64 = 0.2;
/// This many more such retries than in stock Envoy are no harm.
const MORE_RETRIES: f64 = 0.05;
/// The effect of chance on the share of requests that meet the broken server: it is some 80 of 320
/// requests.
const SLOWER: Bound = Bound::NoWorse { times: 1.2, plus: 0.05 };
/// Retries that each frontend may make at once beyond [`BUDGET`].
pub const BURST: u64 = 10;
/// Where all processes had died: how much later than in stock Envoy requests may be accepted again,
/// in seconds. Envoys compile the module when they start. Four at once took 3 s longer on two
/// cores.
const LATER_S: f64 = 5.0;
/// The effect of an unlucky moment on a percentile, as a factor and in milliseconds.
const NOISE: Bound = Bound::NoWorse { times: 1.5, plus: 20.0 };

const WINDOW: Duration = Duration::from_secs(3);
const STEP: Duration = Duration::from_millis(100);
/// The percentile must stay down for this long, so that one lucky second does not count.
const STAY_S: f64 = 2.0;
/// With fewer requests than this, a 99th percentile means nothing.
const ENOUGH: usize = 100;

/// A promise of a run without columns, such as the soak run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Promise {
    /// Its subject.
    pub what: &'static str,
    /// What is promised.
    pub promised: String,
    /// What was measured.
    pub measured: String,
    /// Whether it holds.
    pub holds: bool,
}

/// When the fault happened, in seconds from the start of the load.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Moments {
    /// The fault begins.
    pub began_s: f64,
    /// The fault is complete: the processes to be killed have ended.
    pub complete_s: f64,
    /// The fault is mended: killed parts take requests again.
    pub mended_s: f64,
}

/// The kind of a fault.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Kind {
    /// It kills processes, and the requests in them.
    pub kills: bool,
    /// Nobody can take a request while it lasts.
    pub leaves_nobody: bool,
}

/// What the frontends counted during the run.
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
    /// The number of frontends.
    pub frontends: u64,
}

impl Counted {
    /// Retries after anything but a rejection.
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
    /// What the frontends counted; none if their counters began anew.
    pub counted: Option<Counted>,
    /// Twice the undisturbed percentile, in milliseconds.
    pub limit_ms: f64,
}

/// When a request began, from the start of the load.
fn began_s(sample: &Sample) -> f64 {
    sample.ended.saturating_sub(sample.latency).as_secs_f64()
}

/// Whether a request was refused: a rejection of ours, or Envoy's answer when a circuit breaker is
/// open.
pub fn is_refusal(outcome: Outcome) -> bool {
    matches!(outcome, Outcome::Shed | Outcome::Error(ErrorKind::Status(503)))
}

/// Counts the requests without a good answer of an application, by outcome.
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

/// Whether a request was inside a process when it was killed, or nobody could take it.
fn is_excused(sample: &Sample, kind: Kind, at: Moments) -> bool {
    let (began, ended) = (began_s(sample), sample.ended.as_secs_f64());
    let inside = kind.kills && began <= at.complete_s && ended >= at.began_s;
    let nobody = kind.leaves_nobody && began <= at.mended_s && ended >= at.began_s;
    inside || nobody
}

/// The time in which nobody takes a request.
fn nobody(seen: &Seen<'_>) -> Option<Figure> {
    let what = "until somebody takes requests again";
    let bound = Bound::NoWorse { times: 1.0, plus: LATER_S };
    seen.kind.leaves_nobody.then(|| took(what, Some(seen.at.mended_s - seen.at.began_s), bound))
}

/// Requests without an answer, errors of the application included. Requests inside a killed
/// process, or that nobody could take, do not count.
fn unanswered(seen: &Seen<'_>, bound: Bound) -> Figure {
    let failed = seen.samples.iter().filter(|sample| sample.outcome != Outcome::Ok);
    let (excused, counted): (Vec<&Sample>, Vec<&Sample>) =
        failed.partition(|sample| is_excused(sample, seen.kind, seen.at));
    let mut shown = format!("{} of {}", counted.len(), seen.samples.len());
    if !counted.is_empty() {
        shown += &format!(" ({})", by_outcome(counted.iter().copied()));
    }
    if seen.kind.leaves_nobody {
        shown += &format!("; and {} that nobody could take", excused.len());
    }
    let value = Some(counted.len() as f64);
    Figure { what: "requests without an answer", value, shown, bound }
}

/// Requests inside a killed process, where other processes were left.
fn inside(seen: &Seen<'_>) -> Option<Figure> {
    let failed = seen.samples.iter().filter(|one| one.outcome != Outcome::Ok);
    let count = failed.filter(|one| is_excused(one, seen.kind, seen.at)).count();
    let (value, shown) = (Some(count as f64), count.to_string());
    let is_some = seen.kind.kills && !seen.kind.leaves_nobody;
    is_some.then_some(Figure { what: "requests in what was killed", value, shown, bound: Bound::Chance })
}

/// The sorted response times of the requests that began during the fault, from [`NOTICED`] on; none
/// if there are too few.
fn meanwhile(seen: &Seen<'_>) -> Option<Vec<Duration>> {
    let from = seen.at.complete_s + NOTICED.as_secs_f64();
    let meanwhile = seen.samples.iter().filter(|one| (from..seen.at.mended_s).contains(&began_s(one)));
    let mut latencies: Vec<Duration> = meanwhile.map(felt).collect();
    latencies.sort_unstable();
    // If no process is left, no request can be fast.
    (latencies.len() >= ENOUGH && !seen.kind.leaves_nobody).then_some(latencies)
}

/// The share of these requests that took longer than the limit. Where the percentile is already as
/// long as clients wait, it cannot get worse, but this share can.
fn slower(seen: &Seen<'_>, bound: Bound) -> Option<Figure> {
    let latencies = meanwhile(seen)?;
    let within = latencies.partition_point(|latency| milliseconds(*latency) <= seen.limit_ms);
    let value = (latencies.len() - within) as f64 / latencies.len() as f64;
    let shown = format!("{:.0}%", 100.0 * value);
    Some(Figure { what: "slower than twice the undisturbed p99 while it lasts", value: Some(value), shown, bound })
}

/// The 99th percentile of the requests that began during the fault, from [`NOTICED`] on; none if
/// there are too few.
fn p99_during(seen: &Seen<'_>, bound: Bound) -> Option<Figure> {
    let value = quantile(&meanwhile(seen)?, 0.99).map(milliseconds);
    Some(figure_ms("p99 while it lasts, from 2 s on", value, bound))
}

/// The time that a client experienced.
fn felt(sample: &Sample) -> Duration {
    if sample.outcome == Outcome::Ok { sample.latency } else { CLIENT_TIMEOUT }
}

fn figure_ms(what: &'static str, value: Option<f64>, bound: Bound) -> Figure {
    let shown = value.map_or_else(|| "-".to_owned(), |ms| format!("{ms:.0} ms"));
    Figure { what, value, shown, bound }
}

/// The time from the end of the fault until the percentile is below the limit.
fn back(seen: &Seen<'_>, bound: Bound) -> Figure {
    let value = recovery_s(&p99(seen.samples), seen.at.mended_s, seen.limit_ms, STAY_S);
    Figure { what: "p99 below twice the undisturbed, after it", value, shown: seconds(value), bound }
}

fn seconds(value: Option<f64>) -> String {
    value.map_or_else(|| "never".to_owned(), |seconds| format!("{seconds:.1} s"))
}

/// Retries other than those after rejections, as a share of the requests.
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

/// The figures of a fault. Unless the row claims only no harm, every request must be answered that
/// somebody could take.
pub fn fault(seen: &Seen<'_>, claim: Claim) -> Vec<Figure> {
    let no_harm = claim == Claim::NoHarm;
    let or = |harmless, promised| if no_harm { harmless } else { promised };
    let mut figures = vec![unanswered(seen, or(Bound::Chance, Bound::AtMost(0.0)))];
    figures.extend(inside(seen));
    figures.extend(nobody(seen));
    figures.extend(slower(seen, SLOWER));
    figures.extend(p99_during(seen, or(NOISE, Bound::AtMost(seen.limit_ms))));
    let later = Bound::NoWorse { times: 1.0, plus: 2.0 };
    figures.push(back(seen, or(later, Bound::AtMost(SETTLE_S))));
    let budget = or(Bound::NoWorse { times: 1.0, plus: MORE_RETRIES }, Bound::AtMost(BUDGET));
    figures.extend(seen.counted.map(|counted| retries(counted, budget)));
    figures
}

/// The 99th percentile over time, in milliseconds. A request without an answer counts as
/// [`CLIENT_TIMEOUT`].
pub fn p99(samples: &[Sample]) -> Vec<Point> {
    let counted: Vec<Sample> = samples
        .iter()
        .map(|sample| Sample { latency: felt(sample), outcome: Outcome::Ok, ended: sample.ended })
        .collect();
    sliding(&counted, 0.99, WINDOW, STEP)
}

/// Why the results prove nothing: the machine was busy even before the fault.
pub fn restless(samples: &[Sample], at: Moments, limit_ms: f64) -> Option<String> {
    let before = p99(samples).into_iter().take_while(|point| point.at_s < at.began_s);
    let worst = before.map(|point| point.value).fold(0.0, f64::max);
    (worst > limit_ms)
        .then(|| format!("the machine is busy: p99 was {worst:.0} ms before the fault, above {limit_ms:.0}"))
}

/// Twice the 99th percentile of the requests that ended before `end_s`, in milliseconds.
pub fn twice_the_undisturbed(samples: &[Sample], end_s: f64) -> f64 {
    let before = samples.iter().filter(|sample| sample.ended.as_secs_f64() < end_s);
    let mut latencies: Vec<Duration> = before.map(felt).collect();
    latencies.sort_unstable();
    2.0 * quantile(&latencies, 0.99).map_or(0.0, milliseconds)
}

/// Requests answered between two moments, as a share of what the service can answer.
pub fn goodput(samples: &[Sample], from_s: f64, to_s: f64, capacity_rps: f64) -> f64 {
    let inside = |sample: &&Sample| (from_s..to_s).contains(&sample.ended.as_secs_f64());
    let answered = samples.iter().filter(|sample| sample.outcome == Outcome::Ok).filter(inside);
    answered.count() as f64 / ((to_s - from_s) * capacity_rps)
}

/// A goodput as a figure.
pub fn goodput_figure(what: &'static str, good: f64, bound: Bound) -> Figure {
    Figure { what, value: Some(good), shown: format!("{good:.2}"), bound }
}

/// Requests that were neither answered nor refused, so their clients waited in vain.
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
    // Without requests there is no value.
    let value = (!samples.is_empty()).then_some(failed.len() as f64);
    Figure { what, value, shown, bound }
}

/// A duration in seconds as a figure.
pub fn took(what: &'static str, value: Option<f64>, bound: Bound) -> Figure {
    Figure { what, value, shown: seconds(value), bound }
}

/// Requests per second with certain outcomes, second by second.
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
#[path = "judge_tests.rs"]
mod tests;
