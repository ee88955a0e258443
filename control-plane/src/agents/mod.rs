//! What the control plane has for node agents. Parameters and endpoints need nothing of it.
//!
//! | module | what |
//! |---|---|
//! | `routes` | `POST /v1/cpu` and `POST /v1/lease` |
//! | [`cpu`] | what agents say of the CPU of pods, and which proxies are told |
//! | [`leases`] | which node holds which part of a CPU limit |
//! | `metrics` | leases as gauges |

pub mod cpu;
pub mod leases;
pub(crate) mod metrics;
pub(crate) mod routes;

use crate::http::identity::NodeAgent;
use leases::{Leases, Tokens};

/// Who the node agents are, and what they may ask.
#[derive(Clone, Debug, Default)]
pub struct Agents {
    /// Who may ask, if an identity is required.
    pub account: NodeAgent,
    /// The tokens by which agents prove on which node they run, if an identity is required; none:
    /// they need none.
    pub tokens: Option<Tokens>,
    /// Which node holds which part of a CPU limit; none: there is no store for that.
    pub leases: Option<Leases>,
}
