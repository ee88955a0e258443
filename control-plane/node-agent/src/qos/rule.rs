//! The parameters of the rule.

use std::time::Duration;

/// When and how far shares move. See [the rule](super).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rule {
    pub target: Duration,
    pub threshold: f64,
    /// In per cent.
    pub step: f64,
}

impl Rule {
    /// The usual rule for this target.
    pub const fn new(target: Duration) -> Self {
        Self { target, threshold: 1.2, step: 10.0 }
    }
}

/// The minimum of shares in the kernel.
pub const LEAST: f64 = 2.0;
/// The maximum that a container gets; one whose `requests` give more keeps them.
pub const MOST: f64 = 10_240.0;
/// Lateness counts up to so many targets: one slow stream must not claim everything.
pub const LATEST: f64 = 10.0;
/// A container is judged by at least so many answers.
pub const LEAST_ANSWERS: u64 = 20;
