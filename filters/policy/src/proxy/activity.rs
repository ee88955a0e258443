//! Whether a stream carries anything; an idle stream is no load.
//!
//! A filter looks at the bytes of a stream from time to time. The stream becomes idle when they
//! have not changed for `T` (the parameter `streamIdle`), and counts again at the next look that
//! finds a change. With looks every `T / 2` it becomes idle `T` to `1.5 T` after its last byte, and
//! counts again within `T / 2`. Not in the paper. Reasons: `filters/adr/0012-idle-streams.md`.

use crate::units::Timestamp;
use std::time::Duration;

/// Bytes that a stream has carried.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Carried {
    /// Bytes of the request.
    pub request: u64,
    /// Bytes of the response.
    pub response: u64,
}

/// The result of a look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// No change.
    None,
    /// The stream no longer counts.
    Idle,
    /// The stream counts again.
    Active,
}

/// What is known of a stream.
#[derive(Clone, Copy, Debug, Default)]
pub struct Activity {
    carried: Carried,
    /// When these numbers were first seen; none before the first look.
    since: Option<Timestamp>,
    is_idle: bool,
}

impl Activity {
    /// Whether the stream is idle, and does not count.
    pub fn is_idle(&self) -> bool {
        self.is_idle
    }

    /// Looks at the stream, which has `carried` this much; `idle_after` is `T`.
    pub fn look(&mut self, carried: Carried, idle_after: Duration, now: Timestamp) -> Change {
        let since = *self.since.get_or_insert(now);
        if self.carried != carried {
            (self.carried, self.since) = (carried, Some(now));
            return if std::mem::take(&mut self.is_idle) { Change::Active } else { Change::None };
        }
        if self.is_idle || now.since(since) < idle_after {
            return Change::None;
        }
        self.is_idle = true;
        Change::Idle
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const T: Duration = Duration::from_secs(1);

    fn at(millis: u64) -> Timestamp {
        Timestamp::ZERO.after(Duration::from_millis(millis))
    }

    fn carried(request: u64, response: u64) -> Carried {
        Carried { request, response }
    }

    #[test]
    fn a_stream_that_carries_nothing_becomes_idle_once() {
        let mut stream = Activity::default();
        assert_eq!(stream.look(carried(5, 7), T, at(500)), Change::None);
        assert_eq!(stream.look(carried(5, 7), T, at(1499)), Change::None);
        assert_eq!(stream.look(carried(5, 7), T, at(1500)), Change::Idle);
        assert!(stream.is_idle());
        assert_eq!(stream.look(carried(5, 7), T, at(9000)), Change::None, "once");
    }

    #[test]
    fn a_stream_that_never_carried_anything_becomes_idle_too() {
        let mut stream = Activity::default();
        assert_eq!(stream.look(Carried::default(), T, at(500)), Change::None);
        assert_eq!(stream.look(Carried::default(), T, at(1500)), Change::Idle);
    }

    #[test]
    fn bytes_in_either_direction_make_an_idle_stream_active() {
        for more in [carried(6, 7), carried(5, 8), carried(4, 7)] {
            let mut stream = Activity::default();
            stream.look(carried(5, 7), T, at(0));
            assert_eq!(stream.look(carried(5, 7), T, at(1000)), Change::Idle);
            assert_eq!(stream.look(more, T, at(1500)), Change::Active);
            assert!(!stream.is_idle());
            assert_eq!(stream.look(more, T, at(2499)), Change::None, "the time begins anew");
            assert_eq!(stream.look(more, T, at(2500)), Change::Idle);
        }
    }

    #[test]
    fn a_stream_that_sends_often_enough_never_becomes_idle() {
        let mut stream = Activity::default();
        for step in 0..100 {
            assert_eq!(stream.look(carried(step, 0), T, at(999 * step)), Change::None);
        }
    }
}
