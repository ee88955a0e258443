//! A caller's counts of its requests to a service, as users see them.

/// Finished requests to one service, except those that their users canceled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Calls {
    /// All of them.
    pub requests: u64,
    /// Those without a response, or with an error (5xx, UNAVAILABLE, INTERNAL), after all retries.
    pub failed: u64,
    /// Those finally rejected, after all retries.
    pub exhausted: u64,
    /// Of these, those that Envoy did not retry although one more retry was allowed.
    pub overflowed: u64,
    /// Those that were sent more than once.
    pub retried: u64,
    /// Those that were refused because no server would have met the SLO.
    pub refused: u64,
}

impl Calls {
    /// As a list.
    pub fn numbers(self) -> [u64; 6] {
        let Self { requests, failed, exhausted, overflowed, retried, refused } = self;
        [requests, failed, exhausted, retried, refused, overflowed]
    }

    /// From a list; what is missing is 0.
    pub fn of(numbers: &[u64]) -> Self {
        let number = |at: usize| numbers.get(at).copied().unwrap_or(0);
        Self {
            requests: number(0),
            failed: number(1),
            exhausted: number(2),
            retried: number(3),
            refused: number(4),
            overflowed: number(5),
        }
    }

    /// Adds other calls.
    pub fn add(&mut self, other: Self) {
        let mut numbers = self.numbers();
        numbers.iter_mut().zip(other.numbers()).for_each(|(own, other)| *own = own.saturating_add(other));
        *self = Self::of(&numbers);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn is_the_same_as_a_list_and_adds_up() {
        let mut calls = Calls::of(&[1, 2, 3, 4, 5, 6]);
        let expected = Calls { requests: 1, failed: 2, exhausted: 3, retried: 4, refused: 5, overflowed: 6 };
        assert_eq!((calls, Calls::of(&calls.numbers())), (expected, expected));
        calls.add(Calls::of(&[10]));
        assert_eq!(calls.numbers(), [11, 2, 3, 4, 5, 6]);
    }
}
