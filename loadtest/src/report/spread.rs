//! The scatter of a case's 99th percentile over its rounds.

use crate::rounds::Runs;
use bloc_figures::stats::Spread;

/// A line for each case with its least, median and greatest 99th percentile; nothing for a single
/// round.
pub fn spreads(runs: &[Runs]) -> String {
    runs.iter().filter(|run| run.records.len() > 1).map(line).collect()
}

fn line(run: &Runs) -> String {
    let rounds = run.records.len();
    let p99 = match run.spread(|record| record.row.p99_ms) {
        Some(Spread { median, range: [least, most] }) => format!("{median:.0} ms, {least:.0} to {most:.0}"),
        None => "a round without answers".to_owned(),
    };
    format!("p99 over {rounds} rounds, median and range: {} {p99}\n", run.case.name())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiments::demo::cases;
    use crate::report::example::record;
    use bloc_mesh::policy::Policy;

    #[test]
    fn shows_the_median_and_the_range_of_p99_over_rounds() {
        let run = |p99| record(Policy::Bid, 40, [1.0, 2.0, 3.0, p99], 10.0);
        let case = cases(0.2, None, 1, true)[7].clone();
        let mut runs = vec![Runs { case, records: vec![run(190.0), run(150.0), run(170.0)] }];
        let expected = "p99 over 3 rounds, median and range: poisson-bid-40 170 ms, 150 to 190\n";
        assert_eq!(spreads(&runs), expected);
        runs[0].records[1].row.p99_ms = None;
        assert!(spreads(&runs).contains("a round without answers"));
        runs[0].records.truncate(1);
        assert_eq!(spreads(&runs), "");
    }
}
