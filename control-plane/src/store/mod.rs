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
//! | `catalog`, `version`, `seal` | the services in force; what a version means; who issued it |
//! | `wants` | what proxies have seen of the source and this replica has not |
//! | `poll`, `polls`, `outcome` | a validated poll; the held ones; how one ends |
//! | `proxies`, `names`, `subscription` | the last poll of each proxy; what proxies subscribe to |
//! | `window`, `staleness` | when a proxy counts at this replica; which proxies are behind |
//! | `budget`, `charge` | the memory for proxies; what one takes |
//! | `cpu` | the CPU of a proxy's pod: who is told, and when |
//! | `module`, `modules` | what a proxy runs; which versions there are, and who lacks what |
//! | `counts`, `status`, `history` | what operators see |

#[cfg(test)]
mod asked_tests;
mod budget;
mod catalog;
mod charge;
#[cfg(test)]
mod counting_tests;
mod counts;
mod cpu;
#[cfg(test)]
mod cpu_tests;
#[cfg(test)]
mod digest_tests;
mod handle;
mod history;
mod inner;
mod module;
mod modules;
mod names;
mod outcome;
mod poll;
mod polls;
mod proxies;
mod seal;
#[cfg(test)]
mod simulation;
mod staleness;
mod state;
mod status;
#[cfg(test)]
mod status_tests;
mod subscription;
#[cfg(test)]
mod tests;
mod version;
mod wants;
mod window;

pub use budget::Limits;
pub use counts::Counts;
pub use handle::{Published, Store};
pub use history::{Difference, Event, EventKind};
pub use module::Module;
pub use modules::{ModuleView, Modules};
pub use outcome::{Answer, CpuAnswer, Outcome, StoreError};
pub use poll::{DEFAULT_WAIT, Poll, WAIT_RANGE};
pub use seal::KEY_BYTES;
pub use staleness::STALE_AFTER;
pub use status::{
    Condition, ProxyCounts, ProxyState, SenderStatus, ServerStatus, ServiceReport, ServiceStatus, Status,
};
pub use version::{Progress, Reach, Version};
