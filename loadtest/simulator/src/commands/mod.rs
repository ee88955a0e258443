//! The commands, one file each.

pub mod case;
pub mod estimators;
pub mod figure;
pub mod run;
pub mod sweep;
