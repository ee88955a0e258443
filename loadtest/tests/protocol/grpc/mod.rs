//! Real gRPC: tonic on both sides, and HTTP/2 all the way through the caller's sidecar and those of
//! the servers, each with two workers.
//!
//! Tests without gRPC are not here but beside this folder.

mod app;
mod client;
mod dead;
mod deadlines;
mod failing;
mod gone;
mod held;
mod mesh;
mod passing;
mod rejection;
mod wrong;
