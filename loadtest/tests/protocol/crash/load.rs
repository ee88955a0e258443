//! Load while a module crashes.

use crate::support::{Workers, eventually, request};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use tokio::task::JoinHandle;

/// Clients that send one request after the other on connections of their own, some to each worker.
pub struct Load {
    stop: Arc<AtomicBool>,
    served: Arc<AtomicUsize>,
    clients: Vec<JoinHandle<usize>>,
}

impl Load {
    pub async fn start(workers: &mut Workers<'_>, each: usize) -> Self {
        let (stop, served) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
        let mut clients = Vec::new();
        for worker in (0..2 * each).map(|i| i % 2) {
            let mut connection = workers.connect(worker).await;
            let (stop, served) = (Arc::clone(&stop), Arc::clone(&served));
            clients.push(tokio::spawn(async move {
                let mut refused = 0;
                while !stop.load(Ordering::Relaxed) {
                    match connection.send(request("/brief"), "").await.expect("an answer").status.as_u16() {
                        200 => served.fetch_add(1, Ordering::Relaxed),
                        503 => {
                            refused += 1;
                            0
                        }
                        other => panic!("status {other}"),
                    };
                }
                refused
            }));
        }
        Self { stop, served, clients }
    }

    /// Waits until this many more were served.
    pub async fn serves(&self, more: usize) {
        let before = self.served.load(Ordering::Relaxed);
        eventually("traffic", async || (self.served.load(Ordering::Relaxed) >= before + more).then_some(())).await;
    }

    /// How many were served, and how many refused.
    pub async fn end(self) -> (usize, usize) {
        self.stop.store(true, Ordering::Relaxed);
        let mut refused = 0;
        for client in self.clients {
            refused += client.await.unwrap();
        }
        (self.served.load(Ordering::Relaxed), refused)
    }
}
