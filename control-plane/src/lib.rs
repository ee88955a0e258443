//! The control plane: it hands the parameters and endpoints of services to the proxies.
//!
//! `bloc-policy` and `bloc-engine` define what a proxy does with its parameters.
//!
//! A [`source`] validates what an operator wrote and publishes [`Snapshot`]s into the [`Store`].
//! Proxies ask the [HTTP interface](http) by long poll (`POST /v1/sync`) and get an answer as soon
//! as something that they subscribed to changes. With each poll a proxy also reports the [load] of
//! the services that it serves; the signals for scaling are computed from these reports. [Node
//! agents](agents) report CPU quotas, which are passed on to the proxies of the pods. The mesh does
//! not depend on this process: a proxy that loses it keeps its last good state. Several replicas
//! may run side by side.
//!
//! ```text
//! file ───────────► source::FileSource ───────┐
//! Kubernetes API ─► source::KubernetesSource ─┴─Snapshot──► Store ──wakes the subscribers──► http ──► proxies
//! ```
//!
//! | module | what it is for |
//! |---|---|
//! | [`source`] | reads files or Kubernetes, and validates |
//! | [`store`], [`snapshot`] | the state in force, its versions, and the proxies that wait for changes |
//! | [`http`], [`server`] | the interface: polls, readiness, who may ask |
//! | [`agents`] | everything for node agents: CPU quotas, leases |
//! | [`load`] | arrivals, service rates and utilisation, from the proxies' reports |
//! | [`page`], [`metrics`] | what operators see |
//! | [`check`], [`schema`], `bloc-yaml` | checks and describes what operators write |
//! | [`clock`], `digest` | the wall clock; a digest that is the same in every build |
//! | `bloc-daemon` | shared with the node agent: options, messages, files, ports |
//!
//! From a ConfigMap to the answer of a poll, in order:
//!
//! | file | what happens there |
//! |---|---|
//! | `source/kubernetes/watch.rs` | lists and watches one kind of object |
//! | `source/kubernetes/feed.rs` | merges what the watches read, and publishes it |
//! | `source/kubernetes/policy.rs` | parses and validates the ConfigMap |
//! | `source/kubernetes/cluster.rs` | computes the services that it concerns |
//! | `snapshot.rs` | validates them; holds those in force |
//! | `store/publish.rs` | puts them in force under the lock; waits for each poll |
//! | `store/decide.rs` | decides which polls wake, and what answer each gets |
//! | `http/sync.rs` | reads a poll, and sends its answer |
#![allow(missing_docs, reason = "nobody publishes this crate, and most names need no comment")]

pub mod agents;
pub mod check;
pub mod clock;
mod digest;
pub mod http;
pub mod latency;
pub mod load;
pub mod metrics;
pub mod page;
pub mod schema;
pub mod server;
pub mod snapshot;
pub mod source;
pub mod store;

pub use clock::Clock;
pub use load::ReportInterval;
pub use server::serve;
pub use snapshot::Snapshot;
pub use store::Store;
