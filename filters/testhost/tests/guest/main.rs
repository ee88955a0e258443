//! Runs the real module in this host, and tests the strictness of the host itself.
//!
//! Tests that need no module are in `bloc-policy` and `bloc-engine`. Tests that need a real Envoy
//! are in `tests/envoy.rs` and `loadtest/tests/protocol`.
//!
//! Needs target/bloc.wasm, which `make wasm` builds.

mod admission;
mod bids;
mod bodies;
mod configuration;
mod control_plane;
mod counters;
mod failures;
mod gates;
mod histories;
mod hold;
mod hunted;
mod interleaved;
mod lies;
mod lifecycle;
mod listeners;
mod memory;
mod play;
mod proxy;
mod reports;
mod retries;
mod stall;
mod streams;
mod strictness;
mod support;
mod traps;
mod why;
