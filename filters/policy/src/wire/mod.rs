//! What crosses a process border in headers: their names, and how their values are read and
//! written.
//!
//! | header | value | from | to |
//! |---|---|---|---|
//! | `x-bloc-bid` | [`bid`] | a caller's proxy | a server's |
//! | `x-bloc-load` | [`load_report`] | a server's proxy | a caller's |
//! | `endpoint-load-metrics` | [`orca`] | a server's proxy | balancers that are not ours |
//! | `x-bloc-reject` | [`reason`] | a server's proxy | a caller's |
//! | `x-bloc-endpoints` | [`endpoints`] | `bloc.outbound` | Envoy's router and `bloc.attempt` |
//! | `x-bloc-why` | [`why`] | either | people |
//!
//! A value that cannot be read is none, and never an error. [`offer`] is the arithmetic of offers,
//! which both sides need; [`body`] says which bodies are too large to be held or sent again.

pub mod bid;
pub mod body;
pub mod decimal;
pub mod endpoints;
pub mod headers;
pub mod load_report;
pub mod offer;
pub mod orca;
pub mod reason;
pub mod why;
