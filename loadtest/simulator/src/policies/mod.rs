//! The policies, each behind three small traits.
//!
//! The servers' queues and the events are not here but in `fleet`, `events` and `engine`.
//!
//! A [`Policy`] makes the [`SenderModel`] of each sender and the [`ServerModel`] of each server;
//! the engine calls them and decides nothing itself. To add a policy, write a file with these two
//! (or use [`Plain`] servers), and name it in [`PolicyKind`] and [`named`](named()); for an
//! experiment, pass it to [`run_with`](crate::run_with) instead.
//!
//! | name | sender | servers |
//! |---|---|---|
//! | `random`, `round_robin`, `least_request` | `bloc_policy::sender`, that routing | plain |
//! | `envoy_least_request` | the same as in stock Envoy ([`EnvoyLeastRequest`]) | plain |
//! | `least_request_full` | fewest own pending requests among all ([`LeastRequestFull`]) | plain |
//! | `bloc`, `mu`, `bid` | `bloc_policy::sender`, that routing | `bloc_policy`: admission, capacity, chips, reports ([`Inbound`]) |
//! | `prequal` | probing, hot and cold ([`Prequal`]) | plain, answering probes |
//! | `jsq`, `shortest_wait`, `shortest_response`, `wait_plus_half` | sees all servers at the moment of decision ([`Omniscient`]) | plain |
//! | `best_of` | fresh looks at a few servers at random ([`Omniscient::Looks`]) | plain |
//! | `reserve` | a first look, then reservations; the first grant wins ([`Reserve`]) | a queue of reservations |
//! | `central` | one queue for all, which sees all servers ([`Central`]) | plain |
//!
//! Plain servers admit everything and report nothing, as without our filters.

mod central;
mod envoy_least_request;
mod kind;
mod least_request_full;
mod mesh;
mod named;
mod omniscient;
mod pending;
mod policy;
mod prequal;
mod published;
pub mod reserve;
mod sender_model;
mod server;
mod server_model;
mod view;

pub use central::Central;
pub use envoy_least_request::EnvoyLeastRequest;
pub use kind::PolicyKind;
pub use least_request_full::LeastRequestFull;
pub use mesh::Mesh;
pub use named::named;
pub use omniscient::Omniscient;
pub use policy::{Binding, Policy};
pub use prequal::Prequal;
pub use published::{Aimd, Estimator, Gradient2, Limited, Vegas};
pub use reserve::Reserve;
pub use sender_model::{Choice, Moment, SenderModel};
pub use server::{Inbound, Lying, Plain};
pub use server_model::{Probe, ServerModel, Verdict};
pub use view::{UNAVAILABLE, View};
