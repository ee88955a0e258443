//! The stand on which bounces are measured, with real Envoys and the real module. It needs Envoy and `target/bloc.wasm` and takes some seconds.

use bloc_lab::bounce::{BUSY, Figures, Plan, Stand};
use bloc_lab::envoy::BACK_OFF;
use bloc_lab::mesh::Tools;
use std::path::Path;
use std::time::Duration;

#[tokio::test(flavor = "multi_thread")]
async fn three_busy_servers_bounce_and_idle_ones_do_not() {
    let directory = tempfile::tempdir().unwrap();
    let tools = Tools::beside(Path::new(env!("CARGO_BIN_EXE_bloc-lab"))).unwrap();
    let mut stand = Stand::start(&tools, directory.path(), BACK_OFF[1]).await.unwrap();
    let mut rounds = Vec::new();
    let plan = Plan { rounds: 2, block: 300, pause: Duration::ZERO };
    let bounces = stand.measure(plan, |round| rounds.push(round)).await.unwrap();
    stand.end().await;

    assert_eq!(rounds, [1, 2]);
    let requests = |times: &std::collections::BTreeMap<u32, Vec<Duration>>| times.values().map(Vec::len).sum::<usize>();
    assert_eq!((requests(&bounces.busy.times), requests(&bounces.idle.times)), (600, 600));
    // Asked in random order, the idle server is first, second, third and last equally often: 150 each, less what a bid lets into a busy one.
    let most = u32::try_from(BUSY).unwrap();
    for count in 0..=most {
        let times = bounces.busy.times.get(&count).map_or(0, Vec::len);
        assert!(times >= 50, "{times} of 600 requests with {count} bounces");
    }
    assert!(bounces.busy.times.keys().all(|&count| count <= most), "{:?}", bounces.busy.times.keys());
    let spared = bounces.idle.times.get(&0).map_or(0, Vec::len);
    assert!(spared >= 570, "{spared} of 600 requests without a bounce where nobody is busy");
    let figures = Figures::new(&bounces).unwrap();
    assert_eq!(figures.classes.len(), BUSY + 1);
    assert!(figures.request_sender_cpu_us > 0.0 && figures.request_server_cpu_us > 0.0, "{figures:?}");
}
