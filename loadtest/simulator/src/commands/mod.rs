//! The commands, one file each.
//!
//! A command reads its options, calls the library and writes the results. It simulates nothing
//! itself.

pub mod case;
pub mod estimators;
pub mod figure;
pub mod memory;
pub mod qos;
pub mod quota;
pub mod regimes;
pub mod reserve;
pub mod run;
pub mod sweep;
