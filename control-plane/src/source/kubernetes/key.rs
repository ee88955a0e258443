//! What an object is called.

/// Namespace and name.
pub type Key = (String, String);
