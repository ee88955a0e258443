//! The agent of one node: it reads the kernel's counters, decides, and writes quotas and limits.
//!
//! [`Agent::step`] is one step of 100 ms; between steps, [`Agent::wait`] serves containers at their
//! memory limit. The caller passes in the time. Failures of single groups are counted and logged,
//! and never end the agent.
//!
//! | part | contents |
//! |---|---|
//! | `node_agent` | all applications of a node |
//! | `cpu_app`, `cpu_lease` | the CPU of one application; with a cluster-wide limit |
//! | `reading` | a container's CPU counters |
//! | `memory_app`, `memory_grants` | the memory of one application; grants and limits |
//! | `qos_app` | the CPU shares of one application |
//! | `resource` | what all resources have in common |
//! | `groups`, `member` | an application's containers and pods, and one resource in their files |
//! | `node` | what applications share: the tree, the originals, the counters |
//! | `timing`, `tally` | steps and pauses; failures |
//! | [`status`] | what the metrics show |
//!
//! A new container is observed for [`JOIN_STEPS`]. Then its CPU comes under the limit, with its use
//! plus the slack. Memory comes under the limit at once, and CPU shares start with the container's
//! own. If the limit has no room, the container keeps its own setting; the agent retries each
//! second.
//!
//! If a setting differs from what the agent wrote, somebody else owns it: the kubelet (in-place
//! resize), a vertical autoscaler or systemd's `daemon-reload`. The agent takes it as the original
//! and leaves that resource of the container alone for [`PAUSE`]. It also does so after a failed
//! write, or after [`UNREAD_STEPS`] or [`UNREAD_CHECKS`] without readings. Such a container gets at
//! least its own setting, and its part of the limit stays reserved.
//!
//! `adr/0003-memory.md` explains the limits in the memory files.

mod cpu_app;
mod cpu_lease;
mod groups;
mod member;
mod memory_app;
mod memory_grants;
mod node;
mod node_agent;
mod qos_app;
mod reading;
mod resource;
pub mod status;
mod tally;
#[cfg(test)]
mod tests;
mod timing;

pub use node::Capacity;
pub use node_agent::Agent;
pub use timing::{CHECK_STEPS, JOIN_STEPS, PAUSE, STEP, UNREAD_CHECKS, UNREAD_STEPS, WAIT};
