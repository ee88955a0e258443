//! A policy: which model decides in its senders, and which in its servers.

use super::sender_model::SenderModel;
use super::server::Plain;
use super::server_model::ServerModel;

/// A policy: the models beside each application.
pub trait Policy {
    /// The model of a sender. Before anything else it learns the servers from
    /// [`SenderModel::members`].
    fn sender(&self) -> Box<dyn SenderModel>;

    /// The model of a server.
    fn server(&self) -> Box<dyn ServerModel> {
        Box::new(Plain)
    }

    /// Whether its senders probe, so that the servers must remember their latencies.
    fn probes(&self) -> bool {
        false
    }
}
