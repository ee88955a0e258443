//! The cost of a request in a real Envoy: the same proxy without a filter, with filters that do
//! next to nothing, with our filters, and with Envoy's own filters for the same purposes.
//!
//! The cost without Envoy is not measured here but in `benches`.
//!
//! ```text
//! wrk ──► the Envoy that is measured ──► an Envoy that answers by itself, as ten servers
//!         one worker, pinned to core 0    wrk and this one: on the other cores
//! ```
//!
//! All variants run at once and are loaded in turn, round by round, so other work on the machine
//! affects them alike. The results are medians over the rounds, and the additional cost of a
//! variant over the Envoy without a filter in the same round.
//!
//! | module | what it is for |
//! |---|---|
//! | [`variant`] | the compared variants, and how to check that they work |
//! | [`load`] | wrk |
//! | [`accounting`] | CPU time and memory of a process, as the kernel accounts them; pinning |
//! | [`mod@bench`] | the sequence of the measurement |
//! | [`figures`] | medians, the table, the JSON file |
//! | [`bounced`] | the cost of a bounce |
//! | [`bounds`] | bounds and aims for the cost of the filters |

pub mod accounting;
pub mod bench;
pub mod bounced;
pub mod bounds;
pub mod command;
pub mod figures;
pub mod load;
pub mod variant;

pub use bench::{Bench, CostError, Options};
pub use figures::Figures;
pub use variant::Variant;
