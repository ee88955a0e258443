//! The three filters in real Envoys with two workers each: what clients and backends saw.
//!
//! Needs target/bloc.wasm and Envoy, and for the tests of the control plane its binary; `make test`
//! provides all three.

mod bodies;
mod chain;
mod configuration;
mod control_plane;
mod crash;
mod discovery;
mod failure;
mod failures;
mod grpc;
mod headers;
mod hold;
mod in_flight;
mod istio;
mod lifecycle;
mod mirror;
mod orca;
mod price;
mod rejection;
mod report;
mod retries;
mod stall;
mod streams;
mod support;
mod trespass;
mod uploads;
mod websocket;
mod why;
