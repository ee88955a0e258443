//! The addresses, and the name of the service.

pub const SERVICE: &str = "backend.shop.svc.cluster.local";
/// Where the frontend's sidecar listens for the frontend.
pub const FRONTEND: &str = "127.77.0.2";
/// Where the sidecars of the backends listen.
pub const BACKENDS: [&str; 2] = ["127.77.0.3", "127.77.0.4"];
/// Where the gateway listens for its clients.
pub const GATEWAY: &str = "127.77.0.5";
