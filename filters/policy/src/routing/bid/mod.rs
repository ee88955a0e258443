//! Bids: each attempt carries the longest expected response time that it accepts. The server knows
//! its own queue exactly, and bounces the attempt at once if it would take longer.
//!
//! | file | decides |
//! |---|---|
//! | `search` | how high bids are, for a cost of looking further |
//! | `bounce` | what a bounce costs |
//! | `price` | the bid of each attempt, and whether a server bounced it for the bid |
//!
//! [`crate::wire::bid`] reads and writes the header.

mod bounce;
mod price;
mod search;

pub use price::{BidPosition, Bids, MAX_REPORT_FACTOR, STALE, is_bounce};
pub use search::MOST_BIDS;
