//! A strict Proxy-Wasm 0.2.1 host on wasmtime, which runs the real bloc.wasm in tests and benches.
//!
//! This folder holds the host and the measurements. The tests of the filters are in `tests/guest`.
//!
//! Start at [`Process`] (an Envoy), [`Vm`] (one of its worker threads), [`Root`] (a plugin) and
//! [`Stream`] (a request or an attempt). [`Caller`] and [`Server`] play whole requests. [`steady`]
//! and [`gates`] measure the cost of a request, [`soak`] checks the memory, [`probe`] and
//! [`conformance`] compare this host with Envoy. The README has an example, and lists what differs
//! from Envoy.
//!
//! A host call that Envoy would refuse, or that a guest must not make, is a [`Fault`] and panics at
//! the end of the callback.

mod abi;
mod calls;
mod common;
pub mod conformance;
mod context;
mod cost;
mod exchange;
mod exports;
pub mod gates;
mod guest;
mod headers;
pub mod history;
mod instance;
mod listener;
mod metrics;
mod module;
mod options;
pub mod probe;
mod process;
mod root;
mod shared;
pub mod soak;
mod status;
pub mod steady;
mod stream;
mod timers;
mod vm;

pub use calls::HttpCall;
pub use common::LogLine;
pub use context::LocalReply;
pub use cost::Cost;
pub use exchange::server::Server;
pub use exchange::{Attempt, Caller, Last, Outcome, Request, Response, RetryPolicy};
pub use headers::{HeaderMap, Headers};
pub use listener::Listener;
pub use module::{Compile, Module, ModuleError, just_built};
pub use options::{FailurePolicy, VmOptions};
pub use process::Process;
pub use root::Root;
pub use status::{Fault, Status};
pub use stream::{Flow, Stream};
pub use vm::{Refused, Vm};
