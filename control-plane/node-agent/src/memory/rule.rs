//! The parameters of the rule.

use crate::bytes::Bytes;
use std::time::Duration;

/// How often unused memory is reclaimed.
pub const RECLAIM: Duration = Duration::from_secs(5);

/// How memory moves. See [the rule](super).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rule {
    pub reserve: f64,
    /// At least `step`.
    pub margin: Bytes,
    pub step: Bytes,
}

impl Default for Rule {
    fn default() -> Self {
        Self { reserve: 0.2, margin: Bytes::mebi(50), step: Bytes::mebi(16) }
    }
}
