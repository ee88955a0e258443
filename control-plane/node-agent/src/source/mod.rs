//! Where the pods of this node come from.

mod file;
pub mod kubernetes;

pub use file::read as read_pods;
