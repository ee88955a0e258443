//! The agent on files that are laid out like the kernel's, version 2.

mod endings;
mod lease_moves;
mod leases;
mod memory;
mod memory_stand;
mod others;
mod pods;
mod qos;
mod qos_stand;
mod quotas;
mod stand;
