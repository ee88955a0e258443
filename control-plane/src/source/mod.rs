//! Where services come from.
//!
//! A source is a task that reads something, validates it as a whole and hands every new reading to
//! its [`Publisher`]. It says nothing as long as nothing changes, and it ends when its future is
//! dropped. A file is read before the server listens, so that bad content at the start is an exit,
//! not an empty mesh; a cluster is read after that, and until then the server is not ready.

mod file;
pub mod kubernetes;
mod publisher;

pub use file::{FileSource, ReadError};
pub use kubernetes::KubernetesSource;
pub use publisher::Publisher;
