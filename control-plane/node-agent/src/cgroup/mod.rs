//! The kernel's files: what a container uses, and what it may use.
//!
//! | version | quota and period, in microseconds | use | periods and throttled periods |
//! |---|---|---|---|
//! | v2 | `cpu.max`: `max 100000` or `50000 100000` | `cpu.stat`: `usage_usec` | `cpu.stat`: `nr_periods`, `nr_throttled` |
//! | v1 | `cpu.cfs_quota_us` (-1: unlimited), `cpu.cfs_period_us` | `cpuacct.usage`, in nanoseconds, in the `cpuacct` hierarchy | `cpu.stat` of the `cpu` hierarchy |
//!
//! Memory, in bytes; `max` (v2) or about 2^63 (v1, written as -1) is unlimited:
//!
//! | version | limits | use | reclaimable cache | killed for lack of memory | alarm |
//! |---|---|---|---|---|---|
//! | v2 | `memory.max`, and `memory.high`, above which a group is throttled | `memory.current` | `memory.stat`: `inactive_file` | `memory.events`: `oom_kill` | `memory.events` changes: inotify |
//! | v1 | `memory.limit_in_bytes` | `memory.usage_in_bytes` | `memory.stat`: `total_inactive_file` | `memory.oom_control`: `oom_kill` | a threshold in `cgroup.event_control`: eventfd |
//!
//! CPU shares: `cpu.weight` (v2, 1 to 10,000, usually 100) or `cpu.shares` (v1, 2 to 262,144,
//! usually 1,024).
//!
//! v1 is for tests on machines without v2: the kubelet refuses it by default. v1 refuses a
//! container's quota above its pod's, and a pod's below a container's, with EINVAL; v2 accepts both
//! and applies the smaller one.

mod alarms;
mod error;
mod file;
mod group;
mod limits;
mod locate;
mod memory;
mod text;
mod tree;
mod weight;

pub use alarms::Alarms;
pub use error::GroupError;
pub use group::Group;
pub use limits::{Limits, Usage};
pub use locate::{Located, locate};
pub use text::{Bandwidth, Counters, Version};
pub use tree::Tree;
pub use weight::Weight;
