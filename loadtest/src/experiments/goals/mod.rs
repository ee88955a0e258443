//! The performance claims, measured on real Envoys: kinds of traffic, candidates, and each claim
//! with its id and its bound.
//!
//! The claims about faults are not here but in `chaos`; their bounds that the demo repeats
//! are in `report`.
//!
//! - Every kind has 40 sidecars (`unequal`: 1 and 10 gateways), Poisson arrivals, and some 100 to
//!   300 requests a second, because two cores run the load, the servers and all Envoys.
//! - The meshes of all candidates of a kind run side by side. Each round measures one after the
//!   other with the same arrivals. Every second round reverses the order.
//! - Ratios are paired: each round gives one, and the claim is about the median of the rounds. The
//!   range, least to greatest, is printed beside it.
//! - *Two choices* and *full scan* are Envoy's least request in each sidecar, which sees only its
//!   own requests. *Central* is full scan in one frontend that sees all requests.
//! - A claim that was selected but not measured is not kept.

mod claims;
pub mod command;
mod judge;
mod kinds;
pub mod page;
pub mod side_by_side;

pub use claims::{Bound, CLAIMS, Claim, Figure, Name, claim};
pub use judge::{Measured, Outcome, Round, Verdict, judge, kept};
pub use kinds::{Candidate, KINDS, Kind, in_round, kinds};
