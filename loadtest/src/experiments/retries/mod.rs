//! Retries by stock Envoy and by the filters: how often the application receives a request, and for
//! how long.
//!
//! What users and their applications configure about retries must stay in force. A [`Case`] is a
//! route's retry policy, an application's request headers, and an application that fails in some
//! way. For each case, one request takes each [`Way`]: through stock Envoy, and through the filters
//! with each routing. The requests that reach the applications are counted.

mod cases;
pub mod command;
mod page;
mod testbed;

pub use cases::{CASES, Case, Failure};
pub use page::Table;
pub use testbed::{Course, RetriesError, Stand, WAYS, Way};
