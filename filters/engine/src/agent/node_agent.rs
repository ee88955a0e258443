//! What one thread has of the node agent, which it [asks](super::node_agent_polls) itself.

use crate::host::Host;
use bloc_policy::cpu::{Source, Supply};
use bloc_policy::polls::Polls;
use bloc_policy::units::Timestamp;
use std::collections::BTreeSet;

/// After more failures in a row than this no tick is made sooner for the next poll. Up to this, the
/// pauses are 2 s at most, as when an agent restarts.
const QUICK_FAILURES: u32 = 3;

/// What one VM has of the node agent.
pub(super) struct NodeAgent {
    /// Envoy's cluster of its socket; none: it is not asked.
    pub(super) cluster: Option<String>,
    /// The cluster asked last; empty: none yet.
    pub(super) asks: String,
    pub(super) supply: Supply,
    pub(super) polls: Polls,
}

impl Default for NodeAgent {
    fn default() -> Self {
        let (supply, polls) = (Supply::of(Source::NodeAgent), Polls::default());
        Self { cluster: None, asks: String::new(), supply, polls }
    }
}

impl NodeAgent {
    /// Takes over what the threads share. Returns whether that changes anything here.
    pub(super) fn look(&mut self, host: &impl Host, now: Timestamp) -> bool {
        self.cluster.is_some() && self.supply.look(host, now)
    }

    pub(super) fn is_due(&self, now: Timestamp) -> bool {
        self.cluster.is_some() && self.polls.is_due(&BTreeSet::new(), &BTreeSet::new(), now)
    }

    /// Whether nothing has to be done before an answer comes, or before a tick that comes anyway.
    pub(super) fn can_wait(&self) -> bool {
        self.cluster.is_none() || self.polls.is_under_way() || self.polls.failures() > QUICK_FAILURES
    }
}
