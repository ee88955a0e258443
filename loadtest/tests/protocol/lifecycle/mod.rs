//! Listeners and their configurations come and go under load, as in Istio: they are updated, rolled
//! back while the replaced one still drains, and removed, and several share a VM. No request is
//! lost or waits beyond its bound, and each listener uses its own configuration.
//!
//! A single update of a plugin configuration is not tested here but in `configuration.rs`.
//!
//! Each test lists everything that it finds wrong, since one fault has several symptoms.

mod histories;
mod inbound;
mod modules;
mod outbound;
mod services;
mod stock;
mod testbed;
