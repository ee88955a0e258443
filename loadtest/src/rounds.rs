//! The same cases several times, and the medians and ranges of the rounds.
//!
//! A shared machine is slow at times. Each round runs all cases, so such times affect them alike.
//! Each round has its own arrivals and service times. The result is the median of the rounds.

use crate::case::Case;
use crate::record::Record;
use bloc_figures::stats::{Spread, median};
use bloc_mesh::seeds;

/// A case and its records, one per round.
#[derive(Clone, Debug)]
pub struct Runs {
    /// The case, with the seed of the first round.
    pub case: Case,
    /// One record per round.
    pub records: Vec<Record>,
}

impl Runs {
    /// The median over the rounds; none if a round has no value.
    pub fn median(&self, value: impl Fn(&Record) -> Option<f64>) -> Option<f64> {
        median(&self.records.iter().map(value).collect::<Option<Vec<f64>>>()?)
    }

    /// The median over the rounds, and its range; none without rounds, or if a round has no value.
    pub fn spread(&self, value: impl Fn(&Record) -> Option<f64>) -> Option<Spread> {
        Spread::of(&self.records.iter().map(value).collect::<Option<Vec<f64>>>()?)
    }

    /// The round whose 99th percentile is the median. It is a real run, so its figures belong
    /// together. None without rounds.
    pub fn middle(&self) -> Option<&Record> {
        let mut rounds: Vec<&Record> = self.records.iter().collect();
        rounds.sort_by(|a, b| a.row.p99_ms.unwrap_or(f64::MAX).total_cmp(&b.row.p99_ms.unwrap_or(f64::MAX)));
        rounds.get(rounds.len().saturating_sub(1) / 2).copied()
    }
}

/// The case as it runs in this round, counted from 0, with its own arrivals and service times.
pub fn in_round(case: &Case, round: usize) -> Case {
    let mut case = case.clone();
    case.mesh.seed = seeds::round(case.mesh.seed, round);
    case
}

/// The indices of the cases, grouped by mesh. Cases that differ only in their load share a mesh,
/// because its start takes long.
pub fn by_mesh(cases: &[Case]) -> Vec<Vec<usize>> {
    let mut groups: Vec<Vec<usize>> = Vec::new();
    for (place, case) in cases.iter().enumerate() {
        match groups.iter_mut().find(|group| cases[group[0]].mesh == case.mesh) {
            Some(group) => group.push(place),
            None => groups.push(vec![place]),
        }
    }
    groups
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiments::demo::cases;
    use crate::report::example::record;
    use bloc_mesh::policy::Policy;

    #[test]
    fn cases_that_differ_only_in_their_load_share_a_mesh() {
        let cases = cases(0.2, None, 1, true);
        let alone = [8, 9, 10, 11].map(|case| vec![case]);
        let shared = [vec![0, 4], vec![1, 5], vec![2, 6], vec![3, 7]];
        assert_eq!(by_mesh(&cases), [&shared[..], &alone].concat());
        let seeds = [0, 1, 2].map(|round| in_round(&cases[0], round).mesh.seed);
        assert_eq!(seeds, [1, bloc_mesh::seeds::round(1, 1), bloc_mesh::seeds::round(1, 2)]);
    }

    #[test]
    fn takes_the_median_and_the_range_over_all_rounds() {
        let run = |p99| record(Policy::Bid, 40, [1.0, 2.0, 3.0, p99], 10.0);
        let mut runs = Runs { case: cases(0.2, None, 1, true)[6].clone(), records: vec![run(9.0), run(5.0), run(7.0)] };
        assert_eq!(runs.median(|record| record.row.p99_ms), Some(7.0));
        assert_eq!(runs.spread(|record| record.row.p99_ms), Some(Spread { median: 7.0, range: [5.0, 9.0] }));
        assert_eq!(runs.middle().unwrap().row.p99_ms, Some(7.0));
        runs.records[0].row.p99_ms = None;
        assert_eq!(runs.median(|record| record.row.p99_ms), None, "no median if one round has no answers");
    }
}
