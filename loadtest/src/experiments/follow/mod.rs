//! Whether a sidecar's capacity follows the CPU quota of its application.
//!
//! ```text
//! Poisson arrivals ──► sidecar ──► a backend that burns CPU, in the groups of a container
//!                         ▲ capacity                │ counters      ▲ quota
//!                         │                         └► node agent ──┘
//!                         └── control plane ◄───────────── says the quota
//! ```
//!
//! Half as many requests again arrive as the quota is enough for. Then the application's limit is
//! halved in the agent's configuration, and the agent halves the quota. What counts is the share of
//! the admitted requests that end in the ten seconds after that and are answered within the SLO.
//! Variants differ in where the capacity comes from, and in whether the agent tells the control
//! plane. All see the same arrivals and service times in a round, each with new processes and
//! groups.
//!
//! A capacity is for half of the SLO: with one for all of the SLO, every second answer of a full
//! server would be late also if nothing changed.
//!
//! Another turn of each round moves the limit to and fro, and measures the time from a new quota in
//! the file of the group to the capacity at the sidecar.
//!
//! | module | what it is for |
//! |---|---|
//! | [`plan`] | the load, and the variants |
//! | [`stand`] | the parts of a turn |
//! | [`turn`] | what is measured |
//! | [`claims`] | the bounds |

pub mod claims;
pub mod command;
pub mod plan;
pub mod stand;
pub mod turn;
