//! Memory of the containers of one application, moved under one limit.
//!
//! Symbols, in bytes, of container `i` of `n`: limit `l_i`, use `u_i`, what it keeps at least
//! `f_i`. Of the application: limit `L`, pool `L - sum(l)`.
//!
//! 1. **Start**: the larger of `u_i + margin` and `L * (1 - reserve) / n`, if the pool has it.
//! 2. **Reclaim**, each [`RECLAIM`]: if `l_i > u_i + margin`, `l_i = u_i + margin`. What is taken
//!    is in the pool.
//! 3. **Grant**, when a container is about to exceed its limit: [`Rule::step`] from the pool; if
//!    that has less, from those with most above `u_j + margin`; if nobody has, nothing: the kernel
//!    decides. The caller repeats it until `l_i` is a step above `u_i`.
//!
//! Nothing is taken below `u_i + margin` or `f_i`, nor from a container whose use nobody knows, and
//! `sum(l)` is never above `L`. Containers that an earlier agent had may start with less of a
//! margin.
//!
//! | parameter | default | meaning |
//! |---|---|---|
//! | `reserve` | 0.2 | part of `L` that is kept for grants at the start |
//! | `margin` | 50 MiB | what a container may grow by before it asks |
//! | `step` | 16 MiB | what a grant adds |
//!
//! Source: Escra (2022), sections IV-A (equation 2) and IV-C; `margin` is its `δ`. Deviations:
//!
//! 1. A start is at least use plus margin: an application that runs already must not be killed.
//! 2. A grant is a step, not all that is asked for: the kernel says that a container is near its
//!    limit, not how much it needs.
//! 3. Reclaim before a grant takes from those with most to spare first, and as little as is needed.
//! 4. Planned was no maximum below `u_i + margin`. The maximum is `l_i + step`, and may be less, as
//!    grants stop at `u_i + step` (`adr/0003-memory.md`, decision 4).

mod app;
#[cfg(test)]
mod app_tests;
mod rule;

pub use app::{App, Change, Refused, Start};
pub use rule::{RECLAIM, Rule};
