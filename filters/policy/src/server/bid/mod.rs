//! The server's half of bids: what a request is offered, and for how long it is held for its bid.
//!
//! | file | decides |
//! |---|---|
//! | `offers` | what a server compares with a bid or a deadline |
//! | [`age`] | how much longer the request takes that is being worked on |
//! | [`trial`] | how a server that is surely slower than the fleet finds out that it is not any more |
//! | `hold` | for how long a request is held, and why it is rejected then |

pub mod age;
pub(crate) mod hold;
mod offers;
pub mod trial;
