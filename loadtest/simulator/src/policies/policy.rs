//! What every policy says: which model decides in its senders, and which in its servers.

use super::sender_model::SenderModel;
use super::server::Plain;
use super::server_model::ServerModel;

/// A policy: what it puts beside each application.
pub trait Policy {
    /// What decides in a sender; it hears of the servers by [`SenderModel::members`] before
    /// anything else.
    fn sender(&self) -> Box<dyn SenderModel>;

    /// What stands in front of a server.
    fn server(&self) -> Box<dyn ServerModel> {
        Box::new(Plain)
    }

    /// Whether its senders probe, so that the servers must remember their latencies.
    fn probes(&self) -> bool {
        false
    }
}
