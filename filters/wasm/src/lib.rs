//! The Proxy-Wasm module: binds the filters of `bloc-engine` to Envoy. No decision is made here.
//!
//! With the same `vm_id`, module and VM configuration all three filters share one VM per thread,
//! and with it one [`Engine`](bloc_engine::root::Engine). [`contexts`] calls it, and it calls
//! [`envoy`].

#![allow(missing_docs, reason = "the macro of proxy-wasm writes an undocumented function")]
#![deny(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod abi;
mod contexts;
mod envoy;
mod stream;

use proxy_wasm::types::LogLevel;

proxy_wasm::main! {{
    proxy_wasm::set_log_level(LogLevel::Info);
    contexts::recover_from_panics();
    proxy_wasm::set_root_context(|context| contexts::root(context));
}}
