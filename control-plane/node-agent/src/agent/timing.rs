//! Steps and pauses.

use std::time::Duration;

/// The time between two steps.
pub const STEP: Duration = Duration::from_millis(100);
/// Steps that a container is observed before it comes under the limit.
pub const JOIN_STEPS: u32 = 10;
/// How often, once a second, containers that use more than this node holds of a limit over nodes
/// wait for more.
pub const WAIT: u32 = 10;
/// How long a container is left alone if somebody else has written its quota.
pub const PAUSE: Duration = Duration::from_secs(60);
/// Each so many steps all quotas are compared with what was written, containers without a group are
/// looked for, and the status is made anew.
pub const CHECK_STEPS: u64 = 10;
/// After so many steps without counters a container is left alone.
pub const UNREAD_STEPS: u32 = 10;
/// After so many looks, one a second, without its use a container's memory is left alone.
pub const UNREAD_CHECKS: u32 = 2;
/// How long the agent rests after it has served those that are at their limit of memory. The kernel
/// reports each of them at most every 10 ms.
pub const ALARM_PAUSE: Duration = Duration::from_millis(5);
