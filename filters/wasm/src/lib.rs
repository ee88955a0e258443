//! The Proxy-Wasm module: binds the decisions of `bloc-policy` to Envoy. No decision is made here.
//!
//! | root id | where | what |
//! |---|---|---|
//! | `bloc.inbound` | HTTP filter of the inbound listener | [`inbound`]: admits or bounces, draws a chip, stamps the load |
//! | | | [`line`]: holds requests beyond the application's concurrency |
//! | `bloc.outbound` | HTTP filter of the outbound listener or gateway | [`outbound`]: chooses an ordered list of servers |
//! | `bloc.attempt` | upstream HTTP filter of the router | [`attempt`]: sees each attempt, learns from each answer |
//!
//! With the same `vm_id`, module and VM configuration all three share one VM per thread, and with it the [`state`]. [`root`] reads the plugin
//! configuration, [`agent`] asks the control plane for a newer one, [`why`] explains rejections where that is asked for. What a crash leaves behind is put right by a [`will`],
//! and who crashes too often stands [`aside`]. All calls to the host go through [`host`].

#![allow(missing_docs, reason = "the macro of proxy-wasm writes an undocumented function")]
#![deny(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod agent;
mod aside;
mod attempt;
mod crash;
mod headers;
mod host;
mod inbound;
mod line;
mod message;
mod metrics;
mod outbound;
mod root;
mod state;
mod why;
mod will;

use proxy_wasm::types::LogLevel;

proxy_wasm::main! {{
    proxy_wasm::set_log_level(LogLevel::Info);
    will::write();
    proxy_wasm::set_root_context(|context_id| root::create(context_id));
}}
