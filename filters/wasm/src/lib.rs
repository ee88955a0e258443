//! The Proxy-Wasm module: binds the filters of `bloc-engine` to Envoy. It decides nothing.
//!
//! All three filters have the same `vm_id`, module and VM configuration, so they share one VM per
//! thread, and one [`Engine`](bloc_engine::root::Engine). `contexts` calls the engine, which
//! calls `envoy`.

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
