//! What the control plane is told: the CPU quotas of pods, so that their sidecars follow.
//!
//! `POST /v1/cpu`, to each address that the name of the control plane resolves to: each replica
//! holds the polls of some proxies. Each 200 ms the pods whose quotas have changed by 5%, each 5 s
//! all pods and applications. A replica that does not answer is told all again.
//!
//! The agent does not need the control plane: whatever happens here, quotas move.
//!
//! | module | what it is for |
//! |---|---|
//! | `message` | the texts |
//! | `changes` | what is due to be sent |
//! | `client` | the requests |

mod changes;
mod client;
mod message;

pub use client::{Target, report};
pub use message::{App, Container, Cpu, Pod, PodName};
