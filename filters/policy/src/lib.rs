//! The decisions of BLOC, free of any host: no I/O, no clock, no entropy. Time and randomness are
//! handed in.
//!
//! Each folder imports only from rows below its own.
//!
//! | folder | decides |
//! |---|---|
//! | [`sync`] | when a proxy asks the control plane, what it reports, and the messages for both |
//! | [`sender`] | what one worker decides about its requests to one cluster |
//! | [`routing`] | which servers a request tries, and in which order; how long a response time an attempt accepts |
//! | [`endpoints`] | what a sender knows of each server: chips, pending requests, failures, its last report |
//! | [`server`] | what one sidecar decides and measures about the application behind it |
//! | [`proxy`] | how the threads of one proxy share what they know |
//! | [`config`] | what a user may write, and what the code may rely on |
//! | [`wire`] | the headers that carry bids, loads, rejections and lists of servers |
//! | [`units`] | nothing: numbers with units, random numbers, maps without sorting |

#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing))]

pub mod config;
pub mod endpoints;
pub mod proxy;
pub mod routing;
pub mod sender;
pub mod server;
pub mod sync;
pub mod units;
pub mod wire;
