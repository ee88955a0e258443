//! The application behind a sidecar: a real HTTP server with an exactly known service time, or one
//! that burns an exactly known CPU time.
//!
//! Its sidecar is not here but in `envoy`.

mod burner;
mod places;
mod server;

pub use burner::Burner;
pub use places::Places;
pub use server::{APP_HEADER, Backend, Behaviour, COST_HEADER, answer};
