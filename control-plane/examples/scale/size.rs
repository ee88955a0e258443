//! The size of the mesh.

pub const SERVICES: usize = 1_000;
pub const PROXIES: usize = 10_000;
/// The number of proxies that call the changing Service.
pub const CONCERNED: usize = 1_000;
