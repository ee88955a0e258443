//! What the lab, its mesh and the simulator have in common: how a figure is defined, how it is
//! drawn, and how long a request takes. One definition each, so that their figures can be compared.
//!
//! | module | what it is for |
//! |---|---|
//! | [`stats`] | quantiles, medians, and medians with their range |
//! | [`chart`] | axes and line charts as SVG |
//! | [`service_time`] | distributions of service times, in the notation of the command line |

pub mod chart;
pub mod service_time;
pub mod stats;
