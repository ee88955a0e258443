//! The node agent: it moves CPU between the containers of one application, under one limit.
//!
//! Balancing sends requests to servers with room. The node agent raises the CPU quota of the
//! containers that serve them, by what others of their application do not use.
//!
//! | module | what it is for |
//! |---|---|
//! | [`cpu`] | the decisions: pure, in steps of 100 ms |
//! | [`cgroup`] | the kernel's files |
//! | [`agent`] | one node: reads counters, decides, writes quotas |
//! | [`originals`] | what the groups had before, on the host |
//! | [`guardian`], [`run`] | the two processes |
//! | [`config`], [`source`], [`pods`] | what operator and Kubernetes say |
//! | [`metrics`] | what the operator sees |
//! | [`cores`] | the unit |

pub mod agent;
pub mod cgroup;
pub mod config;
pub mod cores;
pub mod cpu;
pub mod guardian;
pub mod metrics;
pub mod originals;
pub mod pods;
pub mod run;
pub mod source;

pub use cores::Cores;
