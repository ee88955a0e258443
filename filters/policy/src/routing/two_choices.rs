//! Two choices: how both BLOC and least request draw servers.
//!
//! Mitzenmacher, "The power of two choices in randomized load balancing", 2001. Cost: two draws and a
//! comparison for each server drawn.

use crate::endpoints::{EndpointId, Row};
use crate::rng::Rng;

/// Draws `length` servers from a row without replacement, each the better of two (fewer pending requests; at a tie the one drawn first).
/// What is drawn is set aside at the row's end.
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
