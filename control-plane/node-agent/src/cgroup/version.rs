//! The versions of control groups.

/// The version of the kernel's control groups.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Version {
    /// One hierarchy for each controller.
    V1,
    /// One hierarchy.
    V2,
}
