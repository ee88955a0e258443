//! The kernel's files: what a container used, and what it may use.
//!
//! | version | quota and period, in microseconds | use | periods and throttled periods |
//! |---|---|---|---|
//! | v2 | `cpu.max`: `max 100000` or `50000 100000` | `cpu.stat`: `usage_usec` | `cpu.stat`: `nr_periods`, `nr_throttled` |
//! | v1 | `cpu.cfs_quota_us` (-1: none), `cpu.cfs_period_us` | `cpuacct.usage`, in nanoseconds, in the hierarchy of `cpuacct` | `cpu.stat` of the hierarchy of `cpu` |
//!
//! The kubelet refuses v1 by default; v1 is for tests on machines that have no other.
//!
//! v1 refuses a container's quota above its pod's, and a pod's below a container's, with EINVAL; v2
//! takes both, and the smaller one holds.

mod error;
mod file;
mod locate;
mod text;
mod tree;

pub use error::GroupError;
pub use locate::{Located, locate};
pub use text::{Bandwidth, Counters};
pub use tree::{Group, Tree, Version};
