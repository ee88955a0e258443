//! How long requests take: histograms that the threads of a proxy add up, and that reports carry.
//!
//! A bucket is an eighth of an octave wide: its bounds are `2^(k/8)` s, from 0.25 ms to 64 s, with
//! one bucket below and one above. So the geometric middle of a bucket is within 4.4% of every time
//! in it. (With four an octave it would be 9%, at the limit of what we promise.)
//!
//! | file | what |
//! |---|---|
//! | `histogram` | the buckets, and counts by bucket |
//! | `calls` | what a caller counts of its requests |
//! | `growth` | what happened in a time: counts and histograms, and their bytes |
//! | `dispersion` | how much arrivals vary over 100 ms, 1 s and 10 s |
//! | `store` | what the threads share, and what reports take of it |
//!
//! Not in the papers.

pub mod calls;
pub mod dispersion;
pub mod growth;
pub mod histogram;
pub mod store;

pub use calls::Calls;
pub use growth::Growth;
pub use histogram::{BUCKETS, Histogram};
