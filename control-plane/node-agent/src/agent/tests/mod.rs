//! The agent at files that are laid out as the kernel's, version 2.

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
