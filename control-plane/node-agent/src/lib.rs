//! The node agent: moves CPU and memory between the containers of an application, under one limit.
//!
//! Load balancing sends requests to servers with room. The node agent gives these containers more
//! room: what others of their application do not use.
//!
//! | module | what it is for |
//! |---|---|
//! | [`cpu`], [`memory`], [`qos`] | the rules for CPU, memory and CPU shares, as pure code |
//! | [`cgroup`] | the kernel's files |
//! | [`agent`] | one node: reads counters, decides, writes |
//! | [`setting`] | a group's setting of one resource |
//! | [`originals`], [`state`] | what the groups had before, on the host |
//! | [`guardian`], [`run`] | the two processes |
//! | [`config`], [`source`], [`pods`] | the configuration and the pods |
//! | [`metrics`] | what the operator sees |
//! | [`report`] | quotas to the control plane, response times from it |
//! | [`lease`] | leases of cluster-wide limits |
//! | [`replicas`] | HTTP requests to the control plane |
//! | [`cores`], [`bytes`] | the units |
//! | `bloc-daemon` | shared with the control plane: options, messages, files, ports |
#![allow(missing_docs, reason = "nobody publishes this crate, and most names need no comment")]

pub mod agent;
pub mod bytes;
pub mod cgroup;
pub mod config;
pub mod cores;
pub mod cpu;
pub mod guardian;
pub mod lease;
pub mod memory;
pub mod metrics;
pub mod originals;
pub mod pods;
pub mod qos;
mod quantity;
pub mod replicas;
pub mod report;
pub mod run;
pub mod setting;
pub mod source;
pub mod state;

pub use bytes::Bytes;
pub use cores::Cores;
