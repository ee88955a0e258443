//! What is promised, and whether it holds: from what the clients saw and what the frontends counted.

use crate::load::{ErrorKind, Outcome, Sample, quantile};
use crate::timeline::{Point, recovery_s, sliding};
use serde::Serialize;
use std::time::Duration;

/// A service has settled when its 99th percentile is below twice the undisturbed one within this time.
pub const SETTLE: Duration = Duration::from_secs(5);
/// How a lost request counts in the percentile.
pub const PATIENCE: Duration = Duration::from_secs(10);
/// Retries beyond those after rejections, per request.
pub const BUDGET: f64 = 0.2;
/// What each frontend may retry at once beyond that share.
pub const BURST: u64 = 10;
/// Answered requests in a flood, as a share of the capacity.
pub const GOODPUT: f64 = 0.9;
/// What a server that fails at once gets at most, as a multiple of its fair share.
pub const SPREAD: f64 = 1.5;
/// What a server that is well again gets at least, as a multiple of its fair share.
pub const RECOVERED: f64 = 0.8;
/// Within this time what was written last is in force in every sidecar.
pub const IN_FORCE: Duration = Duration::from_secs(4);

const WINDOW: Duration = Duration::from_secs(3);
const STEP: Duration = Duration::from_millis(100);
/// The percentile must stay down for so long, lest a lucky second counts.
const STAY_S: f64 = 2.0;

/// Something that is promised.
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
    /// The others can make up for it while it lasts.
    pub heals_by_itself: bool,
    /// The error that the application of the victim makes itself; one of so many backends is the victim.
    pub own: Option<(ErrorKind, usize)>,
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
}

impl Counted {
    /// Retries after something else than a rejection.
    pub fn other_retries(&self) -> u64 {
        self.retries.saturating_sub(self.rejections.saturating_sub(self.exhausted))
    }
}

/// When a request began, from the start of the load.
fn began_s(sample: &Sample) -> f64 {
    sample.ended.saturating_sub(sample.latency).as_secs_f64()
}

/// Requests that were lost although another server could have taken them.
pub fn lost(samples: &[Sample], kind: Kind, at: Moments) -> usize {
    let excused = |sample: &Sample| {
        let (began, ended) = (began_s(sample), sample.ended.as_secs_f64());
        let inside = kind.kills && began <= at.complete_s && ended >= at.began_s;
        let nobody = kind.leaves_nobody && began <= at.mended_s && ended >= at.began_s;
        inside || nobody || is_own(sample, kind, at)
    };
    samples.iter().filter(|sample| sample.outcome != Outcome::Ok && !excused(sample)).count()
}

/// Requests that were in a process when it was killed, or that nobody could take.
pub fn excused(samples: &[Sample], kind: Kind, at: Moments) -> usize {
    let failed = samples.iter().filter(|sample| sample.outcome != Outcome::Ok && !is_own(sample, kind, at)).count();
    failed - lost(samples, kind, at)
}

fn is_own(sample: &Sample, kind: Kind, at: Moments) -> bool {
    let meanwhile = sample.ended.as_secs_f64() >= at.began_s && began_s(sample) <= at.mended_s;
    kind.own.is_some_and(|(error, _)| meanwhile && sample.outcome == Outcome::Error(error))
}

/// The 99th percentile over time, in milliseconds; what was not answered counts as [`PATIENCE`].
pub fn p99(samples: &[Sample]) -> Vec<Point> {
    let counted: Vec<Sample> = samples
        .iter()
        .map(|sample| match sample.outcome {
            Outcome::Ok => *sample,
            _ => Sample { latency: PATIENCE, outcome: Outcome::Ok, ended: sample.ended },
        })
        .collect();
    sliding(&counted, 0.99, WINDOW, STEP)
}

/// Why nothing can be said: the machine had other things to do even before the fault began.
pub fn restless(samples: &[Sample], at: Moments, limit_ms: f64) -> Option<String> {
    let before = p99(samples).into_iter().take_while(|point| point.at_s < at.began_s).map(|point| point.value);
    let worst = before.fold(0.0, f64::max);
    (worst > limit_ms)
        .then(|| format!("the machine is busy: p99 was {worst:.0} ms before the fault, above {limit_ms:.0}"))
}

/// All that is promised of a fault.
pub fn judge(
    samples: &[Sample],
    kind: Kind,
    at: Moments,
    limit_ms: f64,
    counted: Option<(Counted, u64)>,
) -> Vec<Promise> {
    let mut promises = judge_lost(samples, kind, at);
    let (from, since) = if kind.heals_by_itself { (at.began_s, "it began") } else { (at.mended_s, "it ended") };
    let took = recovery_s(&p99(samples), from, limit_ms, STAY_S);
    promises.push(Promise {
        what: "p99 below twice the undisturbed",
        promised: format!("within {} s after {since}", SETTLE.as_secs()),
        measured: took.map_or_else(|| "not within the run".into(), |seconds| format!("{seconds:.1} s")),
        holds: took.is_some_and(|seconds| seconds <= SETTLE.as_secs_f64()),
    });
    if let Some((counted, frontends)) = counted {
        promises.push(retries(counted, frontends));
    }
    if let Some((_, backends)) = kind.own {
        promises.push(spread(samples, kind, at, backends));
    }
    promises
}

fn judge_lost(samples: &[Sample], kind: Kind, at: Moments) -> Vec<Promise> {
    let lost = lost(samples, kind, at);
    vec![Promise {
        what: "requests lost",
        promised: "0".into(),
        measured: match excused(samples, kind, at) {
            0 => lost.to_string(),
            excused if kind.leaves_nobody => format!("{lost} (and {excused} that nobody could take)"),
            excused => format!("{lost} (and {excused} in what was killed)"),
        },
        holds: lost == 0,
    }]
}

fn retries(counted: Counted, frontends: u64) -> Promise {
    let (others, requests) = (counted.other_retries(), counted.requests);
    let most = (BUDGET * requests as f64) as u64 + BURST * frontends;
    Promise {
        what: "retries beyond those of rejections",
        promised: format!("at most {:.0}% of the requests and {BURST} a frontend", 100.0 * BUDGET),
        measured: format!("{others} of {requests} requests"),
        holds: others <= most,
    }
}

fn spread(samples: &[Sample], kind: Kind, at: Moments, backends: usize) -> Promise {
    let during = |sample: &&Sample| (at.complete_s..=at.mended_s).contains(&began_s(sample));
    let all = samples.iter().filter(during).count();
    let own = samples.iter().filter(during).filter(|sample| is_own(sample, kind, at)).count();
    let (share, fair) = (own as f64 / all.max(1) as f64, 1.0 / backends as f64);
    Promise {
        what: "requests that the broken server gets",
        promised: format!("at most {SPREAD} times its share of {:.0}%", 100.0 * fair),
        measured: format!("{:.0}%", 100.0 * share),
        holds: share <= SPREAD * fair,
    }
}

/// Answered requests between two moments, as a share of what the service can answer.
pub fn goodput(samples: &[Sample], from_s: f64, to_s: f64, capacity_rps: f64) -> f64 {
    let inside = |sample: &&Sample| (from_s..to_s).contains(&sample.ended.as_secs_f64());
    let answered = samples.iter().filter(|sample| sample.outcome == Outcome::Ok).filter(inside).count();
    answered as f64 / ((to_s - from_s) * capacity_rps)
}

/// What was seen of large and small requests.
#[derive(Debug)]
pub struct Uploads {
    /// The small ones.
    pub small: Vec<Sample>,
    /// The large ones, which cannot be repeated.
    pub large: Vec<Sample>,
    /// How many attempts were bounced.
    pub bounces: u64,
    /// When that was.
    pub at: Moments,
}

/// Judges [`Uploads`].
pub fn judge_uploads(seen: &Uploads) -> Vec<Promise> {
    let mut promises: Vec<Promise> = [("small requests", &seen.small), ("large requests", &seen.large)]
        .into_iter()
        .map(|(what, samples)| {
            let served = samples.iter().filter(|sample| sample.outcome == Outcome::Ok).count();
            Promise {
                what,
                promised: "all are served".to_owned(),
                measured: format!("{served} of {}", samples.len()),
                holds: served == samples.len() && served > 0,
            }
        })
        .collect();
    promises.push(Promise {
        what: "bounces",
        promised: "some, or nothing is shown".to_owned(),
        measured: seen.bounces.to_string(),
        holds: seen.bounces > 0,
    });
    promises
}

/// What is promised of a server that is well again: `served` is what each server has served from
/// ten seconds after that on.
pub fn judge_recovered(samples: &[Sample], kind: Kind, at: Moments, served: &[u64], server: usize) -> Vec<Promise> {
    let mut promises = judge_lost(samples, kind, at);
    if let Some((_, servers)) = kind.own {
        promises.push(spread(samples, kind, at, servers));
    }
    let (own, all) = (served.get(server).copied().unwrap_or(0), served.iter().sum::<u64>());
    let share = own as f64 * served.len() as f64 / all.max(1) as f64;
    promises.push(Promise {
        what: "requests that the server gets when it is well again",
        promised: format!("at least {RECOVERED} of its share, from 10 s on"),
        measured: format!("{share:.2}"),
        holds: share >= RECOVERED,
    });
    promises
}

/// What is promised of a flood.
pub fn judge_flood(samples: &[Sample], from_s: f64, to_s: f64, capacity_rps: f64, least_request: f64) -> Vec<Promise> {
    let good = goodput(samples, from_s, to_s, capacity_rps);
    let lost = samples.iter().filter(|sample| matches!(sample.outcome, Outcome::Error(_))).count();
    vec![
        Promise {
            what: "goodput as a share of the capacity",
            promised: format!("at least {GOODPUT}"),
            measured: format!("{good:.2} (least request: {least_request:.2})"),
            holds: good >= GOODPUT,
        },
        Promise {
            what: "requests neither answered nor refused",
            promised: "0".into(),
            measured: lost.to_string(),
            holds: lost == 0,
        },
    ]
}

/// What is promised while a sidecar stands still most of the time: what it holds is answered, to
/// clients with this `patience`.
pub fn judge_throttled(samples: &[Sample], least_request: &[Sample], patience: Duration) -> Vec<Promise> {
    let unanswered = |samples: &[Sample]| {
        samples.iter().filter(|sample| sample.outcome == Outcome::Error(ErrorKind::Timeout)).count()
    };
    let longest = |samples: &[Sample]| {
        let answered = samples.iter().filter(|sample| sample.outcome == Outcome::Ok);
        answered.map(|sample| sample.latency).max().unwrap_or_default().as_secs_f64()
    };
    let (ours, least) = (unanswered(samples), unanswered(least_request));
    vec![Promise {
        what: "requests without an answer",
        promised: format!("0 of {} after {} s", samples.len(), patience.as_secs()),
        measured: format!(
            "{ours}, the longest answer {:.1} s (least request: {least} of {}, {:.1} s)",
            longest(samples),
            least_request.len(),
            longest(least_request)
        ),
        holds: ours == 0 && !samples.is_empty(),
    }]
}

/// What was seen while a configuration was changed and rolled back.
#[derive(Clone, Debug)]
pub struct RolledBack {
    /// The requests.
    pub samples: Vec<Sample>,
    /// The change begins; it is rolled back; the last listener that was replaced is gone.
    pub at: Moments,
    /// After how many seconds each of these was in force in every sidecar: the change, its
    /// rollback, and what the control plane said when all was over. None: not within [`IN_FORCE`].
    pub in_force_s: [Option<f64>; 3],
}

/// Twice the 99th percentile before the change, in milliseconds.
pub fn twice_the_undisturbed(samples: &[Sample], at: Moments) -> f64 {
    let before = samples.iter().filter(|sample| sample.ended.as_secs_f64() < at.began_s).copied();
    let mut latencies: Vec<Duration> = before.map(|sample| sample.latency).collect();
    latencies.sort_unstable();
    2e3 * quantile(&latencies, 0.99).unwrap_or_default().as_secs_f64()
}

/// What is promised of a configuration that is changed and rolled back; `bound` is how long a
/// request may be held, all its attempts together.
pub fn judge_rolled_back(ours: &RolledBack, least_request: &[Sample], bound: Duration) -> Vec<Promise> {
    let RolledBack { samples, at, in_force_s } = ours;
    let lost = |samples: &[Sample]| samples.iter().filter(|sample| sample.outcome != Outcome::Ok).count();
    let (ours, least) = (lost(samples), lost(least_request));
    let late = samples.iter().filter(|sample| sample.latency > bound).count();
    let longest = samples.iter().map(|sample| sample.latency).max().unwrap_or_default();
    let took = recovery_s(&p99(samples), at.mended_s, twice_the_undisturbed(samples, *at), STAY_S);
    let after: Vec<&Sample> = samples.iter().filter(|sample| began_s(sample) >= at.mended_s).collect();
    let answered = after.iter().filter(|sample| sample.outcome == Outcome::Ok).count();
    let good = answered as f64 / after.len().max(1) as f64;
    let seconds = |took: Option<f64>| took.map_or_else(|| "never".into(), |took| format!("{took:.1} s"));
    let [change, rollback, control_plane] = *in_force_s;
    vec![
        Promise {
            what: "requests lost",
            promised: "no more than with least request".into(),
            measured: format!("{ours} of {} (least request: {least} of {})", samples.len(), least_request.len()),
            holds: ours <= least && !samples.is_empty(),
        },
        Promise {
            what: "requests that wait longer than they may",
            promised: format!("0 beyond {:.0} s", bound.as_secs_f64()),
            measured: format!("{late} (longest: {:.1} s)", longest.as_secs_f64()),
            holds: late == 0,
        },
        Promise {
            what: "p99 below twice the undisturbed",
            promised: format!("within {} s after the last drain ended", SETTLE.as_secs()),
            measured: took.map_or_else(|| "not within the run".into(), |seconds| format!("{seconds:.1} s")),
            holds: took.is_some_and(|seconds| seconds <= SETTLE.as_secs_f64()),
        },
        Promise {
            what: "goodput after that as a share of the load",
            promised: format!("at least {GOODPUT}"),
            measured: format!("{good:.2}"),
            holds: good >= GOODPUT,
        },
        Promise {
            what: "the change, and its rollback, in every sidecar",
            promised: format!("within {} s", IN_FORCE.as_secs()),
            measured: format!("{}, {}", seconds(change), seconds(rollback)),
            holds: change.is_some() && rollback.is_some(),
        },
        Promise {
            what: "what the control plane says afterwards, in every sidecar",
            promised: format!("within {} s", IN_FORCE.as_secs()),
            measured: seconds(control_plane),
            holds: control_plane.is_some(),
        },
    ]
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
    seconds.into_iter().enumerate().map(|(n, count)| Point { at_s: n as f64 + 0.5, value: count.into() }).collect()
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
        request(began, ended, Outcome::Error(ErrorKind::Status(503)))
    }

    /// 20 ms each, a hundred a second, for 20 s.
    fn well() -> Vec<Sample> {
        (0..2_000).map(|n| request(n * 10, n * 10 + 20, Outcome::Ok)).collect()
    }

    #[test]
    fn only_what_was_in_the_killed_process_is_excused() {
        let kills = Kind { kills: true, ..Kind::default() };
        let samples =
            [error(4_050, 4_060), error(3_000, 4_050), error(4_101, 4_110), error(3_000, 3_900), error(11_000, 11_001)];
        assert_eq!((lost(&samples, kills, AT), excused(&samples, kills, AT)), (3, 2));
        assert_eq!(lost(&samples, Kind::default(), AT), 5, "nothing was killed");
        let nobody = Kind { kills: true, leaves_nobody: true, ..Kind::default() };
        assert_eq!(lost(&samples, nobody, AT), 2, "before it began and after it ended");
        let shed = [request(5_000, 5_001, Outcome::Shed)];
        assert_eq!(lost(&shed, kills, AT), 1, "a refusal is a loss when another server has room");
    }

    #[test]
    fn an_upload_that_is_refused_breaks_its_promise() {
        let holds = |small: &[Sample], large: &[Sample], bounces| -> Vec<bool> {
            let seen = Uploads { small: small.to_vec(), large: large.to_vec(), bounces, at: AT };
            judge_uploads(&seen).iter().map(|promise| promise.holds).collect()
        };
        let refused = [well(), vec![request(0, 1, Outcome::Shed)]].concat();
        assert_eq!(holds(&well(), &well(), 1), [true; 3]);
        assert_eq!(holds(&well(), &refused, 1), [true, false, true]);
        assert_eq!(holds(&refused, &well(), 0), [false, true, false]);
        assert_eq!(holds(&[], &[], 1), [false, false, true], "nothing was asked");
    }

    #[test]
    fn each_promise_can_be_broken() {
        let own = Some((ErrorKind::Status(500), 4));
        let kind = Kind { own, ..Kind::default() };
        let holds = |samples: &[Sample], counted| -> Vec<bool> {
            judge(samples, kind, AT, 60.0, Some((counted, 2))).iter().map(|promise| promise.holds).collect()
        };
        let counted = Counted { requests: 100, retries: 70, rejections: 40, exhausted: 10 };
        assert_eq!(holds(&well(), counted), [true; 4]);
        let more = Counted { retries: 71, ..counted };
        assert_eq!(holds(&well(), more), [true, true, false, true]);
        let mut one_lost = well();
        one_lost.push(error(5_000, 5_010));
        assert_eq!(holds(&one_lost, counted), [false, true, true, true]);
        let mut late = well();
        late.extend((0..60).map(|n| request(11_000, 11_100 + n * 100, Outcome::Ok)));
        assert_eq!(holds(&late, counted), [true, false, true, true]);
        let mut black_hole = well();
        let fails = |sample: &mut Sample| sample.outcome = Outcome::Error(ErrorKind::Status(500));
        black_hole.iter_mut().filter(|sample| (4.2..9.5).contains(&began_s(sample))).step_by(3).for_each(fails);
        assert_eq!(holds(&black_hole, counted), [true, true, true, true], "a third, of 1.5 quarters");
        let others = black_hole.iter_mut().filter(|sample| (4.2..9.5).contains(&began_s(sample))).skip(1).step_by(6);
        others.for_each(fails);
        assert_eq!(holds(&black_hole, counted), [true, true, true, false]);
    }

    #[test]
    fn who_heals_by_itself_has_to_while_it_lasts() {
        let mut samples = well();
        samples.extend((0..60).map(|n| request(4_500, 4_600 + n * 100, Outcome::Ok)));
        let recovered =
            |heals_by_itself| judge(&samples, Kind { heals_by_itself, ..Kind::default() }, AT, 60.0, None)[1].holds;
        assert!(recovered(false) && !recovered(true));
    }

    #[test]
    fn a_server_that_is_well_again_has_to_get_its_share() {
        let holds = |served: &[u64]| {
            let promises = judge_recovered(&well(), Kind::default(), AT, served, 1);
            promises.iter().map(|promise| promise.holds).collect::<Vec<_>>()
        };
        assert_eq!(holds(&[110, 80, 105, 105]), [true, true]);
        assert_eq!(holds(&[111, 78, 106, 105]), [true, false]);
        assert_eq!(holds(&[0, 0, 0, 0]), [true, false], "nothing was served");
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
    fn goodput_counts_answers_only() {
        let mut samples = well();
        samples.extend((0..500).map(|n| request(n * 10, n * 10 + 1, Outcome::Shed)));
        assert!((goodput(&samples, 5.0, 15.0, 100.0) - 1.0).abs() < 0.01);
        let flood = |least| judge_flood(&samples, 5.0, 15.0, least, 0.4).iter().map(|p| p.holds).collect::<Vec<_>>();
        assert_eq!(flood(100.0), [true, true]);
        assert_eq!(flood(120.0), [false, true]);
        samples.push(error(1, 2));
        let promises = judge_flood(&samples, 5.0, 15.0, 100.0, 0.4);
        assert!(!promises[1].holds);
    }

    #[test]
    fn of_a_throttled_sidecar_each_request_is_to_be_answered() {
        let timeout = request(0, 10_000, Outcome::Error(ErrorKind::Timeout));
        let shed = request(0, 10, Outcome::Shed);
        let holds = |samples: &[Sample]| judge_throttled(samples, &[timeout], PATIENCE)[0].holds;
        assert!(holds(&[well()[0], shed, error(0, 10)]), "refused is answered");
        assert!(!holds(&[well()[0], timeout]));
        assert!(!holds(&[]), "nothing was seen");
    }

    #[test]
    fn of_a_rollback_each_promise_can_be_broken() {
        let all = [Some(1.0); 3];
        let holds = |samples: &[Sample], in_force_s| -> Vec<bool> {
            let seen = RolledBack { samples: samples.to_vec(), at: AT, in_force_s };
            judge_rolled_back(&seen, &[error(0, 10)], Duration::from_secs(5)).iter().map(|p| p.holds).collect()
        };
        let mut samples = well();
        samples.push(error(9_000, 9_010));
        assert_eq!(holds(&samples, all), [true; 6], "as many as with least request");
        samples.push(error(9_000, 9_010));
        assert_eq!(holds(&samples, all), [false, true, true, true, true, true]);
        let mut late = well();
        late.push(request(4_000, 9_001, Outcome::Ok));
        assert_eq!(holds(&late, all), [true, false, true, true, true, true]);
        let mut hanging = well();
        let hangs = |sample: &mut Sample| *sample = request(11_000, 21_000, Outcome::Error(ErrorKind::Timeout));
        hanging.iter_mut().filter(|sample| began_s(sample) >= 10.0).step_by(2).for_each(hangs);
        // The percentile hears of them only when their clients give up.
        assert_eq!(holds(&hanging, all), [false, false, true, false, true, true]);
        assert_eq!(holds(&well(), [None, Some(1.0), Some(1.0)]), [true, true, true, true, false, true]);
        assert_eq!(holds(&well(), [Some(1.0), None, Some(1.0)]), [true, true, true, true, false, true]);
        assert_eq!(holds(&well(), [Some(1.0), Some(1.0), None]), [true, true, true, true, true, false]);
    }

    #[test]
    fn what_came_out_is_counted_second_by_second() {
        let points = per_second(&[error(0, 10), error(0, 2_100), request(0, 2_200, Outcome::Ok)], |o| o != Outcome::Ok);
        let values: Vec<f64> = points.iter().map(|point| point.value).collect();
        assert_eq!(values, [1.0, 0.0, 1.0]);
    }
}
