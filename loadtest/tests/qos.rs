//! CPU shares that follow response times: real Envoys with the module, a control plane and a node
//! agent, in real control groups. It needs root, and cgroups v1 or v2.

use bloc_lab::experiments::quota::plan::CONTAINERS;
use bloc_lab::experiments::quota::qos::testbed::{Programs, Stand};
use bloc_mesh::Tools;
use bloc_mesh::load::Client;
use bloc_mesh::policy::Policy;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

const LAB: &str = env!("CARGO_BIN_EXE_bloc-lab");
const PATIENCE: Duration = Duration::from_secs(60);
const POLL: Duration = Duration::from_millis(50);
/// Requests at once: a hot backend works on two, and the others wait, longer than the target.
const HOT: usize = 30;

/// A client that asks again and again; the pause lets a backend answer in time.
async fn ask(client: Arc<Client>, pause: Duration) {
    loop {
        let _ = client.request().await;
        sleep(pause).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_late_backend_gets_shares_of_those_in_time_and_all_have_their_own_in_the_end() {
    let directory = tempfile::tempdir().unwrap();
    let tools = Tools::beside(Path::new(LAB)).unwrap();
    tools.need(Policy::Bloc, true).unwrap();
    let agent = Path::new(LAB).with_file_name("bloc-node-agent");
    assert!(agent.is_file(), "{} is missing: run cargo build -p bloc-node-agent", agent.display());
    let programs = Programs { tools: &tools, agent: &agent, step: 50 };
    let mut stand = Stand::start(programs, directory.path(), 1).await.unwrap();
    let own = stand.weights().unwrap();
    stand.start_agent().await.unwrap();

    let mut clients = JoinSet::new();
    for (number, client) in stand.clients().iter().enumerate() {
        let (count, pause) = if number == 0 { (HOT, 0) } else { (1, 100) };
        (0..count).for_each(|_| drop(clients.spawn(ask(Arc::clone(client), Duration::from_millis(pause)))));
    }
    let moved = async {
        loop {
            let now = stand.weights().unwrap();
            // Its container and its pod.
            if now[0].iter().zip(own[0]).all(|(now, own)| *now > 1.3 * own) {
                return now;
            }
            sleep(POLL).await;
        }
    };
    let now = timeout(PATIENCE, moved).await.expect("the late backend gets no more shares");
    for which in [0, 1] {
        let sum = |of: &[[f64; 2]]| of.iter().map(|one| one[which]).sum::<f64>();
        assert!(sum(&now) <= sum(&own) + CONTAINERS as f64 / 2.0, "{now:?} {own:?}");
        assert!(sum(&now[1..]) < sum(&own[1..]), "{now:?} {own:?}");
    }
    clients.shutdown().await;
    assert_eq!(stand.end_agent().await.unwrap(), 0);
    assert_eq!(stand.weights().unwrap(), own);
    stand.end().await;
}
