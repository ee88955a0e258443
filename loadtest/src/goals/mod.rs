//! What is claimed of performance, measured on real Envoys: kinds of traffic, candidates, and each
//! claim with its id and its bound.
//!
//! - Every kind has 40 sidecars (`unequal`: 1 and 10 gateways), Poisson arrivals, and some 100 to
//!   300 requests a second, because two cores run the load, the servers and all Envoys.
//! - All candidates of a kind stand side by side, and each round measures one after the other, with
//!   the same arrivals. Every second round takes them in the reverse order.
//! - Ratios are paired: each round gives one, and the claim is about the median of the rounds. The
//!   range, least to greatest, is printed beside it.
//! - *Two choices* and *full scan* are Envoy's least request in each sidecar, with what this one
//!   sees. *Central* is full scan in one frontend that sees everything.
//! - A claim that was asked for and not measured is not kept.

mod claims;
mod judge;
mod kinds;

pub use claims::{Bound, CLAIMS, Claim, Figure, Name, bounds, claim};
pub use judge::{Measured, Outcome, Round, Verdict, judge, kept};
pub use kinds::{Candidate, KINDS, Kind, in_round, kinds};
