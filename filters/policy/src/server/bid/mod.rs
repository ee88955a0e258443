//! The server's half of bids: what a request is offered, and how long it is held.
//!
//! | file | decides |
//! |---|---|
//! | `offers` | what a server compares with a bid or a deadline |
//! | [`age`] | how long the running request will still take |
//! | [`probe`] | how a server that is surely slower than the fleet finds out that it has become faster |
//! | `hold` | how long a request is held, and why it is then rejected |

pub mod age;
pub(crate) mod hold;
mod offers;
pub mod probe;
