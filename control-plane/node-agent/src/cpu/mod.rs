//! Moves CPU between the containers of one application, under one limit, each 100 ms step.
//!
//! Symbols, in cores. For container `i`: quota `q_i`; use `u_i` since the last step; `h_i`, the
//! share of the kernel's periods since then in which it was throttled; guaranteed minimum `f_i`;
//! mean over the last `window` steps `mean()`. For the application: limit `L`, `free = L - sum(q)`.
//!
//! 1. **Shrink.** If `h_i = 0` and `q_i - u_i > slack`: `q_i -= shrink * mean(q_i - u_i)`, but
//!    never below `u_i + slack`.
//! 2. **Make room.** Throttled containers want `sum(mean(h_i) * q_i)`. If `free` is less than that,
//!    unthrottled containers give CPU, starting with the largest spare, down to `mean(u_i)` plus
//!    [`KEEP`] (0.25) of the slack.
//! 3. **Level.** The level is each throttled container's equal part of what the others leave of
//!    `L`. Throttled containers above it give [`EVEN`] of their excess to those below, in
//!    proportion to what these lack.
//! 4. **Grow**, largest `mean(h_i)` first: if `h_i > 0` and `q_i` is not above the level:
//!    `q_i += mean(h_i) * free * grow`, up to the level. `free` is computed anew after each grant.
//!
//! `q_i` is never below `f_i` or above the node's cores, and `sum(q)` never above `L`. A container
//! without readings keeps its quota. Steps 1, 2 and 4 make no change of less than [`LEAST_CHANGE`]
//! of a quota, and step 3 does nothing if the whole excess is less than that fraction of the level.
//!
//! | parameter | default | meaning |
//! |---|---|---|
//! | `grow` | 1 | fraction of what is free for a container that is always throttled |
//! | `shrink` | 0.8 | fraction of the mean slack that is taken |
//! | `slack` | 0.2 | cores that may be unused while nobody lacks CPU, and with which a container starts |
//! | `window` | 3 | steps in a mean |
//!
//! Source: Escra (2022), section IV-D.1. Its `Υ`, `κ` and `γ` of section VI-A are 20, 0.8 and 0.2.
//! `adr/0001-the-rule.md` has the deviations, and figures of `bloc-sim quota`.
//!
//! **The kernel gives more than the quota.** Each write refills the quota of the running period
//! (`tg_set_cfs_bandwidth`), so a container written every 100 ms may use up to twice as much. The
//! sum of the quotas stays within the limit, but the use in a second may exceed it.

mod app;
#[cfg(test)]
mod app_tests;
#[cfg(test)]
mod properties;
mod window;

pub use app::{App, EVEN, Interval, KEEP, LEAST_CHANGE, Refused, Rule, Start, WANTED};
pub(crate) use window::Window;
