//! Steps and pauses.

use std::time::Duration;

pub const STEP: Duration = Duration::from_millis(100);
/// Steps in which a container is observed before it is admitted.
pub const JOIN_STEPS: u32 = 10;
/// How many seconds containers that use more than this node's lease wait for more.
pub const WAIT: u32 = 10;
/// How long a container is left alone after a foreign write.
pub const PAUSE: Duration = Duration::from_secs(60);
/// Steps between two checks, which look for foreign writes and new groups and update the status.
pub const CHECK_STEPS: u64 = 10;
/// A container is left alone after this many steps without counters, or checks without memory use.
pub const UNREAD_STEPS: u32 = 10;
pub const UNREAD_CHECKS: u32 = 2;
/// The pause after containers at their memory limit were served. The kernel reports each of them at
/// most every 10 ms.
pub const ALARM_PAUSE: Duration = Duration::from_millis(5);
