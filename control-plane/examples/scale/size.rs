//! How large the mesh is.

pub const SERVICES: usize = 1_000;
pub const PROXIES: usize = 10_000;
/// How many of the proxies call the Service that changes.
pub const CONCERNED: usize = 1_000;
