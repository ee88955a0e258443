//! A server whose reports or rejections make it look unattractive, and that then turns honest.

use crate::mesh::{Lie, Mesh, RESET, SENDERS, SERVERS};
use bloc_policy::config::RoutingKind;
use bloc_policy::routing::mu::estimate::HORIZON;
use std::time::Duration;

const MINUTE: Duration = Duration::from_secs(60);
const LOAD: f64 = 0.7;

/// What calls itself slow, full or both.
const COMPLAINTS: [&[u8]; 4] = [
    b"chip=0, queue=4294967295, capacity=1, service=0.001, exec=999999999999999",
    b"chip=1, queue=0, service=0.001",
    b"chip=1, queue=999999999999999, service=20",
    b"chip=1, queue=0, rate=0.001, confidence=1",
];

/// How long who is believed to be slow, or has rejected, is left alone: the stated time, and as
/// much again as it takes until all servers have had their turn.
fn stated(routing: RoutingKind) -> Duration {
    match routing {
        RoutingKind::Mu => RESET.mul_f64(HORIZON) + Duration::from_secs(1),
        _ => RESET + Duration::from_secs(1),
    }
}

fn lies() -> Vec<Lie> {
    let rejections =
        [Lie::Rejects(COMPLAINTS[0]), Lie::Bounces(COMPLAINTS[0]), Lie::Bounces(b"chip=0, queue=0, service=1000")];
    COMPLAINTS.map(Lie::Says).into_iter().chain(rejections).collect()
}

#[test]
fn a_server_that_stops_lying_regains_its_share_in_the_stated_time() {
    for routing in SENDERS {
        let honest = Mesh::new(routing, LOAD, 3).run(MINUTE);
        for lie in lies() {
            let mut mesh = Mesh::new(routing, LOAD, 3);
            mesh.run(Duration::from_secs(10));
            mesh.lie(lie);
            let lying = mesh.run(MINUTE);
            mesh.lie(Lie::None);
            let waiting = mesh.run(stated(routing.0));
            let after = mesh.run(MINUTE);
            let what = format!(
                "{routing:?}, {lie}: share {:.3} while it lies, {:.3} at once, {:.3} then; p99 {} and {} instead of {} ms",
                lying.share(),
                waiting.share(),
                after.share(),
                lying.p99(),
                after.p99(),
                honest.p99()
            );
            println!("{what}");
            assert!((0.08..0.12).contains(&after.share()), "{what}");
            assert!(lying.p99() <= 3 * honest.p99() && after.p99() * 2 <= 3 * honest.p99(), "{what}");
            assert_eq!(lying.lost + waiting.lost + after.lost, 0, "{what}");
            let tries = MINUTE.as_secs_f64() / stated(routing.0).as_secs_f64();
            assert!(lying.attempts[0] as f64 >= tries / 2.0, "it is tried again while it lies: {what}");
        }
    }
}

#[test]
fn a_server_that_never_answers_holds_at_most_twenty_requests() {
    for routing in SENDERS {
        let mut mesh = Mesh::new(routing, LOAD, 4);
        mesh.run(Duration::from_secs(10));
        mesh.lie(Lie::Swallows);
        let tally = mesh.run(MINUTE);
        let what = format!(
            "{routing:?}: {} at once, {} of {} lost",
            tally.most_at_liar,
            tally.lost,
            tally.attempts.iter().sum::<u64>()
        );
        println!("{what}");
        assert!(tally.most_at_liar <= 2 * SERVERS, "{what}");
    }
}
