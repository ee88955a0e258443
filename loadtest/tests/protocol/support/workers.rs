//! Connections to one listener of an Envoy, by worker.

use super::{Connection, eventually};
use bloc_mesh::envoy::Envoy;
use std::net::SocketAddr;

/// Two workers, between which the listener balances exactly; see [`balance`](super::balance).
pub struct Workers<'a> {
    envoy: &'a Envoy,
    to: SocketAddr,
    surplus: Vec<Connection>,
}

impl<'a> Workers<'a> {
    pub fn new(envoy: &'a Envoy, to: SocketAddr) -> Self {
        Self { envoy, to, surplus: Vec::new() }
    }

    /// A new connection to this worker. Connections that the other worker accepts meanwhile are
    /// kept, so that the next one goes here.
    pub async fn connect(&mut self, worker: usize) -> Connection {
        loop {
            let before = self.connections().await;
            let connection = Connection::open(self.to).await;
            let after = eventually("a new connection", async || {
                let now = self.connections().await;
                (now != before).then_some(now)
            })
            .await;
            if after[worker] > before[worker] {
                return connection;
            }
            self.surplus.push(connection);
        }
    }

    async fn connections(&self) -> [u64; 2] {
        // The total, since earlier connections may close meanwhile. An Envoy of the tests has one
        // listener, or each at its own IP address.
        let names = format!(r"^listener\.{}_.*\.worker_[01]\.downstream_cx_total$", self.to.ip());
        let stats = self.envoy.stats(&names).await.unwrap();
        let of = |worker: usize| {
            let name = format!(".worker_{worker}.");
            stats.iter().find(|(stat, _)| stat.contains(&name)).map_or(0, |(_, value)| *value)
        };
        [of(0), of(1)]
    }
}
