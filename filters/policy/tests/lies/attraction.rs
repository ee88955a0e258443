//! A server whose reports make it look attractive.

use crate::mesh::{Lie, Mesh, SENDERS};
use bloc_policy::routing::mu::estimate::MAX_REPORT_FACTOR;
use std::time::Duration;

const MINUTE: Duration = Duration::from_secs(60);
const LOAD: f64 = 0.7;

/// What calls itself fast, empty or both; with numbers that contradict each other, too.
const PRAISE: [&[u8]; 6] = [
    b"chip=1, queue=0, service=999999999999999, exec=0.001",
    b"chip=1, queue=0, service=999999999999999, exec=50",
    b"chip=1, queue=4294967295, service=999999999999999",
    b"chip=1, queue=0, capacity=1000000",
    b"chip=1, queue=0, rate=999999999999999, confidence=0.001",
    b"chip=1, queue=999999999999999, capacity=0, rate=0.001, confidence=1, exec=999999999999999, service=999999999999999",
];

#[test]
fn a_server_with_flattering_reports_gets_under_a_fifth_of_requests() {
    for routing in SENDERS {
        let honest = Mesh::new(routing, LOAD, 1).run(MINUTE);
        for lie in PRAISE.map(Lie::Says) {
            // How many it has at once depends on single moments, so the median of five seeds
            // counts.
            let mut tallies: Vec<_> = (1..=5)
                .map(|seed| {
                    let mut mesh = Mesh::new(routing, LOAD, seed);
                    mesh.lie(lie);
                    mesh.run(MINUTE)
                })
                .collect();
            let mut most: Vec<_> = tallies.iter().map(|tally| tally.most_at_liar).collect();
            most.sort_unstable();
            assert!(most[2] <= 10, "{routing:?}, {lie}: {most:?} at once");
            let tally = tallies.swap_remove(0);
            let what = format!(
                "{routing:?}, {lie}: share {:.2}, {} at once, p99 {} instead of {} ms",
                tally.share(),
                tally.most_at_liar,
                tally.p99(),
                honest.p99()
            );
            println!("{what}");
            assert!(tally.share() < 0.2, "{what}");
            assert!(tally.p99() as f64 <= MAX_REPORT_FACTOR * honest.p99() as f64, "{what}");
            assert_eq!(tally.lost, 0, "{what}");
        }
    }
}
