//! Listeners and their configurations come and go under load, as Istio does it: they are updated,
//! rolled back while what they replaced still drains, removed, and several share a VM. Whatever
//! happens, no request is lost or waits beyond its bound, and what is in force at a listener is its
//! own configuration.
//!
//! Each test lists all that it finds wrong, since one fault has several symptoms.

mod histories;
mod inbound;
mod outbound;
mod services;
mod stand;
mod stock;
