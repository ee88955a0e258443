//! Reports pods' CPU quotas to the control plane, so that their sidecars follow. Asks it for pods'
//! response times, by which CPU shares move.
//!
//! It sends `POST /v1/cpu` to each address of the control plane's name: each replica holds the
//! polls of some proxies. Pods whose quotas changed by 5% are sent every 200 ms, all pods and
//! applications every 5 s. After a failure everything is sent again.
//!
//! Every second, each replica is asked about the pods whose shares move. It answers with sums.
//! Their growth at all replicas adds up to all answers of a pod.
//!
//! The agent does not need the control plane: quotas move without it. Shares do not change without
//! answers.

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
pub use message::{Cpu, apps};
