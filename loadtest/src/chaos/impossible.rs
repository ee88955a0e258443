//! What a fault lacks on this machine.

/// A fault that cannot be made here, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Impossible(pub String);
