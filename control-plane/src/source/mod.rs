//! The sources of services.
//!
//! A source is a task that reads something, validates it as a whole and passes each new reading to
//! the [`Store`](crate::Store). It publishes only changes, and ends when its future is dropped. A
//! file is read before the server listens, so that bad content at the start ends the program
//! instead of serving an empty mesh. A cluster is read afterwards; until then the server is not
//! ready.

mod file;
pub mod kubernetes;

pub use file::FileSource;
pub use kubernetes::KubernetesSource;
