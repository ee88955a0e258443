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
//! | [`inbound`], [`outbound`], [`attempt`], [`sync_client`] | the filters, and the agent that asks the control plane |
//! | [`vm`] | the state of one worker, which lives as long as its VM |
//! | [`reporter`] | the load and the latencies that the leader reports to the control plane |
//! | [`why`] | the header that tells people why a request was rejected |
//! | [`streams`] | answers that have begun, and which of them are idle |
//! | [`services`], [`clusters`] | all services that this proxy stands in front of; all clusters that it calls |
//! | [`requests`] | the outgoing requests: what their attempts share |
//! | [`pace`], [`handover`] | how often this thread ticks; when its counters go to the host |
//! | [`service`], [`cluster`] | one service, with the inbound filter's state; one cluster, with the outbound filters' |
//! | [`service_metrics`] | the metrics of one service |
//! | [`running`] | when the request began that the application of one service works on |
//! | [`queue`], [`held`] | the requests held for one service; those for all, which crash recovery answers |
//! | [`views`], [`parameters`] | one service or cluster under each plugin configuration; the parameters in force |
//! | [`fail_open`] | what passes after too many crashes |
//! | [`crash_recovery`], [`crash`] | what a VM that panics does before it ends; panics on demand, for tests |
//! | [`latency`] | how long requests take, until that is handed over |
//! | [`metrics`], [`message`] | counters and gauges; what the threads' VMs tell each other |
//! | [`request_headers`], [`status`] | what headers say of a request, and of an answer |
//! | [`host`], [`filter`], [`names`] | what the binding implements; what it calls; root ids and keys |

#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing))]

pub mod attempt;
pub mod cluster;
pub mod clusters;
pub mod crash;
pub mod crash_recovery;
pub mod fail_open;
pub mod filter;
pub mod handover;
pub mod held;
pub mod host;
pub mod inbound;
pub mod latency;
pub mod message;
pub mod metrics;
pub mod names;
pub mod outbound;
pub mod pace;
pub mod parameters;
pub mod queue;
pub mod reporter;
pub mod request_headers;
pub mod requests;
pub mod root;
pub mod running;
pub mod service;
pub mod service_metrics;
pub mod services;
pub mod status;
pub mod streams;
pub mod sync_client;
pub mod views;
pub mod vm;
pub mod why;
