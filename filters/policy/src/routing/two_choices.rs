//! How BLOC, bids and least request draw servers from a row.
//!
//! Source: Mitzenmacher, "The power of two choices in randomized load balancing", 2001. Cost: two
//! draws and a comparison for each server. [`draw_best_of`]: one draw, and a comparison for each
//! server it looks at.

use crate::endpoints::{EndpointId, Row};
use crate::units::Timestamp;
use crate::units::rng::Rng;

/// Draws `length` servers from a row without replacement, each the better of two: fewer pending
/// requests, or the first one drawn if equal. Drawn servers move to the end of the row; those
/// already in the list must be there.
pub fn draw_better_of_two(mut row: Row<'_>, length: usize, rng: &mut impl Rng, list: &mut Vec<EndpointId>) {
    let mut left = row.len().saturating_sub(list.len());
    while left > 0 && list.len() < length {
        let first = rng.below(left);
        let mut better = first;
        if left > 1 {
            let draw = rng.below(left - 1);
            let second = if draw >= first { draw + 1 } else { draw };
            if row.pending(second) < row.pending(first) {
                better = second;
            }
        }
        left -= 1;
        list.extend(row.set_aside(better, left));
    }
}

/// The best possible rank of a server: it has not just bounced, and nothing is pending.
const NOTHING: (bool, u32) = (false, 0);

/// Draws one server: the best of up to `most` neighbors in the row, starting at a random place. The
/// best has not just bounced, then has the fewest pending requests; the first one wins a tie. It
/// moves to the end of the row.
pub fn draw_best_of(most: usize, row: &mut Row<'_>, now: Timestamp, rng: &mut impl Rng, list: &mut Vec<EndpointId>) {
    let count = row.len();
    if count == 0 {
        return;
    }
    let start = rng.below(count);
    let (mut best, mut least) = (start, row.against(start, now));
    for place in (start + 1..count).chain(0..start).take(most - 1) {
        if least == NOTHING {
            break;
        }
        let against = row.against(place, now);
        if against < least {
            (best, least) = (place, against);
        }
    }
    list.extend(row.set_aside(best, count - 1));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::endpoints::{Answer, Endpoints};
    use crate::wire::load_report::LoadReport;
    use std::time::Duration;

    /// Draws these numbers.
    struct Drawn(Vec<usize>);

    impl Rng for Drawn {
        fn below(&mut self, bound: usize) -> usize {
            let number = self.0.remove(0);
            assert!(number < bound);
            number
        }

        fn unit(&mut self) -> f64 {
            unreachable!("only whole numbers are drawn")
        }
    }

    #[test]
    fn at_a_tie_the_server_drawn_first_is_taken() {
        for (draws, place) in [([1, 0], 1), ([0, 0], 0), ([0, 1], 0), ([2, 1], 2)] {
            let (mut endpoints, mut list) = (Endpoints::new(Duration::from_secs(1)), Vec::new());
            for name in ["a", "b", "c"] {
                endpoints.add(name, Timestamp::ZERO);
            }
            let first = endpoints.all().id(place).unwrap();
            draw_better_of_two(endpoints.all(), 1, &mut Drawn(draws.to_vec()), &mut list);
            assert_eq!(list, [first], "{draws:?}");
        }
    }

    #[test]
    fn the_best_of_those_side_by_side_comes_first_and_leaves_the_draw() {
        let (mut endpoints, now) = (Endpoints::new(Duration::from_secs(1)), Timestamp::ZERO);
        // `pending` requests each, in the order of the row.
        for (name, pending) in [("a", 1), ("b", 2), ("c", 0), ("d", 1), ("e", 0)] {
            let id = endpoints.add(name, now);
            (0..pending).for_each(|_| assert!(endpoints.begin(id, now).is_some()));
        }
        let first = |most, start| {
            let mut list = Vec::new();
            draw_best_of(most, &mut endpoints.clone().all(), now, &mut Drawn(vec![start]), &mut list);
            let name = endpoints.get(*list.first()?)?.address().to_owned();
            (list.len() == 1).then_some(name)
        };
        for (most, start, name) in [(1, 1, "b"), (2, 0, "a"), (2, 1, "c"), (3, 0, "c"), (3, 3, "e"), (2, 4, "e")] {
            assert_eq!(first(most, start).as_deref(), Some(name), "{most} from {start}");
        }
        assert_eq!(first(5, 3).as_deref(), Some("e"), "at a tie the first one");
        assert_eq!(first(9, 0).as_deref(), Some("c"), "no more than there are");
        let mut list = Vec::new();
        draw_best_of(5, &mut endpoints.all(), now, &mut Drawn(vec![0]), &mut list);
        draw_better_of_two(endpoints.all(), 9, &mut fastrand::Rng::with_seed(1), &mut list);
        let names: std::collections::BTreeSet<_> = list.iter().collect();
        assert_eq!((list.len(), names.len()), (5, 5), "each once");
        let mut none = Vec::new();
        draw_best_of(5, &mut Endpoints::new(Duration::from_secs(1)).all(), now, &mut Drawn(vec![]), &mut none);
        assert_eq!(none, []);
    }

    #[test]
    fn a_server_that_has_just_bounced_comes_after_the_others_unless_something_is_pending_there() {
        let (mut endpoints, now) = (Endpoints::new(Duration::from_secs(1)), Timestamp::ZERO);
        let [slow, other] = ["a", "b"].map(|name| endpoints.add(name, now));
        let bounced = |execution| {
            Answer::Bounced(LoadReport { execution: Some(Duration::from_millis(execution)), ..LoadReport::default() })
        };
        let first = |endpoints: &Endpoints, millis| {
            let mut list = Vec::new();
            let now = now.after(Duration::from_millis(millis));
            draw_best_of(2, &mut endpoints.clone().all(), now, &mut Drawn(vec![0]), &mut list);
            list[0]
        };
        let permit = endpoints.begin(slow, now).unwrap();
        assert!(endpoints.begin(other, now).is_some());
        endpoints.answer(slow, permit, bounced(100), now);
        assert_eq!(first(&endpoints, 99), slow, "one is pending at both, and at a tie the first one");
        endpoints.end(slow);
        assert_eq!([99, 100].map(|millis| first(&endpoints, millis)), [other, slow]);
        endpoints.answer(slow, permit, bounced(5_000), now);
        assert_eq!([999, 1_000].map(|millis| first(&endpoints, millis)), [other, slow], "a reset interval at most");
    }
}
