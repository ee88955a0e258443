//! Whether a sidecar's capacity follows the CPU quota of its application.
//!
//! ```text
//! Poisson arrivals ──► sidecar ──► a backend that burns CPU, in the groups of a container
//!                          ▲ capacity                │ counters      ▲ quota
//!                          │                         └► node agent ──┘
//!                          └── control plane ◄────────────┘ tells
//! ```
//!
//! Half as many requests again arrive as the quota is enough for. Then the application's limit is
//! halved in the agent's configuration, and the agent halves the quota. What counts is the share of
//! the admitted requests that end in the ten seconds after that and are answered within the SLO.
//! Cases differ in where the capacity comes from, and in whether the sidecar comes to know the CPU.
//! All see the same arrivals and service times in a round, each with new processes and groups.
//!
//! A capacity is for half of the SLO: with one for all of the SLO, every second answer of a full
//! server would be late also if nothing changed.
//!
//! Other turns of each round move the limit to and fro, and measure the time from a new quota in
//! the file of the group to the capacity at the sidecar.
//!
//! [`quota`](super::quota) measures these cases in its rounds, and has their tables.
//!
//! | module | what it is for |
//! |---|---|
//! | [`plan`] | the load, and where the capacity comes from |
//! | [`case`] | what is measured in turns |
//! | [`stand`] | the parts of a turn |
//! | [`turn`] | what is measured of it |
//! | [`claims`] | the bounds |

pub mod case;
pub mod claims;
pub mod command;
pub mod plan;
pub mod testbed;
pub mod turn;
