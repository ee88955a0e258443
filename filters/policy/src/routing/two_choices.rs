//! Two choices: how both BLOC and least request draw servers.
//!
//! Mitzenmacher, "The power of two choices in randomized load balancing", 2001. Cost: two draws and
//! a comparison for each server drawn.

use crate::endpoints::{EndpointId, Row};
use crate::rng::Rng;

/// Draws `length` servers from a row without replacement, each the better of two (fewer pending
/// requests; at a tie the one drawn first). Drawn servers move to the row's end.
pub fn draw_better_of_two(mut row: Row<'_>, length: usize, rng: &mut impl Rng, list: &mut Vec<EndpointId>) {
    let mut left = row.len();
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::endpoints::Endpoints;
    use crate::units::Timestamp;
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
            let (mut endpoints, mut list) = (Endpoints::new(Duration::from_secs(1), 10), Vec::new());
            for name in ["a", "b", "c"] {
                endpoints.add(name, Timestamp::ZERO);
            }
            let first = endpoints.all().id(place).unwrap();
            draw_better_of_two(endpoints.all(), 1, &mut Drawn(draws.to_vec()), &mut list);
            assert_eq!(list, [first], "{draws:?}");
        }
    }
}
