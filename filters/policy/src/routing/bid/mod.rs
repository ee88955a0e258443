//! Bids: each attempt carries the longest expected response time that it accepts. The server knows
//! its own queue exactly, and bounces the attempt at once if it would take longer.
//!
//! | file | decides |
//! |---|---|
//! | `search` | how high bids are, for a cost of looking further |
//! | `bounce` | what a bounce costs |
//! | `choice` | which servers, and what a sender learns for that |
//! | `pause` | how long there are no bids once Envoy did not retry a bounce |
//! | `trust` | whether a server's acceptance of a bid means anything |
//! | `price` | the bid of each attempt, and whether a server bounced it for the bid |
//!
//! [`crate::wire::bid`] reads and writes the header.

mod bounce;
mod choice;
mod pause;
mod price;
mod search;
mod trust;

pub use super::contract::BidPosition;
pub use choice::{Bidder, bounced_for_bid};
pub use price::{Bids, MAX_REPORT_FACTOR, STALE, is_bounce};
pub use search::MOST_BIDS;
pub use trust::Promises;
