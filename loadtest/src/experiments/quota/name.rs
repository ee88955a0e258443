//! What is measured in turns.

use super::allocator::Allocator;
use super::memory::allocator::MemoryAllocator;
use super::qos::case::QosCase;
use crate::experiments::follow::case::FollowCase;
use serde::{Serialize, Serializer};

/// What is measured in turns: an allocator, or what the agent costs on a full node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Name {
    /// An allocator.
    Of(Allocator),
    /// The cost on a full node.
    Cost,
    /// An allocator of memory.
    Memory(MemoryAllocator),
    /// Who sets CPU shares.
    Qos(QosCase),
    /// A sidecar that follows a quota.
    Follow(FollowCase),
}

/// What is compared in a table of its own, in the order of tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// CPU quotas.
    Quotas,
    /// CPU quotas on several nodes.
    Nodes,
    /// Limits of memory.
    Memory,
    /// CPU shares.
    Shares,
    /// Sidecars that follow.
    Follow,
    /// How soon they do.
    Delays,
}

impl Kind {
    /// In the order of tables.
    pub const ALL: [Self; 6] = [Self::Quotas, Self::Nodes, Self::Memory, Self::Shares, Self::Follow, Self::Delays];

    /// Whether its turns need Envoy, the module and the control plane.
    pub const fn has_sidecars(self) -> bool {
        matches!(self, Self::Shares | Self::Follow | Self::Delays)
    }
}

impl Name {
    /// All, in the order of tables.
    pub fn all() -> impl Iterator<Item = Self> {
        let (one, nodes): (Vec<_>, Vec<_>) = Allocator::ALL.into_iter().partition(|allocator| allocator.nodes() == 1);
        let quotas = one.into_iter().map(Self::Of).chain([Self::Cost]).chain(nodes.into_iter().map(Self::Of));
        let others = MemoryAllocator::ALL.map(Self::Memory).into_iter().chain(QosCase::ALL.map(Self::Qos));
        quotas.chain(others).chain(FollowCase::ALL.map(Self::Follow))
    }

    /// What it is about.
    pub const fn kind(self) -> Kind {
        match self {
            Self::Of(Allocator::NodesEqual | Allocator::NodesLeases) => Kind::Nodes,
            Self::Of(_) | Self::Cost => Kind::Quotas,
            Self::Memory(_) => Kind::Memory,
            Self::Qos(_) => Kind::Shares,
            Self::Follow(FollowCase::Answers(..)) => Kind::Follow,
            Self::Follow(FollowCase::Delay) => Kind::Delays,
        }
    }

    /// Its name on the command line and in tables.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Of(allocator) => allocator.name(),
            Self::Cost => "cost",
            Self::Memory(allocator) => allocator.name(),
            Self::Qos(case) => case.name(),
            Self::Follow(case) => case.name(),
        }
    }

    /// Whether its turn has a node agent.
    pub const fn has_agent(self) -> bool {
        match self {
            Self::Of(allocator) => allocator.has_agent(),
            Self::Cost | Self::Follow(_) => true,
            Self::Memory(allocator) => matches!(allocator, MemoryAllocator::Agent),
            Self::Qos(case) => matches!(case, QosCase::Agent),
        }
    }
}

impl Serialize for Name {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_is_together() {
        let kinds = Name::all().map(Name::kind).collect::<Vec<_>>();
        assert_eq!(
            kinds,
            [
                &[Kind::Quotas; 7][..],
                &[Kind::Nodes; 2],
                &[Kind::Memory; 3],
                &[Kind::Shares; 2],
                &[Kind::Follow; 4],
                &[Kind::Delays; 1]
            ]
            .concat()
        );
    }

    #[test]
    fn names_that_need_an_agent_or_sidecars() {
        let those =
            |needs: fn(Name) -> bool| Name::all().filter(|name| needs(*name)).map(Name::name).collect::<Vec<_>>();
        let follow = FollowCase::ALL.map(FollowCase::name);
        let agents = ["agent", "cost", "nodes-equal", "nodes-leases", "memory-agent", "qos-agent"];
        assert_eq!(those(Name::has_agent), [&agents[..], &follow].concat());
        assert_eq!(those(|name| name.kind().has_sidecars()), [&["qos-shares", "qos-agent"][..], &follow].concat());
    }
}
