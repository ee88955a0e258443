//! The setup that measures bounces, with real Envoys and the real module. It needs Envoy and
//! `target/bloc.wasm` and takes some seconds.

use bloc_lab::experiments::bounce::{BUSY, Figures, Kind, Plan, Stand};
use bloc_mesh::Tools;
use std::path::Path;
use std::time::Duration;

#[tokio::test(flavor = "multi_thread")]
async fn busy_servers_bounce_far_more_often_than_idle_ones() {
    let directory = tempfile::tempdir().unwrap();
    let tools = Tools::beside(Path::new(env!("CARGO_BIN_EXE_bloc-lab"))).unwrap();
    let mut stand = Stand::start(&tools, directory.path(), Kind::PLAIN).await.unwrap();
    let mut rounds = Vec::new();
    let plan = Plan { rounds: 2, block: 300, pause: Duration::ZERO };
    let bounces = stand.measure(plan, |round| rounds.push(round)).await.unwrap();
    stand.end().await;

    assert_eq!(rounds, [1, 2]);
    let requests = |times: &std::collections::BTreeMap<u32, Vec<Duration>>| times.values().map(Vec::len).sum::<usize>();
    assert_eq!((requests(&bounces.busy.times), requests(&bounces.idle.times)), (600, 600));
    // Servers are tried in random order, so the idle one occurs at each position. How often a busy
    // server admits a bid depends on the machine.
    let counts: Vec<u32> = bounces.busy.times.keys().copied().collect();
    assert_eq!(counts, (0..=u32::try_from(BUSY).unwrap()).collect::<Vec<_>>());
    assert!(bounces.busy.times.values().all(|times| times.len() >= 10), "of 600: {:?}", bounces.busy.times);
    let all = |times: &std::collections::BTreeMap<u32, Vec<Duration>>| {
        times.iter().map(|(&count, times)| count as usize * times.len()).sum::<usize>()
    };
    let (busy, idle) = (all(&bounces.busy.times), all(&bounces.idle.times));
    assert!(busy > 5 * idle, "{busy} bounces with busy servers, {idle} without");
    let figures = Figures::new(&bounces).unwrap();
    assert_eq!(figures.classes.len(), BUSY + 1);
    assert!(figures.request_sender_cpu_us > 0.0 && figures.request_server_cpu_us > 0.0, "{figures:?}");
}
