//! The tests, in the order in which a user meets their subjects.
//!
//! The mesh on which they run is not here but in `mesh`.
//!
//! A [`Chapter`](chapter::Chapter) is a sequence of scenarios: each takes the mesh as the one
//! before left it, and the last one leaves it as the next chapter needs it. A chapter can also
//! begin on a mesh of its own ([`Start`](chapter::Start)); a failed one is repeated that way
//! ([`crate::repeat`]).

mod attach;
mod change;
mod chapter;
mod chapters;
mod configuration;
mod failure;
mod gateway;
mod http2;
mod leave;
mod metrics;
mod node_agent;
mod overload;
mod remote;
mod routes;
mod run;
mod shipped;
mod unlabelled;

pub use chapters::chapters;
pub use run::{Failure, run, up};
