//! Services from the Kubernetes API.
//!
//! Code that reads or writes Kubernetes objects belongs here. The store decides which proxy gets
//! what.
//!
//! | object | what is read from it | module |
//! |---|---|---|
//! | EndpointSlice, Service | the endpoints, by port of the Service | `endpoints` |
//! | VirtualService, if the cluster has them | how often its routes retry | `routes` |
//! | ConfigMap labelled `bloc.dev/policy: "true"` | which services are managed, and their parameters | `policy`; `copies` of the good ones |
//!
//! Four [watches](watch) feed one [picture of the cluster](cluster). An event is published after
//! 20 to 100 ms and the time to compute the services that it concerns. Nothing is published before
//! all lists are complete. After that, the known state stays in force while the API is unreachable.

mod client;
mod cluster;
mod copies;
mod endpoints;
mod events;
mod feed;
mod policy;
mod routes;
#[cfg(test)]
mod tests;
pub(crate) mod watch;

pub use client::client;
pub use feed::KubernetesSource;
pub use policy::{ALL, KEY, LABEL, PolicySpec, Scope, crowded};
