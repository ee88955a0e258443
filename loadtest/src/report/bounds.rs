//! The bounds that the [findings](super::findings()) of a demo share with the claims. A claim is
//! about the median of several seeds, a finding about one.

/// `one-place/p99-two-choices`
pub const BIDS_P99_TWO_CHOICES: f64 = 0.40;
/// `one-place/p99-central`
pub const BIDS_P99_CENTRAL: f64 = 1.45;
/// `one-place/cpu-two-choices`
pub const BIDS_CPU_TWO_CHOICES: f64 = 1.90;
/// `unequal/mu-p99-two-choices-1`
pub const MU_P99_TWO_CHOICES: f64 = 0.90;
/// `unequal/mu-p99-full-scan-1`
pub const MU_P99_FULL_SCAN: f64 = 1.0;
/// `unequal/mu-mean-two-choices-1`
pub const MU_MEAN_TWO_CHOICES: f64 = 1.1;
/// `unequal/mu-mean-full-scan-1`: what Mu costs in the mean.
pub const MU_MEAN_FULL_SCAN: f64 = 1.25;
