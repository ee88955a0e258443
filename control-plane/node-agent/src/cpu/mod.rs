//! CPU of the containers of one application, moved under one limit at each step (100 ms).
//!
//! Symbols, in cores, of container `i`: quota `q_i`; use `u_i` since the last step; `h_i`, the
//! share of the kernel's periods since the last step in which it was throttled; `f_i`, what it
//! keeps at least; mean over the last `window` steps `mean()`. Of the application: limit `L`,
//! `free = L - sum(q)`.
//!
//! 1. **Shrink.** If `h_i = 0` and `q_i - u_i > slack`: `q_i -= shrink * mean(q_i - u_i)`, but
//!    never below `u_i + slack`.
//! 2. **Make room.** Throttled containers want `sum(mean(h_i) * q_i)`. If `free` is less than that,
//!    unthrottled containers give, the one with most to spare first, down to `mean(u_i)` plus
//!    [`KEEP`] (0.25) of the slack.
//! 3. **Level.** The level is an equal part, for each throttled container, of what the others leave
//!    of `L`. If some throttled containers are below the level and others above it, those above
//!    give [`EVEN`] of what they have above it to those below, in proportion to what these lack.
//! 4. **Grow**, by falling `mean(h_i)`: if `h_i > 0` and `q_i` is not above the level:
//!    `q_i += mean(h_i) * free * grow`, up to the level. `free` is computed anew after each grant.
//!
//! Never is `q_i` below `f_i` or above what its node has, nor `sum(q)` above `L`. A container
//! without figures keeps its quota. Steps 1, 2 and 4 make no change of less than [`LEAST_CHANGE`]
//! of a quota. Step 3 does nothing if what all have above the level is less than that part of the
//! level; otherwise it may change a quota by less. So may a new limit, and containers that come.
//!
//! | parameter | default | meaning |
//! |---|---|---|
//! | `grow` | 1 | part of what is free for a container that is always throttled |
//! | `shrink` | 0.8 | part of the mean slack that is taken |
//! | `slack` | 0.2 | cores that may lie unused while nobody lacks them |
//! | `window` | 3 | steps that a mean goes back |
//!
//! Source: Escra (2022), section IV-D.1. Its `Υ`, `κ` and `γ` of section VI-A are 20, 0.8 and 0.2.
//! `bloc-sim quota` compares; `adr/0001-the-rule.md` has the figures. Deviations:
//!
//! 1. `grow` is a ratio. The paper's 20, taken literally, gives all that is free to the first one.
//! 2. Nothing is taken below the last use plus the slack, and nothing from a container that was
//!    just throttled: the mean of the slack goes back to quieter steps.
//! 3. `h_i` is a share, since a step is not one period of the kernel.
//! 4. The most throttled container grows first.
//! 5. Step 2. In the paper all containers keep their slack, which may be all that a small limit
//!    has.
//! 6. Step 3, and nobody grows above the level. In the paper a container that is always busy keeps
//!    what it got first, though another one that is throttled too has the floor.
//! 7. A start from use plus slack instead of `L / n`, which throttles the busiest.
//! 8. Floors, the node's cores, and the least change.
//! 9. Planned was to refuse an application whose use plus margin exceeds `L`. [`App::attach`]
//!    starts it with less slack, and refuses it only if the use alone exceeds `L`.
//!    [`App::take_over`] does not refuse it even then.
//! 10. Planned were `grow` 0.2 and `window` 5.
//!
//! **The kernel gives more than the quota.** Each write fills the quota of the running period up
//! (`tg_set_cfs_bandwidth`), so a container that is written each 100 ms may use up to twice as
//! much. The sum of the quotas keeps to the limit, the use of a second may exceed it.

mod app;
#[cfg(test)]
mod app_tests;
#[cfg(test)]
mod properties;
mod rule;
mod window;

pub use app::{App, Change, Interval, Refused, Start};
pub use rule::{EVEN, KEEP, LEAST_CHANGE, Rule, WANTED};
pub(crate) use window::Window;
