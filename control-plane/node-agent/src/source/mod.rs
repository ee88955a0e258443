//! Where the pods of this node come from, and files that are read again when they change.

mod file;
pub mod kubernetes;
mod watched;

pub use file::read as read_pods;
pub use watched::Watched;
