//! Servers that lie: what one of ten can do to a sender, for how long, and what it cannot.
//!
//! The Wasm module does not run here. Its tests with lying peers are in
//! `filters/testhost/tests/guest/lies.rs`.
//!
//! Ten servers of the same speed, one of which sends false reports, in a small simulation that
//! carries the header's real text. [`two`] has a liar among two. The times that the documentation
//! states are derived from the parameters and asserted here:
//!
//! | what a server does | how long it holds | why |
//! |---|---|---|
//! | calls itself fast or empty (`mu`) | until its answers take four times as long as the others', and one request in each `10 * resetInterval` | `estimate::MAX_REPORT_FACTOR` |
//! | calls itself slow or full (`mu`) | `10 * resetInterval`, and a choice for each server | `estimate::HORIZON` |
//! | rejects everything (`bloc`, `bid`) | `resetInterval` after each rejection | [`bloc_policy::endpoints`] |
//! | grants chips that it does not have (`bloc`) | not at all: of two servers the one with fewer pending requests is tried | [`bloc_policy::routing::Bloc`] |
//! | takes every bid (`bid`) | until two of its answers took more than twice their bids | [`bloc_policy::routing::bid::Promises`] |

mod attraction;
mod mesh;
mod nonsense;
mod repulsion;
mod two;
