//! The services in force, the proxies that subscribed to them, and the polls that wait for a
//! change.
//!
//! Where services come from is not here but in `source`; how proxies ask is in `http`.
//!
//! One lock guards everything. Each step under it is short (no I/O, no waiting), and a change costs
//! only its subscribers.
//!
//! | file | what |
//! |---|---|
//! | `handle` | the interface: publishing, and polls that wait for it |
//! | `inner`, `state` | the data under the lock; the decisions on polls |
//! | `catalog`, `version` | the services in force; what a version means |
//! | `poll`, `polls`, `outcome` | a validated poll; the held ones; how one ends |
//! | `proxies`, `names`, `subscription` | the last poll of each proxy; what proxies subscribe to |
//! | `window`, `staleness` | when a proxy counts at this replica; which proxies are behind |
//! | `charge` | the memory that a proxy takes |
//! | `module`, `modules` | what a proxy runs; which versions there are, and who lacks what |
//! | `counts`, `status`, `history` | what operators see |

#[cfg(test)]
mod asked_tests;
mod catalog;
mod charge;
#[cfg(test)]
mod counting_tests;
mod counts;
#[cfg(test)]
mod cpu_tests;
#[cfg(test)]
mod digest_tests;
pub(crate) mod handle;
mod history;
mod inner;
mod module;
mod modules;
mod names;
mod outcome;
mod poll;
mod polls;
pub(crate) mod proxies;
#[cfg(test)]
mod simulation;
mod staleness;
pub(crate) mod state;
mod status;
#[cfg(test)]
mod status_tests;
mod subscription;
#[cfg(test)]
mod tests;
mod version;
mod window;

pub use counts::Counts;
pub use handle::{Published, Store};
pub use history::{Difference, Event, EventKind};
pub use module::Module;
pub use modules::{ModuleView, Modules};
pub use outcome::{Answer, CpuAnswer, Outcome, StoreError};
pub use poll::{DEFAULT_WAIT, Poll, WAIT_RANGE};
pub use staleness::STALE_AFTER;
pub use status::{
    Condition, ProxyCounts, ProxyState, SenderStatus, ServerStatus, ServiceReport, ServiceStatus, Status,
};
pub use version::{Kind, Reach, Version};
