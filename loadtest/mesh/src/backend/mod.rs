//! The application behind a sidecar: a real HTTP server with an exactly known service time.
//!
//! Its sidecar is not here but in `envoy`.

mod places;
mod server;
mod service_time;

pub use places::Places;
pub use server::{APP_HEADER, Backend, Behaviour, COST_HEADER, answer};
pub use service_time::ServiceTime;
