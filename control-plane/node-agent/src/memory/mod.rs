//! Moves memory between the containers of one application, under one limit.
//!
//! Symbols, in bytes. For container `i` of `n`: limit `l_i`, use `u_i`, guaranteed minimum `f_i`.
//! For the application: limit `L`, pool `L - sum(l)`.
//!
//! 1. **Start**: the larger of `u_i + margin` and `L * (1 - reserve) / n`, if the pool has it.
//! 2. **Reclaim**, each [`RECLAIM`]: if `l_i > u_i + margin`, `l_i = u_i + margin`. The rest
//!    returns to the pool.
//! 3. **Grant**, when a container is about to exceed its limit: [`Rule::step`] from the pool; if
//!    that has less, from the containers with most above `u_j + margin`; if none has any, nothing:
//!    the kernel decides. The caller repeats this until `l_i` is a step above `u_i`.
//!
//! Nothing is taken below `u_i + margin` or `f_i`, or from a container whose use is unknown.
//! `sum(l)` is never above `L`. Containers of an earlier agent may start with a smaller margin.
//!
//! | parameter | default | meaning |
//! |---|---|---|
//! | `reserve` | 0.2 | fraction of `L` that is kept for grants at the start |
//! | `margin` | 50 MiB | what a container may grow by before it needs a grant |
//! | `step` | 16 MiB | what a grant adds |
//!
//! Source: Escra (2022), sections IV-A (equation 2) and IV-C; `margin` is its `δ`.
//! `adr/0003-memory.md` has the deviations.

mod app;
#[cfg(test)]
mod app_tests;

pub use app::{App, RECLAIM, Refused, Rule, Start};
