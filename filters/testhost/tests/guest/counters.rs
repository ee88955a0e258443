//! How counters reach the host: by requests if there are enough of them, otherwise by ticks.

use crate::support::{GET, caller, metric, process, server};
use bloc_testhost::Response;
use serde_json::json;
use std::time::Duration;

const PAUSE: Duration = Duration::from_millis(100);
const REQUESTS: u64 = 200;
/// The requests within a second, and the one that hands the counters over.
const LAG: u64 = 11;

#[test]
fn a_busy_worker_rarely_ticks_and_still_counts_within_a_second() {
    let (callee, sender) = (process(1), process(2));
    let server = server(&callee, &json!({"capacity": {"estimator": "static", "limit": 9}}));
    let caller = caller(&sender, &json!({"endpoints": ["10.0.0.1:80"]}), &["10.0.0.1:80"]);
    for sent in 1..=REQUESTS {
        caller.send(GET, |_, request| Some(server.handle(request, |_| Response::new(200, &[], b""))));
        for (process, side, name) in [(&callee, "inbound", "admitted"), (&sender, "outbound", "attempts")] {
            process.advance(PAUSE);
            let shown = metric(process, side, name).unwrap_or(0);
            assert!(sent - shown <= LAG, "{name}: {shown} of {sent}");
        }
    }
    for (process, side, name) in [(&callee, "inbound", "admitted"), (&sender, "outbound", "attempts")] {
        // Twenty seconds: one tick after the start, then one every five seconds.
        assert!((3..=6).contains(&process.ticks()), "{side}: {} ticks", process.ticks());
        process.advance(Duration::from_secs(5));
        assert_eq!(metric(process, side, name), Some(REQUESTS));
    }
}

#[test]
fn a_mostly_idle_worker_counts_a_request_on_the_next_tick() {
    let callee = process(3);
    let server = server(&callee, &json!({"capacity": {"estimator": "static", "limit": 9}}));
    for sent in 1..=5 {
        let answer = server.handle(bloc_testhost::Headers::new(&GET), |_| Response::new(200, &[], b""));
        assert_eq!(answer.status(), 200);
        callee.advance(Duration::from_secs(5));
        assert_eq!(metric(&callee, "inbound", "admitted"), Some(sent));
    }
}
