//! The three filters in real Envoys with two workers each: what clients and backends see.
//!
//! Performance is not tested here: `bloc-lab` measures it. Tests that need Istio are in
//! `istio-manifests/e2e`.
//!
//! Needs target/bloc.wasm, Envoy and, for its tests, the binary of the control plane; `make test`
//! provides all three.

mod bodies;
mod chain;
mod cold;
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
mod late;
mod latency;
mod lifecycle;
mod local_replies;
mod marked;
mod mirror;
mod orca;
mod overflow;
mod price;
mod rejection;
mod report;
mod retries;
mod stall;
mod streams;
mod support;
mod trespass;
mod uploads;
mod versions;
mod websocket;
mod why;
mod wrong;
