//! Retries, stock Envoy beside the filters: how often the application is asked, and for how long.
//!
//! What users and their applications say of retries stays in force. So for each [`Case`], which is
//! a route's retry policy, what an application asks for in headers, and an application that fails
//! in some way, one request goes each [`Way`]: through stock Envoy, and through the filters with
//! each routing. Counted is what reaches the applications.

mod cases;
mod stand;
mod table;

pub use cases::{CASES, Case, Failure};
pub use stand::{Course, RetriesError, Stand, WAYS, Way};
pub use table::Table;
