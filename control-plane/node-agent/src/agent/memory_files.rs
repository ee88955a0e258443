//! The limits of memory in the files of a container.

use super::member::Member;
use super::memory_app::Use;
use crate::bytes::Bytes;
use crate::cgroup::{Limits, Usage, Version};
use crate::memory::Rule;

/// By how much a limit has to change to be written: the kernel counts in pages.
const LEAST_CHANGE: Bytes = Bytes::mebi(1);
/// What a container shall have in its files. `cache` is how much page cache may be taken yet.
pub(super) fn target(
    version: Version,
    rule: Rule,
    member: &Member<Limits, Use>,
    limit: Bytes,
    cache: &mut Bytes,
) -> Limits {
    let Use { last: Usage { total, clean, .. }, short, .. } = member.more;
    let max = limit + rule.step;
    let max = match member.written.max {
        Some(now) if now <= max => max,
        // It falls only as far as page cache has been taken.
        Some(now) => max.max(total + rule.step).min(now),
        None => max.max(total + rule.step),
    };
    let high = match version {
        Version::V1 => None,
        // A container that is held up and gets no more would hang.
        Version::V2 if short => Some(max),
        Version::V2 => {
            let taken = (total - limit).min(clean).min(*cache);
            *cache -= taken;
            // What has been taken is not given back.
            let most = member.written.high.unwrap_or(max).max(limit);
            Some(limit.max(total - taken).min(most))
        }
    };
    Limits { max: Some(max), high }
}

/// Whether a limit is to be written.
pub(super) fn differs(to: Limits, now: Limits) -> bool {
    let differs = |to: Option<Bytes>, now: Option<Bytes>| match (to, now) {
        (Some(to), Some(now)) => to - now >= LEAST_CHANGE || now - to >= LEAST_CHANGE,
        (to, now) => to != now,
    };
    differs(to.max, now.max) || differs(to.high, now.high)
}
