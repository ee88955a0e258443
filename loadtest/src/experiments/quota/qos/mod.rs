//! The same for CPU shares: four backends and a neighbour want more than the core that they run
//! on, in real control groups.
//!
//! ```text
//! Poisson arrivals ──► four sidecars ──► four backends that burn CPU, and a neighbour
//!                          │ response times        ▲ shares
//!                          └── control plane ──► node agent
//! ```
//!
//! Each backend has a real Envoy with the module. One backend after the other is hot: it gets more
//! requests than it can answer with its own part of the core, while the others leave some of
//! theirs. The neighbour is a pod of another application that always wants CPU. Backends and
//! neighbour are pinned to one core, which they have before all others; nothing else is pinned.
//!
//! | module | what it is for |
//! |---|---|
//! | [`plan`] | who gets how many requests, and when |
//! | [`case`] | who sets the shares |
//! | [`stand`] | the parts of a turn |
//! | [`watch`] | reads the files of the groups |
//! | [`turn`] | what is measured |

pub mod case;
pub mod plan;
pub mod testbed;
pub mod turn;
pub mod watch;
