//! Root ids, and the numbers and keys that several parts of a thread use.

use std::time::Duration;

/// One of the three filters, by the root id of its plugin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Plugin {
    /// `bloc.inbound`: the HTTP filter of the inbound listener.
    Inbound,
    /// `bloc.outbound`: the HTTP filter of the outbound listener or gateway.
    Outbound,
    /// `bloc.attempt`: the upstream HTTP filter of the router.
    Attempt,
}

impl Plugin {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Inbound, Self::Outbound, Self::Attempt];

    /// Its root id.
    pub const fn root_id(self) -> &'static str {
        match self {
            Self::Inbound => "bloc.inbound",
            Self::Outbound => "bloc.outbound",
            Self::Attempt => "bloc.attempt",
        }
    }

    /// The filter with this root id.
    pub fn of(root_id: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|plugin| plugin.root_id() == root_id)
    }
}

/// The tick period of a thread with few requests, or with something left to do; how often requests
/// hand the counters over.
pub const TICK: Duration = Duration::from_secs(1);

/// The last crashes of all threads in the shared data, see [`bloc_policy::proxy::crashes`].
pub const CRASHES_KEY: &str = "bloc/crashes";

/// The most clusters and services that a thread keeps state for; requests of others pass unchanged.
/// Envoy's configuration bounds the number; this limit guards against a mistake.
pub const MAX_CLUSTERS: usize = 10_000;
