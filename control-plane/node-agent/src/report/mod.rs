//! Reports CPU quotas of pods to the control plane, so that their sidecars follow, and asks it for
//! the response times of pods, which move their CPU shares.
//!
//! `POST /v1/cpu`, to each address of the control plane's name: each replica holds the polls of
//! some proxies. Pods whose quotas have changed by 5% are sent each 200 ms, all pods and
//! applications each 5 s. After a failure everything is sent again.
//!
//! Each second, each replica is asked for the pods whose shares move. It answers sums; what these
//! grow by at all replicas adds up to all answers of a pod.
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
