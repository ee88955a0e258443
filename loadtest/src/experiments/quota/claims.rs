//! The claims about the node agent, each with its bound.

use super::allocator::Allocator;
use super::claim::Claim;
use super::figures::{Figure, Turn};
use super::memory::allocator::MemoryAllocator;
use super::name::Name;
use super::qos::case::QosCase;
use crate::experiments::follow::claims::CLAIMS as FOLLOW_CLAIMS;
use crate::experiments::goals::{Bound, Outcome};
use bloc_figures::stats::Spread;
use serde::Serialize;

const AGENT: Name = Name::Of(Allocator::Agent);
const MEMORY_AGENT: Name = Name::Memory(MemoryAllocator::Agent);
const MEMORY_EQUAL: Name = Name::Memory(MemoryAllocator::Equal);
const NODES_LEASES: Name = Name::Of(Allocator::NodesLeases);
const QOS_AGENT: Name = Name::Qos(QosCase::Agent);
const QOS_SHARES: Name = Name::Qos(QosCase::Shares);

/// Late requests that are enough for a comparison.
const LATE_ENOUGH: f64 = 100.0;

/// All claims, except for those about sidecars that follow.
pub const CLAIMS: [Claim; 17] = {
    use Bound::{AtLeast, AtMost};
    use Figure::{AgentCpu, Answered, InTime, Kills, Late, MemorySlackP50, P999, RaisedP90, RaisedP99, SlackP50};
    const fn claim(id: &'static str, figure: Figure, over: Option<Name>, bound: Bound) -> Claim {
        Claim { id, figure, of: AGENT, over, bound, aim: false }
    }
    let (equal, fixed) = (Some(Name::Of(Allocator::Equal)), Some(Name::Of(Allocator::Static)));
    let fixed_memory = Some(Name::Memory(MemoryAllocator::Static));
    [
        claim("slack-static", SlackP50, fixed, AtMost(0.25)),
        claim("answers-equal", Answered, equal, AtLeast(1.25)),
        claim("new-quota-p90", RaisedP90, None, AtMost(200.0)),
        Claim { of: Name::Cost, ..claim("cost", AgentCpu, None, AtMost(0.01)) },
        Claim { aim: true, ..claim("p999-static", P999, fixed, AtMost(1.0)) },
        Claim { aim: true, ..claim("new-quota-p99", RaisedP99, None, AtMost(200.0)) },
        Claim { of: MEMORY_AGENT, ..claim("memory-kills", Kills, None, AtMost(0.0)) },
        // What the agent does not kill has to be what others do.
        Claim { of: MEMORY_EQUAL, ..claim("memory-kills-equal", Kills, None, AtLeast(1.0)) },
        Claim { of: MEMORY_AGENT, ..claim("memory-slack", MemorySlackP50, fixed_memory, AtMost(0.45)) },
        Claim {
            of: NODES_LEASES,
            ..claim("nodes-in-time", InTime, Some(Name::Of(Allocator::NodesEqual)), AtLeast(1.2))
        },
        Claim { of: NODES_LEASES, ..claim("nodes-sum", Figure::SumAbove, None, Bound::None) },
        Claim { of: NODES_LEASES, ..claim("nodes-cost", AgentCpu, None, AtMost(0.01)) },
        Claim { of: QOS_AGENT, ..claim("qos-late", Late, Some(QOS_SHARES), AtMost(0.7)) },
        // Too few would say nothing.
        Claim { of: QOS_SHARES, ..claim("qos-late-shares", Late, None, AtLeast(LATE_ENOUGH)) },
        Claim { of: QOS_AGENT, ..claim("qos-sum", Figure::SumAbove, None, Bound::None) },
        Claim { of: QOS_AGENT, ..claim("qos-end", Figure::NotOwn, None, Bound::None) },
        Claim { of: QOS_AGENT, ..claim("qos-cost", AgentCpu, None, AtMost(0.01)) },
    ]
};

/// The turns of one of them, one per round.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Measured {
    /// Which.
    pub name: Name,
    /// Its figures, round by round.
    pub turns: Vec<Turn>,
}

/// A claim and its measurements.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Verdict {
    /// The claim's id.
    pub id: &'static str,
    /// What it compares, in words.
    pub what: String,
    /// The bound.
    pub bound: Bound,
    /// The median of the rounds; none: a round has no value.
    pub median: Option<f64>,
    /// The least and the greatest value of the rounds.
    pub range: Option<[f64; 2]>,
    /// Whether it is kept.
    pub outcome: Outcome,
    /// Whether it is an aim only.
    pub aim: bool,
}

impl Verdict {
    /// Whether it makes the command fail: also an aim has to be measured.
    pub fn fails(&self) -> bool {
        self.outcome != Outcome::Kept && !(self.aim && self.outcome == Outcome::Missed)
    }
}

/// The verdicts on the claims about those that were measured. A claim that lacks one of its two is
/// left out.
pub fn judge(measured: &[Measured]) -> Vec<Verdict> {
    let find = |name| measured.iter().find(|one| one.name == name).map(|one| &*one.turns);
    let verdict = |claim: &Claim| {
        let of = find(claim.of)?;
        let over = claim.over.map(|over| find(over).ok_or(())).transpose().ok()?;
        Some(verdict(claim, of, over))
    };
    CLAIMS.iter().chain(&FOLLOW_CLAIMS).filter_map(verdict).collect()
}

/// Whether each claim is kept, except for aims.
pub fn kept(verdicts: &[Verdict]) -> bool {
    !verdicts.iter().any(Verdict::fails)
}

fn verdict(claim: &Claim, of: &[Turn], over: Option<&[Turn]>) -> Verdict {
    let value = |(round, turn): (usize, &Turn)| {
        let own = *turn.get(&claim.figure)?;
        match over {
            None => Some(own),
            Some(over) => Some(own / *over.get(round)?.get(&claim.figure)?).filter(|ratio| ratio.is_finite()),
        }
    };
    let values = of.iter().enumerate().map(value).collect::<Option<Vec<f64>>>().unwrap_or_default();
    let spread = Spread::of(&values);
    let (median, range) = (spread.map(|spread| spread.median), spread.map(|spread| spread.range));
    let keeps = |median: f64| match claim.bound {
        Bound::AtMost(most) => median <= most,
        Bound::AtLeast(least) => median >= least,
        Bound::None => range == Some([0.0; 2]),
    };
    let outcome = match median.map(keeps) {
        Some(true) => Outcome::Kept,
        Some(false) => Outcome::Missed,
        None => Outcome::NotMeasured,
    };
    let over = claim.over.map(|over| format!(" / {}", over.name())).unwrap_or_default();
    let what = format!("{}, {}{over}", claim.figure.title(), claim.of.name());
    Verdict { id: claim.id, what, bound: claim.bound, median, range, outcome, aim: claim.aim }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiments::quota::name::Kind;

    /// The agent beside all others, in one round for each of its values.
    fn measured(agent: &[f64], others: f64) -> Vec<Measured> {
        let figures = CLAIMS.map(|claim| claim.figure);
        let agents = [AGENT, Name::Cost, MEMORY_AGENT, NODES_LEASES, QOS_AGENT];
        let turn = |value: f64| Turn::from(figures.map(|figure| (figure, value)));
        let of = |name| {
            let values = agent.iter().map(|value| if agents.contains(&name) { *value } else { others });
            Measured { name, turns: values.map(turn).collect() }
        };
        Name::all().filter(|name| !matches!(name, Name::Follow(_))).map(of).collect()
    }

    fn outcomes(measured: &[Measured]) -> Vec<(&'static str, Outcome)> {
        judge(measured).into_iter().map(|one| (one.id, one.outcome)).collect()
    }

    #[test]
    fn the_median_of_the_rounds_is_held_to_each_bound() {
        use Outcome::{Kept, Missed};
        let all = |outcomes: [Outcome; 17]| CLAIMS.map(|claim| claim.id).into_iter().zip(outcomes).collect::<Vec<_>>();
        assert_eq!(
            outcomes(&measured(&[0.01], 0.04)),
            all([
                Kept, Missed, Kept, Kept, Kept, Kept, Missed, Missed, Kept, Missed, Missed, Kept, Kept, Missed, Missed,
                Missed, Kept
            ])
        );
        assert_eq!(
            outcomes(&measured(&[200.0], 160.0)),
            all([
                Missed, Kept, Kept, Missed, Missed, Kept, Missed, Kept, Missed, Kept, Missed, Missed, Missed, Kept,
                Missed, Missed, Missed
            ])
        );
        assert_eq!(
            outcomes(&measured(&[0.02, 201.0, 250.0], 201.0)),
            all([
                Missed, Missed, Missed, Missed, Kept, Missed, Missed, Kept, Missed, Missed, Missed, Missed, Missed,
                Kept, Missed, Missed, Missed
            ])
        );
        let verdicts = judge(&measured(&[3.0, 1.0, 2.0], 4.0));
        assert_eq!((verdicts[0].median, verdicts[0].range), (Some(0.5), Some([0.25, 0.75])));
        assert_eq!(verdicts[0].what, "slack p50, cores, agent / static");
        assert!(!kept(&verdicts) && kept(&verdicts[4..5]));
        let aims = judge(&measured(&[300.0], 160.0));
        assert_eq!((aims[4].outcome, aims[5].outcome), (Missed, Missed));
        assert!(kept(&aims[4..6]) && !kept(&aims[2..3]), "an aim that is missed does not fail");
    }

    #[test]
    fn what_was_left_out_is_not_claimed_and_what_failed_is_not_kept() {
        let mut some = measured(&[0.01], 0.04);
        some.retain(|one| {
            ![Name::Of(Allocator::Static), Name::Cost].contains(&one.name) && one.name.kind() == Kind::Quotas
        });
        assert_eq!(
            outcomes(&some),
            [("answers-equal", Outcome::Missed), ("new-quota-p90", Outcome::Kept), ("new-quota-p99", Outcome::Kept)]
        );
        some.iter_mut().for_each(|one| one.turns[0].clear());
        let expected = ["answers-equal", "new-quota-p90", "new-quota-p99"].map(|id| (id, Outcome::NotMeasured));
        assert_eq!(outcomes(&some), expected);
        assert!(!kept(&judge(&some)[2..]), "an aim that was not measured fails");
        let mut zero = measured(&[0.01], 0.0);
        zero.truncate(6);
        let ratios = judge(&zero).into_iter().filter(|one| one.what.contains(" / "));
        assert_eq!(ratios.map(|one| one.outcome).collect::<Vec<_>>(), [Outcome::NotMeasured; 3], "no ratio to nothing");
    }

    #[test]
    fn the_agent_may_kill_nobody_where_equal_parts_kill() {
        let of = |name, figure, value| Measured { name, turns: vec![Turn::from([(figure, value)])] };
        let kills = |agent, equal| {
            let measured = [of(MEMORY_AGENT, Figure::Kills, agent), of(MEMORY_EQUAL, Figure::Kills, equal)];
            outcomes(&measured).into_iter().map(|(id, outcome)| (id, outcome == Outcome::Kept)).collect::<Vec<_>>()
        };
        assert_eq!(kills(0.0, 1.0), [("memory-kills", true), ("memory-kills-equal", true)]);
        assert_eq!(kills(1.0, 0.0), [("memory-kills", false), ("memory-kills-equal", false)]);
        let slack = |agent: f64| {
            let fixed = of(Name::Memory(MemoryAllocator::Static), Figure::MemorySlackP50, 100.0);
            let verdicts = judge(&[of(MEMORY_AGENT, Figure::MemorySlackP50, agent), fixed]);
            verdicts.into_iter().find(|one| one.id == "memory-slack").map(|one| one.outcome)
        };
        assert_eq!((slack(45.0), slack(46.0)), (Some(Outcome::Kept), Some(Outcome::Missed)));
    }

    #[test]
    fn the_agent_may_be_late_seven_tenths_as_often_as_shares_that_stay() {
        let late = |agent: f64, shares: f64| {
            let of = |name, value| Measured { name, turns: vec![Turn::from([(Figure::Late, value)])] };
            let verdicts = judge(&[of(QOS_SHARES, shares), of(QOS_AGENT, agent)]);
            verdicts.into_iter().filter(|one| one.id.starts_with("qos-late")).map(|one| one.outcome).collect::<Vec<_>>()
        };
        use Outcome::{Kept, Missed, NotMeasured};
        assert_eq!((late(700.0, 1_000.0), late(701.0, 1_000.0)), (vec![Kept, Kept], vec![Missed, Kept]));
        assert_eq!(late(1_000.0, 1_000.0), [Missed, Kept], "shares that stay do not pass");
        assert_eq!((late(0.0, 99.0), late(0.0, 0.0)), (vec![Kept, Missed], vec![NotMeasured, Missed]));
    }

    #[test]
    fn an_agent_uses_at_most_a_hundredth_of_a_core_on_each_kind_of_node() {
        let costs = |cpu| {
            let of = |name| Measured { name, turns: vec![Turn::from([(Figure::AgentCpu, cpu)])] };
            let verdicts = judge(&[of(Name::Cost), of(NODES_LEASES), of(QOS_AGENT)]);
            let costs = verdicts.into_iter().filter(|one| one.what.starts_with(Figure::AgentCpu.title()));
            costs.map(|one| (one.id, one.outcome == Outcome::Kept)).collect::<Vec<_>>()
        };
        let all = |kept| ["cost", "nodes-cost", "qos-cost"].map(|id| (id, kept));
        assert_eq!((costs(0.01), costs(0.0101)), (all(true).to_vec(), all(false).to_vec()));
    }

    #[test]
    fn what_may_never_be_is_counted_in_each_round() {
        let outcome = |values: &[f64]| {
            let turns = values.iter().map(|value| Turn::from([(Figure::SumAbove, *value)])).collect();
            let verdicts = judge(&[Measured { name: QOS_AGENT, turns }]);
            verdicts.into_iter().find(|one| one.id == "qos-sum").map(|one| one.outcome)
        };
        assert_eq!(outcome(&[0.0; 3]), Some(Outcome::Kept));
        assert_eq!((outcome(&[0.0, 1.0, 0.0]), outcome(&[])), (Some(Outcome::Missed), Some(Outcome::NotMeasured)));
    }
}
