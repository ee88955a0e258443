//! Content of the memory files.

use super::text::field;
use crate::bytes::Bytes;
use serde::{Deserialize, Serialize};

/// Memory limits; none: unlimited.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    /// Above it, the kernel kills.
    pub max: Option<Bytes>,
    /// Above it, the kernel throttles. Version 1 has no such limit.
    pub high: Option<Bytes>,
}

impl Limits {
    /// The larger limit of each kind.
    pub fn larger(self, other: Self) -> Self {
        let larger = |a, b| if is_more(a, b) { a } else { b };
        Self { max: larger(self.max, other.max), high: larger(self.high, other.high) }
    }
}

pub(super) fn is_more(limit: Option<Bytes>, other: Option<Bytes>) -> bool {
    let size = |limit: Option<Bytes>| limit.map_or(u64::MAX, Bytes::get);
    size(limit) > size(other)
}

pub(super) fn smaller(limit: Option<Bytes>, other: Option<Bytes>) -> Option<Bytes> {
    if is_more(limit, other) { other } else { limit }
}

/// From here on, a number means unlimited. Version 1 shows 2^63, rounded down to pages.
const UNLIMITED: u64 = 1 << 62;

/// From a limit's file of either version.
pub(super) fn limit(text: &str) -> Option<Option<Bytes>> {
    match text.trim() {
        "max" => Some(None),
        number => number.parse().ok().map(|bytes| (bytes < UNLIMITED).then_some(Bytes::new(bytes))),
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// All that counts against the limits.
    pub total: Bytes,
    /// Inactive page cache.
    pub inactive: Bytes,
    /// The part of it that is also on disk, so the kernel can reclaim it at once.
    pub clean: Bytes,
    /// Processes that the kernel has killed for lack of memory.
    pub oom_kills: u64,
}

impl Usage {
    /// The kubelet's working set.
    pub fn working_set(self) -> Bytes {
        self.total - self.inactive
    }
}

/// From the usage file.
pub(super) fn total(text: &str) -> Option<Bytes> {
    text.trim().parse().ok().map(Bytes::new)
}

/// Inactive cache and its clean part, from `memory.stat` with the version's names.
pub(super) fn cache(stat: &str, inactive: &str, unclean: [&str; 2]) -> Option<(Bytes, Bytes)> {
    let inactive = Bytes::new(field(stat, inactive)?);
    let unclean = unclean.iter().filter_map(|name| field(stat, name)).map(Bytes::new).sum();
    Some((inactive, inactive - unclean))
}

/// From `memory.events` or `memory.oom_control`; older kernels lack it in the latter.
pub(super) fn oom_kills(events: &str) -> u64 {
    field(events, "oom_kill").unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_limits_of_both_versions() {
        for (text, bytes) in [
            ("max\n", None),
            ("9223372036854771712\n", None),
            ("4611686018427387904\n", None),
            ("4611686018427387903\n", Some(Bytes::new((1 << 62) - 1))),
            ("1048576\n", Some(Bytes::mebi(1))),
            ("0", Some(Bytes::ZERO)),
        ] {
            assert_eq!(limit(text), Some(bytes), "{text:?}");
        }
        for text in ["", "-1", "maximum", "1.5", "4Mi", "99999999999999999999"] {
            assert_eq!(limit(text), None, "{text:?}");
        }
    }

    #[test]
    fn no_limit_is_more_than_any() {
        let [one, two] = [1, 2].map(|mebi| Some(Bytes::mebi(mebi)));
        for (a, b, more) in [
            (two, one, true),
            (one, one, false),
            (one, two, false),
            (None, two, true),
            (two, None, false),
            (None, None, false),
        ] {
            assert_eq!(is_more(a, b), more, "{a:?}, {b:?}");
        }
        assert_eq!((smaller(one, two), smaller(two, one), smaller(None, two)), (one, one, two));
        let limits = |max, high| Limits { max, high };
        assert_eq!(limits(one, two).larger(limits(two, one)), limits(two, two));
        assert_eq!(limits(one, None).larger(limits(None, one)), limits(None, None));
    }

    #[test]
    fn limits_are_kept_as_numbers_of_bytes() {
        let limits = Limits { max: Some(Bytes::mebi(1)), high: None };
        let json = serde_json::to_string(&limits).unwrap();
        assert_eq!(json, r#"{"max":1048576,"high":null}"#);
        assert_eq!(serde_json::from_str::<Limits>(&json).unwrap(), limits);
    }

    #[test]
    fn reads_what_is_used_and_who_was_killed() {
        assert_eq!(total("4096\n"), Some(Bytes::new(4_096)));
        assert_eq!((total("max"), total("")), (None, None));
        let v1 = "cache 9\ninactive_file 5\ntotal_inactive_file 7\ntotal_dirty 2\ntotal_writeback 1\n";
        let cache = |stat, inactive| {
            cache(stat, inactive, ["total_dirty", "total_writeback"]).map(|(all, clean)| (all.get(), clean.get()))
        };
        assert_eq!(cache(v1, "total_inactive_file"), Some((7, 4)));
        assert_eq!(cache("anon 1\ninactive_file 5\n", "inactive_file"), Some((5, 5)));
        assert_eq!(cache("inactive_file 5\ntotal_dirty 6\n", "inactive_file"), Some((5, 0)));
        assert_eq!(cache("inactive_file_x 5\ninactive_file x\n", "inactive_file"), None);
        assert_eq!(oom_kills("low 0\nhigh 4\nmax 3\noom 2\noom_kill 1\noom_group_kill 6\n"), 1);
        assert_eq!(oom_kills("oom_kill_disable 0\nunder_oom 0\n"), 0);
    }

    #[test]
    fn the_working_set_is_without_inactive_cache() {
        let usage =
            |total, inactive| Usage { total: Bytes::new(total), inactive: Bytes::new(inactive), ..Usage::default() };
        assert_eq!(usage(10, 3).working_set(), Bytes::new(7));
        assert_eq!(usage(3, 10).working_set(), Bytes::ZERO);
    }
}
