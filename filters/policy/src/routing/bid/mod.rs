//! Bids: each attempt carries the longest expected response time that it accepts
//! ([`crate::wire::bid`]). The server, which knows its own queue, bounces it at once if it would
//! take longer.
//!
//! | file | decides |
//! |---|---|
//! | `search` | the bids for a given cost of looking further |
//! | `bounce` | what a bounce costs |
//! | `choice` | which servers, and what a sender learns |
//! | `pause` | how long bids stop after Envoy did not retry a bounce |
//! | `trust` | whether a server's acceptance of a bid means anything |
//! | `price` | the bid of each attempt, and whether a bounce was for the bid |

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
