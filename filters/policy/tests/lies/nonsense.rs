//! A server that sends invalid reports.

use crate::mesh::{Lie, Mesh, SENDERS};
use std::time::Duration;

const MINUTE: Duration = Duration::from_secs(60);

const NONSENSE: [&[u8]; 9] = [
    b"",
    b"chip=NaN, queue=nan;, service=inf",
    b"chip=1, queue=1e9",
    b"chip=1, queue=--1",
    b"chip=1, queue=9999999999999999",
    b"\xff\xfe\x00, queue=\x80",
    b"queue=7,,",
    &[b'9'; 10 << 10],
    &[b','; 10 << 10],
];
/// Syntax that is right, with numbers that cannot be.
const IMPOSSIBLE: [&[u8]; 3] = [
    b"chip=1, queue=-5, capacity=-1, rate=-38.2, confidence=-0.5, exec=-3, service=-40",
    b"chip=1, queue=0, capacity=0, rate=0, confidence=7, exec=0, service=0",
    b"chip, queue, capacity=tok, rate=tok, confidence=tok, exec=tok, service=tok",
];

#[test]
fn invalid_reports_count_as_missing_ones_and_harm_no_other_server() {
    for routing in SENDERS {
        let honest = Mesh::new(routing, 0.7, 2).run(MINUTE);
        let mut silent = Mesh::new(routing, 0.7, 2);
        silent.lie(Lie::Says(b""));
        let silent = silent.run(MINUTE);
        for text in NONSENSE.into_iter().chain(IMPOSSIBLE) {
            let lie = Lie::Says(text);
            let mut mesh = Mesh::new(routing, 0.7, 2);
            mesh.lie(lie);
            let tally = mesh.run(MINUTE);
            let what = format!(
                "{routing:?}, {lie}: share {:.2}, p99 {} instead of {} ms",
                tally.share(),
                tally.p99(),
                honest.p99()
            );
            println!("{what}");
            if NONSENSE.contains(&text) {
                assert_eq!((tally.attempts, tally.took), (silent.attempts.clone(), silent.took.clone()), "{what}");
                continue;
            }
            assert!((0.03..0.15).contains(&tally.share()), "{what}");
            assert!(tally.p99() <= 3 * honest.p99(), "{what}");
        }
        assert!((0.03..0.15).contains(&silent.share()), "{routing:?}: {:.2}", silent.share());
        assert!(silent.p99() <= 3 * honest.p99(), "{routing:?}: {} instead of {} ms", silent.p99(), honest.p99());
    }
}
