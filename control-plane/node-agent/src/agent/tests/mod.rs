//! The agent on files that are laid out like the kernel's, version 2.

mod endings;
mod lease_moves;
mod leases;
mod memory;
mod memory_testbed;
mod others;
mod pods;
mod qos;
mod qos_testbed;
mod quotas;
mod testbed;
