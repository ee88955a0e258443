//! What a request pays in a real Envoy: the same proxy without a filter, with filters that do next
//! to nothing, with those of this project, and with Envoy's own ones for the same purposes.
//!
//! ```text
//! wrk ──► the Envoy that is measured ──► an Envoy that answers by itself, as ten servers
//!         one worker, pinned to core 0    wrk and this one: on the other cores
//! ```
//!
//! All variants stand at once and are loaded in turn, round by round, so that whatever else the
//! machine does hits them alike; reported are medians over the rounds, and what a variant costs
//! more than the Envoy without a filter in the same round.
//!
//! | module | what it is for |
//! |---|---|
//! | [`variant`] | what is compared, and how it is seen to work |
//! | [`load`] | wrk |
//! | [`accounting`] | CPU time and memory of a process, as the kernel accounts them; pinning |
//! | [`bench`] | the order of things |
//! | [`figures`] | medians, the table, the JSON file |
//! | [`bounds`] | what the filters may cost, and what they should |

pub mod accounting;
pub mod bench;
pub mod bounds;
pub mod figures;
pub mod load;
pub mod variant;

pub use bench::{Bench, CostError, Options};
pub use figures::Figures;
pub use variant::Variant;
