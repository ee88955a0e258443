//! Moves CPU shares between the containers of one application by response times, every second.
//!
//! Shares decide who runs when a node has less CPU than its containers want. This rule thus changes
//! nothing without contention, needs no limit, and throttles nobody.
//!
//! Symbols for container `i`: shares `s_i`; `o_i`, the shares by its `requests` (1,024 for a core);
//! minimum `f_i`; `r_i`, the mean response time of its pod since it was last judged.
//!
//! 1. **Judge.** With [`LEAST_ANSWERS`] (20) new answers: `i` is late if `r_i / target >
//!    threshold`, else in time. Other containers are not judged.
//! 2. **Give back.** Each late container with less than `o_i` gets half of what it lacks, from
//!    those above their own, late or not, in proportion to their excess.
//! 3. **Move.** Each late container asks for `step * o_i / 100 * r_i / (target * threshold)`, up to
//!    [`MOST`] (10,240); `r_i` counts as at most [`LATEST`] (10) targets. Each one in time offers
//!    `step * o_i / 100 * (1 - r_i / target)`, down to `f_i`; above the target, nothing. The
//!    smaller of both sums moves, in proportion.
//!
//! Always `sum(s) = sum(o)`: others on the node keep their part, but may lose CPU beyond it,
//! because a late container uses more of its own. If all are late, shares return to `o`: nobody
//! stays late by having given. A new container starts with `o_i`; when one leaves, its difference
//! from `o_i` returns to the others.
//!
//! | parameter | default | meaning |
//! |---|---|---|
//! | `target` | | target of the mean response time |
//! | `threshold` | 1.2 | multiple of the target above which the mean is late |
//! | `step` | 10 | per cent of `o_i` by which step 3 moves in a second |
//!
//! Source: Ensuring `QoS` for Serverless Computing (2020), section 4.4.
//! `adr/0004-shares.md` has the deviations.

mod app;
#[cfg(test)]
mod app_tests;

pub use app::{Answers, App, LATEST, LEAST, LEAST_ANSWERS, MOST, Rule, Start};
