//! A policy: which model decides in its senders, and which in its servers.

use super::reserve::Reserving;
use super::sender_model::SenderModel;
use super::server::Plain;
use super::server_model::ServerModel;

/// When a request is bound to its server.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Binding {
    /// When its attempt begins: the sender chooses.
    Early,
    /// When one of several servers has a place: [`Reserve`](super::Reserve).
    Reserve(Reserving),
    /// When any server has a place, in one queue for all: [`Central`](super::Central).
    Central,
}

/// A policy: the models beside each application.
pub trait Policy {
    /// The model of a sender. Before anything else it learns the servers from
    /// [`SenderModel::members`].
    fn sender(&self) -> Box<dyn SenderModel>;

    /// The model of a server.
    fn server(&self) -> Box<dyn ServerModel> {
        Box::new(Plain)
    }

    /// When its requests are bound to a server.
    fn binding(&self) -> Binding {
        Binding::Early
    }

    /// Whether its senders probe, so that the servers must remember their latencies.
    fn probes(&self) -> bool {
        false
    }
}
