//! The parameters of an application.

use crate::bytes::Bytes;
use std::time::Duration;

/// How often memory that is not used is taken.
pub const RECLAIM: Duration = Duration::from_secs(5);

/// How memory moves. See [the rule](super).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rule {
    /// The part of the limit that is kept for grants at the start; 0 to 0.9.
    pub reserve: f64,
    /// What a container may grow by before it asks; `step` and more.
    pub margin: Bytes,
    /// What a grant adds; 4 MiB and more.
    pub step: Bytes,
}

impl Default for Rule {
    fn default() -> Self {
        Self { reserve: 0.2, margin: Bytes::mebi(50), step: Bytes::mebi(16) }
    }
}
