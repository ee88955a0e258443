//! The headers that cross a process border. An unreadable value counts as absent, never as an
//! error.
//!
//! | header | value | from | to |
//! |---|---|---|---|
//! | `x-bloc-bid` | [`bid`] | a caller's proxy | a server's |
//! | `x-bloc-load` | [`load_report`] | a server's proxy | a caller's |
//! | `endpoint-load-metrics` | [`orca`] | a server's proxy | other balancers |
//! | `x-bloc-reject` | [`reason`] | a server's proxy | a caller's |
//! | `x-bloc-endpoints` | [`endpoints`] | `bloc.outbound` | Envoy's router and `bloc.attempt` |
//! | `x-bloc-why` | [`why`] | either | people |

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
