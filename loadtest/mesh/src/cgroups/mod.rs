//! Where this machine has its control groups, and groups as the kubelet makes them for containers.
//!
//! Supports cgroup v1 (controllers in hierarchies of their own) and v2 (one hierarchy). Making
//! groups needs root.

mod containers;
mod memory;
mod place;
mod shares;
mod text;

pub use containers::{Container, Containers, GroupError, NoContainers};
pub use memory::{ContainerMemory, Memory};
pub(crate) use place::{Place, Version};
pub use text::CpuCounters;
