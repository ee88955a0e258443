//! How long requests take: histograms that threads add up and reports carry. Bucket bounds are
//! `2^(k/8)` s, from 0.25 ms to 64 s; every time is within 4.4% of its bucket's geometric middle
//! (`filters/adr/0016-latencies.md`).
//!
//! | file | what |
//! |---|---|
//! | `histogram` | the buckets, and counts by bucket |
//! | `calls` | a caller's counts of its requests |
//! | `growth` | the counts and histograms of a period, and their bytes |
//! | `dispersion` | how much arrivals vary over 100 ms, 1 s and 10 s |
//! | `store` | what the threads share, and what reports take of it |

pub mod calls;
pub mod dispersion;
pub mod growth;
pub mod histogram;
pub mod store;

pub use calls::Calls;
pub use growth::Growth;
pub use histogram::{BUCKETS, Histogram};
