//! The parameters of an application.

use std::time::Duration;

/// When and how far shares move. See [the rule](super).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rule {
    /// The mean response time that is to be kept; 1 ms to 60 s.
    pub target: Duration,
    /// The part of the target above which a container is late; 1.1 to 1.8.
    pub threshold: f64,
    /// What a container gives or gets in a second, as a percentage of what its `requests` give; 10
    /// to 50.
    pub step: f64,
}

impl Rule {
    /// The usual rule for this target.
    pub const fn new(target: Duration) -> Self {
        Self { target, threshold: 1.2, step: 10.0 }
    }
}

/// The least shares: what the kernel allows.
pub const LEAST: f64 = 2.0;
/// The most shares that a container gets to; one whose `requests` give more keeps them.
pub const MOST: f64 = 10_240.0;
/// Who is later than so many targets asks for no more than at these: one stream must not ask for
/// all.
pub const LATEST: f64 = 10.0;
/// The fewest answers that judge a container.
pub const LEAST_ANSWERS: u64 = 20;
