//! The closed loop: each client sends its next request as soon as the last one ends, whether
//! answered, shed or failed, like the paper's load generator (5.6.1).
//!
//! All clients start together, so the warm-up must be long enough for them to spread out. A request
//! counts if it ends within the window. Requests still under way when the window closes are cut off
//! and not counted.

use super::{Client, LoadPlan, Sample, Tally};
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, sleep_until, timeout_at};

/// A client waits this long after a request without an answer; if it did not, it would keep a core
/// busy with failing.
const FAILURE_PAUSE: Duration = Duration::from_millis(10);

pub(super) async fn run(
    plan: &LoadPlan,
    client: Arc<Client>,
    clients: usize,
    start: Instant,
    tally: Arc<Tally>,
) -> Vec<Sample> {
    let opens = start + plan.warm_up;
    let closes = opens + plan.window;
    let mut loops = JoinSet::new();
    for _ in 0..clients {
        let (client, tally) = (Arc::clone(&client), Arc::clone(&tally));
        loops.spawn(async move {
            sleep_until(start).await;
            let mut samples = Vec::new();
            loop {
                let began = Instant::now();
                let Ok(outcome) = timeout_at(closes, client.request()).await else { return samples };
                let ended = Instant::now();
                tally.count(outcome);
                if ended >= closes {
                    return samples;
                }
                if ended >= opens {
                    samples.push(Sample { latency: ended - began, outcome, ended: ended - start });
                }
                if matches!(outcome, super::Outcome::Error(_)) {
                    sleep(FAILURE_PAUSE).await;
                }
            }
        });
    }
    loops.join_all().await.concat()
}
