//! The services in force, the proxies that subscribed to them, and the polls that wait for a
//! change.
//!
//! Sources of services are in `source`; how proxies ask is in `http`.
//!
//! One lock guards everything. Each step under it is short (no I/O, no waiting). A change costs
//! only its subscribers.
//!
//! | file | what |
//! |---|---|
//! | `publish` | the interface: publishing, and polls that wait for it |
//! | `decide` | the decisions on polls, and those that are held |
//! | `poll`, `outcome`, `version` | a validated poll; how one ends; what a version means |
//! | `reports` | counts what polls report |
//! | `proxies`, `names`, `subscription` | the last poll of each proxy; what proxies subscribe to |
//! | `window`, `staleness` | when a proxy counts at this replica; which proxies are behind |
//! | `charge` | the memory that a proxy takes |
//! | `module`, `modules` | what a proxy runs; which versions exist, and which proxies lack what |
//! | `counts`, `status`, `history` | what operators see |

#[cfg(test)]
mod asked_tests;
mod charge;
#[cfg(test)]
mod counting_tests;
mod counts;
#[cfg(test)]
mod cpu_tests;
pub(crate) mod decide;
#[cfg(test)]
mod digest_tests;
mod history;
mod module;
mod modules;
mod names;
mod outcome;
mod poll;
pub(crate) mod proxies;
pub(crate) mod publish;
mod reports;
#[cfg(test)]
mod simulation;
mod staleness;
mod status;
#[cfg(test)]
mod status_tests;
mod subscription;
#[cfg(test)]
mod tests;
mod version;
mod window;

pub use counts::Counts;
pub use history::{Difference, Event, EventKind};
pub use module::Module;
pub use modules::{ModuleView, Modules};
pub use outcome::{Answer, CpuAnswer, Outcome, StoreError};
pub use poll::{DEFAULT_WAIT, Poll, WAIT_RANGE};
pub use publish::{Published, Store};
pub use staleness::STALE_AFTER;
pub use status::{
    Condition, ProxyCounts, ProxyState, SenderStatus, ServerStatus, ServiceReport, ServiceStatus, Status,
};
pub use version::{Kind, Reach, Version};
