//! What the control plane is told: the CPU quotas of pods, so that their sidecars follow. What it
//! is asked for: the response times of pods, which move their CPU shares.
//!
//! `POST /v1/cpu`, to each address that the name of the control plane resolves to: each replica
//! holds the polls of some proxies. Each 200 ms the pods whose quotas have changed by 5%, each 5 s
//! all pods and applications. A replica that does not answer is told all again.
//!
//! Each second each replica is asked for the pods whose shares move. It says sums; what they grow
//! by at all replicas adds up to all that a pod has answered. An older control plane says nothing.
//!
//! The agent does not need the control plane: whatever happens here, quotas move. Shares stay
//! without answers.
//!
//! | module | what it is for |
//! |---|---|
//! | `message` | what there is to tell |
//! | `changes` | what is due to be sent |
//! | `answers` | what has grown |
//! | `client` | the requests |

mod answers;
#[cfg(test)]
mod answers_tests;
mod changes;
mod client;
#[cfg(test)]
mod client_tests;
mod message;

pub use answers::Heard;
pub use bloc_daemon::cpu::PodName;
pub use client::report;
pub use message::{Cpu, Pod, apps};
