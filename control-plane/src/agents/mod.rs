//! The interface for node agents. Parameters and endpoints do not depend on it.
//!
//! | module | what |
//! |---|---|
//! | `routes` | `POST /v1/cpu` and `POST /v1/lease` |
//! | [`cpu`] | what agents report about the CPU of pods, and which proxies are told |
//! | [`leases`] | which node holds which part of a CPU limit |
//! | `metrics` | leases as gauges |

pub mod cpu;
pub mod leases;
pub(crate) mod metrics;
pub(crate) mod routes;

use crate::http::identity::NodeAgent;
use leases::{Leases, Tokens};

/// The identity of node agents, and what they may ask.
#[derive(Clone, Debug, Default)]
pub struct Agents {
    /// Who may ask, if an identity is required.
    pub account: NodeAgent,
    /// Checks on which node an agent runs, if an identity is required; none: no check.
    pub tokens: Option<Tokens>,
    /// Which node holds which part of a CPU limit; none: no store is configured.
    pub leases: Option<Leases>,
}
