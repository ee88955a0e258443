//! The agent of one node: it reads the kernel's counters, decides, and writes quotas and limits.
//!
//! [`Agent::step`] is one step of 100 ms; between two, [`Agent::wait`] serves those that are at
//! their limit of memory. Time is handed in. Failures of single groups are counted and logged, and
//! never end it.
//!
//! | part | what it does |
//! |---|---|
//! | `node_agent` | all applications of a node |
//! | `cpu_app` | the CPU of one application, each step |
//! | `cpu_lease` | the same with a limit over nodes, of which this one holds a part |
//! | `cpu_status` | what is shown of it |
//! | `reading` | what was counted of a container's CPU |
//! | `memory_app`, `memory_grants`, `memory_files` | the memory of one application: who comes and goes; each second, and when a container asks; its files |
//! | `qos_app` | the CPU shares of one application, each second |
//! | `resource` | what is the same for each resource: containers come and go |
//! | `groups` | containers of an application, and one resource in their files |
//! | `member` | one container |
//! | `pod_group` | a pod's own group, which must not have less than its containers need |
//! | `node` | what applications share: the tree, the originals, the counters |
//! | `timing` | steps and pauses |
//! | `tally` | what is counted |
//! | [`status`] | what the metrics show |
//!
//! A container that comes is observed for [`JOIN_STEPS`], then comes under the limit of CPU with
//! what it used and the slack; under that of memory at once. If the limit leaves no room, it keeps
//! its own, and it is tried again each second.
//!
//! CPU shares move once a second, by the response times that the control plane tells. A container
//! that comes starts with its own at once. One that is left alone has its own.
//!
//! If a quota, a limit or shares are not what the agent has written, somebody else owns them: the
//! kubelet's resize in place, a vertical autoscaler, systemd's `daemon-reload`. The agent takes
//! them as the original and leaves that resource of the container alone for [`PAUSE`]; so too if it
//! cannot be written, or if the counters cannot be read for [`UNREAD_STEPS`] or [`UNREAD_CHECKS`].
//! Such a container gets at least its own, and its share of the limit stays reserved.
//!
//! Memory in the files. Version 2: `memory.high` is the limit, at which the kernel holds a
//! container up and tells the agent, and `memory.max` a step more, at which it kills. Page cache
//! above the limits is taken 256 MiB a second. If nobody has memory to give, `memory.high` is
//! raised to `memory.max`: a container that is only held up would hang. Version 1, for tests only,
//! has no such limit: the kernel tells the agent at the limit and holds nobody up.

mod cpu_app;
mod cpu_lease;
mod cpu_status;
mod groups;
mod member;
mod memory_app;
mod memory_files;
mod memory_grants;
mod node;
mod node_agent;
mod pod_group;
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
