//! The key of an object.

/// Namespace and name.
pub type Key = (String, String);
