//! A row: one fault, its columns, and the verdict.

use super::figure::{Claim, Figure};
use super::judge::{self, Moments};
use super::side::Side;
use crate::timeline::Point;
use bloc_mesh::load::{Outcome, Sample};
use serde::Serialize;

/// The results of one column of a row.
#[derive(Clone, Debug, Serialize)]
pub struct Column {
    /// Its side.
    pub side: Side,
    /// The figures.
    pub figures: Vec<Figure>,
    /// The 99th percentile over time, in milliseconds.
    pub p99_ms: Vec<Point>,
    /// Answers, refusals and losses per second.
    pub per_second: [Vec<Point>; 3],
}

impl Column {
    /// A column made of what the clients saw.
    pub fn new(side: Side, figures: Vec<Figure>, samples: &[Sample]) -> Self {
        let per_second = [
            judge::per_second(samples, |outcome| outcome == Outcome::Ok),
            judge::per_second(samples, judge::is_refusal),
            judge::per_second(samples, |outcome| outcome != Outcome::Ok && !judge::is_refusal(outcome)),
        ];
        Self { side, figures, p99_ms: judge::p99(samples), per_second }
    }

    fn figure(&self, what: &str) -> Option<&Figure> {
        self.figures.iter().find(|figure| figure.what == what)
    }
}

/// One fault, or one other case.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// Its name on the command line.
    pub name: &'static str,
    /// What happened.
    pub what: String,
    /// Its claim.
    pub claim: Claim,
    /// When it happened.
    pub moments: Option<Moments>,
    /// The level below which the percentile should be, in milliseconds.
    pub limit_ms: Option<f64>,
    /// The results.
    pub columns: Vec<Column>,
    /// Why it was not measured.
    pub not_run: Option<String>,
}

/// The verdict on a row.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// The claim holds.
    Holds,
    /// These figures of our column are out of bounds.
    Broken(Vec<&'static str>),
    /// These figures of our filters on tuned Envoy are worse than those of tuned Envoy.
    Worse(Vec<&'static str>),
    /// These sides pass without our filters, so it is no promise of ours.
    Shared(Vec<Side>),
    /// It was not measured, so it does not pass.
    NotRun,
}

impl Row {
    /// A row that was measured.
    pub fn new(name: &'static str, what: String, claim: Claim, columns: Vec<Column>) -> Self {
        Self { name, what, claim, moments: None, limit_ms: None, columns, not_run: None }
    }

    /// A row that was not measured.
    pub fn not_run(name: &'static str, what: String, claim: Claim, why: String) -> Self {
        Self { not_run: Some(why), ..Self::new(name, what, claim, vec![]) }
    }

    /// The column of a side.
    pub fn column(&self, side: Side) -> Option<&Column> {
        self.columns.iter().find(|column| column.side == side)
    }

    /// Whether a figure of any column is within its bound.
    pub fn holds(&self, figure: &Figure) -> bool {
        let stock = self.column(Side::Stock).and_then(|stock| stock.figure(figure.what));
        figure.bound.holds(figure.value, stock.and_then(|stock| stock.value))
    }

    /// The verdict.
    pub fn verdict(&self) -> Verdict {
        let Some(ours) = self.column(Side::Ours).filter(|_| self.not_run.is_none()) else {
            return Verdict::NotRun;
        };
        let out_of_bounds = ours.figures.iter().filter(|one| !self.holds(one));
        // A figure that stock Envoy has and our column lacks does not pass.
        let stock = self.column(Side::Stock).map(|stock| stock.figures.as_slice()).unwrap_or_default();
        let lacking = stock.iter().filter(|one| ours.figure(one.what).is_none());
        let broken: Vec<_> = out_of_bounds.chain(lacking).map(|one| one.what).collect();
        if !broken.is_empty() || ours.figures.is_empty() {
            return Verdict::Broken(broken);
        }
        let worse = self.worse();
        if !worse.is_empty() {
            return Verdict::Worse(worse);
        }
        let beaten: &[Side] = match self.claim {
            Claim::Ours => &[Side::Stock, Side::Tuned],
            Claim::Untuned => &[Side::Stock],
            Claim::NoHarm => return Verdict::Holds,
        };
        let baselines = self.columns.iter().filter(|column| beaten.contains(&column.side));
        let shared: Vec<Side> = baselines.clone().filter(|one| self.passes(one)).map(|one| one.side).collect();
        // Without baselines nothing shows that only our filters do this.
        match (shared.is_empty(), baselines.count()) {
            (true, 0) => Verdict::NotRun,
            (true, _) => Verdict::Holds,
            (false, _) => Verdict::Shared(shared),
        }
    }

    /// Whether a figure of our filters on tuned Envoy is no worse than that of tuned Envoy. One
    /// that tuned Envoy lacks has only its own bound, which must not be relative: it could not be
    /// missed.
    pub fn is_no_worse(&self, figure: &Figure) -> bool {
        let tuned = self.column(Side::Tuned).and_then(|tuned| tuned.figure(figure.what));
        match tuned {
            Some(tuned) => figure.bound.is_no_worse(figure.value, tuned.value),
            None => figure.bound.is_absolute() && self.holds(figure),
        }
    }

    /// The figures in which our filters on tuned Envoy are worse than tuned Envoy.
    fn worse(&self) -> Vec<&'static str> {
        let Some(ours) = self.column(Side::OursTuned) else { return vec![] };
        let worse = ours.figures.iter().filter(|one| !self.is_no_worse(one));
        let tuned = self.column(Side::Tuned).map(|tuned| tuned.figures.as_slice()).unwrap_or_default();
        let lacking = tuned.iter().filter(|one| ours.figure(one.what).is_none());
        worse.chain(lacking).map(|one| one.what).collect()
    }

    /// Whether a baseline is within all bounds that do not depend on stock Envoy.
    fn passes(&self, column: &Column) -> bool {
        let mut absolute = column.figures.iter().filter(|one| one.bound.is_absolute());
        absolute.all(|one| self.holds(one))
    }
}

#[cfg(test)]
mod tests {
    use super::super::figure::Bound;
    use super::super::side::SIDES;
    use super::*;

    /// Each side has this figure.
    fn row(claim: Claim, bound: Bound, values: [f64; 3]) -> Row {
        with_tuned(claim, bound, [values[0], values[1], values[2], values[1]])
    }

    fn with_tuned(claim: Claim, bound: Bound, values: [f64; 4]) -> Row {
        let column = |(side, value): (Side, f64)| {
            let figure = Figure { what: "f", value: Some(value), shown: String::new(), bound };
            Column::new(side, vec![figure], &[])
        };
        let columns = SIDES.into_iter().zip(values).map(column).collect();
        Row::new("n", String::new(), claim, columns)
    }

    #[test]
    fn a_promise_that_a_baseline_also_keeps_is_shared() {
        let verdict = |values| row(Claim::Ours, Bound::AtMost(5.0), values).verdict();
        assert_eq!(verdict([9.0, 9.0, 5.0]), Verdict::Holds);
        assert_eq!(verdict([9.0, 5.0, 5.0]), Verdict::Shared(vec![Side::Tuned]));
        assert_eq!(verdict([5.0, 9.0, 5.0]), Verdict::Shared(vec![Side::Stock]));
        assert_eq!(verdict([5.0, 5.0, 9.0]), Verdict::Broken(vec!["f"]));
        let mut alone = row(Claim::Ours, Bound::AtMost(5.0), [9.0, 9.0, 5.0]);
        alone.columns.retain(|column| column.side == Side::Ours);
        assert_eq!(alone.verdict(), Verdict::NotRun, "there is nothing to compare with");
    }

    #[test]
    fn untuned_and_no_harm_claims_ignore_tuned_envoy() {
        let untuned = |values| row(Claim::Untuned, Bound::AtLeast(5.0), values).verdict();
        assert_eq!(untuned([1.0, 9.0, 5.0]), Verdict::Holds);
        assert_eq!(untuned([1.0, 9.0, 4.0]), Verdict::Broken(vec!["f"]));
        assert_eq!(untuned([9.0, 9.0, 5.0]), Verdict::Shared(vec![Side::Stock]));
        let bound = Bound::NoWorse { times: 1.0, plus: 2.0 };
        let no_harm = |values| row(Claim::NoHarm, bound, values).verdict();
        assert_eq!(no_harm([5.0, 0.0, 7.0]), Verdict::Holds);
        assert_eq!(no_harm([5.0, 9.0, 8.0]), Verdict::Broken(vec!["f"]));
    }

    #[test]
    fn with_the_settings_of_tuned_envoy_ours_is_no_worse_than_it() {
        let bound = Bound::NoWorse { times: 1.0, plus: 2.0 };
        let verdict = |values| with_tuned(Claim::NoHarm, bound, values).verdict();
        assert_eq!(verdict([50.0, 5.0, 50.0, 7.0]), Verdict::Holds);
        assert_eq!(verdict([50.0, 5.0, 50.0, 8.0]), Verdict::Worse(vec!["f"]), "though stock Envoy is worse still");
        let promise = |values| with_tuned(Claim::Ours, Bound::AtMost(5.0), values).verdict();
        assert_eq!(promise([9.0, 9.0, 5.0, 9.0]), Verdict::Holds);
        assert_eq!(promise([9.0, 9.0, 5.0, 9.91]), Verdict::Worse(vec!["f"]));
        let mut lacking = with_tuned(Claim::NoHarm, bound, [5.0; 4]);
        lacking.columns[3].figures.clear();
        assert_eq!(lacking.verdict(), Verdict::Worse(vec!["f"]), "tuned Envoy has a figure that ours lacks");
        let mut alone = with_tuned(Claim::NoHarm, bound, [5.0; 4]);
        let more = Figure { what: "g", ..alone.columns[3].figures[0].clone() };
        alone.columns[3].figures.push(more);
        assert_eq!(alone.verdict(), Verdict::Worse(vec!["g"]), "there is nothing to compare it with");
    }

    #[test]
    fn a_row_that_was_not_run_or_not_measured_does_not_pass() {
        let row = Row::not_run("n", String::new(), Claim::NoHarm, "no root".into());
        assert_eq!(row.verdict(), Verdict::NotRun);
        let mut empty = self::row(Claim::NoHarm, Bound::AtMost(1.0), [0.0; 3]);
        empty.columns.iter_mut().for_each(|column| column.figures.clear());
        assert_eq!(empty.verdict(), Verdict::Broken(vec![]), "nothing was measured");
        let mut lacking = self::row(Claim::NoHarm, Bound::AtMost(1.0), [0.0; 3]);
        let more = Figure { what: "g", ..lacking.columns[0].figures[0].clone() };
        lacking.columns[0].figures.push(more);
        assert_eq!(lacking.verdict(), Verdict::Broken(vec!["g"]), "stock Envoy has a figure that ours lacks");
    }
}
