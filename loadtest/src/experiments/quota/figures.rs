//! What is measured of an allocator, and its medians over the rounds.

use super::memory;
use super::plan::{Plan, SLO, TIMEOUT};
use super::qos;
use super::watch::Seen;
use crate::record::milliseconds;
use bloc_figures::stats::{Spread, quantile};
use bloc_mesh::load::{Outcome, Sample};
use serde::Serialize;
use std::collections::BTreeMap;
use std::time::Duration;

/// A figure of one turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Figure {
    /// Requests that were sent.
    Requests,
    /// Those of them that were answered.
    Answered,
    /// Those that were answered within the SLO.
    InTime,
    /// Median response time in milliseconds. In this and the next two an unanswered request counts
    /// as the timeout of its client.
    P50,
    /// 99th percentile.
    P99,
    /// 99.9th percentile.
    P999,
    /// Quota minus use in 100 ms, over all containers, in cores: the median.
    SlackP50,
    /// Its 99th percentile.
    SlackP99,
    /// The share of the periods in which a container was throttled.
    Throttled,
    /// From the first throttled period to a larger quota, in milliseconds: the median.
    RaisedP50,
    /// Its 90th percentile.
    RaisedP90,
    /// Its 99th percentile. It has the waits while next to nothing of the limit was free, too.
    RaisedP99,
    /// How often a throttled container got no larger quota.
    InVain,
    /// Processes that the kernel killed for want of memory.
    Kills,
    /// The most that a container may use minus its use, each 100 ms, over all containers, in MiB:
    /// the median.
    MemorySlackP50,
    /// Its 99th percentile.
    MemorySlackP99,
    /// From the use above the limit to a larger limit, in milliseconds: the median.
    LimitP50,
    /// Its 90th percentile.
    LimitP90,
    /// Its 99th percentile.
    LimitP99,
    /// How often a container above its limit got no larger one within a second.
    LimitInVain,
    /// Requests that were answered later than their target allows, or not at all.
    Late,
    /// Those of them that came while their container was not hot.
    LateOthers,
    /// The most shares that a container had, in parts of its own.
    MostShares,
    /// Samples of the files in which all had more together than they may.
    SumAbove,
    /// Containers and pods without their own shares after the agent has ended.
    NotOwn,
    /// CPU of a neighbour that always wants more, in cores.
    NeighbourCpu,
    /// Requests that a sidecar admitted.
    Admitted,
    /// Those that it rejected.
    Rejected,
    /// The share of the admitted ones that were answered within the SLO.
    InTimeShare,
    /// The same of the first two seconds.
    FirstInTime,
    /// The capacity of the sidecar before its application's quota was halved.
    CapacityBefore,
    /// The same at the end.
    CapacityAfter,
    /// From a halved quota in the file to the capacity in force, in milliseconds: the median.
    HalvedP50,
    /// Its 90th percentile.
    HalvedP90,
    /// The longest of them.
    HalvedMost,
    /// The same for a doubled quota: the median.
    DoubledP50,
    /// Its 90th percentile.
    DoubledP90,
    /// The longest of them.
    DoubledMost,
    /// CPU of the agent's processes, in cores. Of several agents, it is that of the one that used
    /// the most.
    AgentCpu,
}

/// The figures of a turn.
pub type Turn = BTreeMap<Figure, f64>;

impl Figure {
    /// In the order of tables, with the digits that are shown.
    pub const SHOWN: [(Self, usize); 39] = [
        (Self::Requests, 0),
        (Self::Answered, 0),
        (Self::InTime, 0),
        (Self::P50, 0),
        (Self::P99, 0),
        (Self::P999, 0),
        (Self::SlackP50, 3),
        (Self::SlackP99, 3),
        (Self::Throttled, 3),
        (Self::RaisedP50, 0),
        (Self::RaisedP90, 0),
        (Self::RaisedP99, 0),
        (Self::InVain, 0),
        (Self::Kills, 0),
        (Self::MemorySlackP50, 0),
        (Self::MemorySlackP99, 0),
        (Self::LimitP50, 0),
        (Self::LimitP90, 0),
        (Self::LimitP99, 0),
        (Self::LimitInVain, 0),
        (Self::Late, 0),
        (Self::LateOthers, 0),
        (Self::MostShares, 2),
        (Self::SumAbove, 0),
        (Self::NotOwn, 0),
        (Self::NeighbourCpu, 3),
        (Self::Admitted, 0),
        (Self::Rejected, 0),
        (Self::InTimeShare, 3),
        (Self::FirstInTime, 3),
        (Self::CapacityBefore, 0),
        (Self::CapacityAfter, 0),
        (Self::HalvedP50, 0),
        (Self::HalvedP90, 0),
        (Self::HalvedMost, 0),
        (Self::DoubledP50, 0),
        (Self::DoubledP90, 0),
        (Self::DoubledMost, 0),
        (Self::AgentCpu, 4),
    ];

    /// The name for a reader.
    pub const fn title(self) -> &'static str {
        match self {
            Self::Requests => "requests",
            Self::Answered => "answered",
            Self::InTime => "within the SLO",
            Self::P50 => "p50 ms",
            Self::P99 => "p99 ms",
            Self::P999 => "p99.9 ms",
            Self::SlackP50 => "slack p50, cores",
            Self::SlackP99 => "slack p99, cores",
            Self::Throttled => "throttled periods",
            Self::RaisedP50 => "throttled to new quota p50 ms",
            Self::RaisedP90 => "throttled to new quota p90 ms",
            Self::RaisedP99 => "throttled to new quota p99 ms",
            Self::InVain => "throttled without a new quota",
            Self::Kills => "killed",
            Self::MemorySlackP50 => "slack p50, MiB",
            Self::MemorySlackP99 => "slack p99, MiB",
            Self::LimitP50 => "above the limit to new limit p50 ms",
            Self::LimitP90 => "above the limit to new limit p90 ms",
            Self::LimitP99 => "above the limit to new limit p99 ms",
            Self::LimitInVain => "above the limit without a new limit",
            Self::Late => "late or not answered",
            Self::LateOthers => "the same while not hot",
            Self::MostShares => "most shares, parts of the own",
            Self::SumAbove => "samples with too large a sum",
            Self::NotOwn => "shares that are not back at the end",
            Self::NeighbourCpu => "neighbour's CPU, cores",
            Self::Admitted => "admitted",
            Self::Rejected => "rejected",
            Self::InTimeShare => "within the SLO, share",
            Self::FirstInTime => "the same in the first 2 s",
            Self::CapacityBefore => "capacity before",
            Self::CapacityAfter => "capacity at the end",
            Self::HalvedP50 => "quota halved to in force p50 ms",
            Self::HalvedP90 => "quota halved to in force p90 ms",
            Self::HalvedMost => "quota halved to in force at most ms",
            Self::DoubledP50 => "quota doubled to in force p50 ms",
            Self::DoubledP90 => "quota doubled to in force p90 ms",
            Self::DoubledMost => "quota doubled to in force at most ms",
            Self::AgentCpu => "agent's CPU, cores",
        }
    }
}

/// The figures that each allocator has.
pub fn turn(samples: &[Sample], seen: &Seen) -> Turn {
    let answered = |sample: &&Sample| sample.outcome == Outcome::Ok;
    let in_time = samples.iter().filter(answered).filter(|sample| sample.latency <= SLO).count();
    let mut slack = seen.slack.clone();
    slack.sort_unstable_by(f64::total_cmp);
    let mut figures = Turn::from([
        (Figure::Requests, samples.len() as f64),
        (Figure::Answered, samples.iter().filter(answered).count() as f64),
        (Figure::InTime, in_time as f64),
        (Figure::Throttled, seen.throttled as f64 / seen.periods.max(1) as f64),
    ]);
    figures.extend(response_times(samples));
    for (figure, share) in [(Figure::SlackP50, 0.5), (Figure::SlackP99, 0.99)] {
        figures.extend(quantile(&slack, share).map(|cores| (figure, cores)));
    }
    figures
}

fn response_times<'a>(samples: impl IntoIterator<Item = &'a Sample>) -> Turn {
    let latency = |sample: &Sample| if sample.outcome == Outcome::Ok { sample.latency } else { TIMEOUT };
    let latencies = samples.into_iter().map(latency);
    quantiles(latencies, [(Figure::P50, 0.5), (Figure::P99, 0.99), (Figure::P999, 0.999)])
}

/// What the agent has besides.
pub fn of_agent(seen: &Seen, cpu: f64) -> Turn {
    let mut figures = Turn::from([
        (Figure::InVain, seen.in_vain as f64),
        (Figure::SumAbove, seen.above as f64),
        (Figure::AgentCpu, cpu),
    ]);
    figures.extend(waits(&seen.raised, [Figure::RaisedP50, Figure::RaisedP90, Figure::RaisedP99]));
    figures
}

/// Median, 90th and 99th percentile, if there are any.
fn waits(waits: &[Duration], [p50, p90, p99]: [Figure; 3]) -> Turn {
    quantiles(waits.iter().copied(), [(p50, 0.5), (p90, 0.9), (p99, 0.99)])
}

/// These quantiles in milliseconds, if there are any times.
pub fn quantiles(times: impl IntoIterator<Item = Duration>, figures: impl IntoIterator<Item = (Figure, f64)>) -> Turn {
    let mut times: Vec<Duration> = times.into_iter().collect();
    times.sort_unstable();
    let of = |(figure, share)| Some((figure, milliseconds(quantile(&times, share)?)));
    figures.into_iter().filter_map(of).collect()
}

/// The figures that each allocator of memory has.
pub fn of_memory(seen: &memory::watch::Seen, kills: u64) -> Turn {
    let mut slack = seen.slack.clone();
    slack.sort_unstable_by(f64::total_cmp);
    let mut figures = Turn::from([(Figure::Kills, kills as f64)]);
    for (figure, share) in [(Figure::MemorySlackP50, 0.5), (Figure::MemorySlackP99, 0.99)] {
        figures.extend(quantile(&slack, share).map(|mebibytes| (figure, mebibytes)));
    }
    figures
}

/// What the agent has besides.
pub fn of_memory_agent(seen: &memory::watch::Seen, cpu: f64) -> Turn {
    let mut figures = Turn::from([(Figure::LimitInVain, seen.in_vain as f64), (Figure::AgentCpu, cpu)]);
    figures.extend(waits(&seen.raised, [Figure::LimitP50, Figure::LimitP90, Figure::LimitP99]));
    figures
}

/// The figures about response times and shares, from the requests of each container.
pub fn of_qos(samples: &[Vec<Sample>], plan: Plan, seen: &qos::watch::Seen, not_own: usize) -> Turn {
    let is_hot = |container, sample: &Sample| plan.bursts(container, sample.ended.saturating_sub(sample.latency));
    let all = || samples.iter().enumerate().flat_map(|(of, samples)| samples.iter().map(move |sample| (of, sample)));
    let late = || all().filter(|(_, sample)| qos::plan::is_late(sample));
    let mut figures = Turn::from([
        (Figure::Requests, all().count() as f64),
        (Figure::Answered, all().filter(|(_, sample)| sample.outcome == Outcome::Ok).count() as f64),
        (Figure::Late, late().count() as f64),
        (Figure::LateOthers, late().filter(|(of, sample)| !is_hot(*of, sample)).count() as f64),
        (Figure::MostShares, seen.most),
        (Figure::SumAbove, seen.above as f64),
        (Figure::NotOwn, not_own as f64),
        (Figure::NeighbourCpu, seen.neighbour),
    ]);
    figures.extend(response_times(samples.iter().flatten()));
    figures
}

/// The median of a figure over the turns, and its range; none if a turn lacks it.
pub fn spread(turns: &[Turn], figure: Figure) -> Option<Spread> {
    Spread::of(&turns.iter().map(|turn| turn.get(&figure).copied()).collect::<Option<Vec<f64>>>()?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use bloc_mesh::load::ErrorKind;

    #[test]
    fn unanswered_requests_count_as_the_timeout() {
        let sample = |ms, outcome| Sample { latency: Duration::from_millis(ms), outcome, ended: Duration::ZERO };
        let lost = Outcome::Error(ErrorKind::Status(503));
        let mut samples = vec![sample(200, Outcome::Ok), sample(201, Outcome::Ok), sample(1, lost)];
        samples.extend((0..997).map(|_| sample(10, Outcome::Ok)));
        let seen = Seen {
            slack: (0..200).map(|n| f64::from(200 - n) / 100.0).collect(),
            periods: 8,
            throttled: 2,
            ..Seen::default()
        };
        let figures = turn(&samples, &seen);
        let expected = [
            (Figure::Requests, 1_000.0),
            (Figure::Answered, 999.0),
            (Figure::InTime, 998.0),
            (Figure::P50, 10.0),
            (Figure::P99, 10.0),
            (Figure::P999, 201.0),
            (Figure::SlackP50, 1.0),
            (Figure::SlackP99, 1.98),
            (Figure::Throttled, 0.25),
        ];
        assert_eq!(figures, Turn::from(expected));
        samples.push(sample(1, lost));
        assert_eq!(turn(&samples, &seen)[&Figure::P999], 2_000.0);
        let nothing = turn(&[], &Seen::default());
        assert_eq!((nothing.get(&Figure::P50), nothing[&Figure::Throttled]), (None, 0.0));
    }

    #[test]
    fn the_agent_has_waits_only_if_there_were_any() {
        let raised = (1..=20).rev().map(Duration::from_millis).collect();
        let seen = Seen { raised, in_vain: 4, above: 3, ..Seen::default() };
        let of = [Figure::RaisedP50, Figure::RaisedP90, Figure::RaisedP99, Figure::InVain, Figure::AgentCpu];
        assert_eq!(of.map(|figure| of_agent(&seen, 0.5)[&figure]), [10.0, 18.0, 20.0, 4.0, 0.5]);
        assert_eq!(of_agent(&seen, 0.5)[&Figure::SumAbove], 3.0);
        assert_eq!(of_agent(&Seen::default(), 0.5).get(&Figure::RaisedP50), None);
    }

    #[test]
    fn memory_has_kills_slack_and_for_the_agent_waits() {
        let seen = memory::watch::Seen {
            slack: (0..200).map(f64::from).rev().collect(),
            raised: (1..=20).rev().map(Duration::from_millis).collect(),
            in_vain: 4,
            ..memory::watch::Seen::default()
        };
        let expected = [(Figure::Kills, 3.0), (Figure::MemorySlackP50, 99.0), (Figure::MemorySlackP99, 197.0)];
        assert_eq!(of_memory(&seen, 3), Turn::from(expected));
        let of = [Figure::LimitP50, Figure::LimitP90, Figure::LimitP99, Figure::LimitInVain, Figure::AgentCpu];
        assert_eq!(of.map(|figure| of_memory_agent(&seen, 0.5)[&figure]), [10.0, 18.0, 20.0, 4.0, 0.5]);
        assert_eq!(of_memory(&memory::watch::Seen::default(), 0), Turn::from([(Figure::Kills, 0.0)]));
    }

    #[test]
    fn late_requests_of_a_container_that_is_not_hot_are_counted_apart() {
        let sample = |began: u64, took: u64, outcome| Sample {
            latency: Duration::from_millis(took),
            outcome,
            ended: Duration::from_millis(began + took),
        };
        let second = Duration::from_secs(1);
        let plan = Plan { burst: second, every: second };
        // The first container is hot from 1 s to 2 s, the second one until 3 s.
        let samples = [
            vec![sample(1_999, 121, Outcome::Ok), sample(2_000, 121, Outcome::Ok), sample(1_000, 120, Outcome::Ok)],
            vec![sample(1_999, 300, Outcome::Ok), sample(2_000, 1, Outcome::Error(ErrorKind::Timeout))],
        ];
        let seen = qos::watch::Seen { most: 1.5, above: 2, neighbour: 0.25, shares: vec![] };
        let expected = [
            (Figure::Requests, 5.0),
            (Figure::Answered, 4.0),
            (Figure::P50, 121.0),
            (Figure::P99, 2_000.0),
            (Figure::P999, 2_000.0),
            (Figure::Late, 4.0),
            (Figure::LateOthers, 2.0),
            (Figure::MostShares, 1.5),
            (Figure::SumAbove, 2.0),
            (Figure::NotOwn, 3.0),
            (Figure::NeighbourCpu, 0.25),
        ];
        assert_eq!(of_qos(&samples, plan, &seen, 3), Turn::from(expected));
    }

    #[test]
    fn a_spread_needs_the_figure_of_each_turn() {
        let turns = [3.0, 1.0, 2.0].map(|value| Turn::from([(Figure::P50, value)]));
        assert_eq!(spread(&turns, Figure::P50), Some(Spread { median: 2.0, range: [1.0, 3.0] }));
        assert_eq!((spread(&turns, Figure::P99), spread(&[], Figure::P50)), (None, None));
        assert!(Figure::SHOWN.is_sorted_by_key(|(figure, _)| *figure), "the order of the type is that of tables");
    }
}
