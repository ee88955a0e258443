//! The agent of one node: it reads the kernel's counters, decides, and writes quotas.
//!
//! [`Agent::step`] is one step of 100 ms. Time is handed in. Failures of single groups are counted
//! and logged, and never end it.
//!
//! | part | what it does |
//! |---|---|
//! | `node_agent` | all applications of a node |
//! | `app` | one application: containers come and go |
//! | `files` | its quotas in the files |
//! | `member` | one container |
//! | `pod_group` | a pod's own quota, which must not be below its containers' |
//! | `node` | what applications share: the tree, the originals, the counters |
//! | `timing` | steps and pauses |
//! | `tally` | what is counted |
//! | [`status`] | what the metrics show |
//!
//! A container that comes is observed for [`JOIN_STEPS`], then comes under the limit with what it
//! used and the slack. If the limit leaves no room, it keeps its own quota, and it is tried again
//! each second.
//!
//! If a quota is not what the agent has written, somebody else owns it: the kubelet's resize in
//! place, a vertical autoscaler, systemd's `daemon-reload`. The agent takes it as the original and
//! leaves the container alone for [`PAUSE`]; so too if a quota cannot be written, or if the
//! counters cannot be read for [`UNREAD_STEPS`]. Such a container gets at least its own quota, and
//! its share of the limit stays reserved.

mod app;
mod files;
mod member;
mod node;
mod node_agent;
mod pod_group;
pub mod status;
mod tally;
#[cfg(test)]
mod tests;
mod timing;

pub use node_agent::Agent;
pub use timing::{CHECK_STEPS, JOIN_STEPS, PAUSE, STEP, UNREAD_STEPS};
