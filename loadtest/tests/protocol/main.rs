//! The three filters in real Envoys with two workers each: what clients and backends saw.
//!
//! Needs target/bloc.wasm, Envoy and the control plane's binary, all of which `make test` provides.

mod configuration;
mod conformance;
mod control_plane;
mod crash;
mod discovery;
mod failure;
mod headers;
mod hold;
mod in_flight;
mod istio;
mod orca;
mod price;
mod rejection;
mod report;
mod support;
mod trespass;
mod why;
