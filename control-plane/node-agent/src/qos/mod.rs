//! CPU shares of the containers of one application, moved by response times, once a second.
//!
//! Shares decide who runs when a node has less CPU than its containers want. So this rule changes
//! nothing without contention, needs no limit, and throttles nobody.
//!
//! Symbols, of container `i`: shares `s_i`; `o_i`, what its `requests` give (1,024 for a core);
//! `f_i`, what it keeps at least; `r_i`, the mean response time of its pod since it was last
//! judged.
//!
//! 1. **Judge.** With [`LEAST_ANSWERS`] (20) new answers: `i` is late if `r_i / target >
//!    threshold`, else in time. Others are not judged.
//! 2. **Give back.** Each late one that has less than `o_i` gets half of what it lacks, from those
//!    that have more than theirs, late or not, in proportion to what they have more.
//! 3. **Move.** Each late one asks for `step * o_i / 100 * r_i / (target * threshold)`, up to
//!    [`MOST`] (10,240); `r_i` counts as at most [`LATEST`] (10) targets. Each one in time offers
//!    `step * o_i / 100 * (1 - r_i / target)`, down to `f_i`; above the target, nothing. What moves
//!    is the smaller one of both sums; each gives or gets its part of it in proportion.
//!
//! So `sum(s) = sum(o)`: others on the node keep their part. They may lose what they had beyond it,
//! since a late container uses more of what is its own. Where all are late, shares go
//! back to `o`: nobody stays late for what it gave. Who comes starts with `o_i`. When one leaves,
//! what it had above or below `o_i` goes back to the others.
//!
//! | parameter | default | meaning |
//! |---|---|---|
//! | `target` | | mean response time to be kept |
//! | `threshold` | 1.2 | part of the target above which the mean is late |
//! | `step` | 10 | per cent of `o_i` by which 3 moves in a second |
//!
//! Source: Ensuring `QoS` for Serverless Computing (2020), section 4.4. Deviations, with figures in
//! the simulator (`bloc-sim qos`):
//!
//! 1. Zero-sum. In the paper each function that is in time falls to the least there is, and late
//!    ones take from the whole node.
//! 2. A mean of 20 answers and more, once a second, instead of each single answer.
//! 3. A floor, so that nobody loses what its `requests` promise.
//! 4. A step in proportion to the requests and to how late one is, instead of 10 shares: of the
//!    1,024 that each container has there, 10 are 1%, and a burst is over before they are moved.
//! 5. What was given comes back first. Otherwise those that gave are as late as the others under
//!    overload, and late again when the load moves to them.

mod app;
#[cfg(test)]
mod app_tests;
mod rule;

pub use app::{Answers, App, Start};
pub use rule::{LATEST, LEAST, LEAST_ANSWERS, MOST, Rule};
