//! What a server knows of its CPU.

use crate::units::Ratio;

/// What is known of the CPU, ready for use by each request.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Provided {
    /// The cores.
    pub(super) cores: Option<f64>,
    /// The most requests per second.
    pub(super) rate: Option<f64>,
    /// The share that is not used.
    pub(super) headroom: Option<Ratio>,
}
