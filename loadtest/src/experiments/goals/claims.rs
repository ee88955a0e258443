//! The claims: each has an id, the two candidates that it compares, and its bound.
//!
//! A bound is a guarantee, with a margin for other seeds and other machines. It is not an aim. The
//! values behind the bounds are in `docs/measurements.md`.

use crate::case::Case;
use crate::record::Record;
use crate::report::bounds;
use serde::Serialize;

/// A candidate's name in claims and files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Name {
    /// Least request, two choices, in each sidecar: Envoy's default.
    TwoChoices,
    /// Least request, full scan, in each sidecar, which sees only its own requests.
    FullScan,
    /// The same with circuit breakers, outlier detection and retries, tuned by an operator.
    Tuned,
    /// Bids.
    Bids,
    /// Least request, full scan, in one frontend that sees all requests.
    Central,
    /// BLOC.
    Bloc,
    /// Least request, two choices, with filters that do nothing.
    Noop,
    /// One gateway: least request, two choices.
    TwoChoicesOne,
    /// One gateway: least request, full scan.
    FullScanOne,
    /// One gateway: Mu.
    MuOne,
    /// Ten gateways: least request, two choices.
    TwoChoicesTen,
    /// Ten gateways: least request, full scan.
    FullScanTen,
    /// Ten gateways: Mu.
    MuTen,
    /// Ten gateways: bids.
    BidsTen,
}

impl Name {
    /// The name for a reader.
    pub fn title(self) -> &'static str {
        match self {
            Self::TwoChoices => "two choices",
            Self::FullScan => "full scan",
            Self::Tuned => "two choices, tuned",
            Self::Bids => "bids",
            Self::Central => "central",
            Self::Bloc => "BLOC",
            Self::Noop => "no-op filters",
            Self::TwoChoicesOne => "two choices, 1 gateway",
            Self::FullScanOne => "full scan, 1 gateway",
            Self::MuOne => "Mu, 1 gateway",
            Self::TwoChoicesTen => "two choices, 10 gateways",
            Self::FullScanTen => "full scan, 10 gateways",
            Self::MuTen => "Mu, 10 gateways",
            Self::BidsTen => "bids, 10 gateways",
        }
    }
}

/// The quantity that a claim is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Figure {
    /// Median response time in milliseconds.
    P50,
    /// 99th percentile in milliseconds.
    P99,
    /// Mean response time in milliseconds.
    Mean,
    /// CPU of all Envoys for each answered request, in milliseconds.
    Cpu,
    /// Requests answered in time, as a share of the servers' total rate.
    Goodput,
    /// Attempts per request, as Envoy counts them.
    Attempts,
    /// Requests that were shed or failed.
    Lost,
}

impl Figure {
    /// Its value in a record of this case; none if nothing was answered.
    pub fn of(self, case: &Case, record: &Record) -> Option<f64> {
        let row = &record.row;
        match self {
            Self::P50 => row.p50_ms,
            Self::P99 => row.p99_ms,
            Self::Mean => row.mean_ms,
            Self::Cpu => row.envoy_cpu_ms_per_request,
            Self::Goodput => {
                let good = row.throughput_rps / case.mesh.total_rate(case.mesh.backends);
                (row.requests > 0).then_some(good)
            }
            Self::Attempts => Some(row.attempts_per_request).filter(|_| row.requests > 0),
            // A round without requests lost none, but shows nothing.
            Self::Lost => (row.requests > 0).then_some((row.shed + row.errors) as f64),
        }
    }

    fn title(self) -> &'static str {
        match self {
            Self::P50 => "p50",
            Self::P99 => "p99",
            Self::Mean => "mean",
            Self::Cpu => "CPU per request",
            Self::Goodput => "goodput",
            Self::Attempts => "attempts per request",
            Self::Lost => "shed or failed",
        }
    }
}

/// The condition on a claim's values, one value per round.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Bound {
    /// Their median is at most this.
    AtMost(f64),
    /// Their median is at least this.
    AtLeast(f64),
    /// Each of them is zero.
    None,
}

/// A claim.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Claim {
    /// `KIND/NAME`, the id that documents use.
    pub id: &'static str,
    /// What is measured.
    pub figure: Figure,
    /// The candidate that the claim is about.
    pub of: Name,
    /// The candidate that it is compared with, as a ratio in the same round; none: its own value
    /// counts.
    pub over: Option<Name>,
    /// The bound; none: no claim, the value is only printed beside the claims.
    pub bound: Option<Bound>,
}

impl Claim {
    /// The name of its kind.
    pub fn kind(&self) -> &'static str {
        self.id.split_once('/').map_or(self.id, |(kind, _)| kind)
    }

    /// The comparison in words.
    pub fn what(&self) -> String {
        let over = self.over.map(|over| format!(" / {}", over.title())).unwrap_or_default();
        format!("{}, {}{over}", self.figure.title(), self.of.title())
    }
}

const fn ratio(id: &'static str, figure: Figure, of: Name, over: Name, most: f64) -> Claim {
    Claim { id, figure, of, over: Some(over), bound: Some(Bound::AtMost(most)) }
}

const fn beside(id: &'static str, figure: Figure, of: Name, over: Option<Name>) -> Claim {
    Claim { id, figure, of, over, bound: None }
}

const fn alone(id: &'static str, figure: Figure, of: Name, bound: Bound) -> Claim {
    Claim { id, figure, of, over: None, bound: Some(bound) }
}

const fn nothing_lost(id: &'static str, of: Name) -> Claim {
    Claim { id, figure: Figure::Lost, of, over: None, bound: Some(Bound::None) }
}

/// All performance claims.
pub const CLAIMS: &[Claim] = {
    use Figure::{Cpu, Goodput, Mean, P50, P99};
    use Name::*;
    &[
        ratio("one-place/p99-two-choices", P99, Bids, TwoChoices, bounds::BIDS_P99_TWO_CHOICES),
        ratio("one-place/p99-full-scan", P99, Bids, FullScan, 0.50),
        ratio("one-place/p99-central", P99, Bids, Central, bounds::BIDS_P99_CENTRAL),
        ratio("one-place/cpu-two-choices", Cpu, Bids, TwoChoices, bounds::BIDS_CPU_TWO_CHOICES),
        ratio("one-place/cpu-central", Cpu, Bids, Central, 2.60),
        alone("one-place/attempts", Figure::Attempts, Bids, Bound::AtMost(2.3)),
        nothing_lost("one-place/lost", Bids),
        ratio("few-places/p99-two-choices", P99, Bids, TwoChoices, 0.70),
        ratio("few-places/p99-full-scan", P99, Bids, FullScan, 0.80),
        ratio("few-places/p99-central", P99, Bids, Central, 1.40),
        ratio("few-places/cpu-two-choices", Cpu, Bids, TwoChoices, 1.90),
        ratio("few-places/cpu-central", Cpu, Bids, Central, 2.60),
        alone("few-places/attempts", Figure::Attempts, Bids, Bound::AtMost(2.5)),
        nothing_lost("few-places/lost", Bids),
        ratio("many-places/p99-two-choices", P99, Bids, TwoChoices, 1.10),
        ratio("many-places/p99-full-scan", P99, Bids, FullScan, 1.10),
        ratio("many-places/p99-central", P99, Bids, Central, 1.15),
        ratio("many-places/cpu-two-choices", Cpu, Bids, TwoChoices, 1.70),
        beside("many-places/mean-two-choices", Mean, Bids, Some(TwoChoices)),
        nothing_lost("many-places/lost", Bids),
        ratio("unequal/mu-p99-two-choices-1", P99, MuOne, TwoChoicesOne, bounds::MU_P99_TWO_CHOICES),
        ratio("unequal/mu-p99-full-scan-1", P99, MuOne, FullScanOne, bounds::MU_P99_FULL_SCAN),
        ratio("unequal/mu-mean-two-choices-1", Mean, MuOne, TwoChoicesOne, bounds::MU_MEAN_TWO_CHOICES),
        ratio("unequal/mu-mean-full-scan-1", Mean, MuOne, FullScanOne, bounds::MU_MEAN_FULL_SCAN),
        ratio("unequal/mu-cpu-two-choices-1", Cpu, MuOne, TwoChoicesOne, 1.60),
        ratio("unequal/mu-p99-two-choices-10", P99, MuTen, TwoChoicesTen, 0.45),
        ratio("unequal/mu-p99-full-scan-10", P99, MuTen, FullScanTen, 0.75),
        ratio("unequal/mu-mean-two-choices-10", Mean, MuTen, TwoChoicesTen, 0.75),
        ratio("unequal/bids-p99-two-choices-10", P99, BidsTen, TwoChoicesTen, 0.40),
        ratio("unequal/bids-p99-full-scan-10", P99, BidsTen, FullScanTen, 0.70),
        ratio("unequal/bids-p99-mu-10", P99, BidsTen, MuTen, 0.97),
        ratio("unequal/mu-cpu-two-choices-10", Cpu, MuTen, TwoChoicesTen, 1.80),
        ratio("unequal/bids-cpu-two-choices-10", Cpu, BidsTen, TwoChoicesTen, 1.80),
        nothing_lost("unequal/mu-lost-1", MuOne),
        nothing_lost("unequal/mu-lost-10", MuTen),
        nothing_lost("unequal/bids-lost-10", BidsTen),
        alone("overload/goodput", Goodput, Bloc, Bound::AtLeast(0.97)),
        alone("overload/goodput-two-choices", Goodput, TwoChoices, Bound::AtMost(0.60)),
        alone("overload/goodput-tuned", Goodput, Tuned, Bound::AtLeast(0.90)),
        ratio("overload/p99-tuned", P99, Bloc, Tuned, 0.70),
        ratio("overload/p99-two-choices", P99, Bloc, TwoChoices, 0.50),
        ratio("overload/cpu-tuned", Cpu, Bloc, Tuned, 2.60),
        ratio("cheap/p50-two-choices", P50, Bids, TwoChoices, 1.20),
        ratio("cheap/cpu-two-choices", Cpu, Bids, TwoChoices, 1.60),
        beside("cheap/p50-noop", P50, Noop, Some(TwoChoices)),
        beside("cheap/cpu-noop", Cpu, Noop, Some(TwoChoices)),
        nothing_lost("cheap/lost", Bids),
    ]
};

/// The claim with this id.
pub fn claim(id: &str) -> Option<&'static Claim> {
    CLAIMS.iter().find(|claim| claim.id == id)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiments::goals::{KINDS, kinds};
    use std::collections::BTreeSet;
    use std::time::Duration;

    #[test]
    fn each_claim_has_a_unique_id_and_candidates_of_its_kind() {
        let kinds = kinds(Duration::from_secs(1), 1);
        for claim in CLAIMS {
            let kind = kinds.iter().find(|kind| kind.name == claim.kind()).unwrap();
            for name in std::iter::once(claim.of).chain(claim.over) {
                assert!(kind.candidates.iter().any(|candidate| candidate.name == name), "{}: {name:?}", claim.id);
            }
        }
        assert_eq!(CLAIMS.iter().map(|claim| claim.id).collect::<BTreeSet<_>>().len(), CLAIMS.len());
        let bound = |kind: &str| CLAIMS.iter().any(|claim| claim.kind() == kind && claim.bound.is_some());
        assert!(KINDS.into_iter().all(bound), "a kind without a claim");
    }

    #[test]
    fn the_demo_uses_the_bounds_of_the_claims() {
        for (id, most) in [
            ("one-place/p99-two-choices", bounds::BIDS_P99_TWO_CHOICES),
            ("one-place/p99-central", bounds::BIDS_P99_CENTRAL),
            ("one-place/cpu-two-choices", bounds::BIDS_CPU_TWO_CHOICES),
            ("unequal/mu-p99-two-choices-1", bounds::MU_P99_TWO_CHOICES),
            ("unequal/mu-p99-full-scan-1", bounds::MU_P99_FULL_SCAN),
            ("unequal/mu-mean-two-choices-1", bounds::MU_MEAN_TWO_CHOICES),
            ("unequal/mu-mean-full-scan-1", bounds::MU_MEAN_FULL_SCAN),
        ] {
            assert_eq!(claim(id).unwrap().bound, Some(Bound::AtMost(most)), "{id}");
        }
    }

    #[test]
    fn a_claim_says_what_it_compares() {
        let claim = claim("few-places/p99-two-choices").unwrap();
        assert_eq!((claim.kind(), claim.what().as_str()), ("few-places", "p99, bids / two choices"));
    }
}
