//! The time that a busy application waits between two requests.
//!
//! Clients that never pause keep one sidecar busy. Its application executes one request at a time
//! and measures itself: from the end of an execution, before it writes the answer, to the begin of
//! the next one. So a late timer or a slow client does not count. Where the sidecar holds the
//! queue, that time includes the answer's way out of the application, the decision whose turn it
//! is, and the next request's way in. Where the application has the queue, it is the time between
//! two of its own threads.
//!
//! All sidecars run at once and are loaded in turn, so other work on the machine affects them
//! alike.

mod application;
pub mod command;
mod figures;
mod testbed;

pub use application::Application;
pub use figures::{Round, Summary};
pub use testbed::{HandoverError, Options, Sidecar, Variant};
