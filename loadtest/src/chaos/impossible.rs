//! What this machine lacks for a fault.

/// A fault that cannot be injected here, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Impossible(pub String);
