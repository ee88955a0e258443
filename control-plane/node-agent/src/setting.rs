//! What the files of a group say about one resource.

use crate::bytes::Bytes;
use crate::cgroup::{Bandwidth, Group, GroupError, Limits, Weight};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::fmt::Debug;

pub trait Setting: Copy + Eq + Debug + Serialize + DeserializeOwned {
    /// The name of the file that keeps the originals.
    const FILE: &'static str;

    fn read(group: &Group) -> Result<Self, GroupError>;
    fn put(self, group: &Group) -> Result<(), GroupError>;

    /// Writes it to a group. `written` is what the files have, before and after this, even after an
    /// error: the kernel may round, and some files may be written before another one fails.
    fn write(self, group: &Group, written: &mut Self) -> Result<(), GroupError> {
        self.put(group)?;
        *written = self;
        Ok(())
    }

    /// This setting, or the nearest one that the kernel allows in `group`.
    #[must_use]
    fn possible(self, group: &Group) -> Self {
        let _ = group;
        self
    }

    /// The amount in the unit of `like`, rounded up; none: unlimited.
    fn amount(self, like: Self) -> Option<u64>;

    /// The same setting with another amount, in its own unit.
    fn with_amount(self, amount: u64) -> Self;

    /// What a group that has `self` gets when no agent manages it any more: it loses nothing that
    /// it may need.
    #[must_use]
    fn released(self, original: Self) -> Self {
        if self.is_above(original) { self } else { original }
    }

    /// The original of a group that has `self` although the agent wrote `written`: somebody else
    /// made the difference.
    #[must_use]
    fn adopted(self, written: Self, original: Self) -> Self {
        if self == written { original } else { self }
    }

    fn is_above(self, other: Self) -> bool {
        match (self.amount(other), other.amount(other)) {
            (_, None) => false,
            (None, _) => true,
            (Some(amount), Some(other)) => amount > other,
        }
    }
}

/// CPU: the amount is in microseconds of the period.
impl Setting for Bandwidth {
    const FILE: &'static str = "originals.json";

    fn read(group: &Group) -> Result<Self, GroupError> {
        group.bandwidth()
    }

    fn put(self, group: &Group) -> Result<(), GroupError> {
        group.set(self)
    }

    /// The kernel refuses a quota below the burst of the group.
    fn possible(self, group: &Group) -> Self {
        let least = self.with_amount(group.burst().unwrap_or(0));
        if least.is_above(self) { least } else { self }
    }

    fn amount(self, like: Self) -> Option<u64> {
        self.quota_in(like.period)
    }

    fn with_amount(self, amount: u64) -> Self {
        Self { quota: Some(amount), ..self }
    }
}

/// Memory: the amount is the maximum in bytes.
impl Setting for Limits {
    const FILE: &'static str = "memory.json";

    fn read(group: &Group) -> Result<Self, GroupError> {
        group.memory()
    }

    fn put(self, group: &Group) -> Result<(), GroupError> {
        group.set_memory(self)
    }

    fn write(self, group: &Group, written: &mut Self) -> Result<(), GroupError> {
        let mut done = self.put(group);
        if done.as_ref().is_err_and(GroupError::is_in_use) {
            // A group that cannot shrink must not be throttled either.
            let now = group.memory()?;
            let lifted = group.set_memory(Self { max: now.max, ..self.larger(now) });
            done = lifted.and(done);
        }
        *written = group.memory()?;
        done
    }

    fn adopted(self, written: Self, original: Self) -> Self {
        let adopted = |now, written, original| if now == written { original } else { now };
        Self {
            max: adopted(self.max, written.max, original.max),
            high: adopted(self.high, written.high, original.high),
        }
    }

    fn amount(self, _: Self) -> Option<u64> {
        self.max.map(Bytes::get)
    }

    fn with_amount(self, amount: u64) -> Self {
        Self { max: Some(Bytes::new(amount)), ..self }
    }

    fn released(self, original: Self) -> Self {
        self.larger(original)
    }
}

/// CPU shares limit nothing, so they have no amount.
impl Setting for Weight {
    const FILE: &'static str = "shares.json";

    fn read(group: &Group) -> Result<Self, GroupError> {
        group.weight()
    }

    fn put(self, group: &Group) -> Result<(), GroupError> {
        group.set_weight(self)
    }

    fn amount(self, _: Self) -> Option<u64> {
        None
    }

    fn with_amount(self, _: u64) -> Self {
        self
    }

    /// Moved shares would favour a container for ever, and taking them back throttles nobody.
    fn released(self, original: Self) -> Self {
        original
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotas_of_different_periods_compare_by_cores() {
        let of = |quota, period| Bandwidth { quota, period };
        for (a, b, above) in [
            (of(Some(2), 10), of(Some(1), 10), true),
            (of(Some(1), 10), of(Some(1), 10), false),
            (of(Some(2), 20), of(Some(1), 10), false),
            (of(None, 10), of(Some(1), 10), true),
            (of(Some(1), 10), of(None, 10), false),
            (of(None, 10), of(None, 10), false),
        ] {
            assert_eq!(a.is_above(b), above, "{a:?} {b:?}");
            assert_eq!(a.released(b), if above { a } else { b });
        }
        assert_eq!(of(None, 10).with_amount(3), of(Some(3), 10));
    }

    #[test]
    fn only_what_somebody_else_has_written_is_adopted() {
        let limits = |max: u64, high: u64| Limits { max: Some(Bytes::new(max)), high: Some(Bytes::new(high)) };
        let (written, original) = (limits(5, 4), limits(9, 8));
        for (now, adopted) in [
            (written, original),
            (limits(6, 4), limits(6, 8)),
            (limits(5, 3), limits(9, 3)),
            (limits(6, 3), limits(6, 3)),
        ] {
            assert_eq!(now.adopted(written, original), adopted);
        }
        for (now, adopted) in [(5, 9), (6, 6)] {
            assert_eq!(Weight::Weight(now).adopted(Weight::Weight(5), Weight::Weight(9)), Weight::Weight(adopted));
        }
        let quota = |quota| Bandwidth { quota: Some(quota), period: 10 };
        assert_eq!(quota(5).adopted(quota(5), quota(9)), quota(9));
        assert_eq!(quota(6).adopted(quota(5), quota(9)), quota(6));
    }
    #[test]
    fn a_release_gives_limits_the_larger_one_and_weights_their_original() {
        let limits = |max: u64| Limits { max: Some(Bytes::new(max)), high: None };
        assert_eq!((limits(2).released(limits(1)), limits(1).released(limits(2))), (limits(2), limits(2)));
        for (now, original) in [(5, 9), (9, 5)] {
            assert_eq!(Weight::Shares(now).released(Weight::Shares(original)), Weight::Shares(original));
        }
        let weight = Weight::Weight(5);
        assert!(weight.amount(weight).is_none() && !weight.is_above(Weight::Weight(4)));
        assert_eq!(weight.with_amount(7), weight);
    }
}
