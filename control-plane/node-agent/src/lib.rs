//! The node agent: it moves CPU and memory between the containers of one application, under one
//! limit.
//!
//! Balancing sends requests to servers with room. The node agent gives room to the containers that
//! serve them, by what others of their application do not use.
//!
//! | module | what it is for |
//! |---|---|
//! | [`cpu`] | the decisions about CPU: pure, in steps of 100 ms |
//! | [`memory`] | those about memory: pure, each second and when a container asks |
//! | [`qos`] | those about CPU shares: pure, each second |
//! | [`cgroup`] | the kernel's files |
//! | [`agent`] | one node: reads counters, decides, writes |
//! | [`setting`] | what a group has of one resource |
//! | [`originals`], [`state`] | what the groups had before, on the host |
//! | [`guardian`], [`run`] | the two processes |
//! | [`config`], [`source`], [`pods`] | what operator and Kubernetes say |
//! | [`metrics`] | what the operator sees |
//! | [`report`] | what the control plane is told |
//! | [`lease`] | the parts of limits over nodes, which the control plane leases |
//! | [`replicas`] | where the control plane is, and how it is told something |
//! | [`cores`], [`bytes`] | the units |
//! | `bloc-daemon` | what the control plane has, too: options, messages, files, ports |

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
pub mod replicas;
pub mod report;
pub mod run;
pub mod setting;
pub mod source;
pub mod state;

pub use bytes::Bytes;
pub use cores::Cores;
