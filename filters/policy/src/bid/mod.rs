//! Bids: each attempt carries the longest expected response time that it accepts. The server knows
//! its own queue exactly, and bounces the attempt at once if it would take longer.
//!
//! | file | decides |
//! |---|---|
//! | `price` | the bid of each attempt, and whether a server bounced it for the bid |
//! | `trust` | whether a server's acceptance of a bid means anything |
//!
//! [`crate::wire::bid`] reads and writes the header.

mod price;
mod trust;

pub use price::{BidPosition, Bids, MAX_REPORT_FACTOR, MULTIPLES, is_bounce};
pub use trust::Promises;
