//! The services in force, the proxies that subscribed to them, and the polls that wait for a
//! change.
//!
//! Where services come from is not here but in `source`; how proxies ask is in `http`.
//!
//! One lock guards everything. Each step under it is short (no I/O, no waiting), and a change costs
//! only its subscribers. The decisions are in `state`, the meaning of versions in `version`.

mod budget;
mod catalog;
mod charge;
#[cfg(test)]
mod counting_tests;
#[cfg(test)]
mod digest_tests;
mod handle;
mod history;
mod inner;
mod names;
mod outcome;
mod overview;
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
mod view;
mod wants;
mod window;

pub use budget::Limits;
pub use handle::{Published, Store};
pub use history::{Difference, Event, EventKind};
pub use outcome::{Answer, Outcome, StoreError};
pub use poll::{DEFAULT_WAIT, Poll, WAIT_RANGE};
pub use seal::KEY_BYTES;
pub use staleness::STALE_AFTER;
pub use status::{Condition, ProxyCounts, ProxyState, SenderStatus, ServiceReport, ServiceStatus, Status};
pub use version::{Progress, Reach, Version};
pub use view::{Counts, Overview, ProxyView, Refusal, ServiceDetail, ServiceView};
