//! One CPU limit over two nodes: two node agents and a control plane, in real control groups. It
//! needs root, and cgroups v1 or v2.

use bloc_lab::experiments::quota::allocator::Allocator;
use bloc_lab::experiments::quota::plan::{CONTAINERS, LIMIT};
use bloc_lab::experiments::quota::testbed::{Programs, Stand};
use bloc_mesh::cgroups::Container;
use bloc_mesh::load::Client;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

const LAB: &str = env!("CARGO_BIN_EXE_bloc-lab");
const PATIENCE: Duration = Duration::from_secs(60);
const POLL: Duration = Duration::from_millis(10);
/// More than this would not be there with half of the limit on its node.
const MUCH: f64 = 0.55 * LIMIT;
/// Quotas are whole microseconds of a period.
const ROUNDED: f64 = 1e-4;
/// What each container has before.
const OWN: f64 = LIMIT / CONTAINERS as f64;

async fn ask(client: Arc<Client>) {
    loop {
        let _ = client.request().await;
    }
}

fn quotas(containers: &[Container]) -> Vec<f64> {
    containers.iter().map(|container| container.quota().unwrap().unwrap_or(f64::INFINITY)).collect()
}

/// Waits until a container has much. Until then, and in that moment, all have no more than the
/// limit together; what is written between two reads is no state of the files.
async fn has_much(containers: &[Container], which: usize) {
    let mut before = Vec::new();
    loop {
        let now = quotas(containers);
        if now == before {
            let sum: f64 = now.iter().sum();
            assert!(sum <= LIMIT + ROUNDED * CONTAINERS as f64, "{now:?}");
            if now[which] > MUCH {
                return;
            }
        }
        before = now;
        sleep(POLL).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_busy_container_gets_what_the_other_node_does_not_need_and_the_sum_stays() {
    let directory = tempfile::tempdir().unwrap();
    let lab = Path::new(LAB);
    let [agent, control_plane] = ["bloc-node-agent", "bloc-control-plane"].map(|name| lab.with_file_name(name));
    for program in [&agent, &control_plane] {
        assert!(program.is_file(), "{} is missing: run cargo build", program.display());
    }
    let programs = Programs { lab, agent: &agent, control_plane: &control_plane, rule: "" };
    let allocator = Allocator::NodesLeases;
    let mut stand = Stand::start(lab, directory.path(), 1, allocator.nodes()).await.unwrap();
    stand.allocate(allocator, &[OWN; CONTAINERS], programs, directory.path(), false).await.unwrap();
    let containers = stand.containers().to_vec();

    // The first one is on one node, the second one on the other.
    for busy in [0, 1] {
        let mut clients = JoinSet::new();
        (0..8).for_each(|_| drop(clients.spawn(ask(Arc::clone(&stand.clients()[busy])))));
        timeout(PATIENCE, has_much(&containers, busy)).await.unwrap_or_else(|_| panic!("{:?}", quotas(&containers)));
        clients.shutdown().await;
    }
    let record = std::fs::read_to_string(directory.path().join("leases.json")).unwrap();
    let record: serde_json::Value = serde_json::from_str(&record).unwrap();
    let nodes = record["lab/burners"]["nodes"].as_object().unwrap();
    let parts: u64 = nodes.values().map(|node| node["part"].as_u64().unwrap()).sum();
    assert!(nodes.len() == 2 && parts <= 1_000_000, "{record}");
    stand.end().await;
}
