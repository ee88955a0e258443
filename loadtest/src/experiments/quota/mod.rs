//! Who sets CPU quotas, limits of memory, and CPU shares: four containers, whose load wanders, in
//! real control groups.
//!
//! ```text
//! Poisson arrivals ──► four backends that burn CPU, each in the groups of a container
//!                            ▲ quotas            │ counters
//!                            └── an allocator ◄──┘
//! ```
//!
//! No Envoy is involved here: quotas are what is measured. The lab and the agent are outside of the
//! groups, and nothing is pinned. All allocators see the same arrivals and service times in a
//! round, each with new processes and groups. Those whose rule is *outside of the limit* get as
//! much as the rule says.
//!
//! A second stand measures the CPU of the agent on a node with 70 containers, most of them idle.
//! The rounds also have the turns of [sidecars that follow](super::follow).
//!
//! | module | what it is for |
//! |---|---|
//! | [`plan`] | the load |
//! | [`allocator`] | who sets the quotas |
//! | [`agent`] | the node agent as a process |
//! | [`burner`] | a backend as a process |
//! | [`stand`] | the containers of a turn |
//! | [`node`] | the node of 70 containers |
//! | [`watch`] | reads the files of the groups |
//! | [`background`] | its thread |
//! | [`delay`] | how long a throttled container waits |
//! | [`memory`] | the same for limits of memory |
//! | [`qos`] | the same for CPU shares, with sidecars |
//! | [`figures`] | what is measured of a turn |
//! | [`name`] | what is measured in turns |
//! | [`claim`] | what a claim is |
//! | [`claims`] | the bounds |
//! | [`run`] | all turns of all rounds |
//! | [`page`] | tables and page |

pub mod agent;
pub mod allocator;
pub mod background;
pub mod burner;
pub mod claim;
pub mod claims;
pub mod command;
pub mod delay;
pub mod figures;
pub mod memory;
pub mod name;
pub mod node;
pub mod page;
pub mod plan;
pub mod qos;
pub mod run;
pub mod testbed;
pub mod watch;
