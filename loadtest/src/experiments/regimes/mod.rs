//! A dozen cells of the map of regimes (`bloc-sim regimes`) on real Envoys, with the bounds that
//! bids are to keep there.
//!
//! Measured and judged as the claims of [`goals`](crate::experiments::goals) are: candidates side
//! by side, ratios paired by round, medians. The bounds are aims, so a cell that misses one is a
//! result: the command lists it, and does not fail.

mod cells;
pub mod command;

pub use cells::{BOUNDS, CELLS, cells};
