//! Bounds and aims for the cost of the filters in a real Envoy.
//!
//! A *bound* is a guarantee: `bloc-lab cost` fails when one is exceeded. Each is a ratio within a
//! run: the CPU time of a request with our filters divided by that without a filter, each in the
//! round in which it was lowest. Other work on the machine only raises the cost of requests, so the
//! lowest moves less than the median. A ratio of whole costs moves less than a ratio of
//! differences, which are a fifth of them. A bounce is compared with one after a back-off
//! ([`super::bounced`]).
//!
//! An *aim* is a wish: what our filters add, divided by what a filter adds that sets one header. A
//! missed aim fails nothing.

use super::figures::Figures;
use super::variant::Variant;
use serde::Serialize;
use std::fmt;

const BOUNDS: [(Variant, f64); 3] = [(Variant::Inbound, 2.0), (Variant::Outbound, 2.5), (Variant::All, 3.0)];
/// Our filters, the filters that they are compared with, and the aims.
const AIMS: [(Variant, Variant, f64); 2] =
    [(Variant::Inbound, Variant::SetResponse, 2.0), (Variant::Outbound, Variant::SetRequest, 3.0)];

/// A ratio that must not be exceeded.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Bound {
    /// Its description.
    pub what: String,
    /// Its value.
    pub value: f64,
    /// The largest allowed value.
    pub most: f64,
}

/// A ratio that should not be exceeded.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Aim {
    /// Its description.
    pub what: String,
    /// Its current value; `None`: the filter to compare with added nothing, so the noise is larger.
    pub value: Option<f64>,
    /// The largest value that reaches the aim.
    pub aim: f64,
}

/// Some bounds do not hold.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("these bounds do not hold: {}", .0.join("; "))]
pub struct Exceeded(pub Vec<String>);

impl Bound {
    /// Whether it holds.
    pub fn holds(&self) -> bool {
        self.value <= self.most
    }
}

impl Aim {
    /// Whether it is reached.
    pub fn reached(&self) -> bool {
        self.value.is_some_and(|value| value <= self.aim)
    }
}

impl fmt::Display for Bound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { what, value, most } = self;
        let verdict = if self.holds() { "holds" } else { "EXCEEDED" };
        write!(f, "{what}: {value:.2}, at most {most}: {verdict}")
    }
}

impl fmt::Display for Aim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { what, value, aim } = self;
        match value {
            Some(value) if self.reached() => write!(f, "{what}: {value:.2}, aim {aim}: reached"),
            Some(value) => {
                let above = 100.0 * (value / aim - 1.0);
                write!(f, "{what}: {value:.2}, aim {aim}: {above:.0}% above it")
            }
            None => write!(f, "{what}: too noisy to say, aim {aim}"),
        }
    }
}

/// The bounds of the measured variants.
pub fn bounds(figures: &Figures) -> Vec<Bound> {
    let bound = |(variant, most): (Variant, f64)| {
        let value = figures.least_cpu_us(variant)? / figures.least_cpu_us(Variant::Plain)?;
        let what = format!("CPU of a request with {}, over \"{}\"", variant.name(), Variant::Plain.name());
        Some(Bound { what, value, most })
    };
    BOUNDS.into_iter().filter_map(bound).collect()
}

/// The aims of the measured variants whose reference was measured too.
pub fn aims(figures: &Figures) -> Vec<Aim> {
    let aim = |(variant, reference, aim): (Variant, Variant, f64)| {
        let (own, least) = (figures.added_us(variant)?, figures.added_us(reference)?);
        let what = format!("what {} adds, over what \"{}\" adds", variant.name(), reference.name());
        Some(Aim { what, value: (least > 0.0).then(|| own / least), aim })
    };
    AIMS.into_iter().filter_map(aim).collect()
}

/// An error if a bound does not hold.
///
/// # Errors
/// One was exceeded.
pub fn verdict(bounds: &[Bound]) -> Result<(), Exceeded> {
    let exceeded: Vec<String> = bounds.iter().filter(|bound| !bound.holds()).map(|bound| bound.what.clone()).collect();
    if exceeded.is_empty() { Ok(()) } else { Err(Exceeded(exceeded)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each variant has this cost in microseconds, after a round in which all cost more.
    fn figures(costs: &[(Variant, f64)]) -> Figures {
        let variants: Vec<Variant> = costs.iter().map(|cost| cost.0).collect();
        let mut figures = Figures::new(&variants);
        for (n, (row, cost)) in figures.rows.iter_mut().zip(costs).enumerate() {
            let noise = 500.0 / (n + 1) as f64;
            row.cpu_us = vec![cost.1 + noise, cost.1, cost.1];
        }
        figures
    }

    /// What the filters that set a header, the inbound filter, and the outbound filter with attempt
    /// add to 40 us.
    fn of(set: f64, inbound: f64, outbound: f64) -> Figures {
        figures(&[
            (Variant::Plain, 40.0),
            (Variant::SetRequest, 40.0 + set),
            (Variant::SetResponse, 40.0 + set),
            (Variant::Inbound, 40.0 + inbound),
            (Variant::Outbound, 40.0 + outbound),
        ])
    }

    #[test]
    fn a_missed_aim_shows_its_distance_and_does_not_fail() {
        let figures = of(5.0, 15.0, 14.0);
        assert_eq!(verdict(&bounds(&figures)), Ok(()));
        let shown: Vec<String> = aims(&figures).iter().map(Aim::to_string).collect();
        assert!(shown[0].ends_with("3.00, aim 2: 50% above it"), "{}", shown[0]);
        assert!(shown[1].ends_with("2.80, aim 3: reached"), "{}", shown[1]);
    }

    #[test]
    fn an_exceeded_bound_fails() {
        let bounds = bounds(&of(5.0, 15.0, 64.0));
        assert_eq!(bounds.iter().map(|bound| bound.value).collect::<Vec<_>>(), [1.375, 2.6]);
        assert_eq!(verdict(&bounds), Err(Exceeded(vec![bounds[1].what.clone()])));
        assert!(bounds[0].to_string().ends_with("1.38, at most 2: holds"), "{}", bounds[0]);
        assert!(bounds[1].to_string().ends_with("2.60, at most 2.5: EXCEEDED"), "{}", bounds[1]);
        assert_eq!(verdict(&super::bounds(&of(5.0, 41.0, 64.0))).unwrap_err().0.len(), 2);
    }

    #[test]
    fn an_aim_has_no_value_without_a_cost_to_compare_with() {
        for set in [0.0, -5.0] {
            let aims = aims(&of(set, 15.0, 20.0));
            assert!(aims.iter().all(|aim| aim.value.is_none() && !aim.reached()), "{aims:?}");
        }
        let some = figures(&[(Variant::Plain, 40.0), (Variant::Inbound, 90.0)]);
        assert_eq!((bounds(&some).len(), aims(&some).len()), (1, 0), "--only leaves some out");
    }
}
