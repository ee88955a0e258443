//! What a claim is.

use super::figures::Figure;
use super::name::Name;
use crate::experiments::goals::Bound;

/// A claim.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Claim {
    /// Its id.
    pub id: &'static str,
    /// What it is about.
    pub figure: Figure,
    /// Of whom.
    pub of: Name,
    /// It is the ratio to the figure of this one in the same round; none: its own value.
    pub over: Option<Name>,
    /// The bound on the median of the rounds.
    pub bound: Bound,
    /// An aim of the specification that is not reached: it is shown, and nothing fails.
    pub aim: bool,
}
