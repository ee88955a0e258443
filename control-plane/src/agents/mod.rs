//! What node agents ask of the control plane: `POST /v1/cpu` and `POST /v1/lease`.
//!
//! Parameters and endpoints need nothing of this.

pub(crate) mod routes;

use crate::http::identity::NodeAgent;
use crate::leases::{Leases, Tokens};

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
