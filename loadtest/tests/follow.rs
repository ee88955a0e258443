//! A sidecar whose capacity follows the CPU quota of its application: a real Envoy with the module,
//! the control plane and the node agent, in real control groups. It needs root, and cgroups v1 or
//! v2.

use bloc_lab::experiments::follow::case::Way;
use bloc_lab::experiments::follow::testbed::{Order, Programs, Stand};
use bloc_mesh::Tools;
use bloc_mesh::load::{Client, Outcome};
use bloc_mesh::policy::Policy;
use bloc_policy::config::CapacitySpec;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinSet;

const LAB: &str = env!("CARGO_BIN_EXE_bloc-lab");
/// The limit at first, and the capacity for that. Without knowledge of CPU it is `UNKNOWN`.
const CORES: f64 = 0.4;
const PER_CORE: f64 = 100.0;
const UNKNOWN: u64 = 1_000;
/// Enough to keep both threads of the backend busy, and less than any capacity.
const CLIENTS: usize = 4;

async fn start(way: Way, workers: usize, directory: &Path) -> Stand {
    let tools = Tools::beside(Path::new(LAB)).unwrap();
    tools.need(Policy::Bloc, true).unwrap();
    let agent = Path::new(LAB).with_file_name("bloc-node-agent");
    assert!(agent.is_file(), "{} is missing: run cargo build -p bloc-node-agent", agent.display());
    let capacity = CapacitySpec::PerCore { per_core: PER_CORE, limit: Some(UNKNOWN.try_into().unwrap()) };
    let order = Order { capacity, way, cores: CORES, seed: 1, workers };
    Stand::start(Programs { tools: &tools, agent: &agent }, directory, &order).await.unwrap()
}

/// Clients that never pause, until this is dropped.
fn busy(stand: &Stand) -> JoinSet<()> {
    let client = Arc::new(Client::new(stand.address(), "/", true, Duration::from_secs(30)));
    let mut clients = JoinSet::new();
    for _ in 0..CLIENTS {
        let client = Arc::clone(&client);
        clients.spawn(async move {
            loop {
                assert_eq!(client.request().await, Outcome::Ok);
            }
        });
    }
    clients
}

/// Whether this is so many cores; others than the last 5% may not be told.
fn is(cores: f64, of: f64) -> bool {
    (0.85 * cores..=1.01 * cores).contains(&of)
}

/// Waits until the quota is that of so many cores, and the capacity too.
async fn follows(stand: &Stand, cores: f64) {
    stand.quota(|quota| is(cores, quota)).await.unwrap();
    stand.capacity_is(|capacity| is(cores * PER_CORE, capacity as f64)).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn the_capacity_is_halved_with_the_quota_and_the_cpu_forgotten_after_the_agent() {
    let directory = tempfile::tempdir().unwrap();
    let mut stand = start(Way::Told, 1, directory.path()).await;
    let mut clients = busy(&stand);
    follows(&stand, CORES).await;
    stand.limit(CORES / 2.0).unwrap();
    follows(&stand, CORES / 2.0).await;
    stand.limit(CORES).unwrap();
    follows(&stand, CORES).await;

    // The quotas of an agent that has ended are not news any more.
    stand.end_agent().await;
    stand.quota(|quota| is(CORES, quota)).await.unwrap();
    stand.capacity_is(|capacity| capacity == UNKNOWN).await.unwrap();
    stand.check().unwrap();
    assert!(clients.try_join_next().is_none(), "a request was not answered");
    clients.shutdown().await;
    stand.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn without_news_of_the_cpu_the_capacity_stays() {
    let directory = tempfile::tempdir().unwrap();
    let stand = start(Way::Unaided, 1, directory.path()).await;
    let mut clients = busy(&stand);
    stand.quota(|quota| is(CORES, quota)).await.unwrap();
    stand.capacity_is(|capacity| capacity == UNKNOWN).await.unwrap();
    stand.limit(CORES / 2.0).unwrap();
    stand.quota(|quota| is(CORES / 2.0, quota)).await.unwrap();
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(stand.capacity().await.unwrap(), UNKNOWN);
    assert!(clients.try_join_next().is_none(), "a request was not answered");
    clients.shutdown().await;
    stand.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_that_hangs_is_gone_for_its_sidecar() {
    let directory = tempfile::tempdir().unwrap();
    let mut stand = start(Way::Told, 2, directory.path()).await;
    let mut clients = busy(&stand);
    follows(&stand, CORES).await;
    stand.limit(CORES / 2.0).unwrap();
    follows(&stand, CORES / 2.0).await;

    stand.hang_agent().unwrap();
    // Its guardian notices.
    stand.quota(|quota| is(CORES, quota)).await.unwrap();
    stand.capacity_is(|capacity| capacity == UNKNOWN).await.unwrap();
    stand.check().unwrap();
    assert!(clients.try_join_next().is_none(), "a request was not answered");
    clients.shutdown().await;
    stand.end().await;
}
