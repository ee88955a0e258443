//! What the three filters do with requests, behind a host trait. This crate knows nothing of
//! Proxy-Wasm: a binding calls the filters and implements [`host::Host`]. The algorithms are in
//! `bloc-policy`; this crate applies them to requests, and writes their results into headers.
//!
//! | root id | where | what |
//! |---|---|---|
//! | `bloc.inbound` | HTTP filter of the inbound listener | [`inbound`]: admits or rejects, draws a chip, adds the load report |
//! | | | [`queue`]: holds requests beyond the application's concurrency |
//! | `bloc.outbound` | HTTP filter of the outbound listener or gateway | [`outbound`]: chooses an ordered list of servers |
//! | `bloc.attempt` | upstream HTTP filter of the router | [`attempt`]: sees each attempt, learns from each response |
//!
//! Each file imports only from rows below its own, or from its own row:
//!
//! | | |
//! |---|---|
//! | [`root`] | the root contexts: configurations, ticks, messages |
//! | [`inbound`], [`outbound`], [`attempt`], [`agent`] | the filters, and the agent that asks the control plane |
//! | [`vm`], [`reporter`], [`why`] | the state of one worker, which lives as long as its VM |
//! | [`services`], [`clusters`], [`requests`], [`streams`], [`pace`], [`handover`] | the parts of that state |
//! | [`service`], [`service_metrics`], [`cluster`], [`views`], [`parameters`], [`queue`], [`held`], [`fail_open`] | a single one of each |
//! | [`metrics`], [`message`], [`crash_recovery`], [`crash`], [`body`], [`deadline`] | what they use |
//! | [`host`], [`filter`], [`names`] | what the binding implements, and what it calls |

#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing))]

pub mod agent;
pub mod attempt;
pub mod body;
pub mod cluster;
pub mod clusters;
pub mod crash;
pub mod crash_recovery;
pub mod deadline;
pub mod fail_open;
pub mod filter;
pub mod handover;
pub mod held;
pub mod host;
pub mod inbound;
pub mod message;
pub mod metrics;
pub mod names;
pub mod outbound;
pub mod pace;
pub mod parameters;
pub mod queue;
pub mod reporter;
pub mod requests;
pub mod root;
pub mod service;
pub mod service_metrics;
pub mod services;
pub mod streams;
pub mod views;
pub mod vm;
pub mod why;
